"""Rule 8: faults that a node, a rack or the fleet shares, found before a GPU is blamed. Also rule 3's software cohorts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from statistics import median

from burnin.outcome import Outcome
from burnin.verdict.case import Case, Found, Where, finding
from burnin.verdict.measure import Cohort, Measured, line_ratio

Suppressed = dict[str, dict[str, tuple[Outcome, str]]]
Group = list[Measured]


def judge(case: Case) -> tuple[list[Found], Suppressed]:
    """The shared findings, and which parts may be neither condemned nor passed in which test because of them."""
    found: list[Found] = []
    suppressed: Suppressed = defaultdict(dict)
    by_test: dict[str, Group] = defaultdict(list)
    for one in case.measured:
        by_test[one.cohort.test].append(one)
    for _, group in sorted(by_test.items()):
        slow = _slow_nodes(case, group, found, suppressed)
        _slow_racks(case, group, slow, found)
        _environment(case, group, found, suppressed)
        _software(case, group, found, suppressed)
    return found, suppressed


def _by_node(group: Group) -> dict[str, Group]:
    nodes: dict[str, Group] = defaultdict(list)
    for one in group:
        if one.part.node is not None:
            nodes[one.part.node].append(one)
    return dict(sorted(nodes.items()))


def _bad_within(case: Case, one: Measured, others: Group) -> bool:
    """Slower than the line even against its own node's others: bad by itself, whatever the node is."""
    return bool(others) and one.ratio / median(other.ratio for other in others) < line_ratio(case.policy)


def _slow_together(case: Case, members: Group) -> list[Measured]:
    """The GPUs of one node that are slow as a node; empty when the node is not slow."""
    policy = case.policy
    each = 1 - policy.limit("node_each_pct") / 100
    least = max(policy.count("node_least_gpus"), math.ceil(policy.limit("node_share") * len(members)))
    slow_each = [one for one in members if one.ratio < each]
    whole = len(slow_each) >= least
    suspects = []
    for one in members:
        others = [other for other in members if other is not one]
        if _bad_within(case, one, others):
            continue
        large = len(members) >= policy.count("node_large_gpus")
        others_slow = large and median(other.ratio for other in others) < 1 - policy.limit("node_others_pct") / 100
        if whole or (others_slow and one.ratio < line_ratio(policy)):
            suspects.append(one)
    return suspects


def _slow_nodes(case: Case, group: Group, found: list[Found], suppressed: Suppressed) -> dict[str, Outcome]:
    slow: dict[str, Outcome] = {}
    for node, members in _by_node(group).items():
        suspects = _slow_together(case, members)
        if not suspects:
            continue
        over = [one for one in members if one.ratio < line_ratio(case.policy)]
        outcome = Outcome.FAIL if over else Outcome.REVIEW
        middle, test = median(one.ratio for one in members), members[0].cohort.test
        slow[node] = outcome
        why = f"Its GPUs are slow together in {test}: {len(suspects)} of {len(members)}, node median {(middle - 1) * 100:.1f} %."
        facts = {"test": test, "deviation_pct": (middle - 1) * 100, "cohort": members[0].cohort.name, "cohort_size": members[0].cohort.size}
        found.append((Where("node", node), finding("NODE_SLOW", outcome, why, cause="host", **facts)))
        for one in suspects:
            told = (Outcome.RETEST if over else Outcome.REVIEW, f"Its node is slow as a whole in {test} (NODE_SLOW).")
            suppressed[one.part.key][test] = told
    return slow


def _slow_racks(case: Case, group: Group, slow: dict[str, Outcome], found: list[Found]) -> None:
    racks: dict[str, set[str]] = defaultdict(set)
    for one in group:
        if one.part.rack is not None and one.part.node is not None:
            racks[one.part.rack].add(one.part.node)
    if len(racks) < 2:
        return
    for rack, nodes in sorted(racks.items()):
        bad = nodes & set(slow)
        if len(bad) >= max(case.policy.count("rack_least_nodes"), math.ceil(case.policy.limit("rack_share") * len(nodes))):
            outcome = Outcome.FAIL if Outcome.FAIL in {slow[node] for node in bad} else Outcome.REVIEW
            why = f"{len(bad)} of its {len(nodes)} nodes are slow in {group[0].cohort.test}; other racks are not."
            found.append((Where("rack", rack), finding("RACK_SLOW", outcome, why, test=group[0].cohort.test, cause="host")))


def _cohorts(group: Group) -> list[tuple[Cohort, Group]]:
    members: dict[str, Group] = defaultdict(list)
    for one in group:
        members[one.cohort.name].append(one)
    return [(ones[0].cohort, ones) for _, ones in sorted(members.items())]


def _environment(case: Case, group: Group, found: list[Found], suppressed: Suppressed) -> None:
    """The whole cohort under its SKU's sanity floor: the environment is suspect, not the parts."""
    for cohort, ones in _cohorts(group):
        skus = sorted({one.part.sku for one in ones if one.part.sku})
        floor = case.policy.floor(skus[0], cohort.test) if len(skus) == 1 and cohort.better == "higher" else None
        if floor is None or cohort.median >= floor:
            continue
        why = f"The median of {cohort.size} GPUs in {cohort.test} is {cohort.median:.5g} {cohort.unit}, under the sanity floor {floor:g} of {skus[0]}."
        facts = {"test": cohort.test, "value": cohort.median, "unit": cohort.unit, "cohort": cohort.name, "cohort_size": cohort.size}
        found.append((Where("fleet", ""), finding("ENVIRONMENT_SUSPECT", Outcome.FAIL, why, cause="host", **facts)))
        for one in ones:
            suppressed[one.part.key][cohort.test] = (Outcome.RETEST, "The whole cohort is under the sanity floor (ENVIRONMENT_SUSPECT).")


def _software(case: Case, group: Group, found: list[Found], suppressed: Suppressed) -> None:
    """Cohorts that differ in software only must agree, or the slower software hides inside its own cohort."""
    least, apart = case.policy.count("fingerprint_least_gpus"), case.policy.limit("fingerprint_apart_pct")
    large = [(cohort, ones) for cohort, ones in _cohorts(group) if cohort.size >= least]
    for (first, first_ones), (second, second_ones) in combinations(large, 2):
        if first.kin != second.kin:
            continue
        ratio = first.median / second.median if first.better == "higher" else second.median / first.median
        slower, ones, faster = (first, first_ones, second) if ratio < 1 else (second, second_ones, first)
        gap = (1 - min(ratio, 1 / ratio)) * 100
        if gap <= apart:
            continue
        why = (
            f"GPUs with software {slower.fingerprint} are {gap:.1f} % slower in {slower.test} than the same GPUs with {faster.fingerprint}."
        )
        facts = {"test": slower.test, "deviation_pct": -gap, "cohort": slower.name, "cohort_size": slower.size}
        found.append((Where("fleet", ""), finding("COHORTS_DIFFER", Outcome.FAIL, why, cause="host", **facts)))
        for one in ones:
            suppressed[one.part.key][slower.test] = (Outcome.RETEST, "Its software makes its whole cohort slow (COHORTS_DIFFER).")
