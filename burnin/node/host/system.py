"""The machine round the cards: its system and kernel, its firmware, its memory, IOMMU, clock, loaded modules, and who holds a GPU open."""

from __future__ import annotations

import ctypes
import os
import platform
import re
from typing import Any, Dict, Iterable, List, Optional

from burnin.node.host import pci
from burnin.node.host.reading import Reader

SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
MODULES = (
    "nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem", "nv_peer_mem", "nvidia_fs", "nouveau", "mlx5_core", "mlx5_ib",
    "ib_core", "ib_umad", "ib_ipoib",
)  # fmt: skip
GPU_DEVICE = re.compile(r"/dev/nvidia\d+")
FREE = ("/", "/boot", "/usr", "/var", "/var/lib")
MOST_HOLDERS = 100
PASSTHROUGH = ("iommu=pt", "iommu.passthrough=1", "intel_iommu=on,pt")


def system(reader: Reader) -> Dict[str, Any]:
    """The distribution, as /etc/os-release says it, and the architecture as the kernel does."""
    told = {}
    for line in (reader.read_text("/etc/os-release") or "").splitlines():
        name, _, value = line.partition("=")
        told[name.strip()] = value.strip().strip("\"'")[:200] or None
    arch = reader.line("/proc/sys/kernel/arch") or (platform.machine() if reader.root == "/" else None)
    return {
        "id": told.get("ID"),
        "version_id": told.get("VERSION_ID"),
        "like": told.get("ID_LIKE"),
        "pretty": told.get("PRETTY_NAME"),
        "arch": arch,
    }


def kernel(reader: Reader, disk: Reader) -> Dict[str, Any]:
    """The kernel that runs; and on the disk those installed, and those with headers to build against."""
    modules = "/lib/modules" if disk.exists("/lib/modules") else "/usr/lib/modules"
    images = [path.rpartition("/vmlinuz-")[2] for path in disk.glob("/boot/vmlinuz-*")]
    images += [path.split("/")[-2] for path in disk.glob(modules + "/*/vmlinuz")]
    built = [name for name in disk.listdir(modules) if disk.exists("%s/%s/build/Makefile" % (modules, name))]
    sources = [path.rpartition("/linux-headers-")[2] for path in disk.glob("/usr/src/linux-headers-*")]
    sources += [path.rpartition("/")[2] for path in disk.glob("/usr/src/kernels/*")]
    return {
        "running": reader.line("/proc/sys/kernel/osrelease"),
        "installed": sorted(set(images)),
        "headers": sorted(set(built) | {name for name in sources if name in images or name in disk.listdir(modules)}),
        "cmdline": reader.line("/proc/cmdline", 2000),
        "boot_id": reader.line("/proc/sys/kernel/random/boot_id"),
    }


def firmware(reader: Reader) -> Dict[str, Any]:
    """What the board says of itself, and whether it lets only signed code boot (None: it would not say)."""
    named = {
        "bios_vendor": "bios_vendor", "bios_version": "bios_version", "bios_date": "bios_date", "product": "product_name",
        "board": "board_name", "serial": "product_serial",
    }  # fmt: skip
    return {"secure_boot": _secure_boot(reader), **{ours: reader.line("/sys/class/dmi/id/" + name) for ours, name in named.items()}}


def _secure_boot(reader: Reader) -> Optional[bool]:
    """The variable is four bytes of attributes and one of value; a machine that booted without UEFI has no Secure Boot."""
    if not reader.exists("/sys/firmware/efi"):
        return False
    value = reader.read_bytes(SECURE_BOOT, 8)
    return value[4] == 1 if value is not None and len(value) == 5 and value[4] in (0, 1) else None


def uptime_s(reader: Reader) -> Optional[float]:
    """Seconds since the boot."""
    match = re.match(r"(\d{1,12}(?:\.\d{1,6})?) ", reader.read_text("/proc/uptime", 100) or "", re.ASCII)
    return float(match.group(1)) if match else None


def memory_mib(reader: Reader) -> Optional[int]:
    """What the kernel has, which is a little less than what is plugged in."""
    match = re.search(r"^MemTotal:\s+(\d+) kB", reader.read_text("/proc/meminfo") or "", re.MULTILINE)
    return int(match.group(1)) // 1024 if match else None


def cpus(reader: Reader) -> Optional[int]:
    """Logical processors that are online."""
    total = 0
    for part in (reader.line("/sys/devices/system/cpu/online") or "").split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if not match:
            return None
        total += int(match.group(2) or match.group(1)) - int(match.group(1)) + 1
    return total


def iommu(reader: Reader, cards: Iterable[str]) -> str:
    """off, translated, passthrough or unknown, of the groups that these cards are in; the worst of them, which is translated."""
    types = set()
    for card in cards:
        group = reader.realpath("%s/%s/iommu_group" % (pci.DEVICES, card))
        if group:
            types.add(reader.line(group + "/type") or "?")
    if not types:
        grouped = reader.listdir("/sys/kernel/iommu_groups") or reader.listdir("/sys/class/iommu")
        if not grouped:
            return "off" if reader.exists("/sys/kernel") else "unknown"
        types = {"?"}
    if any(kind.startswith("DMA") for kind in types):
        return "translated"
    if types == {"identity"}:
        return "passthrough"
    asked = (reader.line("/proc/cmdline", 2000) or "").split()
    return "passthrough" if any(word in PASSTHROUGH for word in asked) else "unknown"


def modules(reader: Reader) -> Dict[str, Dict[str, Optional[str]]]:
    """The modules of interest that are loaded, with their version. One that is built in has no initstate and still drives its card."""
    return {name: {"version": reader.line("/sys/module/%s/version" % name)} for name in MODULES if reader.exists("/sys/module/" + name)}


def gpu_processes(reader: Reader) -> List[Dict[str, Any]]:
    """Who holds a GPU's device file open; without root only one's own processes are seen."""
    found = []
    for pid in reader.listdir("/proc"):
        if not pid.isdigit():
            continue
        opened = set(reader.targets("/proc/%s/fd" % pid, "/proc/*/fd"))
        for device in sorted(name for name in opened if GPU_DEVICE.fullmatch(name)):
            found.append({"pid": int(pid), "name": reader.line("/proc/%s/comm" % pid), "device": device})
        if len(found) >= MOST_HOLDERS:
            break
    return found[:MOST_HOLDERS]


def clock(reader: Reader) -> Dict[str, Optional[bool]]:
    """Whether something keeps the clock: asked of the kernel; below another root, what systemd-timesyncd left there."""
    if reader.root == "/":
        return {"synchronized": _disciplined()}
    known = reader.exists("/run/systemd/timesync")
    return {"synchronized": reader.exists("/run/systemd/timesync/synchronized") if known else None}


TIMEX_BYTES, MAXERROR_AT = 208, 24
FREE_RUNNING_US = 16_000_000  # the kernel's word for "nobody has set me for long" (NTP_PHASE_LIMIT); timedatectl takes the same line


def _disciplined() -> Optional[bool]:
    """adjtimex without a change; None where the C library has none of ours."""
    try:
        asked = ctypes.create_string_buffer(TIMEX_BYTES)
        if ctypes.sizeof(ctypes.c_long) != 8 or ctypes.CDLL(None, use_errno=True).adjtimex(asked) < 0:
            return None
    except (OSError, AttributeError):
        return None
    return int.from_bytes(asked.raw[MAXERROR_AT : MAXERROR_AT + 8], "little", signed=True) < FREE_RUNNING_US


def free_mib(reader: Reader, more: Iterable[str] = ()) -> Dict[str, int]:
    """MiB that a person without root may still write, per folder."""
    found = {}
    for path in (*FREE, *more):
        place = reader.at(path)
        try:
            told = os.statvfs(place or "")
        except OSError:
            continue
        found[path] = told.f_bavail * told.f_frsize // 2**20
    return found
