"""What of a node says whether it must be rebooted, in one look below `root`. Reads only; None = it would not say."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.burnin_boot import loader
from ansible.module_utils.burnin_group.node import lock_holder

BOOT_ID = "proc/sys/kernel/random/boot_id"
REASONS = "run/burnin/reboot-required.d"
NVIDIA, GPU_CLASSES = "0x10de", ("0x0300", "0x0302")
# nvidia.ko, or as Debian's own packages name it.
MODULE = re.compile(r"nvidia(-current)?(-open)?\.ko(\.(xz|zst|gz))?")
PLACES = ("updates", "extra", "weak-updates", "kernel")
MOST_FILES, MOST_REASONS, MOST_PROCESSES = 20_000, 50, 65_536
# They hold a GPU open as long as the driver is there, and no work is lost with them.
DAEMONS = ("nvidia-persiste", "nv-fabricmanage", "nv-hostengine", "nvidia-imex", "nvlsm", "dcgm-exporter")
# Whoever holds one is at work on packages: a reboot would leave them half-configured, perhaps the kernel's among them.
PACKAGE_LOCKS = ("var/lib/dpkg/lock-frontend", "var/lib/dpkg/lock", "var/lib/rpm/.rpm.lock", "usr/lib/sysimage/rpm/.rpm.lock")
DEVICE = re.compile(r"/dev/nvidia\d+")
SYSTEM = ["systemctl", "is-system-running"]
BOOTING = ("initializing", "starting")
COMMAND_S = 20


def read(root: Path, runs: Path, running: str = "") -> dict[str, Any]:
    """All of it. `runs`: where burn-ins are kept on the node, below the root too. `running`: the kernel that counts as the one that runs."""
    kernel = running or text(root / "proc/sys/kernel/osrelease")
    return {
        "boot_id": text(root / BOOT_ID),
        "kernel": kernel,
        "kernels": kernels(root),
        "next_kernel": _next(root),
        "gpus": gpus(root),
        "module": text(root / "sys/module/nvidia/version"),
        "nouveau": (root / "sys/module/nouveau").is_dir(),
        "module_for": [name for name in kernels(root, kernel) if on_disk(root, name)],
        "flags": flags(root),
        "processes": processes(root),
        "packagers": packagers(root),
        "burn_ins": burn_ins(root / runs.relative_to("/")),
        "booting": _system() in BOOTING,  # of the machine itself: commands know no other root
    }


def text(path: Path) -> str | None:
    """One short line of a file; None when it is not there, or empty."""
    try:
        with path.open("rb") as file:
            return file.read(400).decode("utf-8", "replace").strip() or None
    except OSError:
        return None


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def kernels(root: Path, running: str | None = None) -> list[str]:
    """The kernels with an image below /boot or in their modules' folder (EL); with `running` that one too, image or not."""
    images = {name[len("vmlinuz-") :] for name in _names(root / "boot") if name.startswith("vmlinuz-")}
    inside = {name for name in _names(root / "lib/modules") if (root / "lib/modules" / name / "vmlinuz").exists()}
    return sorted(images | inside | ({running} if running else set()))


def _next(root: Path) -> str | None:
    """What the boot loader starts next; None where it is none that we know."""
    try:
        return loader.read(root).kernel
    except loader.Trouble:
        return None


def gpus(root: Path) -> list[str]:
    """The addresses of NVIDIA's VGA and 3D controllers on the PCI bus, whatever driver they have."""
    bus = root / "sys/bus/pci/devices"
    found = [name for name in _names(bus) if text(bus / name / "vendor") == NVIDIA]
    return [name for name in found if (text(bus / name / "class") or "").startswith(GPU_CLASSES)]


def on_disk(root: Path, kernel: str) -> bool:
    """Whether the driver's kernel module lies where modprobe looks for that kernel."""
    looked = 0
    for place in PLACES:
        for _, _, files in os.walk(root / "lib/modules" / kernel / place):
            if any(MODULE.fullmatch(name) for name in files):
                return True
            looked += len(files)
            if looked > MOST_FILES:
                break
    return False


def flags(root: Path) -> dict[str, str]:
    """Who asked for a reboot since this boot (the module burnin_group) -> why."""
    found = {name: text(root / REASONS / name) or "it gave no reason" for name in _names(root / REASONS)}
    return dict(list(found.items())[:MOST_REASONS])


def processes(root: Path) -> list[dict[str, Any]]:
    """Who has a GPU open, the driver's own daemons apart."""
    found = []
    for name in [name for name in _names(root / "proc") if name.isdigit()][:MOST_PROCESSES]:
        place = root / "proc" / name
        devices = {target for target in (_target(place / "fd" / handle) for handle in _names(place / "fd")) if DEVICE.fullmatch(target)}
        comm = text(place / "comm") or "?"
        if devices and comm not in DAEMONS:
            found.append({"pid": int(name), "name": comm, "device": min(devices)})
    return found


def packagers(root: Path) -> list[dict[str, Any]]:
    """Who works on packages now."""
    pids = {lock_holder(root / place) for place in PACKAGE_LOCKS} - {0}
    return [{"pid": pid, "name": text(root / "proc" / str(pid) / "comm") or "?"} for pid in sorted(pids)]


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def burn_ins(runs: Path) -> list[str]:
    """The runs that are going on: whoever holds the lock in its evidence is the run (burnin/node/lock.py)."""
    return [path.parent.parent.name for path in sorted(runs.glob("*/evidence/agent.lock")) if _held(path)]


def _held(path: Path) -> bool:
    try:
        with path.open("r", encoding="utf-8", errors="replace") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _system() -> str:
    """How far systemd has come; "" where it does not answer."""
    try:
        done = subprocess.run(SYSTEM, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
