"""The verdicts, worst first, and the one way to combine them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Outcome(StrEnum):
    """A verdict. The order of the members is the order of badness, worst first."""

    RMA = "RMA"
    FAIL = "FAIL"
    RETEST = "RETEST"
    INCONCLUSIVE = "INCONCLUSIVE"
    REVIEW = "REVIEW"
    PASS = "PASS"  # noqa: S105  a verdict, no password

    @property
    def badness(self) -> int:
        """0 for PASS, rising with badness."""
        return len(Outcome) - 1 - list(Outcome).index(self)


def overall(outcomes: Iterable[Outcome]) -> Outcome:
    """The worst of the outcomes. None at all is not a pass: nothing was shown."""
    found = set(outcomes)
    return next((outcome for outcome in Outcome if outcome in found), Outcome.INCONCLUSIVE)


def exit_code(outcomes: Iterable[Outcome]) -> int:
    """The process's exit code for these verdicts: 0, 10 or 11 (the contract in README)."""
    worst = overall(outcomes)
    if worst in (Outcome.RMA, Outcome.FAIL):
        return 10
    return 11 if worst in (Outcome.RETEST, Outcome.INCONCLUSIVE) else 0
