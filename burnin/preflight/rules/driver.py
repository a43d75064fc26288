"""Level ready: the driver holds every GPU. How a node differs from its stack is burnin.stack.drift's to say; here is what holds without one."""

from __future__ import annotations

from burnin.preflight.case import Case, Raw, Rule, card_name, few

CODES = ("NOUVEAU_LOADED", "DRIVER_NOT_LOADED", "GPU_UNBOUND", "PEER_MEMORY_MISSING", "REBOOT_PENDING", "BACKEND_UNUSABLE")


def judge(case: Case) -> Rule:
    """Nothing at level bare: there is no driver yet."""
    if case.level != "ready" or not case.judge_machine:
        return
    if case.stack is None:
        yield from _alone(case)
    loaded = case.fact("modules", "nvidia") is not None
    unbound = [card_name(gpu) for gpu in case.cards("gpus") if gpu.get("driver") != "nvidia"]
    if loaded and unbound and case.judge_parts:
        yield Raw("GPU_UNBOUND", f"On the PCI bus and not driven by nvidia: {few(unbound)}.")
    wanted = (case.stack or {}).get("peer_memory") == "nvidia_peermem"
    if wanted and loaded and case.fact("modules", "nvidia_peermem") is None:
        yield Raw("PEER_MEMORY_MISSING", "The stack's way between GPUs and adapters is nvidia_peermem, which is not loaded.")
    if case.problem:
        yield Raw("BACKEND_UNUSABLE", f"The GPUs were not asked: {case.problem}.")


def _alone(case: Case) -> Rule:
    """No stack is given: any driver will do, but there must be one."""
    if case.fact("modules", "nouveau") is not None:
        yield Raw("NOUVEAU_LOADED", "The module nouveau is loaded; it and NVIDIA's driver cannot hold one GPU both.")
    if case.cards("gpus") and case.fact("modules", "nvidia") is None:
        yield Raw("DRIVER_NOT_LOADED", f"There are {len(case.cards('gpus'))} GPUs on the PCI bus, and the module nvidia is not loaded.")
    pending = case.fact("software", "reboot_required")
    if isinstance(pending, list) and pending:
        yield Raw("REBOOT_PENDING", f"A reboot is owed: {few([str(reason)[:120] for reason in pending])}.")
