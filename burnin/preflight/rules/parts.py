"""Is everything there that was bought? Judged against what is expected, never against what turned up."""

from __future__ import annotations

from collections import Counter

from burnin.preflight.case import Case, Raw, Rule, card_name, few
from burnin.preflight.policy import limit

CODES = ("NOTHING_READ", "SKU_MISMATCH", "GPU_ABSENT", "NVSWITCH_MISSING", "NIC_MISSING", "GPU_WITHOUT_HCA", "NVME_MISSING", "MEMORY_SHORT")


def judge(case: Case) -> Rule:
    """Nothing where parts are not to be judged; one finding where the PCI bus itself was not shown."""
    if not case.judge_parts:
        return
    if not case.fact("pci_functions"):
        if case.parts or case.expected_gpus:
            yield Raw("NOTHING_READ", f"Not one PCI function was found below {case.fact('root') or '/'}; nothing can be said of its parts.")
        return
    yield from _gpus(case)
    yield from _nvswitches(case)
    yield from _nics(case)
    yield from _drives(case)
    yield from _memory(case)


def _gpus(case: Case) -> Rule:
    gpus = case.cards("gpus")
    ids = set(case.hardware.pci_ids) if case.hardware else set()
    others = [gpu for gpu in gpus if str(gpu.get("device")).rpartition(":")[2].upper() not in ids]
    if case.hardware and ids and others:
        kinds = few(sorted({str(gpu.get("device")) for gpu in others}))
        yield Raw(
            "SKU_MISMATCH",
            f"burnin_sku is {case.sku} ({few(sorted(ids))}), and {len(others)} of {len(gpus)} GPUs are {kinds}: {few([*map(card_name, others)])}.",
            case.hardware.confidence,
        )
    if case.expected_gpus is not None and len(gpus) < case.expected_gpus:
        yield Raw("GPU_ABSENT", f"{len(gpus)} of {case.expected_gpus} GPUs are on the PCI bus{_gap(case)}.")


def _gap(case: Case) -> str:
    """Where the missing GPU would be: beside an adapter whose switch has none."""
    switches = {gpu.get("switch") for gpu in case.cards("gpus")}
    alone = [card_name(nic) for nic in case.own_nics() if nic.get("switch") and nic["switch"] not in switches]
    there = few([card_name(gpu) for gpu in case.cards("gpus")])
    if alone and case.part("hcas_per_gpu"):
        return f"; none on the PCIe switch of {few(alone)}"
    return f": {there}" if there else ""


def _nvswitches(case: Case) -> Rule:
    wanted, found = case.part("nvswitches"), case.fact("nvswitches")
    if wanted and isinstance(found, int) and found < wanted.number:
        yield Raw("NVSWITCH_MISSING", f"{found} of {wanted.value} NVSwitches are on the PCI bus.", wanted.confidence)
    bridges = case.part("nvlink5_bridges")
    seen = [nic for nic in case.cards("nics") if nic.get("nvlink5_bridge")]
    if bridges and len(seen) < bridges.number and case.fact("nvlink5") is not None:
        yield Raw(
            "NVSWITCH_MISSING",
            f"{len(seen)} of {bridges.value} bridges to the NVSwitches answer (adapters whose product data say SW_MNG).",
            bridges.confidence,
        )


def _nics(case: Case) -> Rule:
    wanted, own = case.part("nics"), case.own_nics()
    if wanted and len(own) < wanted.number:
        kinds = case.part("nic_devices")
        of = f" of the kinds {few(kinds.value)}" if kinds else ""
        yield Raw("NIC_MISSING", f"{len(own)} of {wanted.value} adapter ports{of} are there; {_lacking(case)}.", wanted.confidence)
    each = case.part("hcas_per_gpu")
    lonely = _lonely(case)
    if each and lonely and not (wanted and len(own) < wanted.number):
        yield Raw("GPU_WITHOUT_HCA", f"No adapter of their own on the PCIe switch of {few(lonely)}.", each.confidence)


def _lonely(case: Case) -> list[str]:
    """The GPUs on whose PCIe switch there are fewer adapters than expected, or that stand behind none."""
    each = case.part("hcas_per_gpu")
    if each is None:
        return []
    adapters = Counter(nic.get("switch") for nic in case.own_nics() if nic.get("switch"))
    gpus = Counter(gpu.get("switch") for gpu in case.cards("gpus"))
    return [
        card_name(gpu) for gpu in case.cards("gpus") if not gpu.get("switch") or adapters[gpu["switch"]] < each.number * gpus[gpu["switch"]]
    ]


def _lacking(case: Case) -> str:
    lonely = _lonely(case)
    return f"none beside {few(lonely)}" if lonely else "which one is missing cannot be told from the PCIe switches"


def _drives(case: Case) -> Rule:
    wanted, drives = case.part("nvme"), case.cards("nvme")
    if wanted and len(drives) < wanted.number:
        there = few([card_name(drive) for drive in drives]) or "none"
        yield Raw("NVME_MISSING", f"{len(drives)} of {wanted.value} NVMe drives are there: {there}.", wanted.confidence)


def _memory(case: Case) -> Rule:
    wanted, found = case.part("memory_gib"), case.fact("memory_mib")
    if wanted and isinstance(found, int) and found < wanted.number * 1024 * (1 - limit("memory_short_pct") / 100):
        yield Raw("MEMORY_SHORT", f"The kernel has {found / 1024:.0f} GiB, {wanted.value} GiB were expected.", wanted.confidence)
