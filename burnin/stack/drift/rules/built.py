"""Whether the modules are built for the kernel that runs or is to run: dkms may have built them for another one only (B05)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from burnin.stack.drift.case import Case, mapping, text
from burnin.stack.drift.finding import Finding, listed
from burnin.stack.drift.rules.kernel import targets

OURS = {"nvidia": "driver", "mlnx-ofed-kernel": "ofed", "mlnx-ofa_kernel": "ofed"}


@dataclass(frozen=True, slots=True)
class Built:
    """One entry of DKMS's tree."""

    module: str
    version: str
    kernel: str | None
    state: str | None
    built_s: int | None


def entries(case: Case) -> list[Built]:
    """DKMS's tree."""
    told = case.software.get("dkms")
    found = []
    for row in map(mapping, told if isinstance(told, list) else []):
        module, version, when = text(row.get("module")), text(row.get("version")), row.get("built_s")
        if module and version:
            found.append(Built(module, version, text(row.get("kernel")), text(row.get("state")), when if isinstance(when, int) else None))
    return found


def judge(case: Case) -> Iterator[Finding]:
    """By module: those that DKMS knows, and the driver's where it is precompiled."""
    known = entries(case)
    for module, group in OURS.items():
        mine = [one for one in known if one.module == module]
        if mine:
            yield from _registered(case, group, mine)
    if case.has_gpus and not any(one.module == "nvidia" for one in known):
        yield from _precompiled(case)
    yield from _order(case, known)


def _registered(case: Case, group: str, mine: list[Built]) -> Iterator[Finding]:
    pinned = case.group("driver")["version"] if group == "driver" else ""
    wanted = [one for one in mine if one.version == pinned] or mine
    ready = {one.kernel for one in wanted if one.state == "installed"}
    lacking = [kernel for kernel in targets(case) if kernel not in ready]
    if lacking:
        name = f"{wanted[0].module}/{wanted[0].version}"
        there = sorted(kernel for kernel in ready if kernel)
        shown = f"{name} is built for {listed(there)} only" if there else f"{name} is built for no kernel"
        yield Finding(
            "DKMS_NOT_BUILT", group, f"{shown}, not for {listed(lacking)}", f"installed for {listed(targets(case))}", tuple(lacking)
        )


def _precompiled(case: Case) -> Iterator[Finding]:
    files = case.software.get("module_files")
    if not isinstance(files, list) or not case.matching(case.group("driver")["same_version"]):
        return
    ready = {mapping(row).get("kernel") for row in files if mapping(row).get("module") == "nvidia"}
    lacking = [kernel for kernel in targets(case) if kernel not in ready]
    if lacking:
        yield Finding("DKMS_NOT_BUILT", "driver", f"no nvidia module for {listed(lacking)}", "one for the kernel that runs", tuple(lacking))


def _order(case: Case, known: list[Built]) -> Iterator[Finding]:
    """nvidia_peermem takes its symbols from the OFED that was there when it was built (gpu-operator issue 2868)."""
    if case.want["peer_memory"] != "nvidia_peermem":
        return
    here = [one for one in known if one.kernel == case.running and one.state == "installed"]
    when = {OURS.get(one.module, one.module): one.built_s for one in here if one.built_s is not None}
    ofed, driver = when.get("ofed"), when.get("driver")
    if ofed is not None and driver is not None and driver < ofed:
        yield Finding("DRIVER_BUILT_BEFORE_OFED", "driver", f"nvidia was built {ofed - driver} s before OFED", "OFED first, then nvidia")
