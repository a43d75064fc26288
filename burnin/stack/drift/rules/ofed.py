"""OFED by its own word: `ofed_info -s`, compared whole; a substring test takes 25.1 for 25.10 (deepops does)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from burnin.stack.compat import compat
from burnin.stack.drift.case import Case, text
from burnin.stack.drift.finding import Finding
from burnin.stack.drift.rules.packages import missing
from burnin.stack.versions import minor

SAID = re.compile(r"(?:MLNX_OFED_LINUX|OFED-internal)-([0-9]+\.[0-9]+[-0-9.]*):?")


def judge(case: Case) -> Iterator[Finding]:
    """DOCA is told by the OFED line inside it. A package that is missing or wrong is told as such, and not twice."""
    group, said = case.group("ofed"), text(case.software.get("ofed_info"))
    if not group["packages"] or not said or missing(case, group):
        return
    version = str(group["version"])
    doca = group["sources"] == ["doca"]
    known = compat().doca.get(minor(version))
    expected = (str(known.value) if known else "") if doca else version
    found = SAID.fullmatch(said)
    read = (re.split("-", found[1])[0] if doca else found[1]) if found else None
    right_package = all(one.is_of(version) for package in group["packages"] for one in case.named(str(package["name"])))
    if expected and read != expected and right_package:
        told = f"OFED {expected}, which DOCA {version} carries" if doca else f"OFED {expected}"
        yield Finding("OFED_VERSION", "ofed", f"ofed_info says {said.rstrip(':')}", told)
