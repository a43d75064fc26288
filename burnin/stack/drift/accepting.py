"""What a site lives with: burnin_drift_accept, by code, with why and until when. It is told as accepted, never as a pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from typing import Any

from burnin.errors import StackError
from burnin.stack.drift.codes import CODES

KEYS = ("code", "why", "who", "until")


@dataclass(frozen=True, slots=True)
class Accepted:
    """One code that stops nothing, through the day `until`."""

    code: str
    why: str = ""
    who: str = ""
    until: date | None = None

    @property
    def told(self) -> str:
        parts = (self.why, f"by {self.who}" if self.who else "", f"until {self.until}" if self.until else "")
        return ", ".join(part for part in parts if part) or "accepted without a reason"


def accepted_of(given: object) -> tuple[Accepted, ...]:
    """`CODE,CODE`, or a list of codes and of {code, why, who, until}. Raises StackError for a code that is none, or a date that is none."""
    if given is None or given == "":
        return ()
    if isinstance(given, str):
        given = [word.strip() for word in given.split(",")]
    if not isinstance(given, list | tuple):
        raise StackError(f"burnin_drift_accept: found {type(given).__name__}; expected codes, or a list of {{code, why, who, until}}")
    return tuple(_one(entry) for entry in given)


def _one(entry: object) -> Accepted:
    told: Mapping[str, Any] = {"code": entry} if isinstance(entry, str) else entry if isinstance(entry, Mapping) else {}
    code = str(told.get("code") or entry)
    if code not in CODES:
        near = get_close_matches(code.upper(), list(CODES), 1)
        raise StackError(
            f"burnin_drift_accept: {code!r} is no code of a drift"
            + (f"; did you mean {near[0]}?" if near else f"; known: {', '.join(CODES)}")
        )
    for wrong in _wrong(told):
        raise StackError(f"burnin_drift_accept: {code}: {wrong}")
    return Accepted(code, str(told.get("why") or ""), str(told.get("who") or ""), _date(code, told.get("until")))


def _wrong(told: Mapping[str, Any]) -> Iterator[str]:
    for key in told:
        if key not in KEYS:
            yield f"{key!r} is none of {', '.join(KEYS)}"


def _date(code: str, given: object) -> date | None:
    if given is None or isinstance(given, date):
        return given
    try:
        return date.fromisoformat(str(given))
    except ValueError:
        raise StackError(f"burnin_drift_accept: {code}: until is {given!r}; expected a day like 2026-12-31") from None
