"""CUDA's two floors: below the first nothing runs, between them PTX may not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from burnin.stack.case import Case, error, warning
from burnin.stack.model import Cuda, Problem
from burnin.stack.versions import major, minor, numbers, older


def judge(case: Case) -> Iterator[Problem]:
    """Problems of the list, and of each toolkit with the driver."""
    cuda = case.stack.cuda
    if cuda is None:
        return
    yield from _list(cuda)
    for place, toolkit in enumerate(cuda.toolkits):
        yield from _floors(case, f"cuda.toolkits[{place}]", toolkit)


def _list(cuda: Cuda) -> Iterator[Problem]:
    if cuda.default not in cuda.toolkits:
        yield error(
            "CUDA_DEFAULT_NOT_LISTED", "cuda.default", cuda.default, f"one of the toolkits: {', '.join(cuda.toolkits)}",
            "name one of them, or add it to toolkits",
        )  # fmt: skip
    for name, times in Counter(minor(one) for one in cuda.toolkits).items():
        if times > 1:
            same = ", ".join(one for one in cuda.toolkits if minor(one) == name)
            yield error(
                "CUDA_MINOR_TWICE", "cuda.toolkits", same, f"one toolkit of {name}: they share a package and /usr/local/cuda-{name}",
                f"keep {max((one for one in cuda.toolkits if minor(one) == name), key=numbers)}",
            )  # fmt: skip


def _floors(case: Case, field: str, toolkit: str) -> Iterator[Problem]:
    version, known = case.stack.driver.version, case.compat.toolkits.get(toolkit)
    floor = case.compat.floors.get(major(toolkit))
    if floor is not None and older(version, floor.value):
        yield error(
            "CUDA_BELOW_FLOOR", field, f"CUDA {toolkit} on driver {version}", f"driver {floor.value} or newer: {floor.why}",
            "choose a newer driver or an older toolkit", floor,
        )  # fmt: skip
        return
    if known is None or not known.driver.value or floor is None:
        nearest = ", ".join(one for one in case.compat.toolkits if minor(one) == minor(toolkit)) or "none of its minor version"
        yield warning(
            "CUDA_UNKNOWN", field, f"CUDA {toolkit}", f"a toolkit whose driver we know ({nearest})",
            "check the driver it was released with in the CUDA release notes, and that the repository has it", *([known.driver] if known else []),
        )  # fmt: skip
    elif older(version, known.driver.value):
        yield warning(
            "CUDA_BELOW_TOOLKIT_DRIVER", field, f"CUDA {toolkit} on driver {version}",
            f"driver {known.driver.value} or newer, with which it was released",
            "choose a newer driver, or test: it runs by minor-version compatibility, but its PTX may be refused (cudaErrorUnsupportedPtxVersion) and NCCL fail",
            known.driver,
        )  # fmt: skip
