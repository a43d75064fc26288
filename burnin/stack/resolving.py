"""A stack, a distribution, an architecture and a SKU -> packages, pins, repositories, services."""

from __future__ import annotations

from burnin.errors import StackError
from burnin.stack.asking import Ask
from burnin.stack.compat import Compat, compat
from burnin.stack.distros import distro as distro_named
from burnin.stack.groups import cuda, dcgm, driver, kernel, nccl, ofed
from burnin.stack.hardware import Hardware
from burnin.stack.model import ARCHES, Stack
from burnin.stack.noting import notes, unsigned_modules
from burnin.stack.places import repository
from burnin.stack.resolution import Resolution

# OFED before the driver; the kernel before both, for they are built against it.
GROUPS = (kernel, ofed, driver, cuda, nccl, dcgm)
LICENCES = {"open": "Dual MIT/GPL", "proprietary": "NVIDIA"}


def resolve(
    stack: Stack,
    distro: str,
    arch: str,
    hardware: Hardware,
    *,
    kernel_running: str | None = None,
    os_release: str | None = None,
    matrix: Compat | None = None,
) -> Resolution:
    """What that node is to have. `kernel_running` is its `uname -r`, `os_release` its release with the minor (9.6), where they are known.

    Raises StackError for a distribution or architecture that is none of ours, or that these GPUs do not come with. It checks nothing else:
    `checking.check` does.
    """
    found = distro_named(distro)
    if arch not in ARCHES:
        raise StackError(f"arch {arch!r}: not one of ours; expected {' or '.join(ARCHES)} (an aarch64 server is sbsa)")
    if arch not in hardware.arches:
        raise StackError(f"{hardware.sku}: does not come with {arch}; expected {' or '.join(hardware.arches)}")
    if stack.driver.source == "distribution" and found.family != "debian":
        raise StackError(
            f"driver.source distribution on {found.name}: only Debian's own packages are known, Ubuntu's archive renames old branches away "
            "and EL has none; expected nvidia (leave driver.source out)"
        )
    ask = Ask(stack, found, arch, hardware, matrix or compat(), kernel_running, os_release)
    groups = tuple(group.build(ask) for group in GROUPS)
    repositories = tuple(repository(ask, name) for name in dict.fromkeys(source for group in groups for source in group.sources))
    el = found.manager == "dnf"
    return Resolution(
        distro=found.name,
        family=found.family,
        manager=found.manager,
        arch=arch,
        sku=hardware.sku,
        driver=_driver(ask),
        kernel=kernel.state(ask),
        groups=groups,
        repositories=repositories,
        # A version outside the enabled stream is hidden without the first; DCGM's parts are weak dependencies.
        setopt=(*(("*.module_hotfixes=true",) if found.modular else ()), *(("install_weak_deps=True",) if el else ())),
        repositories_needed=("epel", "crb") if el else (),
        alternatives={"cuda": cuda.directory(stack.cuda.default)} if stack.cuda and hardware.has_gpu else {},
        peer_memory=_peer_memory(ask),
        unsigned_modules=unsigned_modules(ask),
        notes=tuple(notes(ask, repositories)),
    )


def _driver(ask: Ask) -> dict[str, object]:
    driver = ask.stack.driver
    return {
        "version": driver.version,
        "branch": driver.branch,
        "flavour": driver.flavour,
        "contents": driver.contents,
        "source": driver.source,
        "cuda": ask.compat.cuda_of(driver.branch) or "",
        "module_license": LICENCES[driver.flavour],
    }


def _peer_memory(ask: Ask) -> str:
    if not ask.hardware.has_gpu:
        return "none"
    if ask.stack.driver.flavour == "open":
        return "dma-buf"
    return "nvidia_peermem" if ask.stack.ofed is not None else "none"
