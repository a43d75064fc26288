"""The software part of the host document, over a root made by hand: what is there, what is unknown, what is hostile."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from burnin.node.host.reading import Reader
from burnin.node.host.software import software
from burnin.node.host.software_packages import OURS
from burnin.stack.bridge import resolve_plain
from lab import catalogue, elf
from unit.stack.drifting import DRAGGED, STACK

KERNEL = "6.1.0-40-amd64"
STATUS = """\
Package: libc6
Status: install ok half-configured
Version: 2.36-9
Description: not ours
 Version: 9

Package: libnvidia-ml1
Status: install ok installed
Version: 580.126.09-1

Package: nvidia-open
Status: hold ok installed
Version: 580.126.09-1

Package: nvidia-persistenced
Status: deinstall ok config-files
Version: 570.172.08-1

Package: datacenter-gpu-manager-4-core
Status: hold reinstreq half-installed
Version: 1:4.6.0-1
"""
FILES: dict[str, str | bytes] = {
    "/var/lib/dpkg/status": STATUS,
    "/etc/apt/preferences.d/burnin-nccl": "Package: x\n",
    "/etc/apt/sources.list.d/burnin-cuda.sources": "URIs: https://me:S3C-1@mirror.example/cuda/\n",
    "/etc/apt/sources.list.d/site.list": "deb http://deb.debian.org/debian bookworm main\n",
    "/etc/apt/apt.conf.d/50unattended-upgrades": (
        'Unattended-Upgrade::Origins-Pattern {\n  "origin=Debian,label=Debian-Security";\n//  "origin=*";\n};\n'
        'Unattended-Upgrade::Package-Blacklist {\n  "^libc6$";\n};\n'
    ),
    "/etc/apt/apt.conf.d/60burnin": 'Unattended-Upgrade::Package-Blacklist:: "^nvidia-";\n',
    f"/lib/modules/{KERNEL}/updates/dkms/nvidia.ko": elf.kernel_module({"license": "x", "version": "580.126.09"}),
    f"/lib/modules/{KERNEL}/updates/dkms/mlx5_core.ko": elf.kernel_module({"license": "x"}),
    f"/var/lib/dkms/nvidia/580.126.09/{KERNEL}/x86_64/module/nvidia.ko": b"x",
    "/var/lib/dkms/nvidia/580.126.09/6.1.0-41-amd64/x86_64/module/nvidia.ko": b"x",
    "/var/lib/dkms/mlnx-ofed-kernel/25.10/build/x": b"x",
    "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.126.09": b"x",
    "/usr/lib/x86_64-linux-gnu/libnccl.so.2.28.9": b"x",
    "/usr/local/cuda-12.9/version.json": "{}",
    "/usr/local/cuda-13.0/bin/nvcc": "",
    "/usr/local/cuda-11.8/README": "left behind",
    "/run/burnin/reboot-required.d/driver": "580.126.09 installed\n",
}
LINKS = {
    f"/var/lib/dkms/nvidia/kernel-{KERNEL}-x86_64": f"580.126.09/{KERNEL}/x86_64",
    "/var/lib/dkms/nvidia/580.126.09/source": "/usr/src/nvidia-580.126.09",
    "/var/lib/dkms/mlnx-ofed-kernel/25.10/source": "/usr/src/mlnx-ofed-kernel-25.10",
    "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1": "libnvidia-ml.so.580.126.09",
    "/usr/lib/x86_64-linux-gnu/libnccl.so.2": "libnccl.so.2.28.9",
    "/usr/local/cuda": "/etc/alternatives/cuda",
    "/etc/alternatives/cuda": "/usr/local/cuda-12.9",
}


def root(base: Path, files: dict[str, str | bytes] = FILES, links: dict[str, str] = LINKS) -> Reader:
    for path, content in files.items():
        place = base / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
    for path, target in links.items():
        place = base / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    # DKMS's sources lie elsewhere; the link alone says that it knows the module.
    for name in ("nvidia-580.126.09", "mlnx-ofed-kernel-25.10"):
        (base / "usr/src" / name).mkdir(parents=True, exist_ok=True)
    return Reader(str(base))


def test_packages_with_their_holds_and_states(tmp_path: Path) -> None:
    told = software(root(tmp_path))

    assert told["manager"] == "apt"
    assert told["packages"] == [
        {"name": "datacenter-gpu-manager-4-core", "version": "1:4.6.0-1", "held": True, "status": "half-installed"},
        {"name": "libnvidia-ml1", "version": "580.126.09-1", "held": False, "status": "installed"},
        {"name": "nvidia-open", "version": "580.126.09-1", "held": True, "status": "installed"},
    ]
    assert told["audit"] == ["datacenter-gpu-manager-4-core half-installed", "libc6 half-configured"], "also of what is not ours"


def test_what_keeps_it_so(tmp_path: Path) -> None:
    told = software(root(tmp_path))

    assert told["pins"] == {"/etc/apt/preferences.d/burnin-nccl": hashlib.sha256(b"Package: x\n").hexdigest()}
    assert told["sources"] == {"/etc/apt/sources.list.d/burnin-cuda.sources": "URIs: https://***@mirror.example/cuda/\n"}
    assert sorted(told["blacklist"]) == ["^libc6$", "^nvidia-"]
    assert told["unattended_origins"] == ["origin=Debian,label=Debian-Security"]


def test_modules_on_disk(tmp_path: Path) -> None:
    told = software(root(tmp_path))

    assert [{name: one[name] for name in ("module", "version", "kernel", "state")} for one in told["dkms"]] == [
        {"module": "mlnx-ofed-kernel", "version": "25.10", "kernel": None, "state": "added"},
        {"module": "nvidia", "version": "580.126.09", "kernel": KERNEL, "state": "installed"},
        {"module": "nvidia", "version": "580.126.09", "kernel": "6.1.0-41-amd64", "state": "built"},
    ]
    assert told["dkms"][1]["built_s"] > 0
    assert told["module_files"] == [
        {"module": "nvidia", "kernel": KERNEL, "version": "580.126.09"},
        {"module": "mlx5_core", "kernel": KERNEL, "version": None},
    ]


def test_libraries_toolkits_and_the_reboot(tmp_path: Path) -> None:
    told = software(root(tmp_path))

    assert told["libraries"] == {"libnvidia-ml": "580.126.09", "libcuda": None, "libnccl": "2.28.9", "libnvidia-nscq": None}
    assert told["cuda_toolkits"] == ["12.9", "13.0"], "a folder that was left behind is no toolkit"
    assert told["alternatives"] == {"cuda": "/usr/local/cuda-12.9"}
    assert told["reboot_required"] == ["driver: 580.126.09 installed"]


def test_what_nobody_could_say_is_none_and_not_empty(tmp_path: Path) -> None:
    told = software(Reader(str(tmp_path)))

    for name in ("manager", "packages", "audit", "blacklist", "locks", "services", "ofed_info"):
        assert told[name] is None, name
    assert told["alternatives"] == {"cuda": None}


def test_an_empty_package_database_is_unknown(tmp_path: Path) -> None:
    told = software(root(tmp_path, {"/var/lib/dkms/x": "", "/var/lib/dpkg/status": ""}, {}))

    assert (told["manager"], told["packages"]) == ("apt", None)


def test_dnf_has_locks(tmp_path: Path) -> None:
    lines = "# by hand\n\nnvidia-open-3:580.126.09-*\n"
    told = software(root(tmp_path, {"/usr/lib/sysimage/rpm/x": "", "/etc/dnf/plugins/versionlock.list": lines}, {}))

    assert (told["manager"], told["locks"], told["packages"]) == ("dnf", ["nvidia-open-3:580.126.09-*"], None)
    assert told["blacklist"] is None


def test_dnf_says_where_its_locks_are(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "/usr/lib/sysimage/rpm/x": "",
        "/etc/dnf/plugins/versionlock.conf": "[main]\nenabled = 1\nlocklist = /srv/locks\n",
        "/etc/dnf/plugins/versionlock.list": "nobody-reads-this\n",
        "/srv/locks": "libnccl-2.28.9-1+cuda12.9\n",
    }

    assert software(root(tmp_path, files, {}))["locks"] == ["libnccl-2.28.9-1+cuda12.9"]


def test_a_password_in_a_repository_is_not_told(tmp_path: Path) -> None:
    repo = "[burnin-cuda]\nbaseurl=https://mirror/cuda\nusername = me\npassword=S3C-2\nproxy_password=S3C-3\n"
    told = software(root(tmp_path, {"/etc/yum.repos.d/burnin-cuda.repo": repo}, {}))

    assert "S3C" not in str(told["sources"])
    assert "baseurl=https://mirror/cuda" in str(told["sources"])


@pytest.mark.parametrize(
    "content",
    [b"", b"\x7fELF", b"\x7fELF\x02\x01" + b"\xff" * 58, os.urandom(500), elf.kernel_module({"version": "1"})[:150]],
    ids=["empty", "cut", "full of ones", "noise", "half a module"],
)
def test_a_module_that_is_none_costs_only_its_version(tmp_path: Path, content: bytes) -> None:
    reader = root(tmp_path, {f"/lib/modules/{KERNEL}/extra/nvidia.ko": content}, {})

    assert software(reader)["module_files"] == [{"module": "nvidia", "kernel": KERNEL, "version": None}]
    assert reader.errors


def test_files_that_cannot_be_read_stop_nothing(tmp_path: Path) -> None:
    reader = root(tmp_path)
    pipe = tmp_path / "etc/apt/preferences.d/pipe"
    os.mkfifo(pipe)
    (tmp_path / "etc/apt/sources.list.d/loop.list").symlink_to("loop.list")
    (tmp_path / "etc/apt/apt.conf.d/99binary").write_bytes(b"\xff\xfe" * 100)

    assert software(reader)["packages"]


def test_every_package_that_a_stack_holds_is_told() -> None:
    """The node looks for names of its own: all that the stub catalogue has, that a stack names or that it drags in, must be among them."""
    wants = [resolve_plain({**STACK}, name, "x86_64", "H100-SXM5-80GB", KERNEL) for name in ("debian12", "ubuntu2404", "rhel9")]
    names = {package["name"] for want in wants for group in want["groups"].values() for package in group["packages"]}
    names |= {name for dragged in DRAGGED.values() for name in dragged}
    for repository in ("cuda", "doca", "debian"):
        for distro in ("debian12", "ubuntu2404"):
            names |= {deb.name for deb in catalogue.debs(repository, distro, catalogue.builds(repository))}

    assert len(names) > 100
    assert sorted(name for name in names if not OURS.search(name)) == ["initramfs-tools"]
