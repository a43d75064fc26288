"""Rule 8: faults that a node, a rack or the fleet shares, found before a GPU is blamed. Also rule 3's software cohorts."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import median

from burnin.outcome import Outcome
from burnin.verdict.case import Case, Found, Where, finding
from burnin.verdict.measure import Cohort, Measured
from burnin.verdict.measure import in_step as is_in_step
from burnin.verdict.peers import Peers
from burnin.verdict.rules import in_step

Suppressed = dict[str, dict[str, tuple[Outcome, str, str]]]
Group = list[Measured]


def judge(case: Case) -> tuple[list[Found], Suppressed]:
    """The shared findings, and which parts may be neither condemned nor passed in which test because of them."""
    found: list[Found] = []
    suppressed: Suppressed = defaultdict(dict)
    by_test: dict[str, Group] = defaultdict(list)
    for one in case.measured:
        by_test[one.cohort.test].append(one)
    for test, group in sorted(by_test.items()):
        slow = in_step.slow_nodes(case, _by_node(group), found) if is_in_step(test) else _slow_nodes(case, group, found, suppressed)
        _slow_racks(case, group, slow, found, suppressed)
        cohorts = _cohorts(group)
        for cohort, ones in cohorts:
            _environment(case, cohort, ones, found, suppressed)
            _spread(case, cohort, found)
        _software(case, cohorts, found, suppressed)
    return found, suppressed


def _over(case: Case, one: Measured) -> bool:
    return one.ratio < case.policy.slower_than("perf_below_median_pct")


def _by_node(group: Group) -> dict[str, Group]:
    nodes: dict[str, Group] = defaultdict(list)
    for one in group:
        if one.part.node is not None:
            nodes[one.part.node].append(one)
    return dict(sorted(nodes.items()))


def _slow_together(case: Case, members: Group) -> Group:
    """The GPUs of one node that are slow as a node; empty when the node is not slow.

    In a large node the other GPUs' median is a yardstick of its own: who is over the line even against it is bad by itself, and stays so.
    """
    policy = case.policy
    each = policy.slower_than("node_each_pct")
    least = max(policy.count("node_least_gpus"), math.ceil(policy.limit("node_share") * len(members)))
    whole = sum(one.ratio < each for one in members) >= least
    if len(members) < policy.count("node_large_gpus"):
        return members if whole else []
    ratios = Peers(one.ratio for one in members)
    others = {one.part.key: ratios.median_without([one.ratio]) or 1.0 for one in members}
    alike = [one for one in members if one.ratio / others[one.part.key] >= policy.slower_than("perf_below_median_pct")]
    low = policy.slower_than("node_others_pct")
    return alike if whole or any(others[one.part.key] < low for one in alike) else []


def _slow_nodes(case: Case, group: Group, found: list[Found], suppressed: Suppressed) -> dict[str, Outcome]:
    slow: dict[str, Outcome] = {}
    for node, members in _by_node(group).items():
        alike = _slow_together(case, members)
        if not alike:
            continue
        over = any(_over(case, one) for one in members)
        slow[node] = outcome = Outcome.FAIL if over else Outcome.REVIEW
        middle, cohort = median(one.ratio for one in members), members[0].cohort
        why = f"Its GPUs are slow together in {cohort.test}: {len(alike)} of {len(members)}, node median {(middle - 1) * 100:.1f} %."
        facts = {"test": cohort.test, "deviation_pct": (middle - 1) * 100, "cohort": cohort.name, "cohort_size": cohort.size}
        found.append((Where("node", node), finding("NODE_SLOW", outcome, why, cause="host", **facts)))
        told = f"Its node is slow as a whole in {cohort.test} (NODE_SLOW)."
        for one in alike:
            suppressed[one.part.key][cohort.test] = (Outcome.RETEST if over else Outcome.REVIEW, told, "host")
    return slow


def _slow_racks(case: Case, group: Group, slow: dict[str, Outcome], found: list[Found], suppressed: Suppressed) -> None:
    racks: dict[str, set[str]] = defaultdict(set)
    for one in group:
        if one.part.rack is not None and one.part.node is not None:
            racks[one.part.rack].add(one.part.node)
    if len(racks) < 2:
        return
    test, total = group[0].cohort.test, sum(len(nodes) for nodes in racks.values())
    outcomes: dict[str, Outcome] = {}
    for rack, nodes in sorted(racks.items()):
        bad = nodes & set(slow)
        if len(bad) < max(case.policy.count("rack_least_nodes"), math.ceil(case.policy.limit("rack_share") * len(nodes))):
            continue
        outcomes[rack] = Outcome.FAIL if Outcome.FAIL in {slow[node] for node in bad} else Outcome.REVIEW
        elsewhere = f"{sum(len(other & set(slow)) for other in racks.values()) - len(bad)} of the {total - len(nodes)} nodes of other racks"
        why = f"{len(bad)} of its {len(nodes)} nodes are slow in {test}; {elsewhere} are."
        found.append((Where("rack", rack), finding("RACK_SLOW", outcomes[rack], why, test=test, cause="host")))
    for one in group:
        outcome = outcomes.get(one.part.rack or "")
        if outcome is not None and test not in suppressed[one.part.key] and not _over(case, one):
            told = f"Its rack is slow as a whole in {test} (RACK_SLOW)."
            suppressed[one.part.key][test] = (Outcome.RETEST if outcome is Outcome.FAIL else Outcome.REVIEW, told, "host")


def _cohorts(group: Group) -> list[tuple[Cohort, Group]]:
    members: dict[str, Group] = defaultdict(list)
    for one in group:
        members[one.cohort.name].append(one)
    return [(ones[0].cohort, ones) for _, ones in sorted(members.items())]


def _environment(case: Case, cohort: Cohort, ones: Group, found: list[Found], suppressed: Suppressed) -> None:
    """The whole cohort under its SKU's sanity floor, or under the reference: the environment is suspect, not the parts."""
    policy, own = case.policy, cohort.own_median
    skus = sorted({one.part.sku for one in ones if one.part.sku})
    floor = policy.floor(skus[0], cohort.test) if len(skus) == 1 and cohort.better == "higher" else None
    low = policy.slower_than("fingerprint_apart_pct")
    if floor is not None and own < floor:
        told = f"under the sanity floor {floor:g} of {skus[0]}"
    elif cohort.given is not None and cohort.size >= policy.count("fingerprint_least_gpus") and cohort.rate_ratio(own, cohort.given) < low:
        told = f"{(1 - cohort.rate_ratio(own, cohort.given)) * 100:.1f} % slower than the reference, {cohort.given:.5g}"
    else:
        return
    why = f"The median of {cohort.size} GPUs in {cohort.test} is {own:.5g} {cohort.unit or ''}, {told}."
    facts = {"test": cohort.test, "value": own, "unit": cohort.unit, "cohort": cohort.name, "cohort_size": cohort.size}
    found.append((Where("fleet", ""), finding("ENVIRONMENT_SUSPECT", Outcome.FAIL, why, cause="host", **facts)))
    for one in ones:
        suppressed[one.part.key][cohort.test] = (Outcome.RETEST, f"The whole cohort is {told} (ENVIRONMENT_SUSPECT).", "host")


def _spread(case: Case, cohort: Cohort, found: list[Found]) -> None:
    """A cohort so wide that sound GPUs lie over the line: its verdicts want a person's look (B36)."""
    if cohort.size < case.policy.count("cohort_least_gpus") or not case.policy.exceeds(cohort.sigma_pct, "cohort_spread_pct"):
        return
    why = f"The spread of {cohort.size} GPUs in {cohort.test} is {cohort.sigma_pct:.1f} % (robust sigma): sound GPUs may lie over the line."
    facts = {"test": cohort.test, "value": cohort.sigma_pct, "unit": "%", "cohort": cohort.name, "cohort_size": cohort.size}
    found.append((Where("fleet", ""), finding("SPREAD_UNUSUAL", Outcome.REVIEW, why, cause="unknown", **facts)))


def _software(case: Case, cohorts: list[tuple[Cohort, Group]], found: list[Found], suppressed: Suppressed) -> None:
    """Cohorts that differ in software only must agree, or the slower software hides inside its own cohort. Each is held to the fastest."""
    least, low = case.policy.count("fingerprint_least_gpus"), case.policy.slower_than("fingerprint_apart_pct")
    by_kin: dict[str, list[tuple[Cohort, Group]]] = defaultdict(list)
    for cohort, ones in cohorts:
        if cohort.size >= least:
            by_kin[cohort.kin].append((cohort, ones))
    for _, alike in sorted(by_kin.items()):
        direction = 1 if alike[0][0].better == "higher" else -1
        fastest = max((cohort for cohort, _ in alike), key=lambda cohort: (direction * cohort.own_median, cohort.name))
        for slower, ones in alike:
            ratio = slower.rate_ratio(slower.own_median, fastest.own_median)
            if ratio >= low:
                continue
            gap, test = (1 - ratio) * 100, slower.test
            why = f"GPUs with software {slower.fingerprint or '?'} are {gap:.1f} % slower in {test} than the same GPUs with {fastest.fingerprint or '?'}."
            facts = {"test": test, "deviation_pct": -gap, "cohort": slower.name, "cohort_size": slower.size}
            found.append((Where("fleet", ""), finding("COHORTS_DIFFER", Outcome.FAIL, why, cause="host", **facts)))
            for one in ones:
                suppressed[one.part.key][test] = (Outcome.RETEST, "Its software makes its whole cohort slow (COHORTS_DIFFER).", "host")
