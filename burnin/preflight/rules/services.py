"""Level ready, without a stack: whether the board needs the fabric manager (field report B08). With one, burnin.stack.drift asks for it.

Eight GPUs behind NVSwitches need it; one tray of a rack-scale system has its fabric run from elsewhere (IMEX); a PCIe card has none.
"""

from __future__ import annotations

from collections.abc import Mapping

from burnin.preflight.case import Case, Raw, Rule

CODES = ("FABRIC_MANAGER_DOWN",)
FABRIC_MANAGER = "nvidia-fabricmanager.service"


def judge(case: Case) -> Rule:
    """Nothing at level bare, nor where systemd did not answer (FACTS_UNKNOWN says so)."""
    services = case.fact("software", "services")
    if (
        case.level != "ready"
        or not case.judge_machine
        or case.stack is not None
        or not isinstance(services, Mapping)
        or not needs_fabric_manager(case)
    ):
        return
    found = services.get(FABRIC_MANAGER)
    state = "not installed" if found is None else found.get("active") or "in a state that is not told"
    if state != "active":
        yield Raw(
            "FABRIC_MANAGER_DOWN", f"{FABRIC_MANAGER} is {state}, and this board has NVSwitches: CUDA will say error 802 until it runs."
        )


def needs_fabric_manager(case: Case) -> bool:
    """The SKU's word; where no SKU is named, what stands on the bus."""
    if case.hardware is not None:
        return case.hardware.nvswitch
    return bool(case.fact("nvswitches") or case.fact("nvlink5"))
