"""Was this NCCL built for that CUDA, and is it the CUDA of this stack?"""

from __future__ import annotations

from collections.abc import Iterator

from burnin.stack.case import Case, error, warning
from burnin.stack.model import Problem
from burnin.stack.versions import major, older


def judge(case: Case) -> Iterator[Problem]:
    """Problems of the pair with CUDA, with the driver, and of the pair by itself."""
    nccl = case.stack.nccl
    if nccl is None:
        return
    pair = f"NCCL {nccl.version} built for CUDA {nccl.cuda}"
    cuda = case.stack.cuda
    if cuda is not None and major(nccl.cuda) != major(cuda.default):
        yield error(
            "NCCL_OTHER_CUDA", "nccl.cuda", pair, f"a build for CUDA {major(cuda.default)}.x, the default toolkit's ({cuda.default})",
            f"choose a build for CUDA {major(cuda.default)}, or another default toolkit",
        )  # fmt: skip
    yield from _driver(case, pair, nccl.cuda)
    builds = case.compat.nccl.get(nccl.version)
    if builds is None:
        yield warning(
            "NCCL_UNKNOWN", "nccl.version", f"NCCL {nccl.version}", f"a version we know, such as {', '.join(list(case.compat.nccl)[-4:])}",
            f"check that the repository has libnccl2 and libnccl-dev {nccl.version}-1+cuda{nccl.cuda} for every distribution of the site",
        )  # fmt: skip
    elif nccl.cuda not in builds.value:
        known = ", ".join(builds.value) or "builds that we have not seen"
        yield warning(
            "NCCL_PAIR_UNKNOWN", "nccl.cuda", pair, f"a build that is known to exist: for CUDA {known}",
            f"check that the repository has {nccl.version}-1+cuda{nccl.cuda}; not every pair was published", builds,
        )  # fmt: skip


def _driver(case: Case, pair: str, built_for: str) -> Iterator[Problem]:
    driver, floor = case.stack.driver, case.compat.floors.get(major(built_for))
    if floor is not None and older(driver.version, floor.value):
        yield error(
            "NCCL_BELOW_FLOOR", "nccl.cuda", f"{pair}, on driver {driver.version}", f"driver {floor.value} or newer: {floor.why}",
            "choose a build for an older CUDA, or a newer driver", floor,
        )  # fmt: skip
        return
    own = case.compat.cuda_of(driver.branch)
    if own is not None and older(own, built_for):
        branch = case.compat.branches.get(driver.branch)
        yield warning(
            "NCCL_NEWER_THAN_DRIVER", "nccl.cuda", f"{pair}, on driver {driver.version}", f"a build for CUDA {own} or older, which the driver implements",
            "choose an older build: newer ones are known to end in 'unhandled cuda error'", *([branch.cuda] if branch else []),
        )  # fmt: skip
