"""The GPUs that a node says it has, as parts; and which of them carry one identity twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from burnin.verdict.model import HEALTH_FLAGS, Health, NodeFacts, Part
from burnin.verdict.reading import Problems, mapping, reading, shown, text, whole

PLACEHOLDERS = ("n/a", "none", "unknown", "not specified", "to be filled by o.e.m.", "default string", "1234567890", "0123456789")
MOST_GPUS, MOST_SLOT = 256, 1023
MOST_NAMED = 4


def serial_text(value: object) -> str | None:
    """A serial as text, or None for one that identifies nothing (B55: vendors leave placeholders, or one letter repeated)."""
    serial = text(value, 80)
    return None if len(set(serial)) < 2 or serial.lower() in PLACEHOLDERS else serial


def parts_of(node: NodeFacts, identity: Mapping[str, Any], problems: Problems) -> list[Part] | None:
    """The parts in a node's identity; None when it holds no list of them, which is not the same as an empty list."""
    before, after = mapping(identity.get("before")), mapping(identity.get("after"))
    listed, later = before.get("gpus"), after.get("gpus")
    if not isinstance(listed, list):
        return None
    if len(listed) > MOST_GPUS:
        problems.note(f"identity.json lists {len(listed)} GPUs; more than {MOST_GPUS} in one node are not believed.")
        return None
    again = {text(gpu.get("gpu")): gpu for gpu in later[:MOST_GPUS] if isinstance(gpu, dict)} if isinstance(later, list) else None
    found: dict[str, Part] = {}
    for gpu in listed:
        name = text(gpu.get("gpu")) if isinstance(gpu, dict) else ""
        if not name:
            problems.note("identity.json lists a GPU without an id.")
        elif name in found:
            problems.note(f"identity.json lists {name} twice: one of the two is another GPU, or none.")
            found[name] = replace(found[name], duplicate_on=(node.node, node.node))
        else:
            found[name] = _part(node, name, gpu, again, text(before.get("fingerprint"), 40))
    return list(found.values())


def _part(node: NodeFacts, name: str, gpu: Mapping[str, Any], again: Mapping[str, Any] | None, fingerprint: str) -> Part:
    later = None if again is None else again.get(name)
    looks = [mapping(look.get("health")) for look in (gpu, mapping(later))]
    wrong = sorted(
        f"Its health flag {flag} reads {shown(look[flag])}: neither yes nor no."
        for flag in HEALTH_FLAGS
        for look in looks
        if not isinstance(look.get(flag), bool | None)
    )
    return Part(
        key=f"{node.node}|{name}",
        gpu=name,
        serial=serial_text(gpu.get("serial")),
        node=node.node,
        slot=whole(gpu.get("slot"), MOST_SLOT),
        rack=node.rack,
        position=node.position,
        pci=text(gpu.get("pci"), 40) or None,
        sku=node.sku,
        kin=_kin(gpu, _limit(gpu)),
        model=_kin(gpu, None),
        power_limit_w=min((limit for limit in map(_limit, (gpu, mapping(later))) if limit is not None), default=None),
        power_limit_default_w=reading(gpu.get("power_limit_default_w"), "power_w"),
        fingerprint=fingerprint.replace("/", "-"),
        max_operating_c=reading(gpu.get("max_operating_c"), "temp_c"),
        # A preflight may list what PCI shows before there is a driver to ask.
        has_sensors=gpu.get("kind") != "cpu" and (gpu.get("kind") != "pci" or node.burn_in),
        health=_health(looks[0], looks[1], gone=again is not None and later is None),
        invalid=tuple(dict.fromkeys(wrong)),
    )


def _limit(gpu: Mapping[str, Any]) -> float | None:
    return reading(gpu.get("power_limit_w"), "power_w")


def _kin(gpu: Mapping[str, Any], power: float | None) -> str:
    """What must be equal for two GPUs to be compared (B37). Pieces hold no slash, so no two kinds share a name."""
    pieces = (
        text(gpu.get("device_id"), 40) or "device?",
        text(gpu.get("form_factor"), 40) or "form?",
        f"{text(gpu.get('memory_mib'), 20) or '?'}MiB",
        "?W" if power is None else f"{power:g}W",
        _mode(gpu.get("ecc"), "ecc"),
        _mode(gpu.get("mig"), "mig"),
    )
    return "/".join(piece.replace("/", "-") for piece in pieces)


def _mode(value: object, name: str) -> str:
    return f"{name}?" if not isinstance(value, bool) else name if value else f"no{name}"


def _health(before: Mapping[str, Any], after: Mapping[str, Any], *, gone: bool) -> Health:
    """The worse of two looks: a flag that was up once counts."""

    def flag(name: str) -> bool | None:
        values = [look[name] for look in (before, after) if isinstance(look.get(name), bool)]
        return any(values) if values else None

    asked = [_action(look["recovery_action"]) for look in (after, before) if look.get("recovery_action") is not None]
    return Health(
        lost=True if gone else flag("lost"),
        row_remap_failure=flag("row_remap_failure"),
        row_remap_pending=flag("row_remap_pending"),
        sram_threshold_exceeded=flag("sram_threshold_exceeded"),
        recovery_action=next((action for action in asked if action != "none"), None),
    )


def _action(value: object) -> str:
    """A recovery action in our words; one that we do not know is still one that the driver asks for."""
    return text(value, 40).lower().replace(" ", "_") or "unknown"


def mark_duplicates(parts: Sequence[Part]) -> tuple[Part, ...]:
    """A UUID or a serial on two parts: both keep their record and neither can be condemned or passed (B55)."""
    homes: dict[tuple[str, str], list[str]] = defaultdict(list)
    for part in parts:
        for name in _names(part):
            homes[name].append(_place(part))
    named = {name: _few(sorted(places)) for name, places in homes.items() if len(places) > 1}
    result = []
    for part in parts:
        found = [named[name] for name in _names(part) if name in named]
        result.append(replace(part, duplicate_on=tuple(sorted({place for places in found for place in places}))) if found else part)
    return tuple(result)


def _names(part: Part) -> list[tuple[str, str]]:
    return [("gpu", part.gpu), *([("serial", part.serial)] if part.serial else [])]


def _place(part: Part) -> str:
    where = part.gpu if part.node is None else part.node
    return where if part.slot is None else f"{where} slot {part.slot}"


def _few(places: list[str]) -> list[str]:
    return places if len(places) <= MOST_NAMED else [*places[:MOST_NAMED], f"{len(places) - MOST_NAMED} more"]
