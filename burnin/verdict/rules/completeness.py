"""Rule 9: nothing shown is not a pass. Parts, tests and evidence are held against what was bought and planned."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import polars as pl

from burnin.outcome import Outcome
from burnin.verdict.case import Case, Found, Where, finding
from burnin.verdict.measure import in_step
from burnin.verdict.model import Finding, NodeFacts, Part

TROUBLE = {
    "NODE_UNREACHABLE": Outcome.INCONCLUSIVE,
    "PREFLIGHT_FAILED": Outcome.FAIL,
    "PROVISION_FAILED": Outcome.FAIL,
    "REBOOT_REQUIRED": Outcome.RETEST,
    "RUN_FAILED": Outcome.INCONCLUSIVE,
}


def judge(case: Case) -> Iterator[Found]:
    """Findings on what is missing, of nodes first and then of parts."""
    for problem in case.evidence.ledger:
        why = f"What the controller saw of the nodes is not all known: {problem}"
        yield Where("fleet", ""), finding("LEDGER_UNREADABLE", Outcome.INCONCLUSIVE, why)
    facts = {node.node: node for node in case.evidence.nodes}
    for node in case.evidence.nodes:
        for what in _node(node):
            yield Where("node", node.node), what
    for part in case.evidence.parts:
        for what in _identity(part):
            yield Where("gpu", part.key), what
        node_of = facts.get(part.node or "")
        if node_of is not None:
            for what in _under(node_of, bool(case.evidence.planned)):
                yield Where("gpu", part.key), what
    yield from _tests(case, facts)


def missing_slots(node: NodeFacts) -> list[int | None]:
    """The slots (None = not known which) of the expected GPUs that did not show up."""
    if node.expected_gpus is None:
        return []
    lacking = max(0, node.expected_gpus - len(node.seen_slots))
    known = {slot for slot in node.seen_slots if slot is not None}
    # Slots that are unknown, doubled or numbered otherwise than 0, 1, ... do not tell which one is empty.
    exact = len(known) == len(node.seen_slots) and all(slot < node.expected_gpus for slot in known)
    free: list[int | None] = [slot for slot in range(node.expected_gpus) if slot not in known]
    return free[:lacking] if exact else [None] * lacking


def absent(node: NodeFacts) -> Finding:
    """The finding on an expected part of this node that did not show up."""
    if node.shown:
        return finding("GPU_MISSING", Outcome.FAIL, "The node has a place for it and it did not show up.", cause="unknown")
    reason = node.trouble or (node.unreadable[0] if node.unreadable else "no evidence came from its node")
    code = node.trouble_code or ("EVIDENCE_UNREADABLE" if node.unreadable else "NODE_UNREACHABLE")
    return finding(code, Outcome.INCONCLUSIVE, f"Nothing is known of it: {reason}")


def _node(node: NodeFacts) -> Iterator[Finding]:
    if node.trouble_code is not None:
        yield finding(node.trouble_code, TROUBLE[node.trouble_code], f"{node.trouble}", cause="host")
    for problem in node.unreadable:
        yield finding("EVIDENCE_UNREADABLE", Outcome.INCONCLUSIVE, problem)
    if not node.shown:
        if node.trouble_code is None and not node.unreadable:
            yield finding("NODE_UNREACHABLE", Outcome.INCONCLUSIVE, "Nothing came from this node: no evidence was collected.")
    else:
        yield from _ending(node)
        if node.skipped:
            told = "; ".join(f"{test}: {reason}" for test, reason in node.skipped[:3])
            yield finding("TESTS_SKIPPED", Outcome.INCONCLUSIVE, f"{len(node.skipped)} of its tests were skipped ({told}).", cause="host")
    yield from _count(node)


def _ending(node: NodeFacts) -> Iterator[Finding]:
    if node.rebooted:
        why = f"It went down during the run (its boot id changed); its journal ends {node.where}."
        yield finding("NODE_REBOOTED", Outcome.FAIL, why, cause="host")
    if node.stopped and not node.complete:
        yield finding("NODE_STOPPED", Outcome.INCONCLUSIVE, f"The run was stopped ({node.stopped}) {node.where}.")
    elif not node.complete:
        yield finding("PLAN_ENDED_EARLY", Outcome.INCONCLUSIVE, f"The plan was not run to its end; the journal ends {node.where}.")


def _count(node: NodeFacts) -> Iterator[Finding]:
    expected, seen = node.expected_gpus, len(node.seen_slots)
    if expected is None:
        yield finding("EXPECTATION_MISSING", Outcome.INCONCLUSIVE, "Nothing says how many GPUs this node should have.")
    elif node.shown and seen < expected:
        slots = [str(slot) for slot in missing_slots(node) if slot is not None]
        where = f" (slot {', '.join(slots)})" if slots else ""
        why = f"{seen} of {expected} GPUs showed up; missing: {expected - seen}{where}."
        yield finding("PARTS_MISSING", Outcome.FAIL, why, value=float(seen), unit="GPUs", cause="unknown")
    elif node.shown and seen > expected:
        yield finding("PARTS_UNEXPECTED", Outcome.REVIEW, f"{seen} GPUs showed up where {expected} were expected.")


def _identity(part: Part) -> Iterator[Finding]:
    for problem in part.invalid:
        yield finding("VALUE_INVALID", Outcome.INCONCLUSIVE, problem)
    if part.duplicate_on:
        why = f"Its UUID or serial was seen more than once ({', '.join(part.duplicate_on)}): its numbers cannot be given to one part."
        yield finding("DUPLICATE_ID", Outcome.INCONCLUSIVE, why)


def _under(node: NodeFacts, planned: bool) -> Iterator[Finding]:
    """What a part's node did that keeps the part from a pass."""
    if node.unreadable:
        yield finding("EVIDENCE_UNREADABLE", Outcome.INCONCLUSIVE, "A part of its node's evidence cannot be read (EVIDENCE_UNREADABLE).")
    if not node.complete:
        why = f"Its node's plan was not run to its end; the journal ends {node.where}."
        yield finding("PLAN_ENDED_EARLY", Outcome.INCONCLUSIVE, why)
    elif node.rebooted:
        why = "Its node went down during the run (NODE_REBOOTED) and was resumed: nothing tells yet whether a GPU was the reason."
        yield finding("UNDER_SHARED_FAULT", Outcome.RETEST, why, cause="host")
    elif not planned and not node.burn_in:
        yield finding("GPU_PRESENT", Outcome.PASS, "It showed up and says it is well; nothing was measured.")
    elif not planned:
        yield finding("TEST_MISSING", Outcome.INCONCLUSIVE, "The run's plan names no test: nothing was shown.")


def _tests(case: Case, facts: dict[str, NodeFacts]) -> Iterator[Found]:
    """Each part owes each test all its windows, judged ones, with checked results. In a table it owes the tests of its kind."""
    windows = case.evidence.windows
    have = Counter(windows.select("part", "test", "step", "start", "window").unique().select("part", "test").iter_rows())
    judged = {(one.part.key, one.cohort.test) for one in case.measured}
    unchecked = _unchecked(windows)
    owes = _owed(case, have)
    together = bool(case.evidence.planned) and all(map(in_step, case.evidence.planned))
    for part in case.evidence.parts:
        where, node = Where("gpu", part.key), facts.get(part.node or "")
        skipped = dict(node.skipped) if node else {}
        if together:
            why = "The plan holds only tests that all GPUs of a node do in step: nothing was shown of this GPU by itself."
            yield where, finding("TEST_MISSING", Outcome.INCONCLUSIVE, why)
        for test, owed in owes[part.kin] if case.evidence.from_table else owes[""]:
            got, facts_of = have[(part.key, test)], {"test": test, "windows": have[(part.key, test)]}
            if got < owed:
                reason = f": {skipped[test]}" if test in skipped else ""
                why = f"{got} of {owed} planned windows of {test} were measured{reason}."
                yield where, finding("TEST_MISSING", Outcome.INCONCLUSIVE, why, **facts_of)
            elif (part.key, test) not in judged:
                why = f"None of its {got} windows in {test} is steady and valid, in a cohort that has a median."
                yield where, finding("TOO_FEW_WINDOWS", Outcome.INCONCLUSIVE, why, **facts_of)
            if unchecked[(part.key, test)] and not case.evidence.from_table:
                why = f"In {unchecked[(part.key, test)]} of its {got} windows of {test} no result was checked: a wrong one would not have been seen."
                yield where, finding("TEST_MISSING", Outcome.INCONCLUSIVE, why, **facts_of)


def _unchecked(windows: pl.DataFrame) -> Counter[tuple[str, str]]:
    """How many windows with a value each part has in each test of which no result was checked."""
    window = pl.struct("step", "start", "window")
    valid = windows.filter(pl.col("value").is_not_null()).group_by("part", "test", window.alias("at")).agg(pl.col("checked").max())
    return Counter(valid.filter(pl.col("checked") == 0).select("part", "test").iter_rows())


def _owed(case: Case, have: Counter[tuple[str, str]]) -> dict[str, list[tuple[str, int]]]:
    """Tests and windows: by plan for a run (under ''), by the tests that a kind shows anywhere for a table."""
    owes: dict[str, list[tuple[str, int]]] = defaultdict(list)
    if not case.evidence.from_table:
        owes[""] = sorted(case.evidence.planned.items())
        return owes
    kin = {part.key: part.kin for part in case.evidence.parts}
    for name, test in sorted({(kin[part], test) for part, test in have if part in kin}):
        owes[name].append((test, 1))
    return owes
