"""Do the GPUs go with this driver, this flavour of kernel module and these toolkits?"""

from __future__ import annotations

from collections.abc import Iterator

from burnin.stack.case import Case, error, warning
from burnin.stack.compat import Fact
from burnin.stack.hardware import Hardware
from burnin.stack.model import Problem
from burnin.stack.versions import older


def judge(case: Case) -> Iterator[Problem]:
    """Problems of each SKU, and of the flavour by itself."""
    driver = case.stack.driver
    open_only = case.compat.rules["flavours.open_only_from"]
    if driver.flavour == "proprietary" and driver.branch >= open_only.value:
        yield error(
            "FLAVOUR_GONE", "driver.flavour", f"proprietary on branch {driver.branch}", f"open from branch {open_only.value} on",
            "write flavour: open, or stay on a branch before it", open_only,
        )  # fmt: skip
    for one in case.hardware:
        if one.has_gpu:
            yield from _driver(case, one)
            yield from _toolkits(case, one)


def _fact(one: Hardware) -> Fact:
    return Fact(one.flavours, "flavours", one.why, one.source, one.confidence)


def _driver(case: Case, one: Hardware) -> Iterator[Problem]:
    driver = case.stack.driver
    if driver.flavour not in one.flavours:
        wanted = " or ".join(one.flavours)
        yield error(
            "FLAVOUR_WRONG", "driver.flavour", f"{driver.flavour} for {one.sku} ({one.generation})", f"{wanted}: {one.why}",
            f"write flavour: {wanted}; give SKUs that need another flavour a stack of their own", _fact(one),
        )  # fmt: skip
    if driver.branch < one.first_branch:
        yield error(
            "BRANCH_BEFORE_GPU", "driver.version", f"branch {driver.branch} for {one.sku}", f"branch {one.first_branch} or newer, the first that knows it",
            "choose a newer branch", _fact(one),
        )  # fmt: skip
    if driver.source == "distribution" and (one.traits & {"nvswitch", "imex"}):
        yield error(
            "DRIVER_SOURCE", "driver.source", f"distribution for {one.sku}", f"nvidia: {one.sku} needs fabric manager or IMEX, which Debian does not have",
            "leave driver.source out for these nodes",
        )  # fmt: skip
    if one.last_branch is not None and driver.branch > one.last_branch:
        yield error(
            "BRANCH_AFTER_GPU", "driver.version", f"branch {driver.branch} for {one.sku}", f"branch {one.last_branch} or older, the last that knows it",
            f"stay on branch {one.last_branch}", _fact(one),
        )  # fmt: skip


def _toolkits(case: Case, one: Hardware) -> Iterator[Problem]:
    for place, toolkit in enumerate(case.stack.cuda.toolkits if case.stack.cuda else ()):
        field = f"cuda.toolkits[{place}]"
        # 12.9 is the last for Volta: 12.9.1 is still it.
        if one.last_cuda and older(one.last_cuda + ".999", toolkit):
            yield error(
                "CUDA_DROPPED_GPU", field, f"{toolkit} for {one.sku} ({one.generation})", f"CUDA {one.last_cuda} or older: {one.why}",
                f"take {one.last_cuda}.x for these nodes", _fact(one),
            )  # fmt: skip
        if one.first_cuda and older(toolkit, one.first_cuda):
            yield warning(
                "CUDA_BEFORE_GPU", field, f"{toolkit} for {one.sku} ({one.generation})", f"CUDA {one.first_cuda} or newer, the first that compiles for it",
                "choose a newer toolkit; older code runs only if it carries PTX", _fact(one),
            )  # fmt: skip
