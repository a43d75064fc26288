"""What a rule is given, and how it says what it found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from burnin.outcome import Outcome
from burnin.verdict.codes import CODES
from burnin.verdict.measure import Measured
from burnin.verdict.model import Evidence, Finding
from burnin.verdict.policy import Policy


class Where(NamedTuple):
    """What a finding is about: a part's key, a node's or rack's name, or the fleet ('')."""

    kind: Literal["gpu", "disk", "node", "rack", "fleet"]
    key: str


Found = tuple[Where, Finding]
Shared = Mapping[str, Mapping[str, tuple[Outcome, str, str]]]


@dataclass(frozen=True, slots=True)
class Case:
    """Evidence, limits and what earlier rules settled.

    `shared`: part key -> test -> (outcome, sentence, cause) of a fault that it shares with its neighbours; no RMA and no pass in that test.
    `hot`: part key and test of what a heat rule named.
    """

    evidence: Evidence
    policy: Policy
    measured: tuple[Measured, ...] = ()
    shared: Shared = field(default_factory=dict)
    hot: frozenset[tuple[str, str | None]] = frozenset()


def finding(code: str, outcome: Outcome, why: str, **facts: Any) -> Finding:
    """A finding with the action that belongs to its code, unless another is given (KeyError for an unknown code: a fault of ours)."""
    action = CODES[code].action if outcome is not Outcome.PASS else "Nothing to do."
    return Finding(code=code, outcome=outcome, why=why, action=facts.pop("action", action), **facts)


def speed_facts(one: Measured) -> dict[str, Any]:
    """The fields that every finding on speed carries."""
    cohort = one.cohort
    return {
        "test": cohort.test,
        "value": one.value,
        "unit": cohort.unit,
        "median": cohort.median,
        "deviation_pct": one.deviation_pct,
        "cohort": cohort.name,
        "cohort_size": cohort.size,
        "windows": one.windows,
        "evidence": {
            "starts": one.starts,
            "windows_over": one.over,
            "starts_over": one.over_starts,
            **{name: one.state[name] for name in ("temp_c", "margin_c", "power_w", "sm_clock_mhz")},
        },
    }
