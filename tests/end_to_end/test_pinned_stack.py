"""What provisioning is for: the vendors publish 580.126.09, 580.150.02 and 590.48.01 side by side, with metas that float, and a node has what is pinned.

The roles of playbooks/provision.yml without its preflight and reboot, over ssh, on a container with real apt (tests/lab). The driver's packages are
stubs with the vendors' names, versions and relations; what their modules would do in a kernel is not shown here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import nodes as lab_nodes
from lab import vendors
from lab.nodes import Lab, Node
from lab.repository import publish
from lab.rootfs import Unavailable

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PINNED, LATER, NEXT = "580.126.09", "580.150.02", "590.48.01"
ROLES = ["kernel", "ofed", "nvidia_driver", "cuda_toolkit", "nccl", "dcgm"]
OURS = ("nvidia-", "libnvidia-", "libcuda", "cuda-drivers", "firmware-nvidia")
INSTALL_DRIVER = "Install | Put the pinned driver in place"
PATIENCE_S = 240


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """One node; the tests go on from each other's."""
    name = f"stack-{os.getpid()}"
    for left in lab_nodes.STATE.glob("stack-*"):
        if not Path(f"/proc/{left.name.removeprefix('stack-')}").exists():
            lab_nodes.down(left.name)  # whoever made it was killed
    try:
        yield lab_nodes.up(name, 1)
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have test nodes: {why}")
        pytest.skip(str(why))
    finally:
        if made := lab_nodes.find(name):
            vendors.down(made)
        lab_nodes.down(name)


class Site:
    """A rack of one: its inventory, its stack file, and the play of the package roles."""

    def __init__(self, base: Path, lab: Lab) -> None:
        self.base, self.node = base, lab.nodes[0]
        self.document = vendors.up(lab)
        everything = {"driver": (PINNED, LATER, NEXT), "cuda": ("12.9.1", "13.0.2", "13.1.1"), "dcgm": ("3.3.9", "4.5.2", "4.6.0")}
        publish(vendors.site(lab), "cuda", vendors.DISTRO, {**everything, "nccl": ("2.28.3-1+cuda12.9", "2.29.2-1+cuda13.1")})
        publish(vendors.site(lab), "doca", vendors.DISTRO, {"doca": ("3.1.0", "3.2.1")})
        (base / "provision.yml").write_text(yaml.safe_dump([{"hosts": "gpu_nodes", "gather_facts": False, "roles": ROLES}]))

    def provision(self, version: str = PINNED, *arguments: str) -> dict[str, Any]:
        """The play's record (tests/lab/callbacks/events.py), with its exit code under `rc`."""
        ours = self.document["gpu_nodes"]["vars"]
        ours |= {"burnin_sku": "H100-SXM5-80GB", "burnin_stack": {**ours["lab_stack"], "driver": {"version": version, "flavour": "open"}}}
        (self.base / "hosts.yml").write_text(yaml.safe_dump(self.document))
        events = self.base / "events.jsonl"
        environment = {
            **os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_HOME": str(self.base / "ansible"), "PYTHONPATH": str(ROOT / "tests"),
            "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests/lab/callbacks"), "ANSIBLE_CALLBACKS_ENABLED": "events", "BURNIN_LAB_EVENTS": str(events),
            "ANSIBLE_ROLES_PATH": str(ROOT / "roles"), "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.base / "cp"),
        }  # fmt: skip
        argv = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.yml", *arguments, "provision.yml"]
        done = subprocess.run(argv, cwd=self.base, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        record: dict[str, Any] = json.loads(events.read_text().splitlines()[-1])
        return {**record, "rc": done.returncode, "said": done.stdout + done.stderr}

    def run(self, *argv: str) -> str:
        done = lab_nodes.execute(self.node, *argv, timeout_s=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def packages(self) -> dict[str, str]:
        lines = self.run("dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n").splitlines()
        return dict(line.split(" ")[1:] for line in lines if line.startswith("installed "))

    def driver(self) -> dict[str, str]:
        return {name: version.partition("-")[0] for name, version in self.packages().items() if name.startswith(OURS)}

    def held(self) -> set[str]:
        return set(self.run("apt-mark", "showhold").split())

    def transactions(self) -> int:
        return self.run("cat", "/var/log/apt/history.log").count("Start-Date")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, lab: Lab) -> Site:
    site = Site(tmp_path_factory.mktemp("site"), lab)
    done = site.provision()
    assert done["rc"] == 0, done["said"]
    return site


def flags(node: Node) -> dict[str, str]:
    """Why a reboot is asked for. /run of a node is its own memory, so it is read from inside."""
    shown = lab_nodes.execute(node, "sh", "-c", 'cd /run/burnin/reboot-required.d 2>/dev/null && grep -H "" -- * || :').stdout
    return dict(line.split(":", 1) for line in shown.splitlines())


def test_exactly_the_pinned_driver_is_everywhere_and_all_of_it_is_held(site: Site) -> None:
    driver = site.driver()

    assert {
        "nvidia-open",
        "nvidia-kernel-open-dkms",
        "nvidia-fabricmanager",
        "libnvidia-nscq",
        "libnvidia-ml1",
        "nvidia-persistenced",
    } <= set(driver)
    assert set(driver.values()) == {PINNED}
    assert set(driver) <= site.held()


def test_the_rest_of_the_stack_is_what_is_pinned_too(site: Site) -> None:
    packages = site.packages()

    assert packages["cuda-toolkit-12-9"] == "12.9.1-1"
    assert packages["libnccl2"] == packages["libnccl-dev"] == "2.28.3-1+cuda12.9"
    assert packages["datacenter-gpu-manager-4-core"] == "1:4.5.2-1"
    assert packages["doca-ofed"].startswith("3.1.0-")
    assert {"cuda-toolkit-12-9", "libnccl2", "datacenter-gpu-manager-4-core", "doca-ofed", "mlnx-ofed-kernel-dkms"} <= site.held()


def test_modules_of_both_are_built_for_the_nodes_kernel_and_a_reboot_is_asked_for(site: Site) -> None:
    status = site.run("dkms", "status")

    assert f"nvidia/{PINNED}, {vendors.KERNEL}, x86_64: installed" in status
    assert f", {vendors.KERNEL}, x86_64: installed" in next(line for line in status.splitlines() if line.startswith("mlnx-ofed-kernel/"))
    assert {"driver", "ofed"} <= set(flags(site.node))


def test_a_later_dist_upgrade_changes_none_of_it(site: Site) -> None:
    before, held = site.packages(), site.held()

    site.run("apt-get", "update", "-qq")
    site.run("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "dist-upgrade", "-y")

    assert LATER in site.run("apt-cache", "policy", "nvidia-open"), "what is newer is there to be had"
    assert NEXT in site.run("apt-cache", "policy", "nvidia-open")
    assert site.packages() == before
    assert site.held() == held


def test_a_second_run_changes_nothing(site: Site) -> None:
    before = site.transactions()

    again = site.provision()

    assert again["rc"] == 0, again["said"]
    assert again["changed"] == []
    assert site.transactions() == before


def test_a_changed_pin_is_one_transaction_and_flags_a_reboot_and_so_is_the_way_back(site: Site) -> None:
    for version in (LATER, PINNED):
        site.run("rm", "-r", "/run/burnin/reboot-required.d")
        before = site.transactions()

        changed = site.provision(version)

        assert changed["rc"] == 0, changed["said"]
        assert {step["task"] for step in changed["changed"]} == {INSTALL_DRIVER}
        assert site.transactions() == before + 1
        assert set(site.driver().values()) == {version}
        assert set(site.driver()) <= site.held()
        assert version in flags(site.node)["driver"]
        assert set(flags(site.node)) == {"driver"}


def test_check_mode_tells_a_changed_pin_and_changes_nothing(site: Site) -> None:
    before = site.packages()

    told = site.provision(LATER, "--check")

    assert told["rc"] == 0, told["said"]
    assert INSTALL_DRIVER in {step["task"] for step in told["changed"]}
    assert site.packages() == before


def test_a_driver_is_not_changed_under_a_process_that_has_a_gpu_open(site: Site) -> None:
    before, held = site.packages(), site.held()
    site.run("touch", "/dev/nvidia0")
    site.run("systemd-run", "--quiet", "--unit=job", "sh", "-c", "exec sleep 600 </dev/nvidia0")
    try:
        refused = site.provision(LATER)
        same = site.provision(PINNED)
        told = site.provision(LATER, "-e", "nvidia_driver_busy_ok=true")
    finally:
        site.run("systemctl", "stop", "job")
        site.run("rm", "/dev/nvidia0")

    assert refused["rc"] == 2
    assert [failed["task"] for failed in refused["failed"]] == [INSTALL_DRIVER]
    assert "(sleep)" in refused["failed"][0]["message"]
    assert refused["changed"] == []
    assert (same["rc"], same["changed"]) == (0, []), "a run that has nothing to change does not mind"
    assert told["rc"] == 0, told["said"]
    assert set(site.driver().values()) == {LATER}
    assert set(before) == set(site.packages())
    assert held == site.held()
