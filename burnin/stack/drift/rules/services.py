"""Services: running now, and enabled for the next boot. Which ones is decided by the SKU: rack-scale nodes run no fabric manager (B08)."""

from __future__ import annotations

from collections.abc import Iterator

from burnin.stack.drift.case import Case, mapping, text
from burnin.stack.drift.finding import Finding, listed

FABRIC_MANAGER = "nvidia-fabricmanager.service"
# What `systemctl is-enabled` calls a unit that starts by itself, or that something else starts.
STARTS = ("enabled", "enabled-runtime", "static", "alias", "indirect", "generated")


def judge(case: Case) -> Iterator[Finding]:
    """Unknown services are told by rules in judging.py; here only what is known."""
    known = case.software.get("services")
    if not isinstance(known, dict):
        return
    for group in case.groups:
        wrong = {unit: said for unit in group["services"] if (said := _wrong(mapping(known.get(unit)), unit in known))}
        if FABRIC_MANAGER in wrong:
            yield Finding("FABRIC_MANAGER_DOWN", group["name"], f"fabric manager {wrong.pop(FABRIC_MANAGER)}", "active and enabled")
        if wrong:
            told = tuple(f"{unit} {said}" for unit, said in wrong.items())
            yield Finding("SERVICE_DOWN", group["name"], listed(told), "active and enabled", told)


def _wrong(unit: object, there: bool) -> str:
    if not there:
        return "has no unit"
    active, enabled = text(mapping(unit).get("active")), text(mapping(unit).get("enabled"))
    if active != "active":
        return f"is {active or 'of unknown state'}"
    return "" if enabled in STARTS else f"runs, and is {enabled or 'of unknown state'} for the next boot"
