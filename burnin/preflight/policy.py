"""What each code comes to, and the few limits: data."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from burnin.errors import InventoryError
from burnin.outcome import Outcome
from burnin.preflight.codes import CODES, SHARED


@cache
def _data() -> Mapping[str, Any]:
    found: dict[str, Any] = yaml.safe_load(files("burnin.data").joinpath("preflight.yaml").read_text(encoding="utf-8"))
    return found


def outcome_of(code: str, level: str, confidence: str) -> Outcome:
    """FAIL or REVIEW. A doubtful expectation of ours condemns nobody: low confidence is a REVIEW."""
    entry = _data()["outcomes"][code]
    outcome = Outcome(entry.get(level, entry["value"]))
    return Outcome.REVIEW if confidence == "low" and outcome.badness > Outcome.REVIEW.badness else outcome


def outcomes() -> Mapping[str, Mapping[str, Any]]:
    """Code -> its entry."""
    found: Mapping[str, Mapping[str, Any]] = _data()["outcomes"]
    return found


def limit(name: str) -> Any:
    """The value of a limit. Raises KeyError for a name that is none (a fault of ours)."""
    return _data()["limits"][name]["value"]


def accepted(site: object, today: date | None = None) -> dict[str, str]:
    """burnin_preflight_accept, checked: code -> reason, of those whose day is not over. Raises InventoryError.

    {CODE: reason}, or a list of {code, why, who, until} as in burnin_drift_accept. A waiver without its reason is not taken.
    """
    if site in (None, ""):
        return {}
    if isinstance(site, Mapping):
        site = [{"code": code, "why": why} for code, why in site.items()]
    if not isinstance(site, list | tuple):
        raise InventoryError(
            f"burnin_preflight_accept: found {type(site).__name__}; expected a mapping like {{NIC_MISSING: 'why, who, until'}}"
        )
    found = {}
    for entry in site:
        told = entry if isinstance(entry, Mapping) else {"code": entry}
        code, until = _checked(told)
        if until is None or today is None or today <= until:
            ending = f", until {until}" if until else ""
            found[code] = f"{str(told['why']).strip()}{', by ' + str(told['who']) if told.get('who') else ''}{ending}"
    return found


def _checked(entry: Mapping[str, Any]) -> tuple[str, date | None]:
    code, why, until = str(entry.get("code")), entry.get("why"), entry.get("until")
    if code not in (*CODES, *SHARED):
        near = get_close_matches(code, [*CODES, *SHARED], 1)
        raise InventoryError(
            f"burnin_preflight_accept: {code[:60]!r} is no code of the preflight" + (f"; did you mean {near[0]}?" if near else "")
        )
    for key in entry:
        if key not in ("code", "why", "who", "until"):
            raise InventoryError(f"burnin_preflight_accept: {code}: {str(key)[:40]!r} is none of code, why, who, until")
    if not isinstance(why, str) or not why.strip():
        raise InventoryError(f"burnin_preflight_accept: {code} has no reason; say why, who decided it and until when")
    if until is None or isinstance(until, date):
        return code, until
    try:
        return code, date.fromisoformat(str(until))
    except ValueError:
        raise InventoryError(f"burnin_preflight_accept: {code}: until is {str(until)[:40]!r}; expected a day like 2026-12-31") from None
