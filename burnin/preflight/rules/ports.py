"""The ports of the GPUs' own adapters: link layer, state, who manages them, width and rate, and what they have counted since the boot.

A port is one vote and is named once a code. What no driver has told yet is not judged; what a driver keeps to itself is told as unknown.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from burnin.preflight.case import Case, Raw, Rule, card_name, few
from burnin.readers import known
from burnin.readers.rates import Rate, short_of

CODES = ("NIC_LINK_LAYER", "NIC_DOWN", "NIC_NO_SUBNET_MANAGER", "NIC_WIDTH_LOW", "NIC_RATE_LOW", "NIC_ERRORS", "NIC_FLAPS")
IB, ETHERNET = "InfiniBand", "Ethernet"
LEAST_ALIKE, MOST = 3, 1e12
HEADS = {
    "NIC_DOWN": "Not active: ", "NIC_NO_SUBNET_MANAGER": "Not managed: ", "NIC_ERRORS": "Errors since the boot: ",
    "NIC_FLAPS": "Links that went down again and again: ",
}  # fmt: skip


class Told(NamedTuple):
    """One port under one code. `action` "": the code's own."""

    code: str
    why: str
    confidence: str = "high"
    action: str = ""


def judge(case: Case) -> Rule:
    """One finding a code, naming the ports."""
    if not case.judge_parts:
        return
    found: dict[str, list[Told]] = defaultdict(list)
    for one in _ports(case):
        found[one.code].append(one)
    for code in CODES:
        if code in found:
            yield _raw(code, found[code])


def _raw(code: str, found: list[Told]) -> Raw:
    actions = list(dict.fromkeys(one.action for one in found if one.action))
    doubtful = all(one.confidence == "low" for one in found)
    return Raw(code, f"{HEADS.get(code, '')}{few([one.why for one in found])}.", "low" if doubtful else "high", _joined(actions))


def _joined(actions: list[str]) -> str:
    return " ".join(f"{action}." for action in actions)


def _ports(case: Case) -> Iterable[Told]:
    own = [nic for nic in case.own_nics() if nic.get("rdma")]
    usual = _usual(own)
    for nic in own:
        yield from _layer(case, nic)
        if nic.get("state") not in (None, "ACTIVE"):
            yield _inactive(nic)
        elif nic.get("state") == "ACTIVE":
            yield from _unmanaged(nic)
            yield from _slow(case, nic, usual)
        yield from _counted(case, nic)


def _layer(case: Case, nic: Mapping[str, Any]) -> Iterable[Told]:
    wanted, layer = case.part("nic_link_layer"), nic.get("link_layer")
    if wanted is None or layer in (None, wanted.value):
        return
    line = known.link_type_line(nic.get("address"), nic.get("port"), str(wanted.value))
    change = f"; this would change it: `{line}`" if line else ""
    yield Told("NIC_LINK_LAYER", f"{card_name(nic)} is set to {layer}, {wanted.value} was expected{change}", wanted.confidence)


def _inactive(nic: Mapping[str, Any]) -> Told:
    state, physical = _text(nic.get("state")), _text(nic.get("physical_state"))
    cause = known.cause_of(state, physical)
    if nic.get("link_layer") == ETHERNET and nic.get("netdev_up") is False:
        name = _text(nic.get("netdev"))
        cause = known.Cause(f"its network device {name} is not up", f"{name}: bring the network device up (`ip link`), then look again")
    # An Ethernet port has no subnet manager, whatever its state is called.
    code = "NIC_NO_SUBNET_MANAGER" if cause.manager and nic.get("link_layer") != ETHERNET else "NIC_DOWN"
    return Told(code, f"{card_name(nic)} is {state} ({cause.cause})", action=cause.action)


def _unmanaged(nic: Mapping[str, Any]) -> Iterable[Told]:
    """A port that says ACTIVE and has no address, or nobody who gave it: what it had was lost with its subnet manager."""
    lacking = [name for name, key in (("LID", "lid"), ("SM LID", "sm_lid")) if nic.get(key) == 0]
    if nic.get("link_layer") == IB and lacking:
        action = "LID 0: start the subnet manager again, or reset the port so that it is configured anew"
        yield Told(
            "NIC_NO_SUBNET_MANAGER",
            f"{card_name(nic)} is ACTIVE with {' and '.join(lacking)} 0 (no subnet manager holds it)",
            action=action,
        )


def _rate(nic: Mapping[str, Any]) -> Rate:
    """What the port carries; an Ethernet port that does not say is asked over its network device."""
    rate, speed, lanes = (_number(nic.get(name)) for name in ("rate_gb_s", "netdev_speed_mb_s", "link_width"))
    if rate is None and speed is not None:
        rate = speed / 1000
    return Rate(rate, int(lanes) if lanes else None, _text(nic.get("link_speed")))


def _kind(nic: Mapping[str, Any]) -> tuple[str, str]:
    return str(nic.get("board_id") or nic.get("device")), str(nic.get("link_layer"))


def _usual(own: list[Mapping[str, Any]]) -> dict[tuple[str, str], Rate]:
    """What most of the active ports of one board run at, where there are enough of them; where no rate is expected, that is."""
    alike: dict[tuple[str, str], list[Rate]] = defaultdict(list)
    for nic in own:
        if nic.get("state") == "ACTIVE" and _rate(nic).known_gb_s is not None:
            alike[_kind(nic)].append(_rate(nic))
    found = {}
    for kind, rates in alike.items():
        usual, count = Counter(rates).most_common(1)[0]
        if len(rates) >= LEAST_ALIKE and 2 * count > len(rates):
            found[kind] = usual
    return found


def _slow(case: Case, nic: Mapping[str, Any], usual: Mapping[tuple[str, str], Rate]) -> Iterable[Told]:
    """Against what was bought; where that is not said, against its equals in the node."""
    rate, width = case.part("nic_rate_gb_s"), case.part("nic_link_width")
    if rate is not None:
        wanted, confidence, as_others = Rate(rate.number, int(width.number) if width else None), rate.confidence, ""
    else:
        wanted, confidence, as_others = usual.get(_kind(nic), Rate(None)), "high", ", as others like it do"
    short = short_of(_rate(nic), wanted)
    if short is not None:
        code = "NIC_WIDTH_LOW" if short.of == "width" else "NIC_RATE_LOW"
        yield Told(code, f"{card_name(nic)} {short.why}{as_others}", confidence)


def _counted(case: Case, nic: Mapping[str, Any]) -> Iterable[Told]:
    """Counts since the boot against what so many hours may bring. One look cannot say when they came: a REVIEW at most."""
    hours = _hours(case)
    if hours is None:
        return
    over: dict[str, list[str]] = defaultdict(list)
    for limit in known.counters().values():
        count = _counts(nic).get(limit.name)
        if count is not None and limit.exceeded(count, hours):
            over[limit.of].append(f"{limit.name} {'at least ' if count >= limit.full else ''}{count}")
    for of, code in (("errors", "NIC_ERRORS"), ("flaps", "NIC_FLAPS")):
        if over[of]:
            yield Told(code, f"{card_name(nic)} has {', '.join(over[of])} in {hours:.3g} h")


def _counts(nic: Mapping[str, Any]) -> dict[str, int]:
    told = nic.get("counters")
    found = {**(told if isinstance(told, Mapping) else {}), "carrier_changes": nic.get("carrier_changes")}
    return {name: count for name, count in found.items() if isinstance(count, int) and not isinstance(count, bool)}


def _hours(case: Case) -> float | None:
    uptime = _number(case.fact("uptime_s"))
    return None if uptime is None else uptime / 3600


def _number(value: object) -> float | None:
    """A number above zero; None for anything else that a node may have written there."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < MOST else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def unknown(case: Case) -> list[str]:
    """What the driver of an own port would not say, for sentences."""
    own = [nic for nic in case.own_nics() if nic.get("rdma")]
    active = [nic for nic in own if nic.get("state") == "ACTIVE"]
    wanted = case.part("nic_rate_gb_s") is not None
    silent = {
        "the state of": [nic for nic in own if nic.get("state") is None],
        "the rate of": [nic for nic in active if wanted and _rate(nic).known_gb_s is None],
        "the LIDs of": [nic for nic in active if nic.get("link_layer") == IB and None in (nic.get("lid"), nic.get("sm_lid"))],
        "what was counted at": [nic for nic in own if nic.get("link_layer") == IB and not _counts(nic)],
    }
    told = [f"{what} {few([*map(card_name, nics)])}" for what, nics in silent.items() if nics]
    counting = any(count for nic in own for count in _counts(nic).values())
    return [*told, *(["how long its ports have counted"] if counting and _hours(case) is None else [])]
