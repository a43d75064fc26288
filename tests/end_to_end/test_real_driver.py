"""The real thing, as far as it can be had without a GPU: Debian's own 535 driver pinned, its modules built by dkms, nouveau off, the real library.

The roles kernel and nvidia_driver on a test node whose apt reaches Debian's real packages. Two builds of the driver and two kernels are there, and the
older ones are pinned: pins against the newest are what this is about. No module is loaded: there is no GPU to drive.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import nodes as lab_nodes
from lab.mirror import debian_for
from lab.nodes import Lab
from lab.rootfs import Unavailable

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
BUILD_S = 1200  # dkms takes a minute and a half on two cores that do nothing else
PRESENT = "import ctypes, sys; sys.exit(ctypes.CDLL('libnvidia-ml.so.1').nvmlInit_v2())"
NVML_DRIVER_NOT_LOADED, SMI_NO_DRIVER = 9, 9


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    name = f"real-{os.getpid()}"
    for left in lab_nodes.STATE.glob("real-*"):
        if not Path(f"/proc/{left.name.removeprefix('real-')}").exists():
            lab_nodes.down(left.name)  # whoever made it was killed
    try:
        made = lab_nodes.up(name, 1)
        with debian_for(made.nodes[0], f"198.18.{made.network}.1"):
            yield made
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have test nodes: {why}")
        pytest.skip(str(why))
    finally:
        lab_nodes.down(name)


class Site:
    """One node, what Debian has for it, and the play of the two roles."""

    def __init__(self, base: Path, lab: Lab) -> None:
        self.base, self.lab, self.node = base, lab, lab.nodes[0]
        self.run("apt-get", "-qq", "update")
        kernels = re.findall(
            r"^linux-image-(6\.1\.0-\d+-cloud-amd64) ", self.run("apt-cache", "search", "^linux-image-6.1.0-.*-cloud-amd64$"), re.M
        )
        self.kernels = sorted(kernels, key=lambda one: int(one.split("-")[1]))
        rows = self.run("apt-cache", "madison", "nvidia-kernel-dkms").splitlines()
        self.builds = sorted(
            {row.split("|")[1].strip() for row in rows}, key=lambda one: [int(part) for part in re.findall(r"\d+", one)[:3]]
        )
        self.kernel, self.version = self.kernels[0], self.builds[0].partition("-")[0]

    def run(self, *argv: str, fine: tuple[int, ...] = (0,)) -> str:
        done = lab_nodes.execute(self.node, *argv, timeout_s=300)
        assert done.returncode in fine, f"{' '.join(argv)} exited {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout + done.stderr

    def provision(self, *arguments: str) -> dict[str, Any]:
        document = lab_nodes.inventory(self.lab)
        ours = document["gpu_nodes"]["vars"]  # type: ignore[index]
        driver = {"version": self.version, "flavour": "proprietary", "contents": "compute", "source": "distribution"}
        ours |= {
            "burnin_sku": "L40S",
            "burnin_stack": {"driver": driver, "kernel": {"debian12": self.kernel}},
            "burnin_stack_kernel": self.kernel,
        }
        (self.base / "hosts.yml").write_text(yaml.safe_dump(document))
        (self.base / "play.yml").write_text(
            yaml.safe_dump([{"hosts": "gpu_nodes", "gather_facts": False, "roles": ["kernel", "nvidia_driver"]}])
        )
        events = self.base / "events.jsonl"
        environment = {
            **os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_HOME": str(self.base / "ansible"), "PYTHONPATH": str(ROOT / "tests"),
            "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests/lab/callbacks"), "ANSIBLE_CALLBACKS_ENABLED": "events", "BURNIN_LAB_EVENTS": str(events),
            "ANSIBLE_ROLES_PATH": str(ROOT / "roles"), "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.base / "cp"),
        }  # fmt: skip
        argv = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.yml", *arguments, "play.yml"]
        done = subprocess.run(argv, cwd=self.base, env=environment, capture_output=True, text=True, timeout=BUILD_S, check=False)
        record: dict[str, Any] = json.loads(events.read_text().splitlines()[-1])
        return {**record, "rc": done.returncode, "said": done.stdout + done.stderr}

    def packages(self) -> dict[str, str]:
        lines = self.run("dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n").splitlines()
        return dict(line.split(" ")[1:] for line in lines if line.startswith("installed "))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, lab: Lab) -> Site:
    site = Site(tmp_path_factory.mktemp("real"), lab)
    done = site.provision()
    assert done["rc"] == 0, done["said"]
    return site


def test_debian_has_what_makes_this_a_test(site: Site) -> None:
    assert len(site.builds) >= 2, "an older and a newer driver"
    assert len(site.kernels) >= 2, "an older and a newer kernel"


def test_the_whole_tree_is_at_the_pinned_version_and_held(site: Site) -> None:
    packages = site.packages()
    tree = {
        name
        for name, version in packages.items()
        if version.startswith("535.") and name != "nvidia-persistenced" and "modprobe" not in name
    }

    assert {"nvidia-kernel-dkms", "libcuda1", "libnvidia-ml1", "nvidia-smi", "nvidia-alternative", "firmware-nvidia-gsp"} <= tree
    assert {packages[name].partition("-")[0] for name in tree} == {site.version}
    held = set(site.run("apt-mark", "showhold").split())
    assert tree | {"nvidia-persistenced", f"linux-image-{site.kernel}", f"linux-headers-{site.kernel}"} <= held


def test_dkms_built_the_modules_for_the_pinned_kernel(site: Site) -> None:
    assert f"nvidia-current/{site.version}, {site.kernel}, x86_64: installed" in site.run("dkms", "status")
    assert site.run("modinfo", "-k", site.kernel, "-F", "version", "nvidia-current").strip() == site.version
    assert f"linux-image-{site.kernels[-1]}" not in site.packages(), "no other kernel came along"


def test_nouveau_is_off_in_the_initramfs_too(site: Site) -> None:
    listed = site.run("lsinitramfs", f"/boot/initrd.img-{site.kernel}").split()

    assert "etc/modprobe.d/burnin-nouveau.conf" in listed
    assert "blacklist nouveau" in site.run("modprobe", "--showconfig", "-S", site.kernel)


def test_the_real_library_and_nvidia_smi_say_that_no_driver_is_loaded(site: Site) -> None:
    assert "couldn't communicate with the NVIDIA driver" in site.run("nvidia-smi", fine=(SMI_NO_DRIVER,))
    site.run("python3", "-c", PRESENT, fine=(NVML_DRIVER_NOT_LOADED,))


def test_a_second_run_changes_nothing(site: Site) -> None:
    done = site.provision()

    assert done["rc"] == 0, done["said"]
    assert done["changed"] == []


def test_an_upgrade_of_the_distribution_leaves_driver_and_kernel(site: Site) -> None:
    before = {name: version for name, version in site.packages().items() if "nvidia" in name or name.startswith(("linux-", "libcuda"))}
    assert site.builds[-1] in site.run("apt-cache", "madison", "nvidia-kernel-dkms"), "the newer one is there to be had"

    site.run("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "dist-upgrade", "-y", "-q")

    after = site.packages()
    assert {name: after.get(name) for name in before} == before
    assert f"linux-image-{site.kernels[-1]}" not in after
