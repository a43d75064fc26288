"""The node as the settings need it: what kind of machine, what it may do, and its programs. Reads only; files and commands below one root."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, List, Sequence

from ansible.module_utils.burnin_group import node
from ansible.module_utils.burnin_tuning import live

CONTAINER = ("/run/systemd/container", "/run/.containerenv", "/.dockerenv")
CAP_SYS_RESOURCE = 24
ACPI_TABLES = ("DMAR", "IVRS", "IORT")
FLAGS = "/run/burnin/reboot-required.d"


def _no_command(argv: Sequence[str], timeout_s: float = 60) -> "node.subprocess.CompletedProcess[str]":
    return node.subprocess.CompletedProcess(list(argv), 127, "", "commands are not run for another root")


@dataclass(frozen=True)
class Host:
    """`run`: a program with arguments and a time limit, as node.run; exit 127 where it is not there. `systemd`: units can be asked and started."""

    root: Path = Path("/")
    run: Callable[..., "node.subprocess.CompletedProcess[str]"] = field(default=_no_command)
    systemd: bool = False

    def at(self, path: str) -> Path:
        return node.at(self.root, path)

    def line(self, path: str) -> str:
        """What a small file says, stripped; "" where it is not there."""
        return live.line(str(self.at(path)))

    def text(self, path: str) -> str:
        """A text file of ours or the distribution's. Raises Refusal for what is no file."""
        return (node.read(self.at(path)) or b"").decode("utf-8", "replace")

    def container(self) -> bool:
        """Whether this is a container: the kernel, its devices and its settings are then the machine's, not ours to set."""
        return any(self.at(path).exists() for path in CONTAINER)

    def processor(self) -> str:
        """intel, amd, arm or ""."""
        if self.line("/proc/sys/kernel/arch").startswith("aarch64") or (self.root == Path("/") and os.uname().machine == "aarch64"):
            return "arm"
        vendor = re.search(r"^vendor_id\s*:\s*(\w+)", self.line("/proc/cpuinfo"), re.MULTILINE)
        return {"GenuineIntel": "intel", "AuthenticAMD": "amd"}.get(vendor[1] if vendor else "", "")

    def translator(self) -> str:
        """Whose IOMMU it is, as the firmware's tables say; the processor's where they say nothing."""
        tables = {"intel": "DMAR", "amd": "IVRS"}
        return next((kind for kind, table in tables.items() if self.at("/sys/firmware/acpi/tables/" + table).exists()), self.processor())

    def iommu(self) -> bool:
        """Whether the machine has an IOMMU: in use, or told of by its firmware."""
        used = live.names(str(self.at("/sys/class/iommu"))) or live.names(str(self.at("/sys/kernel/iommu_groups")))
        return bool(used) or any(self.at("/sys/firmware/acpi/tables/" + table).exists() for table in ACPI_TABLES)

    def group_type(self, address: str) -> str:
        """How the IOMMU treats a card: identity, DMA, DMA-FQ, ...; "" where it has none."""
        return self.line("%s/%s/iommu_group/type" % (live.DEVICES, address))

    def may_raise(self) -> bool:
        """Whether a login may get more than it has: some containers may not, and then pam_limits refuses the login."""
        found = re.search(r"^CapBnd:\s*([0-9a-f]+)", self.line("/proc/1/status"), re.MULTILINE)
        return found is None or bool(int(found[1], 16) >> CAP_SYS_RESOURCE & 1)

    def flags(self) -> List[str]:
        """Who asked for a reboot since this boot."""
        return live.names(str(self.at(FLAGS)))


def this(root: Path) -> Host:
    """The node itself; below another root no command is run."""
    return Host(root, node.run, node.has_systemd(root)) if root == Path("/") else Host(root)
