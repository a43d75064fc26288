"""Rule 8, last sentence: in a test of scope `node` one GPU sets the pace of all, so its value names none. The node has the finding.

The limiting GPU is named by what it shows beside the value: the lowest clock, else the most heat for its slot. It is a REVIEW, never more.
"""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import NamedTuple

from burnin.outcome import Outcome
from burnin.verdict.case import Case, Found, Where, finding
from burnin.verdict.measure import Measured
from burnin.verdict.rules.heat import Slots
from burnin.verdict.rules.speed import why_small

UNKNOWN = "NODE_STEP_UNKNOWN"


class _Node(NamedTuple):
    """A node in one test: what its GPUs did together. `one` stands for them all; counts are those of the GPU that shows the least."""

    ones: list[Measured]
    one: Measured
    ratio: float
    windows: int
    confirmed: bool


def slow_nodes(case: Case, nodes: dict[str, list[Measured]], found: list[Found]) -> dict[str, Outcome]:
    """node -> FAIL, RETEST or REVIEW of each that is slow in step; the findings go to `found`."""
    slow: dict[str, Outcome] = {}
    slots = Slots(case)
    for name, members in nodes.items():
        node = _node(case, members)
        outcome, told = _outcome(case, node)
        if outcome is None:
            continue
        cohort = node.one.cohort
        facts = {"test": cohort.test, "value": node.one.value, "unit": cohort.unit, "median": cohort.median, "cohort": cohort.name}
        facts |= {"cohort_size": cohort.size, "windows": node.windows, "deviation_pct": (node.ratio - 1) * 100}
        if outcome is Outcome.INCONCLUSIVE:
            found.append((Where("node", name), finding(UNKNOWN, outcome, told, **facts)))
            continue
        slow[name] = outcome
        limiting = _limiting(case, node, slots)
        tail = "No GPU of it stands out by clock or heat."
        if limiting is not None:
            one, why = limiting
            place = one.part.gpu if one.part.slot is None else f"slot {one.part.slot}"
            tail = f"Look at {place} first: {why}."
            review = f"Its node is slow in {cohort.test}, where all wait for the slowest: it has {why}."
            found.append((Where("gpu", one.part.key), finding("LIMITING_GPU", Outcome.REVIEW, review, test=cohort.test)))
        found.append((Where("node", name), finding("NODE_SLOW", outcome, f"{told} {tail}", cause="host", **facts)))
    return slow


def _node(case: Case, members: list[Measured]) -> _Node:
    """The GPUs of one node that are held to the same median: those of its largest cohort."""
    counts = Counter(one.cohort.name for one in members)
    name = max(sorted(counts), key=lambda name: counts[name])
    ones = [one for one in members if one.cohort.name == name]
    windows, starts = case.policy.count("perf_windows_over"), case.policy.count("perf_starts_over")
    return _Node(
        ones,
        sorted(ones, key=lambda one: one.value)[len(ones) // 2],
        median(one.ratio for one in ones),
        min(one.windows for one in ones),
        all(one.over >= windows and one.over_starts >= starts for one in ones),
    )


def _outcome(case: Case, node: _Node) -> tuple[Outcome | None, str]:
    policy, test, few = case.policy, node.one.cohort.test, why_small(case, node.one)
    told = f"It is {abs(node.ratio - 1) * 100:.1f} % below the median in {test}, which its GPUs do in step."
    if node.windows < policy.count("perf_least_windows"):
        return Outcome.INCONCLUSIVE, f"{node.windows} steady windows in {test}; a verdict needs {policy.count('perf_least_windows')}."
    if few:
        return Outcome.INCONCLUSIVE, f"Nothing to hold its {test} against: {few}."
    if node.ratio < policy.slower_than("perf_below_median_pct"):
        return (
            (Outcome.FAIL, told)
            if node.confirmed
            else (Outcome.RETEST, f"{told} Seen in too few windows or starts to say that it stays so.")
        )
    if node.ratio < policy.slower_than("node_each_pct"):
        return Outcome.REVIEW, told
    return None, ""


def _limiting(case: Case, node: _Node, slots: Slots) -> tuple[Measured, str] | None:
    """Who sets the pace, and by what it is known; None when nobody stands out."""
    clocks = [(clock, one) for one in node.ones if (clock := one.state["sm_clock_mhz"]) is not None]
    if len(clocks) > 1:
        lowest, one = min(clocks, key=lambda pair: (pair[0], pair[1].part.key))
        others = median(clock for clock, other in clocks if other is not one)
        if lowest < others * case.policy.slower_than("cause_clock_low_pct"):
            return one, f"the lowest clock, {lowest:.0f} MHz (the others {others:.0f})"
    warm = []
    for one in node.ones:
        _count, middle = slots.peers(one)
        temp = one.state["temp_c"]
        if middle is not None and temp is not None:
            warm.append((temp - middle, temp, one))
    if not warm:
        return None
    excess, temp, one = max(warm, key=lambda told: (told[0], told[2].part.key))
    if not case.policy.exceeds(excess, "heat_slot_sigma_floor_c"):
        return None
    return one, f"the most heat for its slot, {temp:.0f} C ({excess:.0f} C over the same slot of other nodes)"
