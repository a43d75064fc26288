"""A node without drift, made from what its stack comes to; a test changes one thing in it."""

from __future__ import annotations

import re
from copy import deepcopy
from hashlib import sha256
from typing import Any

from burnin.stack.bridge import resolve_plain

KERNEL, NEWER = "6.1.0-40-amd64", "6.1.0-41-amd64"
STACK: dict[str, Any] = {
    "driver": {"version": "580.126.09", "flavour": "open"},
    "cuda": {"toolkits": ["12.9.1", "13.0.2"], "default": "12.9.1"},
    "nccl": {"version": "2.28.9", "cuda": "12.9"},
    "ofed": {"kind": "doca", "version": "3.2.1"},
    "dcgm": {"version": "4.4.1"},
}
# What a group's packages drag in, which no spec of ours names: name -> version, by manager.
DRAGGED = {
    "apt": {
        "libnvidia-ml1": "580.126.09-1", "libcuda1": "580.126.09-1", "nvidia-kernel-open-dkms": "580.126.09-1", "nvidia-driver-cuda": "580.126.09-1",
        "libcublas-12-9": "12.9.1.4-1", "rdma-core": "2510mlnx60-1.2510171", "mlnx-ofed-kernel-dkms": "25.10.OFED.25.10.1.7.1.1-1",
        "nvidia-container-toolkit": "1.17.8-1", "linux-image-6.1.0-40-amd64": "6.1.153-1", "linux-headers-6.1.0-40-amd64": "6.1.153-1",
    },
    "dnf": {
        "libnvidia-ml": "3:580.126.09-1.el9", "kmod-nvidia-open-dkms": "3:580.126.09-1.el9", "nvidia-driver-cuda": "3:580.126.09-1.el9",
        "rdma-core": "2510mlnx60-1.2510171", "kernel-core": "5.14.0-503.el9",
    },
}  # fmt: skip
LOOSE = ("nvidia-container-toolkit",)


def resolution(distro: str = "debian12", sku: str = "H100-SXM5-80GB", kernel: str | None = KERNEL, **stack: Any) -> dict[str, Any]:
    return resolve_plain({**STACK, **stack}, distro, "x86_64", sku, kernel)


def package(name: str, version: str, held: bool | None) -> dict[str, Any]:
    return {"name": name, "version": version, "held": held, "status": "installed"}


def clean(want: dict[str, Any], kernel: str = KERNEL) -> dict[str, Any]:
    """The host document (level ready) of a node that is just as `want` says, with eight GPUs on the bus and their module loaded."""
    apt = want["manager"] == "apt"
    version, held = want["driver"]["version"], True if apt else None
    asked = {
        package["name"]: package["version"].replace("*", "1") or "25.10-1"
        for group in want["groups"].values()
        if group["name"] != "kernel"
        for package in group["packages"]
    }
    packages = asked | DRAGGED[want["manager"]]
    if want["driver"]["flavour"] == "proprietary":
        packages = {name.replace("-open-dkms", "-dkms"): version for name, version in packages.items()}
    dkms = [("nvidia", version, 1200), ("mlnx-ofed-kernel", "25.10.OFED.25.10.1.7.1.1", 600)]
    return {
        "schema": "burnin.host/1",
        "level": "ready",
        "os": {"id": "debian", "version_id": "12", "pretty": "Debian GNU/Linux 12 (bookworm)", "arch": "x86_64"},
        "kernel": {"running": kernel, "installed": [kernel], "headers": [kernel], "cmdline": "", "boot_id": "b"},
        "firmware": {"bios_version": "2.4", "product": "HGX H100"},
        "gpus": [{"address": f"0000:{number:02x}:00.0", "device": "2330"} for number in range(8)],
        "nvswitches": 4,
        "nvlink5": False,
        "nics": [{"rdma": f"mlx5_{number}", "board_id": "MT_0000000838", "firmware": "28.43.1014"} for number in range(8)],
        "nvme": [{"name": "nvme0n1", "model": "KIOXIA CD8", "firmware": "1UET7104"}],
        "modules": {"nvidia": {"version": version}, "mlx5_core": {"version": "25.10-1.7.1"}},
        "software": {
            "manager": want["manager"],
            "packages": [package(name, version, False if name in LOOSE and apt else held) for name, version in sorted(packages.items())],
            "audit": [] if apt else None,
            "pins": {
                pin["path"]: sha256(pin["content"].encode()).hexdigest() for group in want["groups"].values() for pin in group["pins"]
            },
            "sources": {one["path"]: f"Types: deb\nURIs: {one['url']}\n" for one in want["repositories"]},
            "blacklist": list(want["blacklist"]) if apt else None,
            "unattended_origins": ["${distro_id}:${distro_codename}-security"] if apt else None,
            "locks": [] if apt else locks(want, packages),
            "dkms": [
                {"module": name, "version": number, "kernel": kernel, "state": "installed", "built_s": built}
                for name, number, built in dkms
            ],
            "module_files": [
                {"module": "nvidia", "kernel": kernel, "version": version},
                {"module": "mlx5_core", "kernel": kernel, "version": "25.10-1.7.1"},
            ],
            "services": {unit: {"active": "active", "enabled": "enabled"} for unit in want["services"]},
            "alternatives": dict(want["alternatives"]),
            "libraries": {"libnvidia-ml": version, "libcuda": version if apt else None, "libnccl": "2.28.9", "libnvidia-nscq": version},
            "ofed_info": "OFED-internal-25.10-1.7.1:",
            "cuda_toolkits": ["12.9", "13.0"],
            "reboot_required": [],
        },
        "errors": [],
    }


def locks(want: dict[str, Any], packages: dict[str, str]) -> list[str]:
    """As burnin_group writes them: the groups' own lines, and an exact one for whatever else they hold."""
    groups = want["groups"].values()
    own = [line for group in groups for line in group["locks"]] + [
        f"!{one}" for group in groups for one in group["excludes"].get("main", ())
    ]
    held = {name for name in packages for group in groups for pattern in group["hold"] if re.search(pattern, name)}
    return own + [f"{name}-{packages[name] if ':' in packages[name] else '0:' + packages[name]}.*" for name in sorted(held)]


class Node:
    """A clean document, and the words to change it with."""

    def __init__(self, want: dict[str, Any] | None = None, kernel: str = KERNEL) -> None:
        self.want = want or resolution()
        self.host = deepcopy(clean(self.want, kernel))
        self.software = self.host["software"]

    def __getitem__(self, name: str) -> dict[str, Any]:
        return next(one for one in self.software["packages"] if one["name"] == name)

    def move(self, name: str, version: str) -> None:
        self[name]["version"] = version

    def add(self, name: str, version: str, held: bool = True) -> None:
        self.software["packages"].append(package(name, version, held if self.want["manager"] == "apt" else None))

    def drop(self, name: str) -> None:
        self.software["packages"].remove(self[name])
