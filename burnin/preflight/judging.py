"""From a case to findings, worst first; and the few hundred characters of them that go through a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from burnin.outcome import Outcome
from burnin.preflight.case import Case, Raw
from burnin.preflight.codes import action_of
from burnin.preflight.policy import outcome_of
from burnin.preflight.rules import RULES

LONGEST_WHY = 600
LONGEST_ACTION = 500
LONGEST_TEXT = 1500


@dataclass(frozen=True, slots=True)
class Finding:
    """One judged fact. `accepted`: the site's reason for letting it through; it is then a REVIEW, never a pass."""

    code: str
    outcome: Outcome
    why: str
    action: str
    accepted: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as in the verdict's findings."""
        told = {"code": self.code, "outcome": self.outcome.value, "why": self.why, "action": self.action}
        return told if self.accepted is None else {**told, "accepted": self.accepted}


def judge(case: Case, accepted: Mapping[str, str] | None = None) -> tuple[Finding, ...]:
    """Every finding, worst first, then by code. No finding is no pass by itself: the case says what was looked at."""
    found = [_finding(raw, case.level, accepted or {}) for rule in RULES for raw in rule.judge(case)]
    return ordered(found)


def _finding(raw: Raw, level: str, accepted: Mapping[str, str]) -> Finding:
    outcome, why = outcome_of(raw.code, level, raw.confidence), _clean(raw.why)[:LONGEST_WHY]
    action = _clean(raw.action)[:LONGEST_ACTION] or action_of(raw.code)
    reason = accepted.get(raw.code) if outcome is Outcome.FAIL else None
    if reason is not None:
        return Finding(raw.code, Outcome.REVIEW, f"{why} Accepted by the site: {_clean(reason)[:200]}", action, reason[:200])
    return Finding(raw.code, outcome, why, action)


def _clean(text: str) -> str:
    """A node's words may hold anything; a line of a log holds printable letters."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def drifted(found: Sequence[Mapping[str, Any]]) -> tuple[Finding, ...]:
    """Findings of burnin.stack.drift (as_dict) in our form: what was not read there keeps a node out too, for nothing shown is not a pass."""
    told = []
    for one in found:
        outcome = Outcome(one["outcome"])
        if one.get("accepted") is not None and outcome.badness > Outcome.REVIEW.badness:
            outcome = Outcome.REVIEW
        why = _clean(f"{one['found'][:1].upper()}{one['found'][1:]}; expected {one['expected']}. {one['why']}")
        told.append(Finding(one["code"], outcome, why[:LONGEST_WHY], one["action"], one.get("accepted")))
    return tuple(told)


def ordered(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Worst first, then by code."""
    return tuple(sorted(findings, key=lambda one: (-one.outcome.badness, one.code, one.why)))


def failed(findings: Sequence[Finding]) -> bool:
    """Whether the node stays out of what follows."""
    return any(finding.outcome.badness > Outcome.REVIEW.badness for finding in findings)


def text(findings: Sequence[Finding], *, stopping: bool = True) -> str:
    """`CODE: sentence What to do.` of each, joined by a bar: bounded, one line, and it can be taken apart again."""
    pieces: list[str] = []
    chosen = [finding for finding in findings if (finding.outcome.badness > Outcome.REVIEW.badness) is stopping]
    for number, finding in enumerate(chosen):
        piece = f"{finding.code}: {finding.why} {finding.action}"
        if sum(map(len, pieces)) + len(piece) > LONGEST_TEXT:
            pieces.append(f"and {len(chosen) - number} more: {', '.join(sorted({one.code for one in chosen[number:]}))}")
            break
        pieces.append(piece)
    return " | ".join(pieces)
