"""What every rule of the stack looks at, and how it says what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from burnin.stack.compat import Compat, Fact
from burnin.stack.hardware import Hardware
from burnin.stack.model import VARIABLE, Level, Problem, Stack


@dataclass(frozen=True, slots=True)
class Case:
    """A stack, the matrix, the GPUs it is for (none named: nothing is said of GPUs), and the day."""

    stack: Stack
    compat: Compat
    hardware: tuple[Hardware, ...]
    today: date


def error(code: str, field: str, found: str, expected: str, remedy: str, *facts: Fact) -> Problem:
    """What stops. `facts` are those it rests on: the first gives the source, and any low one the doubt."""
    return _problem(Level.ERROR, code, field, found, expected, remedy, facts)


def warning(code: str, field: str, found: str, expected: str, remedy: str, *facts: Fact) -> Problem:
    """What is said and does not stop."""
    return _problem(Level.WARNING, code, field, found, expected, remedy, facts)


def _problem(level: Level, code: str, field: str, found: str, expected: str, remedy: str, facts: tuple[Fact, ...]) -> Problem:
    doubt = next((one for one in ("low", "medium") if any(fact.confidence == one for fact in facts)), "high")
    source = facts[0].source if facts else "burnin/data/compat.yaml"
    return Problem(level, code, f"{VARIABLE}.{field}", found, expected, remedy, source, doubt)
