"""DCGM. From 4 on its packages carry the CUDA major of the driver; the bare name is the 3.x series, and conflicts (deepops issue 1394)."""

from __future__ import annotations

from burnin.stack.asking import PRIORITY, Ask
from burnin.stack.resolution import Group
from burnin.stack.versions import major

NAME = "dcgm"
SERVICE = "nvidia-dcgm.service"


def build(ask: Ask) -> Group:
    """Exact names, never the bare one for 4."""
    dcgm = ask.stack.dcgm
    if dcgm is None or not ask.hardware.has_gpu:
        return Group(NAME)
    epoch = str(ask.compat.rules["dcgm.epoch"].value)
    four = major(dcgm.version) >= ask.compat.rules["dcgm.follows_cuda_from"].value
    names, absent = _four(ask) if four else _three()
    # The 3.x series' deb is 1:3.3.9, without a packaging release.
    release = "*" if four or not ask.apt else ""
    packages = tuple(ask.package(name, dcgm.version, why, epoch=epoch, release=release) for name, why in names.items())
    return Group(
        NAME,
        version=dcgm.version,
        packages=packages,
        pins=ask.pin("dcgm", ("datacenter-gpu-manager*", f"version {epoch}:{dcgm.version}*", PRIORITY)),
        hold=("^datacenter-gpu-manager",),
        same_version=("^datacenter-gpu-manager",),
        absent=absent,
        blacklist=("^datacenter-gpu-manager",) if ask.apt else (),
        locks=ask.locks(packages),
        services=(SERVICE,),
        sources=("cuda",),
    )


def _four(ask: Ask) -> tuple[dict[str, str], tuple[str, ...]]:
    both = ask.compat.rules["dcgm.both_cuda_for"]
    cudas = sorted({ask.cuda_major, "12"} if ask.hardware.generation in both.value else {ask.cuda_major})
    names = {
        "datacenter-gpu-manager-4-core": "the daemon",
        "datacenter-gpu-manager-4-proprietary": "profiling and health of the vendor's own",
    }
    for cuda in cudas:
        why = f"for CUDA {cuda}, the driver's" if cuda == ask.cuda_major else f"for CUDA {cuda}: {both.why}"
        names |= {f"datacenter-gpu-manager-4-cuda{cuda}": why, f"datacenter-gpu-manager-4-proprietary-cuda{cuda}": why}
    others = "|".join(cudas)
    return names, (
        "^datacenter-gpu-manager$",
        "^datacenter-gpu-manager-config$",
        f"^datacenter-gpu-manager-4-(proprietary-)?cuda(?!({others})$)",
    )


def _three() -> tuple[dict[str, str], tuple[str, ...]]:
    return {"datacenter-gpu-manager": "the 3.x series has one package"}, ("^datacenter-gpu-manager-4-",)
