"""Which drives are meant. Pure. By what stays the same over a reboot, never by a kernel name (field report B11)."""

from __future__ import annotations

import re
from typing import Iterable

from ansible.module_utils.burnin_group.model import few
from ansible.module_utils.burnin_raid.model import Drive, Refused, Wanted, World, clean, names

KERNEL_NAME = re.compile(r"(/dev/)?(nvme\d+(n\d+)?(p\d+)?|sd[a-z]+\d*|vd[a-z]+\d*|md\d+|dm-\d+)", re.ASCII)
SIZE_TOLERANCE = 0.01  # vendors round: a "3840 GB" drive has 3840.755738112e9 bytes
LOOK = "ls -l /dev/disk/by-id/nvme-* shows the ids"


def select(world: World, wanted: Wanted) -> tuple[Drive, ...]:
    """The members, in the order of their serials. Raises Refused."""
    if wanted.drives < wanted.least:
        raise Refused(
            "DRIVES_TOO_FEW",
            "%d drives are asked for (nvme_raid0_drives), and an array needs at least %d (nvme_raid0_least); ask for more, or lower that"
            % (wanted.drives, wanted.least),
        )
    found = _named(world, wanted) if wanted.ids else _matching(world, wanted)
    _unusable(found)
    if len(found) < wanted.drives:
        raise Refused("DRIVES_TOO_FEW", _too_few(world, wanted, found))
    if len(found) > wanted.drives:
        raise Refused(
            "DRIVES_TOO_MANY",
            "%d drives match and %d are asked for: %s. Which are meant is not guessed: name them by nvme_raid0_model, nvme_raid0_size_gb or nvme_raid0_ids"
            % (len(found), wanted.drives, few(["%s, %s, %d bytes" % (names([one]), one.model, one.size_bytes) for one in found], 16)),
        )
    _alike(found)
    _apart(world, found)
    return tuple(sorted(found, key=lambda drive: (drive.serial, drive.namespace, drive.name)))


def consent_key(drive: Drive, world: World) -> str:
    """The serial; with the namespace's number where the drive shows several, for consent to one is not consent to another."""
    alike = [one for one in world.drives if one.nvme and one.serial == drive.serial]
    return "%s_%s" % (drive.serial, drive.namespace) if len(alike) > 1 else drive.serial


def matches(drive: Drive, wanted: Wanted) -> bool:
    """Whether model and size are as asked for; each where it is."""
    if wanted.model and _plain(drive.model) != _plain(wanted.model):
        return False
    return not wanted.size_gb or abs(drive.size_bytes / 1e9 - wanted.size_gb) <= wanted.size_gb * SIZE_TOLERANCE


def _plain(text: str) -> str:
    return re.sub(r"[\s_]+", "_", text.strip()).casefold()


def _matching(world: World, wanted: Wanted) -> list[Drive]:
    return [drive for drive in world.drives if drive.nvme and not drive.system and matches(drive, wanted)]


def _named(world: World, wanted: Wanted) -> list[Drive]:
    found: dict[str, str] = {}
    drives: list[Drive] = []
    for given in wanted.ids:
        drive = _one(world, given)
        if drive.name in found:
            raise Refused(
                "ID_AMBIGUOUS", "%s and %s are one drive, %s; name each drive once" % (found[drive.name], clean(given), names([drive]))
            )
        found[drive.name] = clean(given)
        if drive.system:
            raise Refused(
                "SYSTEM_DISK",
                "%s is %s, and the system is on it (%s); it is never taken. Take it out of nvme_raid0_ids"
                % (clean(given), names([drive]), few([use.text() for use in drive.system])),
            )
        if not matches(drive, wanted):
            raise Refused(
                "DRIVES_MIXED",
                "%s is %s: %s of %d bytes; expected model %s and size %s. Correct nvme_raid0_ids or what is expected"
                % (clean(given), names([drive]), drive.model, drive.size_bytes, wanted.model or "any", wanted.size_gb or "any"),
            )
        drives.append(drive)
    return drives


def _one(world: World, given: str) -> Drive:
    """The drive that an id names. Raises Refused."""
    plain = re.sub(r"^(/dev/disk/by-id/)?(nvme-)?(?=.)", "", given.strip())
    if KERNEL_NAME.fullmatch(given.strip()):
        now = [drive for drive in world.drives if given.strip().rpartition("/")[2].startswith(drive.name)]
        what = "now %s%s" % (names(now), " with the system on it" if now and now[0].system else "") if now else "nothing now"
        raise Refused(
            "ID_UNKNOWN", "%s is a kernel's name (%s), which another boot gives to another drive; %s" % (clean(given), what, LOOK)
        )
    hits = [drive for drive in world.drives if drive.nvme and _plain(plain) in {_plain(one) for one in drive.ids}]
    if not hits:
        raise Refused(
            "ID_UNKNOWN",
            "%s names no NVMe drive of this node; it has %s. %s"
            % (clean(given), names([one for one in world.drives if one.nvme]) or "none", LOOK),
        )
    if len(hits) > 1:
        raise Refused(
            "ID_AMBIGUOUS",
            "%s names %d drives: %s; name one by eui., nguid., uuid. or model_serial_namespace" % (clean(given), len(hits), names(hits)),
        )
    return hits[0]


def _unusable(drives: Iterable[Drive]) -> None:
    for drive in drives:
        if drive.read_only or drive.size_bytes <= 0:
            why = "is write-protected" if drive.read_only else "shows no size (a failed or unformatted namespace)"
            raise Refused("READ_FAILED", "%s %s; look at nvme id-ns and nvme smart-log of it" % (names([drive]), why))


def _too_few(world: World, wanted: Wanted, found: list[Drive]) -> str:
    said = "%d drives are asked for and %d are here: %s" % (wanted.drives, len(found), names(found) or "none")
    others = [drive for drive in world.drives if drive.nvme and drive not in found]
    if others:
        told = ["%s, %s, %d bytes%s" % (names([one]), one.model, one.size_bytes, ", the system's" if one.system else "") for one in others]
        said += ". Not taken: %s" % few(told, 16)
    return said + ". An array of fewer is not made: look for the missing one (nvme list, dmesg), or correct nvme_raid0_drives"


def _alike(drives: list[Drive]) -> None:
    kinds = {(_plain(drive.model), drive.size_bytes) for drive in drives}
    if len(kinds) > 1:
        told = ["%s, %s, %d bytes" % (names([one]), one.model, one.size_bytes) for one in drives]
        raise Refused(
            "DRIVES_MIXED",
            "the drives are not alike: %s. One array needs one model and size: say which by nvme_raid0_model and nvme_raid0_size_gb"
            % few(told, 16),
        )


def _apart(world: World, drives: list[Drive]) -> None:
    """Each can be named by itself: a serial that two drives share cannot carry a consent. Raises Refused."""
    seen: dict[str, Drive] = {}
    for drive in drives:
        key = consent_key(drive, world)
        if not drive.serial:
            raise Refused("ID_UNKNOWN", "%s tells no serial, so it cannot be named for anything; look at nvme id-ctrl" % drive.name)
        twin = seen.setdefault(key, drive)
        if twin is not drive:
            raise Refused(
                "ID_AMBIGUOUS", "%s and %s have one serial (%s); replace one, or give it another" % (twin.name, drive.name, drive.serial)
            )
