"""What is on a drive, in words that a person reads before they consent, and which arrays reach over several drives. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Iterable

from ansible.module_utils.burnin_raid.model import Area, Array, Drive, Signature, Superblock, World, clean
from ansible.module_utils.burnin_raid.texts import md_uuid, plain_uuid

MD = "linux_raid_member"
SPANNING = ("btrfs", "zfs_member")  # their UUID is that of the whole, over all its drives
TABLES = {"gpt": "GPT", "dos": "MBR", "PMBR": "protective MBR"}
MOST_TOLD, LONGEST = 12, 900


@dataclass(frozen=True)
class Found:
    """One array (kind md), or what else reaches over drives, that touches the selected ones. Names are of areas."""

    kind: str
    uuid: str
    text: str
    inside: tuple[str, ...]
    outside: tuple[str, ...] = ()
    superblocks: tuple[Superblock, ...] = ()  # of the members inside, by their place
    devices: int = 0
    missing: tuple[int, ...] = ()
    twice: tuple[int, ...] = ()
    failed: tuple[str, ...] = ()
    running: Array | None = None


def signatures_text(area: Area) -> list[str]:
    """One phrase a signature; a GPT's three magics are one thing, unless one of them is all that is left."""
    kinds = [one.kind for one in area.signatures]
    told = []
    if "gpt" in kinds:
        tables = [one for one in area.signatures if one.kind == "gpt"]
        half = {True: "", False: " (half of one)"}[len(tables) > 1 and "PMBR" in kinds]
        told.append("GPT partition table%s" % half)
    for one in area.signatures:
        if one.kind == "gpt" or (one.kind == "PMBR" and "gpt" in kinds):
            continue
        told.append(_signature_text(one, area))
    return list(dict.fromkeys(told))


def _signature_text(one: Signature, area: Area) -> str:
    if one.kind in TABLES:
        return "%s partition table" % TABLES[one.kind]
    if one.kind == MD:
        block = next((each for each in area.superblocks if plain_uuid(each.uuid) == plain_uuid(one.uuid)), None)
        if block:
            return "member %s of %s" % ("?" if block.role < 0 else block.role, array_text(block))
    words = [clean(one.kind, 40), "'%s'" % clean(one.label, 40) if one.label else "", clean(one.uuid, 50)]
    return " ".join(word for word in words if word)


def array_text(block: Superblock) -> str:
    """An array for a person."""
    name = " '%s'" % clean(block.name, 60) if block.name else ""
    return "%s array %s%s of %d devices" % (clean(block.level, 12), md_uuid(block.uuid), name, block.devices)


def phrases(drive: Drive) -> list[str]:
    """All that is on a drive. No kernel name in it: it is to be the same after a reboot."""
    told = signatures_text(drive.disk)
    for part in drive.partitions:
        inner = signatures_text(part)
        told.append("partition %d (%d MiB%s)" % (part.number, part.size_bytes // 2**20, ": %s" % ", ".join(inner) if inner else ""))
    if not told and drive.disk.raw:
        told.append("data of no known kind (%s)" % drive.disk.raw)
    return told


def text(drive: Drive, world: World) -> str:
    """One line; "" where it is blank. Cut with a digest, so that the line still stands for all of it."""
    told = phrases(drive)
    line = "; ".join(told)
    if len(told) <= MOST_TOLD and len(line) <= LONGEST:
        return line
    digest = hashlib.sha256(line.encode()).hexdigest()[:12]
    return "%s; and more (%s)" % ("; ".join(told[:MOST_TOLD])[:LONGEST], digest)


def arrays(world: World, selected: Iterable[Drive]) -> tuple[Found, ...]:
    """Each array, btrfs and ZFS pool with a member on a selected drive, and its members anywhere else on the node."""
    chosen = {drive.name for drive in selected}
    members: dict[tuple[str, str], list[tuple[Drive, Area, Superblock | None]]] = {}
    for drive in world.drives:
        for area in drive.areas:
            for key, block in _memberships(area):
                members.setdefault(key, []).append((drive, area, block))
    found = [_found(world, key, each, chosen) for key, each in sorted(members.items())]
    found += _only_running(world, chosen, {one.uuid for one in found if one.kind == "md"})
    return tuple(one for one in found if one.inside)


def _memberships(area: Area) -> list[tuple[tuple[str, str], Superblock | None]]:
    told: dict[tuple[str, str], Superblock | None] = {("md", plain_uuid(block.uuid)): block for block in area.superblocks}
    for one in area.signatures:
        if one.kind == MD:
            told.setdefault(("md", plain_uuid(one.uuid)), None)
        elif one.kind in SPANNING and one.uuid:
            told.setdefault((one.kind, one.uuid), None)
    return list(told.items())


def _found(world: World, key: tuple[str, str], each: list[tuple[Drive, Area, Superblock | None]], chosen: set[str]) -> Found:
    kind, uuid = key
    inside = tuple(area.name for drive, area, _block in each if drive.name in chosen)
    outside = tuple(area.name for drive, area, _block in each if drive.name not in chosen)
    if kind != "md":
        return Found(kind, uuid, "%s %s" % (kind.replace("_member", " pool"), uuid), inside, outside)
    blocks = [(drive, block) for drive, _area, block in each if block]
    ordered = sorted((block for drive, block in blocks if drive.name in chosen), key=lambda block: block.role)
    devices = max([block.devices for _drive, block in blocks], default=0)
    # A superblock at the end of the last partition is seen on the whole drive too: one drive has one place.
    roles = [role for _name, role in {(drive.name, block.role) for drive, block in blocks}]
    running = next((array for array in world.arrays if plain_uuid(array.uuid) == uuid), None)
    missing = tuple(place for place in range(devices) if place not in roles)
    twice = tuple(sorted({role for role in roles if role >= 0 and roles.count(role) > 1}))
    failed = running.failed if running else ()
    beyond = tuple(name for _slot, name in running.members if name not in inside and name not in outside) if running else ()
    words = array_text(ordered[0]) if ordered else "array %s" % md_uuid(uuid)
    return Found("md", uuid, words, inside, outside + beyond, tuple(ordered), devices, missing, twice, failed, running)


def _only_running(world: World, chosen: set[str], known: set[str]) -> list[Found]:
    """Arrays that the kernel has over the drives and whose superblocks were not seen."""
    owner = {area.name: drive.name for drive in world.drives for area in drive.areas}
    told = []
    for array in world.arrays:
        if plain_uuid(array.uuid) in known and array.uuid:
            continue
        inside = tuple(name for _slot, name in array.members if owner.get(name) in chosen)
        outside = tuple(name for _slot, name in array.members if owner.get(name) not in chosen)
        words = "running %s array %s" % (array.level, array.name)
        told.append(Found("md", plain_uuid(array.uuid), words, inside, outside, (), array.devices, (), (), array.failed, array))
    return told
