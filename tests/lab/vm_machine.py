"""One test machine as QEMU sees it: its disk, its NVMe drives in root ports, its command line; no word about what runs in it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lab import qemu, vm_image
from lab.rootfs import call
from lab.vm_image import Image

SERIAL = re.compile(r"[A-Za-z0-9_-]{1,20}")
BOOT_SERIAL = "BOOT"
SWITCH = "239.192.76.1"  # an address for groups within a site (RFC 2365); bound to 127.0.0.1, it leaves this machine never
SWITCH_PORTS = 22000  # and the group's number
INCOMING_S, GONE_S = 60.0, 30.0


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
    """What to start. `own_boot`: a cold boot (half a minute) instead of a clone of the saved template.

    A machine's own boot loader always boots the kernel and initrd that are in its /boot: at `own_boot`, and at every reboot.
    `boot_on_nvme`: its root is on an NVMe drive with the serial BOOT; that is a cold boot, too. `qemu`: more words for QEMU's command line, before
    all other devices (an IOMMU, say); a cold boot, too.
    """

    name: str
    drives: tuple[Drive, ...] = ()
    own_boot: bool = False
    boot_on_nvme: bool = False
    memory_mib: int = vm_image.TEMPLATE_MIB
    qemu: tuple[str, ...] = ()

    @property
    def cold(self) -> bool:
        several = any(drive.namespaces > 1 for drive in self.drives)  # QEMU adds namespaces to no drive that runs
        return self.own_boot or self.boot_on_nvme or several or bool(self.qemu) or self.memory_mib != vm_image.TEMPLATE_MIB


@dataclass(frozen=True, slots=True)
class Spec:
    """What QEMU needs to know of a machine, kept in its folder as machine.json. `drives`: root port -> drive that is plugged now."""

    name: str
    number: int
    network: int
    port: int
    cold: bool
    boot_on_nvme: bool
    memory_mib: int
    qemu: tuple[str, ...]
    drives: dict[int, Drive]

    @classmethod
    def read(cls, folder: Path) -> Spec:
        told = json.loads((folder / "machine.json").read_text())
        drives = {int(port): Drive(**{**drive, "image": None}) for port, drive in told.pop("drives").items()}
        return cls(**{**told, "qemu": tuple(told["qemu"])}, drives=drives)

    def write(self, folder: Path) -> None:
        (folder / "machine.json").write_text(json.dumps({**asdict(self)}, default=str))

    @property
    def serials(self) -> list[str]:
        return [drive.serial for drive in self.drives.values()]

    def drive(self, serial: str) -> Drive:
        return next(drive for drive in self.drives.values() if drive.serial == serial)

    def port_of(self, serial: str) -> int:
        return next(port for port, drive in self.drives.items() if drive.serial == serial)

    def with_drive(self, drive: Drive) -> Spec:
        free = next((port for port in range(qemu.SYSTEM + 1, qemu.PORTS) if port not in self.drives), None)
        if free is None:
            raise VmProblem(f"{self.name} has no free slot for drive {drive.serial}; there are {qemu.PORTS - qemu.SYSTEM - 1}")
        return replace(self, drives={**self.drives, free: drive})

    def without(self, serial: str) -> Spec:
        return replace(self, drives={port: drive for port, drive in self.drives.items() if drive.serial != serial})


def check_drives(name: str, drives: Sequence[Drive]) -> None:
    """Raises VmProblem about drives that cannot be."""
    serials = [drive.serial for drive in drives]
    for drive in drives:
        if not SERIAL.fullmatch(drive.serial) or drive.serial == BOOT_SERIAL or serials.count(drive.serial) > 1:
            raise VmProblem(f"{name}: {drive.serial!r} is no serial of its own: 1 to 20 letters, digits, - and _, and not {BOOT_SERIAL}")
        if drive.image and drive.image.stat().st_size > drive.size_mib << 20:
            raise VmProblem(f"{name}: {drive.image} is larger than drive {drive.serial}")


def drive_file(folder: Path, serial: str, namespace: int = 1) -> Path:
    """The raw file behind a drive's namespace."""
    return folder / f"nvme-{serial}-{namespace}.raw"


def make_files(folder: Path, drive: Drive) -> None:
    """The files of a drive, where they are not there yet."""
    for number in range(1, drive.namespaces + 1):
        path = drive_file(folder, drive.serial, number)
        if not path.exists():
            if drive.image and number == 1:
                copy(drive.image, path)
            with path.open("ab") as file:
                file.truncate(drive.size_mib << 20)


def copy(source: Path, to: Path) -> None:
    """A copy that takes no room for the holes."""
    call("cp", "--sparse=always", "--reflink=auto", "--", str(source), str(to), timeout_s=120)


def make_disk(folder: Path, image: Image, *, cold: bool) -> None:
    """A throw-away layer over the image; over the template's disk as it was when it was saved, unless it boots afresh."""
    base, kind = (image.base, "raw") if cold else (image.disk, "qcow2")
    call("qemu-img", "create", "-q", "-f", "qcow2", "-F", kind, "-b", str(base), str(folder / "system.qcow2"))


def _nodes(folder: Path, drive: Drive) -> list[tuple[str, Path]]:
    return [(f"file-{drive.serial}-{n}", drive_file(folder, drive.serial, n)) for n in range(1, drive.namespaces + 1)]


def _devices(drive: Drive, port: int) -> list[dict[str, Any]]:
    """The drive, and its namespaces where it has several; for -device and device_add."""
    size = {"logical_block_size": drive.block_size, "physical_block_size": drive.block_size}
    whole: dict[str, Any] = {"driver": "nvme", "id": f"nvme-{drive.serial}", "serial": drive.serial, "bus": f"rp{port}"}
    if drive.namespaces == 1:
        return [{**whole, "drive": f"file-{drive.serial}-1", **size}]
    spaces = [
        {
            "driver": "nvme-ns",
            "id": f"ns-{drive.serial}-{n}",
            "bus": f"nvme-{drive.serial}",
            "nsid": n,
            "drive": f"file-{drive.serial}-{n}",
            **size,
        }
        for n in range(1, drive.namespaces + 1)
    ]
    return [whole, *spaces]


def arguments(spec: Spec, folder: Path) -> list[str]:
    """The command line of a cold boot, with all drives."""
    argv = _common(spec, folder)
    for port, drive in spec.drives.items():
        for name, path in _nodes(folder, drive):
            argv += ["-blockdev", json.dumps(qemu.file_node(name, path))]
        for device in _devices(drive, port):
            argv += ["-device", json.dumps(device)]
    return [*argv, "-device", json.dumps(_second_card(spec))] if spec.network else argv


def clone_arguments(spec: Spec, folder: Path, image: Image) -> list[str]:
    """The command line that goes on where the template was saved, without any drive: those come by `hot_plug`."""
    return [*_common(spec, folder), "-incoming", f"exec:zstd -q -dc {image.state}"]


def _common(spec: Spec, folder: Path) -> list[str]:
    switch = ["-netdev", f"socket,id=lab1,mcast={SWITCH}:{SWITCH_PORTS + spec.network},localaddr=127.0.0.1"] if spec.network else []
    argv = qemu.command(folder, memory_mib=spec.memory_mib, mac=vm_image.mac(0, 1), forward=spec.port, extra=[*spec.qemu, *switch])
    argv += ["-blockdev", json.dumps(qemu.file_node("system", folder / "system.qcow2", "qcow2"))]
    if spec.boot_on_nvme:
        return [*argv, "-device", f"nvme,drive=system,id=system,serial={BOOT_SERIAL},bus=rp{qemu.SYSTEM},bootindex=1"]
    return argv + vm_image.system_disk("system")


def _second_card(spec: Spec) -> dict[str, Any]:
    return {"driver": "virtio-net-pci", "netdev": "lab1", "bus": f"rp{qemu.PORTS}", "mac": vm_image.mac(1, spec.number), "romfile": ""}


def wake(monitor: qemu.Monitor, spec: Spec, folder: Path) -> None:
    """When a clone has read the template's memory: put its drives and its second card in, and let it go on."""
    if not qemu.until(lambda: monitor.do("query-status")["status"] == "paused", INCOMING_S):
        raise VmProblem(
            f"{spec.name}: the template's memory was not read within {INCOMING_S:g} s; QEMU's words: {qemu.tail(folder / 'qemu.log')}"
        )
    for drive in spec.drives.values():
        hot_plug(monitor, spec, folder, drive)
    if spec.network:
        monitor.do("device_add", **_second_card(spec))
    monitor.do("cont")


def hot_plug(monitor: qemu.Monitor, spec: Spec, folder: Path, drive: Drive) -> None:
    """Put a drive in. Raises VmProblem about one with several namespaces: those must be there from the start."""
    if drive.namespaces > 1:
        raise VmProblem(
            f"{spec.name}: drive {drive.serial} has several namespaces, so it cannot be put into a machine that runs; name it at `up`"
        )
    for name, path in _nodes(folder, drive):
        monitor.do("blockdev-add", **qemu.file_node(name, path))
    for device in _devices(drive, spec.port_of(drive.serial)):
        monitor.do("device_add", **device)


def pull_out(monitor: qemu.Monitor, spec: Spec, folder: Path, serial: str) -> bool:
    """Take a drive out; whether the machine has let go of it in time."""
    monitor.do("device_del", id=f"nvme-{serial}")
    if not qemu.until(lambda: monitor.seen("DEVICE_DELETED", device=f"nvme-{serial}"), GONE_S, 0.1):
        return False
    for name, _ in _nodes(folder, spec.drive(serial)):
        monitor.do("blockdev-del", **{"node-name": name})
    return True
