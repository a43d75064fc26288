"""Virtual machines, for what a container cannot have: NVMe drives, md, mkfs, an initramfs of its own, reboots, kernel modules, soft-RoCE.

QEMU without KVM, so slow: a clone of the saved template answers after 2 to 4 s, a machine with `own_boot` after half a minute. Every machine has
sshd on a port of 127.0.0.1 and a second interface `lab1` (192.0.2.N/24) on a network that the machines of its group share.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

STATE = Path("/var/lib/burnin-lab-vms")


class VmProblem(Exception):
    """A virtual machine is not in the state that was expected; the message says which file to read."""


@dataclass(frozen=True, slots=True)
class Drive:
    """An NVMe drive. `image`: a raw file with its first bytes, copied, not written. `namespaces`: how many, each of `size_mib`.

    The kernel numbers drives in an order of its own; /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_SERIAL is the drive. QEMU's model is always
    "QEMU NVMe Ctrl" and its firmware QEMU's version: other ones cannot be played.
    """

    serial: str
    size_mib: int = 64
    image: Path | None = None
    namespaces: int = 1
    block_size: int = 512


@dataclass(frozen=True, slots=True)
class Machine:
    """What to start. `own_boot`: a cold boot (half a minute) of the kernel and initrd that are in the image's own /boot, and again at `reboot`.

    `boot_on_nvme`: its root is on an NVMe drive (serial BOOT); wants `own_boot`.
    """

    name: str
    drives: tuple[Drive, ...] = ()
    own_boot: bool = False
    boot_on_nvme: bool = False
    memory_mib: int = 1024


@dataclass(frozen=True, slots=True)
class Vm:
    """A machine that runs. `key`: the private ssh key of its root."""

    name: str
    address: str
    port: int
    key: Path
    folder: Path

    def run(self, *argv: str, check: bool = True, timeout: float = 60, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program as root, over ssh. Raises CalledProcessError (`check`), VmProblem when the machine does not answer in time."""
        raise NotImplementedError

    def put(self, local: Path, remote: str) -> None:
        """Copy a file or a folder to the machine."""
        raise NotImplementedError

    def reboot(self, timeout: float = 180) -> None:
        """A clean reboot, with the drives as they are now plugged; with `own_boot` into the kernel and initrd that now are in /boot.

        Without `own_boot` the kernel and initrd are the template's, from outside: what update-initramfs made is not tried.
        """
        raise NotImplementedError

    def cut(self) -> None:
        """Cut the power: what was not synced is lost; `start` boots it again."""
        raise NotImplementedError

    def start(self, timeout: float = 180) -> None:
        """Boot a machine that was cut."""
        raise NotImplementedError

    def plug(self, drive: Drive) -> None:
        """Put a drive in; returns when the kernel has it."""
        raise NotImplementedError

    def unplug(self, serial: str) -> None:
        """Pull a drive out, whatever uses it; returns when the kernel has noticed. Its bytes stay: `plug` of the same serial gives them back."""
        raise NotImplementedError

    def image(self, serial: str, namespace: int = 1) -> Path:
        """The raw file behind a drive, to compare its bytes (flush in the machine first)."""
        raise NotImplementedError


def missing() -> str | None:
    """Why virtual machines cannot be made here; None: they can (the image may have to be built first: minutes)."""
    raise NotImplementedError


def up(group: str, machines: Sequence[Machine]) -> dict[str, Vm]:
    """Start machines; returns when all answer. A group of that name whose owner has died is cleared away first. Raises VmProblem."""
    raise NotImplementedError


def find(group: str) -> dict[str, Vm]:
    """The machines of a group that is up."""
    raise NotImplementedError


def down(group: str) -> None:
    """End all machines of a group and remove what they left. Harmless when there is none."""
    raise NotImplementedError


def inventory(group: str, path: Path) -> None:
    """Write an Ansible inventory (YAML) of the group: gpu_nodes, as root, host keys checked."""
    raise NotImplementedError
