"""The machine round the cards: what it boots, how it routes traffic between cards, who holds a GPU, and what it would not say."""

from __future__ import annotations

from collections import defaultdict

from burnin.preflight.case import Case, Raw, Rule, few
from burnin.preflight.policy import limit
from burnin.preflight.rules import ports
from burnin.preflight.rules.links import unknown
from burnin.preflight.rules.services import needs_fabric_manager

CODES = ("SECURE_BOOT_UNSIGNED", "IOMMU_TRANSLATES", "ACS_REDIRECTS", "CLOCK_FREE_RUNNING", "SPACE_LOW", "GPU_BUSY", "FACTS_UNKNOWN")
SPACES = (("/usr", "space_root_mib"), ("/boot", "space_boot_mib"))


def judge(case: Case) -> Rule:
    """Each fact alone."""
    if not case.judge_machine:
        return
    unsigned = list((case.stack or {}).get("unsigned_modules") or [])
    # Told before anything is changed; once the modules are loaded they were signed after all.
    if case.fact("firmware", "secure_boot") is True and unsigned and case.fact("modules", "nvidia") is None:
        yield Raw(
            "SECURE_BOOT_UNSIGNED", f"Secure Boot is on, and these are built on the node and unsigned: {few(unsigned)}. They will not load."
        )
    if case.judge_parts:
        yield from _paths(case)
    if case.fact("clock", "synchronized") is False:
        yield Raw("CLOCK_FREE_RUNNING", "Nothing keeps its clock.")
    if case.level == "bare" and case.stack:
        low = [f"{path} has {free} MiB, {limit(name)} are wanted" for path, name in SPACES if (free := _free(case, path)) < limit(name)]
        if low:
            yield Raw("SPACE_LOW", f"Little room for the stack: {few(low)}.")
    yield from _busy(case)
    silent = _silent(case)
    if silent:
        yield Raw("FACTS_UNKNOWN", f"Not told by this machine, so not checked: {few(silent)}.")


def _free(case: Case, path: str) -> float:
    free = case.fact("free_mib", path)
    return free if isinstance(free, int) else float("inf")


def _paths(case: Case) -> Rule:
    if case.fact("iommu") == "translated":
        yield Raw("IOMMU_TRANSLATES", "The IOMMU translates the transfers of GPUs or adapters (iommu=pt is not set).")
    redirecting = [str(port.get("address")) for port in case.cards("acs") if port.get("redirect") is True]
    if redirecting:
        ports = f"{len(redirecting)} of {len(case.cards('acs'))} ports above GPUs and adapters"
        yield Raw("ACS_REDIRECTS", f"{ports} send peer-to-peer traffic up to the root: {few(redirecting)}.")


def _busy(case: Case) -> Rule:
    """A process on a GPU that is none of the driver's own daemons."""
    own = set(limit("gpu_daemons"))
    holders: dict[str, set[str]] = defaultdict(set)
    for process in case.cards("gpu_processes"):
        if process.get("name") not in own:
            holders[f"{process.get('name') or 'a process'} ({process.get('pid')})"].add(str(process.get("device")))
    if holders:
        yield Raw("GPU_BUSY", f"In use: {few([f'{name} on {few(sorted(devices))}' for name, devices in sorted(holders.items())])}.")


def _silent(case: Case) -> list[str]:
    """What would have been judged here, had it been told."""
    found = []
    if case.judge_parts and case.fact("pci_functions"):
        found += [name for name in (unknown(case),) if name]
        found += ports.unknown(case)
        found += ["the bridges to its NVSwitches"] * (case.part("nvlink5_bridges") is not None and case.fact("nvlink5") is None)
        found += ["ACS"] * any(port.get("redirect") is None for port in case.cards("acs"))
        found += ["the IOMMU"] * (case.fact("iommu") == "unknown")
        found += ["its memory"] * (case.part("memory_gib") is not None and case.fact("memory_mib") is None)
    if case.level == "bare" and (case.stack or {}).get("unsigned_modules") and case.fact("firmware", "secure_boot") is None:
        found.append("Secure Boot")
    if case.level == "ready" and case.stack is None and needs_fabric_manager(case) and case.fact("software", "services") is None:
        found.append("its services")
    return found
