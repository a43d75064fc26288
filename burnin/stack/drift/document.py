"""All nodes as one document (burnin.drift/1): by node, and by code over the nodes, as a person reads it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from burnin.outcome import Outcome, overall
from burnin.stack.drift.codes import CODES
from burnin.stack.drift.finding import Finding, listed
from burnin.stack.drift.fleet import Shared
from burnin.stack.drift.judging import ordered, verdict

SCHEMA = "burnin.drift/1"


@dataclass(frozen=True, slots=True)
class Looked:
    """A node that was looked at, or could not be. `stack` says what it was held against, in a few words."""

    node: str
    findings: tuple[Finding, ...]
    stack: str = ""

    @property
    def verdict(self) -> Outcome:
        return verdict(self.findings)


def document(looked: Iterable[Looked], fleet: Iterable[Shared], taken: str, inventory: Iterable[str]) -> dict[str, Any]:
    """Sorted throughout: the same nodes give the same document, whatever came first."""
    nodes = sorted(looked, key=lambda one: one.node)
    shared = list(fleet)
    outcomes = [one.verdict for one in nodes] + [one.finding.outcome for one in shared]
    return {
        "schema": SCHEMA,
        "taken": taken,
        "inventory": sorted(inventory),
        "verdict": overall(outcomes).value,
        "summary": {
            "nodes": len(nodes),
            **{outcome.value: sum(one.verdict is outcome for one in nodes) for outcome in Outcome if outcome is not Outcome.RMA},
            "accepted": sum(finding.accepted is not None for one in nodes for finding in one.findings),
        },
        "findings": [*_by_code(nodes), *(_shared(one) for one in shared)],
        "nodes": [
            {
                "node": one.node,
                "verdict": one.verdict.value,
                "stack": one.stack,
                "findings": [finding.as_dict() for finding in one.findings],
            }
            for one in nodes
        ],
    }


def _by_code(nodes: Iterable[Looked]) -> list[dict[str, Any]]:
    """One row per code (and apart those that are accepted): on which nodes, and what was found there, the commonest first."""
    told = list(nodes)
    rows: dict[tuple[str, bool], list[tuple[str, Finding]]] = defaultdict(list)
    for one in told:
        for finding in one.findings:
            rows[finding.code, finding.accepted is not None].append((one.node, finding))
    order = [(finding.code, finding.accepted is not None) for finding in ordered(finding for one in told for finding in one.findings)]
    return [_row(rows[key], len(told)) for key in sorted(rows, key=lambda key: (key[1], order.index(key)))]


def _row(found: list[tuple[str, Finding]], of: int) -> dict[str, Any]:
    first = found[0][1]
    by_node: dict[str, list[Finding]] = defaultdict(list)
    for node, finding in found:
        by_node[node].append(finding)
    counted = Counter(_together(mine) for mine in by_node.values())
    return {
        "code": first.code,
        "outcome": first.outcome.value,
        "groups": sorted({finding.group for _, finding in found}),
        "nodes": sorted(by_node),
        "of": of,
        "found": [{"found": text, "nodes": number} for text, number in sorted(counted.items(), key=lambda one: (-one[1], one[0]))],
        "expected": sorted({finding.expected for _, finding in found}),
        "why": CODES[first.code].why if len({finding.why_said for _, finding in found}) > 1 else first.why_said,
        "action": CODES[first.code].action if len({finding.action_said for _, finding in found}) > 1 else first.action_said,
        "accepted": sorted({finding.accepted for _, finding in found if finding.accepted is not None}) or None,
        "runbook": f"docs/runbooks/{first.code}.md",
    }


def _together(mine: list[Finding]) -> str:
    """What one node has of a code, in one text: its groups' findings told as one list."""
    if len(mine) == 1:
        return mine[0].found
    return listed([item for finding in mine for item in finding.items or (finding.found,)])


def _shared(one: Shared) -> dict[str, Any]:
    row = _row([(node, one.finding) for node in one.nodes], one.of)
    return {**row, "found": [{"found": one.finding.found, "nodes": len(one.nodes)}]}


def outcomes(made: Mapping[str, Any]) -> list[Outcome]:
    """For the exit code."""
    return [Outcome(str(made["verdict"]))]
