"""Every code of a drift: how bad it is, why it matters, and what to do next. docs/runbooks/<CODE>.md says more."""

from __future__ import annotations

from dataclasses import dataclass

from burnin.outcome import Outcome

FAIL, REVIEW, INCONCLUSIVE = Outcome.FAIL, Outcome.REVIEW, Outcome.INCONCLUSIVE


@dataclass(frozen=True, slots=True)
class Code:
    """FAIL: the node is not as its stack file says. REVIEW: the file does not pin it, and it may bite. `why` and `action` are sentences."""

    of: str
    outcome: Outcome
    why: str
    action: str


PROVISION = "Bring it back with `burnin provision`."

CODES: dict[str, Code] = {
    # what runs
    "DRIVER_REBOOT_NEEDED": Code(
        "node", FAIL, "The loaded module and the library on disk differ: programs that start now fail. No GPU is at fault.",
        "Drain the node and reboot it; `burnin provision` does, where reboot_allowed is left true."),
    "DRIVER_NOT_LOADED": Code(
        "node", FAIL, "There are GPUs on the PCI bus and no nvidia module is loaded.",
        "Look why: `modprobe nvidia; dmesg | tail`. Secure Boot, a module for another kernel and nouveau are the usual reasons."),
    "DRIVER_NOT_PINNED": Code(
        "node", FAIL, "Module and library agree with each other, and not with the stack file.", PROVISION),
    "NOUVEAU_LOADED": Code(
        "node", FAIL, "nouveau holds the GPUs, so the nvidia module cannot.",
        "`burnin provision` puts it on the blacklist and remakes the initramfs; then reboot."),
    "OFED_REBOOT_NEEDED": Code(
        "node", FAIL, "The loaded mlx5_core is not the one on disk: what was installed is not yet what runs.",
        "Drain the node and reboot it."),
    "REBOOT_PENDING": Code(
        "node", FAIL, "A change was made that only a reboot brings into force.", "Drain the node and reboot it."),
    # services
    "FABRIC_MANAGER_DOWN": Code(
        "node", FAIL, "Fabric manager does not run: no NVLink between the GPUs, CUDA error 802. No GPU is at fault.",
        "`systemctl status nvidia-fabricmanager; journalctl -u nvidia-fabricmanager -b`; a version that does not fit the driver is the usual reason."),
    "SERVICE_DOWN": Code(
        "node", FAIL, "A service that the stack brings does not run, or will not after a reboot.",
        "`systemctl status UNIT`, mend what it says, `systemctl enable --now UNIT`."),
    # kernel
    "KERNEL_NOT_PINNED": Code("node", FAIL, "Another kernel runs than the stack file pins.", "`burnin provision`, then reboot."),
    "KERNEL_NEWER_INSTALLED": Code(
        "node", FAIL, "The next boot comes up on a kernel that nobody asked for.",
        "Remove that kernel, or pin it in the stack file and provision, before anybody reboots."),
    "HEADERS_MISSING": Code(
        "node", FAIL, "Without its headers no module can be built for this kernel.", PROVISION),
    "DKMS_NOT_BUILT": Code(
        "node", FAIL, "The modules are not built for the kernel that runs (or is to run): after the next boot or reload they are gone.",
        "`dkms autoinstall -k KERNEL`; when it fails, the make.log it names says why. Then provision."),
    "DRIVER_BUILT_BEFORE_OFED": Code(
        "node", FAIL, "nvidia_peermem was built against another OFED: it will say `disagrees about version of symbol` and not load.",
        "Rebuild it: `dkms remove` and `dkms install` of nvidia for this kernel, then reload or reboot."),
    # packages
    "PACKAGE_MISSING": Code("node", FAIL, "The stack asks for it and it is not installed.", PROVISION),
    "PACKAGE_VERSION": Code("node", FAIL, "It is installed in another version than the stack file pins.", PROVISION),
    "PACKAGE_UNWANTED": Code(
        "node", FAIL, "It conflicts with the stack: another flavour, another branch, or a name that floats.",
        "See why it came (/var/log/apt/history.log), then provision."),
    "MIXED_VERSIONS": Code(
        "node", FAIL, "Packages that must have one version have several: one of them was moved on its own.",
        "See who moved it (/var/log/apt/history.log, dnf history), then provision."),
    "FABRIC_MANAGER_VERSION": Code(
        "node", FAIL, "Fabric manager refuses a driver of another version: no NVLink, CUDA error 802. No GPU is at fault.", PROVISION),
    "NCCL_PAIR": Code(
        "node", FAIL, "NCCL's library and headers are of different builds: what is compiled here does not fit what it runs with.",
        PROVISION),
    "LIBRARY_NOT_PACKAGE": Code(
        "node", FAIL, "The library on disk is not from the installed package: an installer (.run) went over it.",
        "Find out who ran it (`nvidia-uninstall` may take it away), then reinstall the package."),
    "OFED_VERSION": Code(
        "node", FAIL, "`ofed_info -s` names another OFED than the stack file's DOCA or OFED carries.", PROVISION),
    "DPKG_BROKEN": Code(
        "node", FAIL, "Packages are half-way in: nothing can be installed, and what is there may not work.",
        "`dpkg --configure -a`, then `apt-get -f install` after reading what it would do."),
    # CUDA
    "CUDA_DEFAULT": Code("node", FAIL, "/usr/local/cuda leads to another toolkit than the stack file's default.", PROVISION),
    "TOOLKIT_MISSING": Code(
        "node", FAIL, "The toolkit's package is installed and its folder is not there.",
        "Reinstall the package; see who removed the folder."),
    # what keeps it so
    "HOLD_MISSING": Code(
        "node", FAIL, "Not held: the next unattended upgrade may move it away from its siblings.", PROVISION),
    "LOCK_MISSING": Code("node", FAIL, "Not locked: the next `dnf update` may move it.", PROVISION),
    "PIN_MISSING": Code("node", FAIL, "Without the pin, the next apt run takes the newest build there is.", PROVISION),
    "PIN_CHANGED": Code("node", FAIL, "The pin file is not what the stack comes to.", "See who changed it, then provision."),
    "BLACKLIST_MISSING": Code("node", FAIL, "unattended-upgrades is not kept off these packages.", PROVISION),
    "UNATTENDED_ORIGIN": Code(
        "node", REVIEW, "unattended-upgrades takes packages from a vendor's repository: only holds and blacklist keep the stack still.",
        "Take the origin out of Unattended-Upgrade::Allowed-Origins or Origins-Pattern."),
    "SOURCE_MISSING": Code("node", FAIL, "The repository that the stack names is not configured.", PROVISION),
    "SOURCE_CONFLICT": Code(
        "node", FAIL, "Another file names the same repository: apt refuses both (Signed-By), or takes packages from the wrong one.",
        "Remove that file, or let `burnin provision` do so; one source has one owner."),
    # what was not seen
    "DRIFT_UNREAD": Code(
        "node", INCONCLUSIVE, "Not everything could be read, and what was not seen is no pass.",
        "See the reason, mend it and run `burnin drift` again."),
    "DRIFT_UNREACHABLE": Code(
        "node", INCONCLUSIVE, "The node did not answer.",
        "Bring it back on the network (BMC console), then run `burnin drift` again."),
    # over the fleet, of what the stack file does not pin
    "KERNEL_MINORITY": Code(
        "fleet", REVIEW, "A few nodes run another kernel than the others that have this stack.",
        "Pin one kernel in the stack file, or bring these nodes to the others' kernel."),
    "PACKAGE_MINORITY": Code(
        "fleet", REVIEW, "A few nodes have other versions of packages that the stack file does not pin.",
        "See which version is meant, and bring these nodes to it."),
    "MODULE_MINORITY": Code(
        "fleet", REVIEW, "A few nodes have another version of a module loaded than the others.",
        "Compare their packages and kernels; a reboot may be due."),
    "FIRMWARE_MINORITY": Code(
        "fleet", REVIEW, "A few nodes have other firmware than the others: they may be slower, or fail, in their own way.",
        "Bring the firmware to one version in the vendor's own way (flint, nvme, BMC)."),
}  # fmt: skip
