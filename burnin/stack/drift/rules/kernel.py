"""The kernel that runs, the one that would run after a boot, and the headers of both."""

from __future__ import annotations

from collections.abc import Iterator

from burnin.stack.drift.case import Case, mapping
from burnin.stack.drift.finding import Finding, listed
from burnin.stack.versions import numbers


def targets(case: Case) -> list[str]:
    """The kernels that must have headers and modules: what runs, and what the stack pins where it is installed."""
    pinned = mapping(case.want["kernel"]).get("release") or None
    there = pinned in (case.kernels("installed") or ())
    return [one for one in dict.fromkeys((case.running if case.boots_here else None, pinned if there else None)) if one]


def judge(case: Case) -> Iterator[Finding]:
    """Decided by the newest installed kernel against `uname -r`, never by marker files: they lie (ansible-slurm-appliance issue 427)."""
    running, installed = case.running, case.kernels("installed")
    if running is None:
        return
    pinned = mapping(case.want["kernel"]).get("release") or ""
    if pinned and running != pinned:
        there = "which is installed: a reboot is missing" if pinned in (installed or ()) else "which is not installed"
        yield Finding("KERNEL_NOT_PINNED", "kernel", f"{running} runs", f"{pinned}, {there}")
    keep = pinned or running
    newer = sorted((one for one in installed or () if numbers(one) > numbers(keep)), key=numbers)
    if newer and (pinned or case.boots_here):
        yield Finding(
            "KERNEL_NEWER_INSTALLED", "kernel", f"{newer[-1]} is installed, {running} runs", f"{keep} to be the newest", tuple(newer)
        )
    yield from _headers(case)


def _headers(case: Case) -> Iterator[Finding]:
    """Only where something is built on the node."""
    have = case.kernels("headers")
    builds = bool(case.software.get("dkms")) or bool(case.matching(("-dkms(-|$)",)))
    missing = [one for one in targets(case) if have is not None and one not in have]
    if builds and missing:
        shown = f"no headers of {listed(missing)} (there are those of {listed(have)})" if have else f"no headers of {listed(missing)}"
        yield Finding("HEADERS_MISSING", "kernel", shown, f"headers of {listed(targets(case))}", tuple(missing))
