"""How a node's run stands, as the node told it: parsed once, typed and bounded from here on. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LONGEST = 160


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """`state`: running, finished, stopped, died, failed, absent, unreachable, ... None elsewhere = not told."""

    state: str
    stage: str = ""
    why: str = ""
    done_s: float | None = None
    planned_s: float | None = None
    hottest_c: float | None = None
    throttling: int = 0

    @property
    def share(self) -> float | None:
        """Done of planned, 0 to 1."""
        if self.done_s is None or not self.planned_s:
            return None
        return min(1.0, max(0.0, self.done_s / self.planned_s))

    @property
    def minutes(self) -> str:
        """'7 of 52', or ''."""
        return "" if self.done_s is None or not self.planned_s else f"{self.done_s / 60:.0f} of {self.planned_s / 60:.0f}"

    @property
    def hottest(self) -> str:
        """'84 C', or ''."""
        return "" if self.hottest_c is None else f"{self.hottest_c:.0f} C"


def count(number: int, thing: str) -> str:
    """'1 node', '4 nodes'."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def duration(seconds: float) -> str:
    """'52 minutes', '25 seconds'."""
    return count(round(seconds / 60), "minute") if seconds >= 90 else count(round(seconds), "second")


def clean(value: object) -> str:
    """Text for one line of a terminal: no control characters, bounded."""
    return "".join(letter if letter.isprintable() else " " for letter in str(value if value is not None else "")[: 4 * LONGEST])[
        :LONGEST
    ].strip()


def _number(value: object) -> float | None:
    """A number within reason, or None. Compared before it is converted: an integer may have 400 digits."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e9 < value < 1e9:
        return None
    return float(value)


def parse(told: Mapping[str, object]) -> NodeStatus:
    """What a node said, which may be anything."""
    throttling = _number(told.get("throttling"))
    return NodeStatus(
        state=clean(told.get("state")) or "unknown",
        stage=clean(told.get("stage")),
        why=clean(told.get("why") or told.get("reason")),
        done_s=_number(told.get("done_s")),
        planned_s=_number(told.get("planned_s")),
        hottest_c=_number(told.get("hottest_c")),
        throttling=int(throttling) if throttling and throttling > 0 else 0,
    )
