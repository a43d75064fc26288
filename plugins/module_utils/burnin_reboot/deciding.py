"""From what a node is and what it shall be: must it be rebooted, and would that help? Pure.

A reason is a fact that a reboot changes. A fault is one that no reboot mends: rebooting would cost twenty minutes and leave it as it is, or
lose the node. Both are {"code", "found", "expected", "remedy"}.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Fact = dict[str, str]


@dataclass(frozen=True)
class Wanted:
    """`kernel`: as `uname -r`, "" = whatever runs stays. `driver`: the pinned version, "" = not ours. `force`: a person asked for a reboot."""

    kernel: str = ""
    driver: str = ""
    force: bool = False


@dataclass(frozen=True)
class Decision:
    """Faults come first: with one of them nothing is rebooted."""

    reasons: list[Fact]
    faults: list[Fact]

    @property
    def required(self) -> bool:
        return bool(self.reasons) and not self.faults


def _fact(code: str, found: str, expected: str, remedy: str) -> Fact:
    return {"code": code, "found": found, "expected": expected, "remedy": remedy}


def decide(state: dict[str, Any], wanted: Wanted) -> Decision:
    """The markers of distributions (/run/reboot-required, needs-restarting) are not asked: they lie in both directions (field report B05)."""
    reasons, faults = _kernel(state, wanted)
    if state["gpus"] and wanted.driver:
        more, worse = _driver(state, wanted)
        reasons, faults = reasons + more, faults + worse
    reasons += [
        _fact(
            "FLAGGED", f"{name}: {why}", "no reboot outstanding", "the reboot takes the flag away; if it comes back, cut the node's power"
        )
        for name, why in sorted(state["flags"].items())
    ]
    if wanted.force:
        reasons.append(_fact("FORCED", "reboot_force is set", "a reboot", "leave reboot_force out"))
    return Decision(reasons, faults)


def _kernel(state: dict[str, Any], wanted: Wanted) -> tuple[list[Fact], list[Fact]]:
    running = state["kernel"]
    if not wanted.kernel:
        return [], []
    installed = wanted.kernel in state["kernels"]
    if not installed:
        there = ", ".join(state["kernels"]) or "none"
        remedy = "run the role kernel; it installs what burnin_stack.kernel names"
        return [], [_fact("KERNEL_NOT_INSTALLED", f"kernels installed: {there}", f"kernel {wanted.kernel}", remedy)]
    next_one = state["next_kernel"]
    astray = next_one is not None and next_one != wanted.kernel
    fault = _fact(
        "KERNEL_NOT_DEFAULT",
        f"the boot loader would start kernel {next_one}",
        f"kernel {wanted.kernel}",
        "run the role kernel with kernel_boot_default, or name the other kernel in burnin_stack.kernel",
    )
    if running == wanted.kernel:
        return [], [fault] if astray and _due(state, wanted) else []
    reason = _fact(
        "KERNEL_OTHER",
        f"kernel {running} is running",
        f"kernel {wanted.kernel}",
        "if a reboot does not bring it, look at the boot loader's default and the console",
    )
    return [reason], [fault] if astray else []


def _due(state: dict[str, Any], wanted: Wanted) -> bool:
    """Whether something else asks for a reboot, which would then bring the wrong kernel."""
    other = decide({**state, "next_kernel": None}, wanted)
    return bool(other.reasons)


def _driver(state: dict[str, Any], wanted: Wanted) -> tuple[list[Fact], list[Fact]]:
    kernel = wanted.kernel or str(state["kernel"])
    faults, reasons = [], []
    if kernel not in state["module_for"]:
        there = ", ".join(state["module_for"]) or "no kernel"
        remedy = (
            "no reboot helps: run the role nvidia_driver, see `dkms status` and its make.log, and that the headers of that kernel are there"
        )
        expected = f"the module nvidia on disk for kernel {kernel}"
        faults.append(_fact("MODULE_NOT_BUILT", f"the module nvidia is on disk for {there}", expected, remedy))
    if state["nouveau"]:
        remedy = "if it comes back, its blacklist is not in the initramfs: run the role nvidia_driver"
        reasons.append(_fact("NOUVEAU_LOADED", "nouveau is loaded", "nvidia alone", remedy))
    if state["module"] != wanted.driver:
        found = f"the module nvidia {state['module']} is loaded" if state["module"] else "no module nvidia is loaded"
        remedy = (
            "if a reboot does not bring it, see `modinfo nvidia`, `dmesg | grep -i nvrm`, and under Secure Boot whether its key is enrolled"
        )
        reasons.append(_fact("MODULE_OTHER", found, f"version {wanted.driver}", remedy))
    return reasons, faults
