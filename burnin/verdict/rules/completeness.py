"""Rule 9: nothing shown is not a pass. Parts, tests and evidence are held against what was bought and planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from burnin.outcome import Outcome
from burnin.verdict.case import Case, Found, Where, finding
from burnin.verdict.model import Finding, NodeFacts

TROUBLE = {
    "NODE_UNREACHABLE": Outcome.INCONCLUSIVE,
    "PREFLIGHT_FAILED": Outcome.FAIL,
    "RUN_FAILED": Outcome.INCONCLUSIVE,
}


def judge(case: Case) -> Iterator[Found]:
    """Findings on what is missing, of nodes first and then of parts."""
    facts = {node.node: node for node in case.evidence.nodes}
    for node in case.evidence.nodes:
        for what in _node(node):
            yield Where("node", node.node), what
    yield from _parts(case, facts)
    yield from _tests(case, facts)


def missing_slots(node: NodeFacts) -> list[int | None]:
    """The slots (None = not known which) of the expected GPUs that did not show up."""
    if node.expected_gpus is None:
        return []
    lacking = node.expected_gpus - len(node.seen_slots)
    known = {slot for slot in node.seen_slots if slot is not None}
    free: list[int | None] = [slot for slot in range(node.expected_gpus) if slot not in known]
    exact = len(known) == len(node.seen_slots)
    return free[:lacking] if exact and lacking > 0 else [None] * max(0, lacking)


def _node(node: NodeFacts) -> Iterator[Finding]:
    if node.trouble_code is not None:
        yield finding(node.trouble_code, TROUBLE[node.trouble_code], f"{node.trouble}", cause="host")
    for problem in node.unreadable:
        yield finding("EVIDENCE_UNREADABLE", Outcome.INCONCLUSIVE, problem)
    if node.shown and node.rebooted:
        yield finding(
            "NODE_REBOOTED",
            Outcome.FAIL,
            f"It went down during the run (its boot id changed); its journal ends {node.where}.",
            cause="host",
        )
    if node.shown and not node.complete:
        if node.stopped:
            yield finding("NODE_STOPPED", Outcome.INCONCLUSIVE, f"The run was stopped ({node.stopped}) {node.where}.")
        else:
            yield finding("PLAN_ENDED_EARLY", Outcome.INCONCLUSIVE, f"The plan was not run to its end; the journal ends {node.where}.")
    if not node.shown and node.trouble_code is None and not node.unreadable:
        yield finding("NODE_UNREACHABLE", Outcome.INCONCLUSIVE, "Nothing came from this node: no evidence was collected.")
    if node.expected_gpus is None:
        yield finding("EXPECTATION_MISSING", Outcome.INCONCLUSIVE, "Nothing says how many GPUs this node should have.")
    elif node.shown and len(node.seen_slots) < node.expected_gpus:
        slots = [str(slot) for slot in missing_slots(node) if slot is not None]
        where = f" (slot {', '.join(slots)})" if slots else ""
        why = f"{len(node.seen_slots)} of {node.expected_gpus} GPUs showed up; missing: {node.expected_gpus - len(node.seen_slots)}{where}."
        yield finding("PARTS_MISSING", Outcome.FAIL, why, value=float(len(node.seen_slots)), unit="GPUs", cause="unknown")
    elif node.shown and len(node.seen_slots) > node.expected_gpus:
        yield finding(
            "PARTS_UNEXPECTED", Outcome.REVIEW, f"{len(node.seen_slots)} GPUs showed up where {node.expected_gpus} were expected."
        )


def _parts(case: Case, facts: dict[str, NodeFacts]) -> Iterator[Found]:
    for part in case.evidence.parts:
        where = Where("gpu", part.key)
        for problem in part.invalid:
            yield where, finding("VALUE_INVALID", Outcome.INCONCLUSIVE, problem)
        if part.duplicate_on:
            why = f"The same identity was seen on {', '.join(part.duplicate_on)} as well: its numbers cannot be given to one part."
            yield where, finding("DUPLICATE_ID", Outcome.INCONCLUSIVE, why)
        node = facts.get(part.node or "")
        if node is not None and node.shown and not node.complete:
            why = f"Its node's plan was not run to its end; the journal ends {node.where}."
            yield where, finding("PLAN_ENDED_EARLY", Outcome.INCONCLUSIVE, why)
        elif not case.evidence.planned and not case.evidence.from_table:
            yield where, finding("GPU_PRESENT", Outcome.PASS, "It showed up and says it is well; nothing was measured.")


def _tests(case: Case, facts: dict[str, NodeFacts]) -> Iterator[Found]:
    """Each part owes each planned test all its windows."""
    if not case.evidence.planned:
        return
    have = Counter(case.evidence.windows.select("part", "test", "step", "start", "window").unique().select("part", "test").iter_rows())
    for part in case.evidence.parts:
        node = facts.get(part.node or "")
        skipped = dict(node.skipped) if node else {}
        for test, owed in sorted(case.evidence.planned.items()):
            got = have[(part.key, test)]
            if got < owed:
                reason = f": {skipped[test]}" if test in skipped else ""
                why = f"{got} of {owed} planned windows of {test} were measured{reason}."
                yield Where("gpu", part.key), finding("TEST_MISSING", Outcome.INCONCLUSIVE, why, test=test, windows=got)
