"""NCCL: library and headers, one full version each; pinning one alone makes apt remove the other."""

from __future__ import annotations

from burnin.stack.asking import PRIORITY, Ask
from burnin.stack.resolution import Group

NAME = "nccl"


def build(ask: Ask) -> Group:
    """The build for one CUDA, by its whole version: all builds share the package name."""
    nccl = ask.stack.nccl
    if nccl is None or not ask.hardware.has_gpu:
        return Group(NAME)
    release = f"1+cuda{nccl.cuda}"
    names = ("libnccl2", "libnccl-dev") if ask.apt else ("libnccl", "libnccl-devel")
    packages = tuple(ask.package(name, nccl.version, f"NCCL built for CUDA {nccl.cuda}", release=release) for name in names)
    return Group(
        NAME,
        version=f"{nccl.version}-{release}",
        packages=packages,
        pins=ask.pin("nccl", (" ".join(names), f"version {nccl.version}-{release}", PRIORITY)),
        hold=("^libnccl",),
        same_version=("^libnccl",),
        blacklist=("^libnccl",) if ask.apt else (),
        locks=ask.locks(packages),
        sources=("cuda",),
    )
