"""CUDA toolkits, side by side. Never `cuda` or `cuda-X-Y`: those pull a driver."""

from __future__ import annotations

from burnin.stack.asking import PRIORITY, Ask
from burnin.stack.resolution import Group
from burnin.stack.versions import minor

NAME = "cuda"
# Debian's and Ubuntu's own toolkit, and the meta packages that bring a driver.
ABSENT = ("^cuda$", "^cuda-[0-9]+-[0-9]+$", "^cuda-(runtime|demo-suite)-[0-9]+-[0-9]+$", "^nvidia-cuda-(toolkit|dev)$")


def directory(toolkit: str) -> str:
    """Where a toolkit lies."""
    return f"/usr/local/cuda-{minor(toolkit)}"


def build(ask: Ask) -> Group:
    """One package a toolkit; what it drags in carries the X-Y in its name, and is held."""
    cuda = ask.stack.cuda
    if cuda is None or not ask.hardware.has_gpu:
        return Group(NAME)
    dashed = {toolkit: minor(toolkit).replace(".", "-") for toolkit in cuda.toolkits}
    packages = tuple(ask.package(f"cuda-toolkit-{dashed[one]}", one, f"toolkit {one}") for one in cuda.toolkits)
    return Group(
        NAME,
        version=cuda.default,
        packages=packages,
        pins=ask.pin(
            "cuda-toolkit",
            *((package.name, f"version {toolkit}-*", PRIORITY) for package, toolkit in zip(packages, cuda.toolkits, strict=True)),
        ),
        hold=(*(f"-{one}$" for one in dashed.values()), "^cuda-toolkit-.*config-common$"),
        absent=ABSENT,
        # By suffix: a pattern such as ^libcu would also keep libcurl from its security updates.
        blacklist=("^cuda-", "^nsight-", *(f".*-{one}$" for one in dashed.values())) if ask.apt else (),
        locks=ask.locks(packages),
        sources=("cuda",),
    )
