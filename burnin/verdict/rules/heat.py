"""Rule 5: heat, judged apart from speed, on medians of steady windows."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from burnin.outcome import Outcome
from burnin.verdict.case import Case, Found, Where, finding
from burnin.verdict.measure import MAD_TO_SIGMA, Measured
from burnin.verdict.model import Finding


def judge(case: Case) -> Iterator[Found]:
    """One finding on temperature per part (its hottest test), and one per test in which the hardware slowed it down."""
    hottest: dict[str, Measured] = {}
    by_slot: dict[tuple[str, int, str], list[Measured]] = defaultdict(list)
    for one in case.measured:
        temp = one.state["temp_c"]
        if temp is None:
            continue
        if one.part.key not in hottest or temp > (hottest[one.part.key].state["temp_c"] or -math.inf):
            hottest[one.part.key] = one
        if one.part.slot is not None:
            by_slot[(one.part.kin, one.part.slot, one.cohort.test)].append(one)
    known = {one.part.key for one in case.measured}
    for part in case.evidence.parts:
        if not part.judge_heat or (case.evidence.from_table and part.key not in hottest):
            continue
        mine = hottest.get(part.key)
        if mine is None:
            if part.key in known:
                yield Where("gpu", part.key), finding("HEAT_UNKNOWN", Outcome.INCONCLUSIVE, "Its temperature was never read under load.")
            continue
        peers = by_slot.get((part.kin, part.slot, mine.cohort.test), []) if part.slot is not None else []
        yield Where("gpu", part.key), _temperature(case, mine, [peer for peer in peers if peer.part.node != part.node])
    yield from _slowdowns(case)


def margin_c(case: Case, one: Measured) -> float | None:
    """Degrees to the maximum operating temperature. A reading of 0 or less is some drivers' way to say unknown (gpud#1208)."""
    temp, limit = one.state["temp_c"], one.part.max_operating_c or case.policy.max_operating_c(one.part.sku)
    if temp is not None and limit:
        return limit - temp
    told = one.state["margin_c"]
    return told if told is not None and told > 0 else None


def _temperature(case: Case, one: Measured, peers: list[Measured]) -> Finding:
    policy, temp = case.policy, one.state["temp_c"]
    assert temp is not None
    margin = margin_c(case, one)
    enough = len(peers) >= policy.count("heat_slot_least_peers")
    middle = median(peer.state["temp_c"] or 0.0 for peer in peers) if peers else None
    facts = {
        "test": one.cohort.test, "value": temp, "unit": "C", "windows": one.windows, "cohort": one.cohort.name,
        "median": middle if enough else one.cohort.temp_c,
        "evidence": {"margin_c": margin, "slot_peers": len(peers), "slot_median_c": middle, "power_w": one.state["power_w"]},
    }  # fmt: skip
    if margin is not None and margin < policy.limit("heat_margin_c"):
        why = f"{temp:.1f} C steady, {margin:.1f} C from its maximum operating temperature."
        return finding("HEAT_NEAR_LIMIT", Outcome.REVIEW, why, cause="heat", **facts)
    if enough and middle is not None:
        excess = temp - middle
        spread = MAD_TO_SIGMA * median(abs((peer.state["temp_c"] or 0.0) - middle) for peer in peers)
        z = excess / max(policy.limit("heat_slot_sigma_floor_c"), spread)
        if excess > policy.limit("heat_slot_excess_c") and z > policy.limit("heat_slot_robust_z"):
            why = f"{temp:.1f} C steady, {excess:.1f} C over the {len(peers)} GPUs in slot {one.part.slot} of other nodes."
            return finding("HEAT_OVER_SLOT_PEERS", Outcome.REVIEW, why, cause="heat", **facts)
    elif margin is None and one.cohort.temp_c is not None and temp - one.cohort.temp_c > policy.limit("heat_cohort_excess_c"):
        why = f"{temp:.1f} C steady, {temp - one.cohort.temp_c:.1f} C over the cohort's median (limit and slot unknown: low confidence)."
        return finding("HEAT_OVER_COHORT", Outcome.REVIEW, why, cause="heat", **facts)
    return finding("HEAT_OK", Outcome.PASS, f"{temp:.1f} C steady.", **facts)


def _slowdowns(case: Case) -> Iterator[Found]:
    """Hardware thermal slowdown: the part's own, or shared with its node or its slot's peers."""
    slowed: dict[str, list[Measured]] = defaultdict(list)
    for one in case.measured:
        if one.thermal_windows:
            slowed[one.cohort.test].append(one)
    for test, ones in sorted(slowed.items()):
        everyone = [one for one in case.measured if one.cohort.test == test]
        hot_nodes, hot_racks = _shared(case, everyone, {one.part.key for one in ones})
        for node, count in sorted(hot_nodes.items()):
            why = f"{count} of its GPUs throttle on heat together in {test}."
            yield Where("node", node), finding("NODE_HOT", Outcome.FAIL, why, test=test, cause="heat")
        for rack, slot in sorted(hot_racks):
            why = f"Slot {slot} throttles on heat in half of its nodes or more in {test}."
            yield Where("rack" if rack else "fleet", rack), finding("RACK_HOT", Outcome.FAIL, why, test=test, cause="heat")
        for one in ones:
            part = one.part
            shared = (part.node or "") in hot_nodes or (part.slot is not None and (part.rack or "", part.slot) in hot_racks)
            yield Where("gpu", part.key), _slowdown(case, one, shared)


def _slowdown(case: Case, one: Measured, shared: bool) -> Finding:
    policy = case.policy
    confirmed = one.thermal_windows >= policy.count("thermal_windows") and one.thermal_starts >= policy.count("thermal_starts")
    outcome = Outcome.RMA if confirmed and not shared else Outcome.RETEST
    fraction = (one.state["hw_thermal_fraction"] or 0.0) * 100
    told = f"The hardware slowed it down for heat in {one.thermal_windows} of {one.windows} windows of {one.starts} starts (median {fraction:.0f} % of the time)"
    tail = (
        "; its neighbours throttle too, so the air is suspect."
        if shared
        else "; its slot peers do not throttle."
        if confirmed
        else "; seen too seldom to condemn it."
    )
    evidence = {"thermal_windows": one.thermal_windows, "thermal_starts": one.thermal_starts, "temp_c": one.state["temp_c"]}
    facts = {"test": one.cohort.test, "value": fraction, "unit": "% of the time", "windows": one.windows, "evidence": evidence}
    return finding("THERMAL_SLOWDOWN", outcome, told + tail, cause="heat", **facts)


def _shared(case: Case, everyone: list[Measured], slowed: set[str]) -> tuple[dict[str, int], set[tuple[str, int]]]:
    """Nodes of which the usual share throttles, and (rack, slot) of which half of the peers do."""
    nodes: dict[str, list[bool]] = defaultdict(list)
    slots: dict[tuple[str, int], list[bool]] = defaultdict(list)
    for one in everyone:
        hit = one.part.key in slowed
        if one.part.node is not None:
            nodes[one.part.node].append(hit)
        if one.part.slot is not None:
            slots[(one.part.rack or "", one.part.slot)].append(hit)
    policy = case.policy
    least = policy.count("node_least_gpus")
    hot_nodes = {
        node: sum(hits) for node, hits in nodes.items() if sum(hits) >= max(least, math.ceil(policy.limit("node_share") * len(hits)))
    }
    share = policy.limit("thermal_shared_share")
    hot_slots = {key for key, hits in slots.items() if sum(hits) >= max(2, math.ceil(share * len(hits)))}
    return hot_nodes, hot_slots
