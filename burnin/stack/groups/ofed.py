"""OFED, before the driver: nvidia_peermem is built against its symbols (gpu-operator issue 2868)."""

from __future__ import annotations

from burnin.stack.asking import PRIORITY, Ask
from burnin.stack.resolution import Group

NAME = "ofed"
HELD = ("^doca-", "^mlnx-", "^mlnx_", "^ofed-", "^kmod-(mlnx|iser|isert|srp|kernel-mft)", "^(kernel-)?mft", "^(rdma-core|libibverbs|librdmacm|libibumad|ibverbs-)",
        "^(infiniband-diags|ibacm|opensm|libopensm|perftest|ucx|srptools|openmpi)")  # fmt: skip
STANDALONE = "^mlnx-ofed-(all|basic|hpc|vma|dpdk|guest|hypervisor|kernel-only|eth-only)"
# EL 9.8's own rdma-core is newer than DOCA's and the two do not mix (azhpc-images).
INTERSECTION = (
    "rdma-core*",
    "libibverbs*",
    "librdmacm*",
    "libibumad*",
    "infiniband-diags*",
    "ibacm*",
    "iwpmd*",
    "srp_daemon*",
    "perftest*",
    "ucx*",
    "opensm*",
)


def build(ask: Ask) -> Group:
    """Empty where the distribution's own RDMA stack is to stay."""
    ofed = ask.stack.ofed
    if ofed is None:
        return Group(NAME)
    meta = "doca-ofed" if ofed.kind == "doca" else "mlnx-ofed-all"
    label = "DOCA-HOST" if ofed.kind == "doca" else "Mellanox Technologies"
    # DOCA's package versions go on after the number in more than one way (3.1.0-091000, 2.9.0-0.4.7): the repository is of one version anyway.
    version, _, rest = ofed.version.partition("-")
    package = ask.package(meta, version, f"{ofed.kind} {ofed.version}; its repository is of this version alone", release=f"{rest}*")
    return Group(
        NAME,
        version=ofed.version,
        packages=(package,),
        pins=ask.pin(
            "ofed",
            ("dkms", f"release l={label}*", -1),  # the distribution's dkms stays
            ("mft mft-* kernel-mft*", "release l=NVIDIA CUDA", -1),  # the CUDA repository's mft tracks no DOCA
            (meta, f"version {version}*", PRIORITY),
            ("*", f"release l={label}", 600),
        ),
        hold=HELD,
        absent=(STANDALONE,) if ofed.kind == "doca" else ("^doca-",),
        blacklist=(
            "^doca-",
            "^mlnx-",
            "^ofed-",
            "^mft",
            "^rdma-core",
            "^libibverbs",
            "^librdmacm",
            "^libibumad",
            "^ibverbs-",
            "^infiniband-diags",
        )
        if ask.apt
        else (),
        locks=ask.locks((package,)),
        excludes={} if ask.apt else {"cuda": ("mft*", "kernel-mft*"), "baseos": INTERSECTION, "appstream": INTERSECTION},
        sources=(ofed.kind,),
    )
