"""Does DCGM know the driver's CUDA?"""

from __future__ import annotations

from collections.abc import Iterator

from burnin.stack.case import Case, error, warning
from burnin.stack.model import Problem
from burnin.stack.versions import major


def judge(case: Case) -> Iterator[Problem]:
    """At most one problem."""
    dcgm = case.stack.dcgm
    if dcgm is None:
        return
    newest, wanted = case.compat.rules["dcgm.newest_major"], case.compat.rules["dcgm.cuda13_from"]
    cuda = case.compat.cuda_of(case.stack.driver.branch)
    if cuda is not None and major(cuda) >= 13 and major(dcgm.version) < wanted.value:
        yield error(
            "DCGM_TOO_OLD", "dcgm.version", f"DCGM {dcgm.version} with driver {case.stack.driver.version} (CUDA {cuda})",
            f"DCGM {wanted.value} or newer: {wanted.why}", f"choose DCGM {wanted.value}", wanted,
        )  # fmt: skip
    elif major(dcgm.version) > newest.value:
        yield warning(
            "DCGM_UNKNOWN", "dcgm.version", f"DCGM {dcgm.version}", f"DCGM {newest.value} or older, whose package names we know",
            "check its package names, which changed from 3 to 4", newest,
        )  # fmt: skip
