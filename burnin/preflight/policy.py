"""What each code comes to, and the few limits: data."""

from __future__ import annotations

from collections.abc import Mapping
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


def accepted(site: object) -> dict[str, str]:
    """burnin_preflight_accept, checked: code -> reason. Raises InventoryError: a waiver without its reason is not taken."""
    if site in (None, ""):
        return {}
    if not isinstance(site, Mapping):
        raise InventoryError(
            f"burnin_preflight_accept: found {type(site).__name__}; expected a mapping like {{NIC_MISSING: 'reason, who, until'}}"
        )
    for code, reason in site.items():
        if code not in (*CODES, *SHARED):
            near = get_close_matches(str(code), [*CODES, *SHARED], 1)
            raise InventoryError(
                f"burnin_preflight_accept: {str(code)[:60]!r} is no code of the preflight" + (f"; did you mean {near[0]}?" if near else "")
            )
        if not isinstance(reason, str) or not reason.strip():
            raise InventoryError(f"burnin_preflight_accept: {code} has no reason; say why, who decided it and until when")
    return {str(code): str(reason).strip() for code, reason in site.items()}
