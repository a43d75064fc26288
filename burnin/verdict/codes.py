"""Every finding code: whose it is, and what to do next. docs/runbooks/<CODE>.md says more."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """`of` is gpu, disk, node, rack or fleet; `action` is the sentence that a person reads at 3 a.m."""

    of: str
    action: str


CODES: dict[str, Code] = {
    # GPU: speed
    "PERF_OK": Code("gpu", "Nothing to do."),
    "PERF_BELOW_MEDIAN": Code("gpu", "Run the vendor's field diagnostic on it, keep its output and open an RMA with this evidence."),
    "TOO_FEW_WINDOWS": Code("gpu", "Run the plan again: fewer steady windows than a verdict needs."),
    "COHORT_TOO_SMALL": Code("gpu", "Burn in more GPUs of this kind together, or give --reference RUN of a fleet that is known."),
    "TEST_MISSING": Code("gpu", "See why the test did not run to its end on this node, mend it and run the plan again."),
    "VALUE_INVALID": Code("gpu", "Look at the named values: a measurement must be a positive number. Measure again."),
    "LIMITING_GPU": Code("gpu", "Look at it first: its node waits for it. Compare its clock and heat with the same slot elsewhere, then run again."),
    # GPU: heat
    "HEAT_OK": Code("gpu", "Nothing to do."),
    "HEAT_UNKNOWN": Code("gpu", "The device gave no temperature: check the driver and the sampler, then run again."),
    "SENSORS_SILENT": Code("gpu", "Check the driver and the sampler on this node (another agent may hold the sensors), then run again."),
    "HEAT_NEAR_LIMIT": Code("gpu", "Check airflow, dust covers and the heat sink's seat; then run again and compare with its slot peers."),
    "HEAT_OVER_SLOT_PEERS": Code("gpu", "Reseat the heat sink or check the cold plate; the same slot of other nodes is cooler."),
    "HEAT_OVER_COHORT": Code("gpu", "Find out its slot and limit (low confidence without them), then check its cooling."),
    "THERMAL_SLOWDOWN": Code("gpu", "Check airflow and inlet once; if it throttles again alone, open an RMA with this evidence."),
    # GPU: hard faults
    "WRONG_RESULT": Code("gpu", "Take it out of service now. Run the vendor's field diagnostic and open an RMA; never train on it."),
    "ROW_REMAP_FAILURE": Code("gpu", "Take nvidia-bug-report and the field diagnostic's output, then open an RMA: the vendor's own criterion is met."),
    "SRAM_THRESHOLD": Code("gpu", "Take nvidia-bug-report and the field diagnostic's output, then open an RMA: the vendor's own criterion is met."),
    "GPU_LOST": Code("gpu", "Power-cycle the node, reseat the module and run again; a second loss in one run is an RMA."),
    "RESET_PENDING": Code("gpu", "Reset the GPU (or reboot the node) and run again; a reset finishes the repair."),
    "HEALTH_UNKNOWN": Code("gpu", "Ask the device by hand (nvidia-smi -q); a driver too old or a device in error does not answer. Then run again."),
    # GPU: presence and identity
    "GPU_PRESENT": Code("gpu", "Nothing to do; it was seen, not measured."),
    "GPU_MISSING": Code("gpu", "Look at the slot: lspci, kernel log, seating, power. If lspci shows it and the driver does not, reset it first."),
    "DUPLICATE_ID": Code("gpu", "One GPU cannot be in two nodes: check the inventory and which node the data came from. No RMA until this is clear."),
    "UNDER_SHARED_FAULT": Code("gpu", "Mend what it shares with its neighbours first, then run again."),
    # drive
    "DISK_OK": Code("disk", "Nothing to do."),
    "DISK_BELOW_MEDIAN": Code("disk", "Swap it with a like drive of another slot and run again: slow again in the other slot, open an RMA with this evidence."),
    "DISK_TOO_FEW_WINDOWS": Code("disk", "Run the plan again: fewer steady windows than a verdict needs."),
    "DISK_COHORT_TOO_SMALL": Code("disk", "Burn in more drives of this model, size and firmware together."),
    "DISK_NOT_MEASURED": Code("disk", "See the named reason (fio missing, a read error), mend it on the node and run the plan again."),
    "DISK_LOST": Code("disk", "Look at the kernel log and the PCIe link, reseat the drive and run again."),
    "DISK_CRITICAL_WARNING": Code("disk", "Read its health log (nvme smart-log) and save it. Temperature alone: mend the cooling and run again; else open an RMA."),
    "DISK_MEDIA_ERRORS": Code("disk", "Read its error log (nvme error-log) and run again; errors that grow are an RMA."),
    "DISK_WORN": Code("disk", "Find out why a new node has a used drive; more of its rated life is gone than a delivery may show."),
    "DISK_HOT": Code("disk", "Check airflow over the drive cage and blanking panels, then run again."),
    "DISK_HEALTH_UNKNOWN": Code("disk", "Install nvme-cli or smartmontools on the node, ask the drive by hand, then run again."),
    "DISK_FIRMWARE_DIFFERS": Code("disk", "Bring it to the firmware that its like have, then run again."),
    # node
    "NODE_OK": Code("node", "Nothing to do."),
    "PARTS_MISSING": Code("node", "Find the missing part (slot named); until then the node is not what was bought."),
    "PARTS_UNEXPECTED": Code("node", "More parts than expected: correct burnin_sku or burnin_expected_gpus."),
    "EXPECTATION_MISSING": Code("node", "Set burnin_sku (or burnin_expected_gpus): without it, a missing GPU cannot be seen."),
    "NODE_SLOW": Code("node", "Look for what its GPUs share: power supply, inlet air, CPU governor, PCIe, BIOS. Mend it and run again."),
    "NODE_STEP_UNKNOWN": Code("node", "Burn in more nodes of this kind together, or run the plan again with more windows."),
    "NODE_WRONG_RESULT": Code("node", "Take it out of service now. Run the test on fewer GPUs until the one that computes wrong is found, with the vendor's tool."),
    "NODE_HOT": Code("node", "Its GPUs throttle on heat together: check fans, baffles, inlet air and blanking panels."),
    "POWER_LIMIT_LOW": Code("node", "Set the power limit of these GPUs to their default (nvidia-smi -pl) on every boot, then run again."),
    "GPUS_LOST_TOGETHER": Code("node", "Look for what they share: power supply, PCIe switch, riser, baseboard. Power-cycle the node and run again."),
    "NODE_REBOOTED": Code("node", "It went down under load: look at BMC event log, power supplies and kernel log, then run again."),
    "PLAN_ENDED_EARLY": Code("node", "Resume the run (burnin resume) or start it again; what is missing is no pass."),
    "NODE_STOPPED": Code("node", "Resume the run (burnin resume) when ready."),
    "NODE_UNREACHABLE": Code("node", "Bring it back on the network (BMC console), then burnin resume."),
    "PREFLIGHT_FAILED": Code("node", "Mend what preflight named, then run it again."),
    "PROVISION_FAILED": Code("node", "Mend what provisioning named, then try this node again: burnin provision --limit NODE."),
    "REBOOT_REQUIRED": Code("node", "Reboot it by hand (it may not be rebooted from here), then run again."),
    "RUN_FAILED": Code("node", "The run could not go on (reason named): mend it and resume."),
    "EVIDENCE_UNREADABLE": Code("node", "A result file is damaged: collect again (burnin resume); if it stays so, check the node's disk and run again."),
    "TESTS_SKIPPED": Code("node", "See the named reason, mend it on the node and run again: a test that did not run has shown nothing."),
    # rack
    "RACK_OK": Code("rack", "Nothing to do."),
    "RACK_SLOW": Code("rack", "Look at the rack before its nodes: cooling, power feed, switch."),
    "RACK_HOT": Code("rack", "The same slot throttles in several of its nodes: check inlet air, containment and blanking panels."),
    # fleet
    "NOTHING_SHOWN": Code("fleet", "See what kept the nodes from measuring (their findings say), mend it and run again."),
    "LEDGER_UNREADABLE": Code("fleet", "Bring controller.jsonl back from a copy, or run again: who was unreachable or refused may be missing in it."),
    "FLEET_OK": Code("fleet", "Nothing to do."),
    "ENVIRONMENT_SUSPECT": Code("fleet", "All are slow alike: suspect the stack, the power limit or the test itself; try a node known to be good. No RMA from this."),
    "SPREAD_UNUSUAL": Code("fleet", "Look at the distribution before sending anything back: mixed kinds, inlet air, power limits, a test not settled."),
    "COHORTS_DIFFER": Code("fleet", "Bring the slower cohort to the faster one's software (named), then run again."),
}  # fmt: skip
