"""Worlds of drives for nvme_raid0's unit tests: what Reader would have found, without a drive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import ansible.module_utils

ROOT = Path(__file__).resolve().parents[1]
ansible.module_utils.__path__.append(str(ROOT / "plugins/module_utils"))
from ansible.module_utils.burnin_raid.model import (  # noqa: E402
    Area,
    Array,
    Drive,
    Signature,
    Superblock,
    Use,
    Wanted,
    World,
)

SIZE = 3840755982336
ARRAY = "11111111:22222222:33333333:44444444"
FS = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
NEW = ("55555555-6666-7777-8888-999999999999", "12345678-1234-1234-1234-123456789012")
TOOLS = frozenset(("mdadm", "wipefs", "blkid", "mkfs.xfs", "mkfs.ext4", "mount", "systemctl", "update-initramfs", "udevadm"))
INITRAMFS = ("update-initramfs", "-u", "-k", "all")


def drive(number: int, *, size: int = SIZE, model: str = "PM9A3", **more: Any) -> Drive:
    """nvmeNn1 with the serial SN, blank."""
    name, dev = f"nvme{number}n1", f"259:{number}"
    disk = Area(name, dev, size)
    ids = (f"S{number}", f"{model}_S{number}", f"{model}_S{number}_1", f"eui.00{number}")
    return Drive(name, dev, f"S{number}", model, size, disk, ids=ids, namespace="1", sequence=str(number), firmware="F1", **more)


def holding(one: Drive, *kinds: str, raw: str = "", **more: Any) -> Drive:
    """With these signatures on the whole drive."""
    seen = tuple(Signature(kind, 512 * at, f"uuid-{kind}") for at, kind in enumerate(kinds))
    return replace(one, disk=replace(one.disk, signatures=seen, raw=raw, **more))


def member(one: Drive, role: int, *, devices: int = 4, uuid: str = ARRAY, **more: Any) -> Drive:
    """In an md array."""
    block = Superblock(uuid, "node:scratch", devices=devices, role=role, **more)
    return replace(one, disk=replace(one.disk, signatures=(Signature("linux_raid_member", 4096, uuid),), superblocks=(block,), raw="feed"))


def used(one: Drive, kind: str, what: str, *, system: bool = False) -> Drive:
    """With one use more."""
    return replace(one, uses=(*one.uses, Use(kind, what, (), system)))


def running(
    drives: tuple[Drive, ...], *, name: str = "md127", link: str = "/dev/md/scratch", kind: str = "xfs", raw: str = "", **more: Any
) -> World:
    """An array that the kernel has, over all of these."""
    seen = (Signature(kind, 0, FS),) if kind else ()
    area = Area(name, "9:127", SIZE * len(drives), signatures=seen, raw=raw)
    members = tuple((place, one.name) for place, one in enumerate(drives))
    array = Array(name, "9:127", ARRAY, area, devices=len(drives), members=members, link=link)
    return world(
        tuple(used(member(one, place, devices=len(drives)), "holder", name) for place, one in enumerate(drives)), arrays=(array,), **more
    )


def world(drives: tuple[Drive, ...], **more: Any) -> World:
    """A node with these drives and one that the system is on."""
    boot = used(drive(9, size=480_000_000_000, model="BOSS"), "mount", "/", system=True)
    about: dict[str, Any] = {
        "tools": TOOLS,
        "initramfs": INITRAMFS,
        "boot_free_kib": 500_000,
        "boot_needs_kib": 90_000,
        "fstab": "/dev/x / ext4\n",
    }
    return World((*drives, boot), **{**about, **more})


def four(*changes: Any) -> tuple[Drive, ...]:
    """Four blank drives; `changes`: functions on the first ones."""
    drives = [drive(number) for number in range(1, 5)]
    return tuple(change(one) for change, one in zip([*changes, *[lambda one: one] * (4 - len(changes))], drives, strict=True))


def wanted(**more: Any) -> Wanted:
    """Four drives, as the role's defaults have it."""
    return Wanted(**{"drives": 4, **more})
