"""burnin drift on a test node over ssh: nothing on a clean one; each planted drift is found as exactly its code; put back, all is clean again.

The packages are the vendors' stubs under real dpkg and apt, with real systemd. GPUs and loaded modules are a fake root of the hardware: a
container has none. The kernel's files are the node's own, bound into that root.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from burnin.stack.bridge import resolve_plain
from burnin.stack.drift.codes import CODES
from lab import fake_root, vendors
from lab import nodes as lab_nodes
from lab.nodes import Lab, Node
from lab.rootfs import Unavailable

pytestmark = pytest.mark.slow

BURNIN = Path(sys.executable).parent / "burnin"
HARDWARE = "/srv/hardware"
SKU, KERNEL, NEWER = "H100-SXM5-80GB", vendors.KERNEL, "6.1.0-41-amd64"
VERSION, OLDER, LATER = "580.126.09", "580.95.05", "580.150.02"
OFED = "25.07.OFED.25.07.0.9.7.1"  # what the stub of its module says of itself
# Beside what the stack asks for, so that there is something to drift to.
MORE = {
    "cuda": {"driver": (OLDER, VERSION, LATER), "nccl": ("2.28.3-1+cuda12.9", "2.28.3-1+cuda13.0")},
    "debian": {"kernel": (KERNEL, NEWER)},
}
APT = "DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends --allow-downgrades --allow-change-held-packages"
BLACKLIST, DRIVER_PIN = "/etc/apt/apt.conf.d/60burnin", "/etc/apt/preferences.d/burnin-nvidia-driver"
LIBRARY = "/usr/lib/x86_64-linux-gnu/libnvidia-nscq.so.2"
OTHER = f"/usr/lib/x86_64-linux-gnu/libnvidia-nscq.so.{LATER}"


@dataclass(frozen=True, slots=True)
class Drift:
    """A change made on the node, how it is put back, and the words that must be in what is found."""

    code: str
    plant: str
    mend: str
    says: str


PLANTED = {
    "a library is no longer held": Drift(
        "HOLD_MISSING", "apt-mark unhold libnvidia-ml1", "apt-mark hold libnvidia-ml1", "libnvidia-ml1 not held"),
    "one library was upgraded": Drift(
        "MIXED_VERSIONS", f"{APT} install libcuda1={LATER}-1; apt-mark hold libcuda1", f"{APT} install libcuda1={VERSION}-1; apt-mark hold libcuda1",
        f"libcuda1 {LATER}-1"),
    "fabric manager was downgraded": Drift(
        "FABRIC_MANAGER_VERSION", f"{APT} install nvidia-fabricmanager={OLDER}-1; apt-mark hold nvidia-fabricmanager",
        f"{APT} install nvidia-fabricmanager={VERSION}-1; apt-mark hold nvidia-fabricmanager; systemctl restart nvidia-fabricmanager",
        f"nvidia-fabricmanager {OLDER}-1"),
    "the headers' folder is gone": Drift(
        "HEADERS_MISSING", f"mv /usr/src/linux-headers-{KERNEL} /srv/aside", f"mv /srv/aside /usr/src/linux-headers-{KERNEL}", f"no headers of {KERNEL}"),
    "another toolkit is the default": Drift(
        "CUDA_DEFAULT", "update-alternatives --set cuda /usr/local/cuda-13.0", "update-alternatives --set cuda /usr/local/cuda-12.9",
        "leads to /usr/local/cuda-13.0"),
    "fabric manager is stopped": Drift(
        "FABRIC_MANAGER_DOWN", "systemctl stop nvidia-fabricmanager", "systemctl start nvidia-fabricmanager", "fabric manager is inactive"),
    "NCCL's headers are another build": Drift(
        "NCCL_PAIR", "cd /tmp; apt-get -qq download libnccl-dev=2.28.3-1+cuda13.0; dpkg --force-depends -i libnccl-dev_*; apt-mark hold libnccl-dev",
        f"{APT} install libnccl-dev=2.28.3-1+cuda12.9 libnccl2=2.28.3-1+cuda12.9; apt-mark hold libnccl-dev libnccl2",
        "libnccl-dev 2.28.3-1+cuda13.0, libnccl2 2.28.3-1+cuda12.9"),
    "a pin file is gone": Drift("PIN_MISSING", f"mv {DRIVER_PIN} /srv/aside", f"mv /srv/aside {DRIVER_PIN}", DRIVER_PIN),
    "a pin file was edited": Drift(
        "PIN_CHANGED", f"cp -a {DRIVER_PIN} /srv/aside; echo >>{DRIVER_PIN}", f"mv /srv/aside {DRIVER_PIN}", "another content"),
    "the blacklist is gone": Drift("BLACKLIST_MISSING", f"mv {BLACKLIST} /srv/aside", f"mv /srv/aside {BLACKLIST}", "29 of 29 patterns"),
    "a newer kernel came": Drift(
        "KERNEL_NEWER_INSTALLED", f"{APT} install linux-image-{NEWER}; apt-mark hold linux-image-{NEWER}", f"{APT} purge linux-image-{NEWER}", NEWER),
    "the loaded module is the one of before": Drift(
        "DRIVER_REBOOT_NEEDED", f"echo {OLDER} >{HARDWARE}/sys/module/nvidia/version", f"echo {VERSION} >{HARDWARE}/sys/module/nvidia/version",
        f"module {OLDER}, library libnvidia-ml {VERSION}"),
    "the loaded mlx5_core is the one of before": Drift(
        "OFED_REBOOT_NEEDED", f"echo 24.10-3.2.5 >{HARDWARE}/sys/module/mlx5_core/version", f"echo {OFED} >{HARDWARE}/sys/module/mlx5_core/version",
        "mlx5_core 24.10-3.2.5 is loaded"),
    "nouveau is loaded": Drift(
        "NOUVEAU_LOADED", f"mkdir {HARDWARE}/sys/module/nouveau", f"rmdir {HARDWARE}/sys/module/nouveau", "nouveau is loaded"),
    "our source is gone": Drift(
        "SOURCE_MISSING", "mv /etc/apt/sources.list.d/burnin-cuda.sources /srv/aside", "mv /srv/aside /etc/apt/sources.list.d/burnin-cuda.sources",
        "burnin-cuda.sources"),
    "a toolkit's folder is gone": Drift(
        "TOOLKIT_MISSING", "mv /usr/local/cuda-13.0 /srv/aside", "mv /srv/aside /usr/local/cuda-13.0", "/usr/local/cuda-13.0"),
    "no module is loaded": Drift(
        "DRIVER_NOT_LOADED", f"mv {HARDWARE}/sys/module/nvidia /srv/aside", f"mv /srv/aside {HARDWARE}/sys/module/nvidia", "no nvidia module"),
    "DKMS has nothing for this kernel": Drift(
        "DKMS_NOT_BUILT", f"dkms uninstall nvidia/{VERSION} -k {KERNEL}", f"dkms install nvidia/{VERSION} -k {KERNEL}", f"nvidia/{VERSION} is built for no kernel"),
    "a second source for one place": Drift(
        "SOURCE_CONFLICT", "cp /etc/apt/sources.list.d/burnin-cuda.sources /etc/apt/sources.list.d/by-hand.sources", "rm /etc/apt/sources.list.d/by-hand.sources",
        "by-hand.sources"),
    "a package that must not be there": Drift(
        "PACKAGE_UNWANTED", f"{APT} install nvidia-driver-pinning-580; apt-mark hold nvidia-driver-pinning-580", f"{APT} purge nvidia-driver-pinning-580",
        "nvidia-driver-pinning-580"),
    "a package is half-way in": Drift(
        "DPKG_BROKEN", f"cd /tmp; apt-get -qq download libnvidia-nscq={VERSION}-1; dpkg --unpack libnvidia-nscq_*; apt-mark hold libnvidia-nscq",
        "dpkg --configure -a; apt-mark hold libnvidia-nscq", "libnvidia-nscq unpacked"),
    "a service will not start after a boot": Drift(
        "SERVICE_DOWN", "systemctl disable nvidia-dcgm", "systemctl enable nvidia-dcgm", "nvidia-dcgm.service runs, and is disabled"),
    "a reboot is owed": Drift(
        "REBOOT_PENDING", "mkdir -p /run/burnin/reboot-required.d; echo why >/run/burnin/reboot-required.d/driver", "rm -r /run/burnin", "driver: why"),
    "an installer replaced a library": Drift(
        "LIBRARY_NOT_PACKAGE", f"cp -a {LIBRARY} /srv/aside; touch {OTHER}; ln -sfn {OTHER} {LIBRARY}",
        f"rm {OTHER}; mv -T /srv/aside {LIBRARY}", f"libnvidia-nscq {LATER}"),
    "OFED says another version": Drift(
        "OFED_VERSION", "cp -a /usr/bin/ofed_info /srv/aside; sed -i s/25.07/25.0/ /usr/bin/ofed_info", "mv /srv/aside /usr/bin/ofed_info", "ofed_info says"),
    "a toolkit's package is gone": Drift(
        "PACKAGE_MISSING", f"{APT} purge cuda-toolkit-13-0; apt-mark hold cuda-toolkit-config-common",
        f"{APT} install cuda-toolkit-13-0=13.0.2-1; apt-mark hold cuda-toolkit-13-0",
        "cuda-toolkit-13-0 not installed"),
}  # fmt: skip

# They do not meddle with each other, so one look finds them all, each as its own code; planted in this order, mended in the other.
TOGETHER = (
    "a pin file was edited",
    "the loaded mlx5_core is the one of before",
    "nouveau is loaded",
    "a second source for one place",
    "a package that must not be there",
    "a package is half-way in",
    "a service will not start after a boot",
    "a reboot is owed",
    "an installer replaced a library",
    "OFED says another version",
    "a toolkit's folder is gone",
    "DKMS has nothing for this kernel",
    "our source is gone",
)


class Site:
    """One provisioned node, and the command."""

    def __init__(self, base: Path, lab: Lab) -> None:
        self.base, self.lab, self.node = base, lab, lab.nodes[0]
        self.document: dict[str, Any] = vendors.up(lab)
        ours = self.document["gpu_nodes"]["vars"]
        self.stack = ours.pop("lab_stack")
        ours.pop("burnin_stack_kernel", None)
        ours |= {"burnin_stack": self.stack, "burnin_sku": SKU, "preflight_root": HARDWARE, "preflight_software_root": "/"}
        self.write()

    def write(self, **hosts: dict[str, Any]) -> None:
        document = {"gpu_nodes": {**self.document["gpu_nodes"], "hosts": {**self.document["gpu_nodes"]["hosts"], **hosts}}}
        (self.base / "hosts.yml").write_text(yaml.safe_dump(document))

    def shell(self, command: str) -> str:
        """In the node; fails where a command fails."""
        done = lab_nodes.execute(self.node, "sh", "-ec", command, timeout_s=120)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def drift(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        """Exit code and document."""
        argv = [str(BURNIN), "drift", "-i", "hosts.yml", "--json", *arguments]
        done = subprocess.run(argv, cwd=self.base, capture_output=True, text=True, timeout=180, check=False)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    def provision(self) -> None:
        """What the roles do, in the shortest way: sources, keys, pins, packages, holds, services, the default toolkit."""
        for name, builds in MORE.items():
            vendors.publish(vendors.site(self.lab), name, vendors.DISTRO, {**vendors.FIRST[name], **builds})
        want = resolve_plain(self.stack, vendors.DISTRO, "x86_64", SKU, KERNEL)
        groups = [want["groups"][name] for name in want["order"]]
        for one in want["repositories"]:
            key = one["url"].partition(f"198.18.{self.lab.network}.1:")[2].partition("/")[2] + one["key_url"].rpartition("/")[2]
            self.put(one["key_path"], (vendors.site(self.lab) / key).read_text())
            self.put(one["path"], "".join(f"{name}: {value}\n" for name, value in one["deb822"].items()))
        for pin in (pin for group in groups for pin in group["pins"]):
            self.put(pin["path"], pin["content"])
        self.put(BLACKLIST, "".join(f'Unattended-Upgrade::Package-Blacklist:: "{pattern}";\n' for pattern in want["blacklist"]))
        self.shell("apt-get -qq update")
        for group in groups:
            if group["specs"]:
                self.shell(f"{APT} install {shlex.join(group['specs'])}")
        names = self.shell("dpkg-query -W -f '${Package}\\n'").split()
        patterns = [pattern for group in groups for pattern in group["hold"]]
        ours = [name for name in names if any(re.search(pattern, name) for pattern in patterns)]
        self.shell(f"apt-mark hold {shlex.join(ours)}")
        self.shell(f"update-alternatives --set cuda {want['alternatives']['cuda']}; systemctl enable --now {shlex.join(want['services'])}")

    def put(self, path: str, content: str) -> None:
        place = self.node.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)

    def hardware(self) -> None:
        """Eight H100 with their switches and a loaded module; below it, the node's own kernels."""
        tree = fake_root.with_driver(fake_root.hgx_h100(), VERSION)
        for path in [path for path in (*tree.files, *tree.links) if path.startswith(("/boot/", "/usr/lib/modules/", "/usr/src/", "/lib/"))]:
            tree.files.pop(path, None)
            tree.links.pop(path, None)
        tree.files["/proc/sys/kernel/osrelease"] = f"{KERNEL}\n"
        tree.files["/sys/module/mlx5_core/version"] = f"{OFED}\n"
        tree.files["/etc/os-release"] = (self.node.root / "usr/lib/os-release").read_text()
        tree.write(self.node.root / HARDWARE.lstrip("/"))
        for folder in ("/boot", "/usr/lib/modules", "/usr/src"):
            self.shell(f"mkdir -p {HARDWARE}{folder}; mount --bind {folder} {HARDWARE}{folder}")
        self.shell(f"ln -sfn usr/lib {HARDWARE}/lib")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One node for all tests here; each puts back what it changed."""
    for left in lab_nodes.STATE.glob("drift-*"):
        if not Path(f"/proc/{left.name.removeprefix('drift-')}").exists():
            lab_nodes.down(left.name)  # whoever made it was killed
    name = f"drift-{os.getpid()}"
    try:
        lab = lab_nodes.up(name, 1)
        made = Site(tmp_path_factory.mktemp("drift"), lab)
        made.provision()
        made.hardware()
        yield made
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have test nodes: {why}")
        pytest.skip(str(why))
    finally:
        if (lab_left := lab_nodes.find(name)) is not None:
            vendors.down(lab_left)
        lab_nodes.down(name)


def found(document: dict[str, Any], node: Node) -> list[tuple[str, str]]:
    (one,) = [one for one in document["nodes"] if one["node"] == node.name]
    return [(finding["code"], finding["found"]) for finding in one["findings"]]


def test_a_clean_node_has_no_drift_and_is_left_as_it_was(site: Site) -> None:
    site.drift()
    before = site.shell("find /etc /var/lib/burnin /usr/local -newer /etc/hostname -type f | sort | xargs sha256sum")

    code, document = site.drift()

    assert found(document, site.node) == []
    assert (code, document["verdict"], document["summary"]["PASS"]) == (0, "PASS", 1)
    assert document["nodes"][0]["stack"] == f"debian12 {SKU} driver {VERSION}"
    assert before == site.shell("find /etc /var/lib/burnin /usr/local -newer /etc/hostname -type f | sort | xargs sha256sum")
    assert sorted(path.name for path in site.base.iterdir()) == ["hosts.yml"], "no run folder is left"


@pytest.mark.parametrize("name", [name for name in PLANTED if name not in TOGETHER])
def test_a_planted_drift_is_found_and_nothing_else(site: Site, name: str) -> None:
    planted = PLANTED[name]
    site.shell(planted.plant)
    try:
        code, document = site.drift()
    finally:
        site.shell(f"{planted.mend}; rm -rf /srv/aside /tmp/*.deb")

    told = found(document, site.node)
    assert [one[0] for one in told] == [planted.code], told
    assert planted.says in told[0][1]
    assert code == 10
    assert document["findings"][0]["nodes"] == [site.node.name]


def test_many_drifts_at_once_are_a_row_each(site: Site) -> None:
    planted = [PLANTED[name] for name in TOGETHER]
    for number, one in enumerate(planted):
        site.shell(one.plant.replace("/srv/aside", f"/srv/aside{number}"))
    try:
        code, document = site.drift()
    finally:
        for number, one in reversed(list(enumerate(planted))):
            site.shell(one.mend.replace("/srv/aside", f"/srv/aside{number}"))
        site.shell("rm -rf /srv/aside* /tmp/*.deb")

    told = dict(found(document, site.node))
    assert sorted(told) == sorted(one.code for one in planted)
    assert [one.code for one in planted if one.says not in told[one.code]] == []
    assert sorted(row["code"] for row in document["findings"]) == sorted(told)
    assert code == 10


def test_when_all_is_put_back_nothing_is_left(site: Site) -> None:
    code, document = site.drift()

    assert (code, found(document, site.node)) == (0, [])
    assert len({drift.code for drift in PLANTED.values()} & set(CODES)) >= 20


def test_a_node_that_is_not_there_is_told_and_the_other_is_judged(site: Site) -> None:
    site.write(gone={"ansible_host": f"198.18.{site.lab.network}.250"})
    try:
        code, document = site.drift()
    finally:
        site.write()

    assert code == 11
    assert found(document, site.node) == []
    assert [row["code"] for row in document["findings"]] == ["DRIFT_UNREACHABLE"]
    assert document["findings"][0]["nodes"] == ["gone"]


def test_what_is_accepted_by_name_is_told_and_passes(site: Site) -> None:
    site.shell("apt-mark unhold libnvidia-ml1")
    try:
        code, document = site.drift("-e", "burnin_drift_accept=HOLD_MISSING")
    finally:
        site.shell("apt-mark hold libnvidia-ml1")

    assert (code, document["verdict"], document["summary"]["accepted"]) == (0, "PASS", 1)
