"""Rule 5, second half: hardware thermal slowdown, the part's own or shared with its node or with its slot in the rack."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from burnin.outcome import Outcome
from burnin.verdict.case import Case, Found, Where, finding
from burnin.verdict.measure import Measured
from burnin.verdict.model import Finding
from burnin.verdict.rules.shared import Suppressed

Slot = tuple[str, str, int]  # rack, kin, slot


@dataclass(frozen=True, slots=True)
class _Test:
    """One test: who was slowed down, which nodes and slots share it, and how many peers each slot has in other nodes."""

    slowed: list[Measured]
    nodes: dict[str, int]
    slots: dict[Slot, int]
    peers: dict[tuple[str, int], set[str]]

    def shared_by(self, one: Measured) -> str:
        """The code of the shared fault that it is under, or ''."""
        if (one.part.node or "") in self.nodes:
            return "NODE_HOT"
        slot = _slot(one)
        return "RACK_HOT" if slot is not None and slot in self.slots else ""


def judge(case: Case) -> tuple[list[Found], Suppressed]:
    """The findings, and which parts may be neither condemned nor passed in which test because the heat is shared."""
    found: list[Found] = []
    suppressed: Suppressed = defaultdict(dict)
    by_test: dict[str, list[Measured]] = defaultdict(list)
    for one in case.measured:
        by_test[one.cohort.test].append(one)
    for test, everyone in sorted(by_test.items()):
        seen = _look(case, everyone)
        confirmed = any(_confirmed(case, one) and seen.shared_by(one) for one in seen.slowed)
        outcome = Outcome.FAIL if confirmed else Outcome.RETEST
        for node, count in sorted(seen.nodes.items()):
            why = f"{count} of its GPUs throttle on heat together in {test}."
            found.append((Where("node", node), finding("NODE_HOT", outcome, why, test=test, cause="heat")))
        for (rack, _, slot), count in sorted(seen.slots.items()):
            why = f"Slot {slot} throttles on heat in {count} nodes, half of those measured or more, in {test}."
            found.append((Where("rack" if rack else "fleet", rack), finding("RACK_HOT", outcome, why, test=test, cause="heat")))
        for one in everyone:
            code = seen.shared_by(one)
            if code:
                suppressed[one.part.key][test] = (Outcome.RETEST, f"The heat is shared in {test} ({code}).", "heat")
        found += [(Where("gpu", one.part.key), _slowdown(case, one, seen)) for one in seen.slowed]
    return found, suppressed


def _slot(one: Measured) -> Slot | None:
    return None if one.part.slot is None else (one.part.rack or "", one.part.kin, one.part.slot)


def _look(case: Case, everyone: list[Measured]) -> _Test:
    nodes: dict[str, list[bool]] = defaultdict(list)
    slots: dict[Slot, list[bool]] = defaultdict(list)
    peers: dict[tuple[str, int], set[str]] = defaultdict(set)
    for one in everyone:
        slot = _slot(one)
        if one.part.node is not None:
            nodes[one.part.node].append(one.thermal_windows > 0)
            if slot is not None:
                peers[slot[1:]].add(one.part.node)
        if slot is not None:
            slots[slot].append(one.thermal_windows > 0)
    least, node_share = case.policy.count("node_least_gpus"), case.policy.limit("node_share")
    share = case.policy.limit("thermal_shared_share")
    return _Test(
        slowed=[one for one in everyone if one.thermal_windows],
        nodes={node: sum(hits) for node, hits in nodes.items() if sum(hits) >= max(least, math.ceil(node_share * len(hits)))},
        slots={slot: sum(hits) for slot, hits in slots.items() if sum(hits) >= max(2, math.ceil(share * len(hits)))},
        peers=peers,
    )


def _confirmed(case: Case, one: Measured) -> bool:
    return one.thermal_windows >= case.policy.count("thermal_windows") and one.thermal_starts >= case.policy.count("thermal_starts")


def _slowdown(case: Case, one: Measured, seen: _Test) -> Finding:
    """RMA only when confirmed, and its slot's peers in other nodes are there and do not throttle."""
    slot = _slot(one)
    peers = len(seen.peers[slot[1:]] - {one.part.node}) if slot is not None and one.part.node is not None else 0
    outcome = Outcome.RETEST
    if seen.shared_by(one):
        tail = "its neighbours throttle too, so the air is suspect."
    elif not _confirmed(case, one):
        tail = "seen too seldom to condemn it."
    elif peers < case.policy.count("thermal_least_peers"):
        tail = f"only {peers} other nodes show the same slot, too few to tell the part from the air."
    else:
        outcome, tail = Outcome.RMA, "its slot peers do not throttle."
    fraction = (one.state["hw_thermal_fraction"] or 0.0) * 100
    told = f"The hardware slowed it down for heat in {one.thermal_windows} of {one.windows} windows, in {one.thermal_starts} of {one.starts} starts"
    evidence = {
        "thermal_windows": one.thermal_windows,
        "thermal_starts": one.thermal_starts,
        "slot_peers": peers,
        "temp_c": one.state["temp_c"],
    }
    facts = {"test": one.cohort.test, "value": fraction, "unit": "% of the time", "windows": one.windows, "evidence": evidence}
    if outcome is Outcome.RMA:
        facts["action"] = "Take the vendor's field diagnostic and open an RMA with this evidence: the air is not the reason."
    return finding("THERMAL_SLOWDOWN", outcome, f"{told} (median {fraction:.0f} % of the time); {tail}", cause="heat", **facts)
