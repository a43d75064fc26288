"""What is to be done, or why nothing is. Pure: a world and a wish in, a plan out, or Refused before the first byte is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible.module_utils.burnin_group.model import few
from ansible.module_utils.burnin_raid import holding, making, settling
from ansible.module_utils.burnin_raid.model import Drive, Plan, Refused, Wanted, World, names
from ansible.module_utils.burnin_raid.selecting import consent_key, select

ERASE_HINT = "To erase, name these serials in nvme_raid0_erase for this run (burnin provision --check writes erase.yml)"


def plan(world: World, wanted: Wanted, uuids: tuple[str, str], dry: bool = False) -> Plan:
    """`uuids`: of the array and the file system, should new ones be made. `dry`: a program may still be missing. Raises Refused."""
    decided = _decide(world, wanted, uuids)
    missing = sorted({step.argv[0] for step in decided.steps if step.argv and step.argv[0] not in world.tools})
    if not missing:
        return decided
    said = "%s not here: %s. Install what brings it (mdadm, xfsprogs or e2fsprogs, util-linux)" % (
        "is" if len(missing) == 1 else "are",
        few(missing),
    )
    if not dry:
        raise Refused("TOOL_MISSING", said)
    return replace(decided, notes=(*decided.notes, said))


def _decide(world: World, wanted: Wanted, uuids: tuple[str, str]) -> Plan:
    selected = select(world, wanted)
    keys = {consent_key(drive, world): drive for drive in selected}
    consents = _consents(world, wanted, keys)
    _readable(world, selected)
    found = holding.arrays(world, selected)
    _whole_arrays(world, selected, found)
    erase = {key: told for key, told in sorted((key, holding.text(drive, world)) for key, drive in keys.items()) if told}
    try:
        kept = _kept(world, wanted, selected, found)
    except Refused as refusal:
        _stale(consents, erase, keys)
        if any(key not in consents for key in erase):
            raise Refused(refusal.code, refusal.message, erase) from None
        kept = None
    if kept is not None:
        return settling.adopt(world, wanted, selected, kept, uuids[1])
    _not_in_use(world, selected)
    _stale(consents, erase, keys)
    unnamed = [key for key in erase if key not in consents]
    if unnamed:
        told = ["%s holds %s" % (names([keys[key]]), erase[key]) for key in unnamed]
        raise Refused("DISK_NOT_BLANK", "%s. %s" % (few(told, 16), ERASE_HINT), erase)
    steps = making.erasing(world, selected, erase, keys) + making.creating(world, wanted, selected, uuids)
    return settling.finish(world, wanted, selected, steps, uuids, erase)


def _consents(world: World, wanted: Wanted, keys: dict[str, Drive]) -> dict[str, str]:
    consents = dict(wanted.erase)
    for serial in sorted(consents):
        if serial in keys:
            continue
        same = [drive for drive in world.drives if serial and serial in (drive.serial, "%s_%s" % (drive.serial, drive.namespace))]
        if any(drive.system for drive in same):
            raise Refused(
                "SYSTEM_DISK", "nvme_raid0_erase names %s, and the system is on it; it is never erased. Take it out" % names(same)
            )
        what = (
            "%s, which is none of the drives of this array (%s)" % (names(same), few(sorted(keys), 16)) if same else "no drive of this node"
        )
        raise Refused(
            "CONSENT_UNKNOWN_SERIAL",
            "nvme_raid0_erase names %s: %s. Correct it, or read erase.yml anew" % (serial or "an empty serial", what),
        )
    return consents


def _stale(consents: dict[str, str], erase: dict[str, str], keys: dict[str, Drive]) -> None:
    """What a person read there must still be what is there. Raises Refused."""
    for key, text in sorted(erase.items()):
        told = " ".join(consents.get(key, "").split())
        if told and told != text:
            raise Refused(
                "CONSENT_STALE",
                "%s holds %s; nvme_raid0_erase was written for a drive that held %s. Read erase.yml anew (burnin provision --check)"
                % (names([keys[key]]), text, told[:500]),
                erase,
            )


def _readable(world: World, selected: tuple[Drive, ...]) -> None:
    for drive in selected:
        for area in drive.areas:
            if area.trouble:
                raise Refused(
                    "READ_FAILED",
                    "what is on %s of %s cannot be told: %s. Look at dmesg and nvme smart-log; where two tools disagree, empty it by hand"
                    % (area.name, names([drive]), area.trouble),
                )
    running = {array.name: array for array in world.arrays}
    for name in sorted({use.what for drive in selected for use in drive.uses if use.kind == "holder" and use.what in running}):
        if running[name].area.trouble:
            raise Refused("READ_FAILED", "what is on %s cannot be told: %s" % (name, running[name].area.trouble))


def _not_in_use(world: World, selected: tuple[Drive, ...]) -> None:
    """What would be written to is used by nothing but an array that is stopped first. Consent does not help here. Raises Refused."""
    arrays = {array.name for array in world.arrays}
    told = [
        "%s is %s" % (names([drive]), use.text())
        for drive in selected
        for use in drive.uses
        if not (use.kind == "holder" and use.what in arrays)
    ]
    if told:
        raise Refused(
            "DISK_IN_USE", "%s; a drive in use is never touched, with consent or without. Free it first" % few(sorted(set(told)), 16)
        )


def _whole_arrays(world: World, selected: tuple[Drive, ...], found: tuple[holding.Found, ...]) -> None:
    """An array reaches as far as its members do: one with members elsewhere is not touched (field report B13). Raises Refused."""
    for one in found:
        if one.outside:
            raise Refused(
                "ARRAY_FOREIGN_MEMBER",
                "the %s on %s also has %s, which is not among the drives for this array; erasing one would break the other. "
                "Select all of them, or take them apart by hand" % (one.text, few(one.inside, 16), few(one.outside, 16)),
            )
        if one.missing and any(area.trouble for drive in world.drives if drive not in selected for area in drive.areas):
            drive = next(drive for drive in world.drives if drive not in selected and any(area.trouble for area in drive.areas))
            raise Refused(
                "READ_FAILED",
                "the %s on %s lacks members, and %s cannot be read (%s): it may have them. Mend or remove it"
                % (one.text, few(one.inside, 16), names([drive]), next(area.trouble for area in drive.areas if area.trouble)),
            )


def _kept(world: World, wanted: Wanted, selected: tuple[Drive, ...], found: tuple[holding.Found, ...]) -> holding.Found | None:
    """The array that is right already; None where there is none at all. Raises Refused for one that is not, and for two."""
    raids = [one for one in found if one.kind == "md"]
    if not raids:
        return None
    if len(raids) > 1 or raids[0].twice:
        told = ["%s on %s" % (one.text, few(one.inside, 16)) for one in raids]
        told += ["place %d taken twice" % place for one in raids for place in one.twice]
        raise Refused("ARRAY_TWICE", "the drives carry %d arrays: %s; expected one or none. %s" % (len(raids), "; ".join(told), ERASE_HINT))
    one = raids[0]
    bare = [drive for drive in selected if not any(name in one.inside for name in [area.name for area in drive.areas])]
    if one.missing or one.failed or bare:
        raise Refused(
            "ARRAY_DEGRADED",
            "the %s is not whole: it has %s of %d members%s%s. A RAID0 without a member has no data to mend: bring the drive back, or erase. %s"
            % (
                one.text, len(one.inside), one.devices,
                "; failed: %s" % few(one.failed) if one.failed else "",
                "; %s is no member" % names(bare) if bare else "",
                ERASE_HINT,
            ),
        )  # fmt: skip
    wrong = _layout(wanted, selected, one) if one.superblocks else ["no superblock of it can be read"]
    if wrong:
        raise Refused(
            "ARRAY_LAYOUT",
            "the %s has another layout: %s. It is kept as it is: correct what is asked for, or erase. %s"
            % (one.text, "; ".join(wrong), ERASE_HINT),
        )
    settling.judge_content(world, wanted, one, ERASE_HINT)
    return one


def _layout(wanted: Wanted, selected: tuple[Drive, ...], one: holding.Found) -> list[str]:
    block = one.superblocks[0]
    pairs: list[tuple[str, Any, Any]] = [
        ("level", block.level, "raid0"), ("metadata", block.metadata, "1.2"), ("chunk", "%d KiB" % block.chunk_kib, "%d KiB" % wanted.chunk_kib),
        ("members", one.devices, len(selected)), ("on", few(sorted(one.inside), 16), few(sorted(drive.name for drive in selected), 16)),
    ]  # fmt: skip
    wrong = ["%s %s, expected %s" % (what, found, expected) for what, found, expected in pairs if found != expected]
    if len({replace(each, role=0) for each in one.superblocks}) > 1:
        wrong.append("its members do not agree with each other")
    return wrong
