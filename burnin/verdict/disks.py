"""The drives that a node says it has, as parts that are compared with like drives; believed only as far as their types hold."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from typing import Any

from burnin.verdict.identity import serial_text
from burnin.verdict.model import Disk, NodeFacts, Part
from burnin.verdict.reading import Problems, mapping, text, whole

MOST_DISKS = 256
LARGEST_BYTES = 2**60
COUNTS = ("critical_warning", "media_errors", "percentage_used", "temp_c")


def disks_of(node: NodeFacts, identity: Mapping[str, Any], problems: Problems) -> list[Disk]:
    """The drives of the first look, each with what the second one says. None listed: a problem, for this run's plan tests drives."""
    before, after = mapping(identity.get("before")), mapping(identity.get("after"))
    listed, later = before.get("disks"), after.get("disks")
    if not isinstance(listed, list):
        problems.note("identity.json has no list of disks, and the plan tests them.")
        return []
    if len(listed) > MOST_DISKS:
        problems.note(f"identity.json lists {len(listed)} disks; more than {MOST_DISKS} in one node are not believed.")
        return []
    again = {text(disk.get("disk")): disk for disk in later if isinstance(disk, dict)} if isinstance(later, list) else None
    found: dict[str, Disk] = {}
    for disk in listed:
        name = text(disk.get("disk")) if isinstance(disk, dict) else ""
        if not name or name in found:
            problems.note(f"identity.json lists the disk {name!r} twice." if name else "identity.json lists a disk without a name.")
        else:
            found[name] = _disk(node, name, disk, again)
    return list(found.values())


def _disk(node: NodeFacts, name: str, disk: Mapping[str, Any], again: Mapping[str, Any] | None) -> Disk:
    later = None if again is None else mapping(again.get(name))
    gone = again is not None and name not in again
    size, model = whole(disk.get("size_bytes"), LARGEST_BYTES), text(disk.get("model"), 80) or None
    firmware = text(disk.get("firmware"), 40) or None
    part = Part(
        key=f"{node.node}|{name}",
        gpu=name,
        serial=serial_text(disk.get("serial")),
        node=node.node,
        rack=node.rack,
        position=node.position,
        pci=text(disk.get("pci"), 40) or None,
        kin=f"{(model or 'model?').replace('/', '-')}/{'?' if size is None else size}B",
        fingerprint=(firmware or "firmware?").replace("/", "-"),
    )
    looks = [mapping(disk.get("smart")), *([] if later is None else [mapping(later.get("smart"))])]
    worst = {name: max((count for look in looks if (count := whole(look.get(name))) is not None), default=None) for name in COUNTS}
    bits = [flags for look in looks if (flags := whole(look.get("critical_warning"))) is not None]
    worst["critical_warning"] = functools.reduce(operator.or_, bits) if bits else None
    before, newest = whole(looks[0].get("media_errors")), whole(looks[-1].get("media_errors"))
    return Disk(
        part=part,
        model=model,
        firmware=firmware,
        size_bytes=size,
        gone=gone,
        read_problem=text(mapping(later).get("read_problem"), 300) or None,
        smart_problem=next((told for look in reversed(looks) if (told := text(look.get("problem"), 300))), None),
        untold=_untold(looks, later, gone),
        new_media_errors=newest - before if before is not None and newest is not None and newest > before else 0,
        **worst,
    )


def _untold(looks: list[Mapping[str, Any]], later: Mapping[str, Any] | None, gone: bool) -> tuple[str, ...]:
    """What one of the two looks does not tell: a log that fell silent under load is no clean log. Of a drive that is gone, the first look alone."""
    if later is None:
        return COUNTS
    return tuple(name for name in COUNTS if any(whole(look.get(name)) is None for look in (looks[:1] if gone else looks)))
