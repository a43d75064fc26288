"""Is the driver's branch known, and does it live?"""

from __future__ import annotations

from collections.abc import Iterator

from burnin.stack.case import Case, warning
from burnin.stack.compat import ENDED, UNKNOWN
from burnin.stack.model import Problem
from burnin.stack.versions import older

FIELD = "driver.version"


def judge(case: Case) -> Iterator[Problem]:
    """At most one problem on life and one on knowledge."""
    driver, branches = case.stack.driver, case.compat.branches
    branch = branches.get(driver.branch)
    if branch is None:
        known = ", ".join(str(number) for number in branches)
        yield warning(
            "BRANCH_UNKNOWN", FIELD, f"branch {driver.branch}", f"a branch we know: {known}",
            "check its end of life, its package names and which CUDA it implements in NVIDIA's driver documentation",
        )  # fmt: skip
        return
    living = ", ".join(
        f"{one.number} until {one.eol.value}" for one in branches.values() if not one.ended(case.today) and one.eol.value != UNKNOWN
    )
    if branch.ended(case.today):
        when = "ended (the month is not known)" if branch.eol.value == ENDED else f"ended in {branch.eol.value}"
        yield warning(
            "BRANCH_ENDED", FIELD, f"branch {branch.number} ({branch.kind}), whose support {when}", f"a branch with fixes: {living}",
            "plan the move to a long-term branch; security fixes no longer come", branch.eol,
        )  # fmt: skip
    elif branch.eol.value == UNKNOWN:
        yield warning(
            "BRANCH_LIFE_UNKNOWN", FIELD, f"branch {branch.number}, whose end is not known to us", f"a branch with fixes: {living}",
            "check its end of life in NVIDIA's driver documentation", branch.eol,
        )  # fmt: skip
    if branch.newest is not None and older(branch.newest.value, driver.version):
        yield warning(
            "DRIVER_UNKNOWN", FIELD, driver.version, f"{branch.newest.value} or older, the newest of branch {branch.number} that we saw",
            "check that the repository has exactly this version, for the driver and for fabric manager", branch.newest,
        )  # fmt: skip
