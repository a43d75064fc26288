"""The node in its place: room for the evidence, a clock that agrees with ours, a stack for its system, mirrors that it can fetch from."""

from __future__ import annotations

import re

from burnin.preflight.case import Case, Raw, Rule, few

SECRET = re.compile(r"//[^/@\s]*@")  # the name and password of a mirror are nobody else's to read
CODES = ("EVIDENCE_SPACE", "CLOCK_SKEW", "STACK_UNRESOLVED", "MIRROR_UNREACHABLE")


def judge(case: Case) -> Rule:
    """What was not asked is not judged."""
    site = case.site
    if site.free_mib is not None and site.need_mib is not None and site.free_mib < site.need_mib:
        yield Raw("EVIDENCE_SPACE", f"{site.run_root} has {site.free_mib} MiB free, {site.need_mib} are needed.")
    if site.skew_s is not None and site.most_skew_s is not None and abs(site.skew_s) > site.most_skew_s:
        yield Raw("CLOCK_SKEW", f"The node's clock is {site.skew_s:.0f} s from the controller's, {site.most_skew_s:g} s are allowed.")
    if case.stack_problem:
        yield Raw("STACK_UNRESOLVED", case.stack_problem)
    lost = [
        f"{SECRET.sub('//', url)} ({answer.get('why') or 'no answer'})"
        for url, answer in sorted(site.reach.items())
        if not answer.get("ok")
    ]
    if lost:
        yield Raw("MIRROR_UNREACHABLE", f"{len(lost)} of {len(site.reach)} addresses of the stack cannot be fetched: {few(lost)}.")
