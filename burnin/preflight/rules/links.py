"""Did each card's link come up as both its ends can? Of a link that did not, whose limit it is: the card's, the port's, or neither's.

A GPU of 16 lanes of Gen5 behind a port that can do Gen4 is the port's limit, and the port is named. A link at a lower *speed* than both ends
can is a doubt only: an idle link may rest. A link of fewer *lanes* is not: lanes do not come back under load.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burnin.preflight.case import Case, Raw, Rule, card_name, few
from burnin.preflight.expected import Expected

CODES = ("PCIE_CARD_LIMIT", "PCIE_PORT_LIMIT", "PCIE_WIDTH_LOW", "PCIE_SPEED_LOW")
SPEEDS_GTS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
MOST_TOLD = 3
Told = dict[str, list[tuple[str, str]]]  # code -> (sentence, confidence)


def judge(case: Case) -> Rule:
    """One finding a code, naming the cards."""
    if not case.judge_parts:
        return
    told: Told = {code: [] for code in CODES}
    for gpu in case.cards("gpus"):
        _ends(f"GPU {card_name(gpu)}", gpu, case.part("gpu_pcie_generation"), case.part("gpu_pcie_width"), told)
    for nic in case.own_nics():
        _ends(f"adapter {card_name(nic)}", nic, case.part("nic_pcie_generation"), case.part("nic_pcie_width"), told)
    for drive in case.cards("nvme"):
        _ends(f"drive {card_name(drive)}", drive, None, None, told)
    for switch, card in sorted(
        {str(card["switch"]): card for card in [*case.cards("gpus"), *case.own_nics()] if card.get("switch")}.items()
    ):
        _uplink(switch, card, told)
    for code, found in told.items():
        if found:
            doubtful = all(confidence == "low" for _, confidence in found)
            yield Raw(code, _sentences([sentence for sentence, _ in found]), "low" if doubtful else "high")


def _sentences(found: list[str]) -> str:
    more = f" And {len(found) - MOST_TOLD} more." if len(found) > MOST_TOLD else ""
    return " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in found[:MOST_TOLD]) + more


def _ends(name: str, card: Mapping[str, Any], generation: Expected | None, width: Expected | None, told: Told) -> None:
    """One card's link, in lanes and in speed."""
    speed = SPEEDS_GTS.get(int(generation.number)) if generation else None
    _judge(name, card, "width", "lanes", width.number if width else None, width, "PCIE_WIDTH_LOW", told)
    _judge(name, card, "speed_gts", "GT/s", speed, generation, "PCIE_SPEED_LOW", told)


def _judge(
    name: str, card: Mapping[str, Any], what: str, unit: str, wanted: float | None, source: Expected | None, low: str, told: Told
) -> None:
    now, card_most, port_most = (card.get(key) for key in (what, f"max_{what}", f"port_max_{what}"))
    confidence = source.confidence if source else "high"
    port = f"its port {card.get('port_address')}"
    if wanted and card_most and card_most < wanted:
        told["PCIE_CARD_LIMIT"].append((f"{name} says it can do {card_most:g} {unit}, {wanted:g} were expected", confidence))
    if wanted and port_most and port_most < wanted:
        told["PCIE_PORT_LIMIT"].append((f"{name} is held by {port}, which can do {port_most:g} of {wanted:g} {unit}", confidence))
    able = [most for most in (card_most, port_most, wanted) if most]
    # Without the other end there is no saying what both could do.
    if now and card_most and port_most and now < min(able):
        rest = ", read while idle" if low == "PCIE_SPEED_LOW" else ""
        told[low].append((f"{name} runs at {now:g} of {min(able):g} {unit} with {port}{rest}", "high"))


def _uplink(switch: str, card: Mapping[str, Any], told: Told) -> None:
    """The switch's own link to the processor, which all behind it share."""
    now, most = card.get("switch_width"), card.get("switch_max_width")
    if now and most and now < most:
        told["PCIE_WIDTH_LOW"].append((f"switch {switch}, which {card_name(card)} stands behind, runs at {now} of {most} lanes", "high"))


def _silent(card: Mapping[str, Any], what: str) -> bool:
    now, most, port = (card.get(key) for key in (what, f"max_{what}", f"port_max_{what}"))
    return not now or bool(most and now < most and not port)


def unknown(case: Case) -> str:
    """The cards whose link would not be told, for a sentence; also where it is less than the card can and its other end is not known."""
    silent = [
        card_name(card) for card in [*case.cards("gpus"), *case.own_nics()] if any(_silent(card, what) for what in ("width", "speed_gts"))
    ]
    return f"the links of {few(silent)}" if silent else ""
