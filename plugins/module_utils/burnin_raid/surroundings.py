"""What stands around the drives: mounts of the host, fstab, mdadm.conf, the initramfs and its room, which programs are there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from ansible.module_utils.burnin_group import node
from ansible.module_utils.burnin_group.model import Refusal
from ansible.module_utils.burnin_raid.model import Mounted, Refused, Wanted, clean
from ansible.module_utils.burnin_raid.settling import STAMP
from ansible.module_utils.burnin_raid.using import mount_lines, read

TOOLS = ("mdadm", "wipefs", "blkid", "mkfs.xfs", "mkfs.ext4", "mount", "systemctl", "update-initramfs", "dracut", "udevadm")
DEBIAN_CONF, EL_CONF, DROPIN = "/etc/mdadm/mdadm.conf", "/etc/mdadm.conf", "/etc/dracut.conf.d/burnin-mdadm.conf"
IMAGES = ("initrd.img-*", "initramfs-*.img")
SPARE = 1.25  # while an image is made the old one stays beside it; what is added is small
MOST_NAMES = 8


def read_all(root: Path, wanted: Wanted) -> dict[str, Any]:
    """The fields of World that are no drives."""
    tools = frozenset(tool for tool in TOOLS if shutil.which(tool, path=node.PATH))
    initramfs = _initramfs(tools)
    dracut = initramfs[:1] == ("dracut",)
    debian = (root / "etc/debian_version").exists() or not dracut
    conf = DEBIAN_CONF if debian else EL_CONF
    images = [path for pattern in IMAGES for path in (root / "boot").glob(pattern) if path.is_file()]
    mounts = tuple(
        Mounted(dev, target.rstrip("/") or "/", kind, read_only)
        for dev, base, target, kind, _source, read_only in mount_lines(read(root / "proc/self/mountinfo"))
        if base == "/" or target == wanted.mount
    )
    return {
        "hostname": os.uname().nodename.partition(".")[0] or "node",
        "mounts": mounts,
        "mount_holds": _holds(root, wanted.mount) if not any(one.target == wanted.mount for one in mounts) else (),
        "fstab": _file(root, "/etc/fstab") or "",
        "conf_path": conf,
        "conf": _file(root, conf),
        "dropin_path": DROPIN if dracut else "",
        "dropin": _file(root, DROPIN) if dracut else None,
        "stamp": read(root / STAMP.lstrip("/"), 200).strip(),
        "initramfs": initramfs if images else (),
        "boot_free_kib": node.free_kib(root / "boot"),
        "boot_needs_kib": int(max([path.stat().st_size for path in images], default=0) * SPARE) // 1024,
        "read_only_folders": tuple(folder for folder in ("/etc", os.path.dirname(wanted.mount)) if _read_only(root, folder)),
        "tools": tools,
        "trim": _trim(root, tools),
    }  # fmt: skip


def link(root: Path, name: str) -> str:
    """The /dev/md/NAME that leads to an array."""
    folder = root / "dev/md"
    try:
        found = sorted(entry.name for entry in folder.iterdir() if entry.is_symlink() and os.path.basename(os.readlink(str(entry))) == name)
    except OSError:
        return ""
    return "/dev/md/%s" % found[0] if found else ""


def _initramfs(tools: frozenset[str]) -> tuple[str, ...]:
    if "update-initramfs" in tools:
        return ("update-initramfs", "-u", "-k", "all")
    return ("dracut", "--force", "--regenerate-all") if "dracut" in tools else ()


def _file(root: Path, path: str) -> str | None:
    try:
        content = node.read(node.at(root, path))
    except Refusal as refusal:
        raise Refused("READ_FAILED", refusal.message) from None
    if content is None:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("READ_FAILED", "%s is no UTF-8 text; it would not stay as it is. Mend it first" % path) from None


def _holds(root: Path, mount: str) -> tuple[str, ...] | None:
    folder = node.at(root, mount)
    if not os.path.lexists(str(folder)):
        return None
    if not folder.is_dir():
        return ("something that is no folder",)
    return tuple(clean(name, 60) for name in sorted(os.listdir(str(folder)))[:MOST_NAMES])


def _read_only(root: Path, folder: str) -> bool:
    path = node.at(root, folder)
    while not path.exists():
        path = path.parent
    return bool(os.statvfs(str(path)).f_flag & os.ST_RDONLY)


def _trim(root: Path, tools: frozenset[str]) -> str:
    if "systemctl" not in tools or not node.has_systemd(root):
        return ""
    told = node.units(["fstrim.timer"]).get("fstrim.timer", {})
    if told.get("LoadState") != "loaded":
        return ""
    return "enabled" if told.get("UnitFileState", "").startswith(("enabled", "static")) else "disabled"
