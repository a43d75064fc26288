"""One way in which a node differs from its stack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from burnin.outcome import Outcome
from burnin.stack.drift.codes import CODES

MOST_TOLD = 6


@dataclass(frozen=True, slots=True)
class Finding:
    """`items`: the single things (packages, files, units); `found` says them in a few words. `accepted`: why a site lives with it."""

    code: str
    group: str
    found: str
    expected: str
    items: tuple[str, ...] = ()
    why: str = ""
    action: str = ""
    accepted: str | None = None

    @property
    def outcome(self) -> Outcome:
        return CODES[self.code].outcome

    @property
    def counts(self) -> bool:
        """Whether it stops a burn-in: the node differs, or was not seen, and nobody said to live with that."""
        return self.accepted is None and self.outcome in (Outcome.FAIL, Outcome.INCONCLUSIVE)

    @property
    def sentence(self) -> str:
        return f"{self.code} ({self.group}): {self.found}; expected {self.expected}. {self.why_said} {self.action_said}"

    @property
    def why_said(self) -> str:
        return self.why or CODES[self.code].why

    @property
    def action_said(self) -> str:
        return self.action or CODES[self.code].action

    def as_dict(self) -> dict[str, Any]:
        return {
            "code": self.code, "outcome": self.outcome.value, "group": self.group, "found": self.found, "expected": self.expected,
            "items": list(self.items), "why": self.why_said, "action": self.action_said, "accepted": self.accepted,
        }  # fmt: skip


def listed(things: Sequence[str], most: int = MOST_TOLD) -> str:
    """a, b, c and 4 more."""
    shown = ", ".join(things[:most])
    return shown if len(things) <= most else f"{shown} and {len(things) - most} more"
