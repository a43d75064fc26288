"""Is the OFED known, and does its line live?"""

from __future__ import annotations

from collections.abc import Iterator

from burnin.stack.case import Case, warning
from burnin.stack.model import Problem
from burnin.stack.versions import minor, older


def judge(case: Case) -> Iterator[Problem]:
    """At most two problems."""
    ofed = case.stack.ofed
    if ofed is None:
        return
    if ofed.kind == "mlnx":
        last = case.compat.rules["ofed.standalone_last"]
        line = ofed.version.partition("-")[0]
        if older(last.value, line):
            yield warning(
                "OFED_UNKNOWN", "ofed.version", f"MLNX_OFED {ofed.version}", f"{last.value} or older: {last.why}",
                "check that it exists; newer OFED comes as kind: doca", last,
            )  # fmt: skip
        yield warning(
            "OFED_STANDALONE",
            "ofed.kind",
            "standalone MLNX_OFED",
            f"kind: doca, as {last.why}",
            "plan the move to a DOCA long-term line, 3.2",
            last,
        )
        return
    known = case.compat.doca.get(minor(ofed.version))
    if known is None or not known.value:
        listed = ", ".join(f"{name} (OFED {fact.value})" for name, fact in case.compat.doca.items() if fact.value)
        yield warning(
            "DOCA_UNKNOWN", "ofed.version", f"DOCA {ofed.version}", f"a line we know: {listed}",
            "check its OFED, the kernels it builds on and the cards it supports in the DOCA release notes", *([known] if known else []),
        )  # fmt: skip
