"""Every code of the preflight: what to do next. docs/runbooks/<CODE>.md says more; burnin/data/preflight.yaml says what it comes to.

How a ready node differs from its stack is told in the codes of burnin/stack/drift; four of those are used here too, where no stack is given.
"""

from __future__ import annotations

from burnin.stack.drift import codes as drift
from burnin.verdict.codes import Code

CODES: dict[str, Code] = {
    # parts
    "SKU_MISMATCH": Code("node", "Correct burnin_sku, or send back what was not ordered."),
    "GPU_ABSENT": Code("node", "Look at the slot: seating, power, BMC log, kernel log; the verdict fails the node for it."),
    "NVSWITCH_MISSING": Code("node", "Power-cycle the node; if it stays away, the baseboard goes back."),
    "NIC_MISSING": Code("node", "Reseat the adapter named by the GPU that lacks one, look at BMC and kernel log; if it stays away, send it back."),
    "NVME_MISSING": Code("node", "Reseat the drive, look at backplane and BMC log; or say in burnin_sku_parts what was bought."),
    "MEMORY_SHORT": Code("node", "Look in BMC and BIOS for a module that is missing or mapped out; or say in burnin_sku_parts what was bought."),
    # links
    "PCIE_WIDTH_LOW": Code("node", "Reseat card or riser, clean the contacts; try the card in another slot to tell which of the two it is."),
    "PCIE_SPEED_LOW": Code("node", "Read it again under load; if it stays low, reseat card and riser, then look at the BIOS setting of that port."),
    "PCIE_PORT_LIMIT": Code("node", "Look at the port named: BIOS setting, riser, slot. The card itself is not at fault."),
    "PCIE_CARD_LIMIT": Code("node", "The card says it can do less than was bought: check its kind and its firmware."),
    "GPU_WITHOUT_HCA": Code("node", "Compare with a sound node's topology: an adapter is missing or in another slot."),
    # adapters
    "NIC_WITHOUT_DRIVER": Code("node", "See the kernel log for mlx5_core and mlx5_ib; provision the OFED again."),
    "NIC_DOWN": Code("node", "Polling: plug in, clean or change the cable. Disabled: turn the port on, here or at the switch."),
    "NIC_NO_SUBNET_MANAGER": Code("node", "Start a subnet manager on the fabric, or let the one there reach this port."),
    "NIC_WIDTH_LOW": Code("node", "Reseat, clean, then change the cable or transceiver: lanes are lost there. Then try another port of the switch."),
    "NIC_RATE_LOW": Code("node", "Check that cable, transceiver and switch port can do the rate and are set to it; the slower end decides."),
    "NIC_ERRORS": Code("node", "Look again after an hour: if the counts grow, clean or change the cable; if they stay with the card, send it back."),
    "NIC_FLAPS": Code("node", "Look again after an hour: if the count grows, change the cable, then the switch port; see who else went down with it."),
    "NIC_LINK_LAYER": Code("node", "Say the link layer in burnin_sku_parts, or change the card: query it first, set it by the line given, power-cycle."),
    "FIRMWARE_DIFFERS": Code("node", "Bring the cards to one firmware, the site's."),
    # the machine
    "SECURE_BOOT_UNSIGNED": Code("node", "Turn Secure Boot off, or enrol a machine owner key and accept this code for the node."),
    "IOMMU_TRANSLATES": Code("node", "Add iommu=pt to the kernel's command line and reboot."),
    "ACS_REDIRECTS": Code("node", "Clear the redirect bits at each boot, or turn ACS off in the BIOS."),
    "CLOCK_SKEW": Code("node", "Start its time service (chronyd, systemd-timesyncd), then run again."),
    "CLOCK_FREE_RUNNING": Code("node", "Start its time service (chronyd, systemd-timesyncd)."),
    "EVIDENCE_SPACE": Code("node", "Make room, or set burnin_run_root to a larger file system."),
    "SPACE_LOW": Code("node", "Make room before provisioning: old kernels, old toolkits, package caches."),
    "MIRROR_UNREACHABLE": Code("node", "Check the URL in the stack file, the node's route, name service and proxy; or mirror that release."),
    "STACK_UNRESOLVED": Code("node", "Correct the stack file or the node's system; `burnin stack packages` tries it without a node."),
    "NOTHING_READ": Code("node", "Run as root (ansible_become); if it is, look why /sys/bus/pci is empty."),
    "FACTS_UNKNOWN": Code("node", "Run as root (ansible_become) so that what is named can be read."),
    # ready
    "GPU_UNBOUND": Code("node", "See the kernel log of that address; reset or power-cycle it. The verdict misses this GPU."),
    "PEER_MEMORY_MISSING": Code("node", "modprobe nvidia_peermem; if it says 'disagrees about version of symbol', build the driver again after the OFED."),
    "GPU_BUSY": Code("node", "End the process named, or drain the node, or accept this code for the node."),
    "BACKEND_UNUSABLE": Code("node", "See what the backend says; choose another (burnin_run_backend) or mend it."),
}  # fmt: skip

# What any ready node must have, whatever its stack.
SHARED = ("NOUVEAU_LOADED", "DRIVER_NOT_LOADED", "FABRIC_MANAGER_DOWN", "REBOOT_PENDING")


def action_of(code: str) -> str:
    """What to do next, by code. Raises KeyError for one that is none of ours."""
    return CODES[code].action if code in CODES else drift.CODES[code].action
