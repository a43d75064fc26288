"""Virtual machines, for what a container cannot have: NVMe drives, md, mkfs, an initramfs of its own, reboots, kernel modules, soft-RoCE.

QEMU without KVM, so slow: a clone of the saved template answers after 2 to 4 s, a machine with `own_boot` after half a minute. Every machine has
sshd on a port of 127.0.0.1 and a second interface `lab1` (192.0.2.N/24) on a network that the machines of its group share.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab import qemu, vm_image, vm_machine
from lab.rootfs import Unavailable, install_programs
from lab.vm_image import Image
from lab.vm_machine import Drive, Machine, Spec, VmProblem, check_drives, drive_file, hot_plug, make_files

__all__ = ["Drive", "Machine", "Unavailable", "Vm", "VmProblem", "down", "find", "inventory", "missing", "up"]

STATE = Path("/var/lib/burnin-lab-vms")
ADDRESS = "127.0.0.1"
# Machines at a time over all processes: more than there are cores only wait for each other, and each takes its memory.
SLOTS = max(2, os.cpu_count() or 2)
SLOT_WAIT_S, BOOT_S, DEVICE_S = 1200.0, 180.0, 30.0
NETWORKS = range(1, 200)
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,24}")  # they are part of a socket's path, which has 107 letters


@dataclass(frozen=True, slots=True)
class Vm:
    """A machine that runs. `key`: the private ssh key of its root."""

    name: str
    address: str
    port: int
    key: Path
    folder: Path

    @property
    def console(self) -> Path:
        return self.folder / "console.log"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    def run(self, *argv: str, check: bool = True, timeout: float = 60, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program as root, over ssh. Raises CalledProcessError (`check`), VmProblem when the machine does not answer in time."""
        words = [*self._ssh(), f"root@{self.address}", "--", shlex.join(argv)]
        given: dict[str, Any] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
        try:
            done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=timeout, check=False, **given)
        except subprocess.TimeoutExpired:
            raise VmProblem(f"{self.name} did not finish {shlex.join(argv)!r} within {timeout:g} s; {self._where()}") from None
        if check and done.returncode == 255:
            raise VmProblem(f"{self.name} does not answer ({done.stderr.strip()}); {self._where()}")
        if check and done.returncode != 0:
            problem = subprocess.CalledProcessError(done.returncode, argv, done.stdout, done.stderr)
            problem.add_note(f"on {self.name}: {(done.stderr or done.stdout).strip()[-2000:]}")
            raise problem
        return done

    def put(self, local: Path, remote: str) -> None:
        """Copy a file or a folder to the machine."""
        port = self._ssh()
        port[0], port[port.index("-p")] = "scp", "-P"
        done = subprocess.run(
            [*port, "-q", "-r", "--", str(local), f"root@{self.address}:{remote}"], capture_output=True, text=True, timeout=120, check=False
        )
        if done.returncode != 0:
            raise VmProblem(f"{local} could not be copied to {self.name}:{remote} ({done.stderr.strip()}); {self._where()}")

    def reboot(self, timeout: float = BOOT_S) -> None:
        """A clean reboot, into the kernel and initrd that now are in its /boot, with the drives that are plugged now."""
        before = self._boot_id()
        self.run("systemctl", "reboot", check=False)
        self._hang_up()
        self.wait(before, timeout)

    def wait(self, other_than: str = "", timeout: float = BOOT_S) -> None:
        """Until it answers (with another boot id than `other_than`) and systemd has booted. Raises VmProblem with the end of its console."""
        if not qemu.until(lambda: self._up(other_than), timeout, 0.2):
            raise VmProblem(
                f"{self.name} did not come up within {timeout:g} s; its console ({self.console}) ends:\n{qemu.tail(self.console)}"
            )
        state = self.run("systemctl", "is-system-running", "--wait", check=False, timeout=timeout).stdout.strip()
        if state not in ("running", "degraded"):
            raise VmProblem(f"{self.name}: systemd says {state!r}; {self._where()}")

    def cut(self) -> None:
        """Cut the power: what was not synced is lost; `start` boots it again."""
        qemu.kill(self.folder)

    def start(self, timeout: float = BOOT_S) -> None:
        """Boot a machine that was cut."""
        if qemu.running(self.folder):
            raise VmProblem(f"{self.name} runs already")
        with _slots(1) as slots:
            qemu.start(vm_machine.arguments(Spec.read(self.folder), self.folder), self.folder, slots)
        self.wait(timeout=timeout)

    def plug(self, drive: Drive) -> None:
        """Put a drive in; returns when the kernel has it."""
        spec = Spec.read(self.folder)
        check_drives(self.name, [*spec.drives.values(), drive])
        now = spec.with_drive(drive)
        make_files(self.folder, drive)
        with _monitor(self) as monitor:
            hot_plug(monitor, now, self.folder, drive)
        now.write(self.folder)
        self._see(drive)

    def unplug(self, serial: str) -> None:
        """Take a drive out, whatever uses it; returns when the kernel has let go. Its bytes stay: `plug` of the same serial gives them back."""
        spec = Spec.read(self.folder)
        if serial not in spec.serials:
            raise VmProblem(f"{self.name} has no drive {serial!r}; it has {', '.join(spec.serials) or 'none'}")
        with _monitor(self) as monitor:
            if not vm_machine.pull_out(monitor, spec, self.folder, serial):
                raise VmProblem(f"{self.name} did not let go of drive {serial} within {vm_machine.GONE_S:g} s; {self._where()}")
        spec.without(serial).write(self.folder)

    def image(self, serial: str, namespace: int = 1) -> Path:
        """The raw file behind a drive, to compare its bytes (sync in the machine first)."""
        return drive_file(self.folder, serial, namespace)

    def _ssh(self) -> list[str]:
        control = ("-o", "ControlMaster=auto", "-o", "ControlPersist=60", "-o", f"ControlPath={self.folder / 'ssh'}")
        return [*vm_image.ssh_words(self.key, self.known_hosts, self.port), *control]

    def _hang_up(self) -> None:
        """The shared connection to a machine that is gone would only be noticed after a minute."""
        subprocess.run([*self._ssh(), "-O", "exit", f"root@{self.address}"], capture_output=True, timeout=30, check=False)

    def _where(self) -> str:
        state = "QEMU runs" if qemu.running(self.folder) else f"QEMU has ended (its words: {self.folder / 'qemu.log'})"
        return f"{state}; its console is {self.console}"

    def _boot_id(self) -> str:
        return self.run("cat", "/proc/sys/kernel/random/boot_id").stdout.strip()

    def _up(self, other_than: str) -> bool:
        if qemu.running(self.folder) is None:
            raise VmProblem(f"{self.name}: QEMU has ended: {qemu.tail(self.folder / 'qemu.log')}")
        try:
            with socket.create_connection((self.address, self.port), timeout=5) as connection:
                if connection.recv(4) != b"SSH-":
                    return False
            return self._boot_id() != other_than
        except (OSError, VmProblem):
            return False

    def _see(self, drive: Drive) -> None:
        self.run("sh", "-c", SEE_DRIVE, "sh", drive.serial, timeout=DEVICE_S + 15)


# A controller is there before its namespaces are, and those before udev has named them.
SEE_DRIVE = f"""\
for serial; do
    left={DEVICE_S:.0f}
    until ls -d /dev/disk/by-id/nvme-*_"$serial" >/dev/null 2>&1; do
        left=$((left - 1))
        [ $left -gt 0 ] || {{ echo "drive $serial did not appear" >&2; exit 1; }}
        sleep 0.5
    done
done
udevadm settle --timeout=20
"""
# What a clone has of its template must become its own: name, clock, random numbers (or two clones make the same UUIDs), the group's network.
MAKE_OWN = """\
set -e
date -u -s "@$2" >/dev/null
perl -e 'open F, "+<", "/dev/urandom"; syswrite F, pack("H*", shift); ioctl F, 0x5207, 0 or die $!' "$3"
hostname "$1"
echo "$1" >/etc/hostname
printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$1" >/etc/hosts
echo "$4" >/etc/machine-id
"""


@contextmanager
def _monitor(vm: Vm) -> Iterator[qemu.Monitor]:
    try:
        with qemu.Monitor(vm.folder) as monitor:
            yield monitor
    except qemu.MonitorProblem as problem:
        raise VmProblem(f"{vm.name}: {problem}") from None


def missing() -> str | None:
    """Why virtual machines cannot be made here; None: they can (the image may have to be built first: minutes). Installs what they need."""
    try:
        install_programs(vm_image.PROGRAMS)
    except Unavailable as why:
        return str(why)
    return None


def up(group: str, machines: Sequence[Machine], owner: int | None = None) -> dict[str, Vm]:
    """Start machines; returns when all answer. Raises Unavailable where none can be made, VmProblem.

    Groups whose owner (a process id; this process when not said; 0: nobody, it stays) has died are cleared away first. Waits for a free slot.
    """
    _check(group, machines)
    image = vm_image.image()
    folder = _take(group, os.getpid() if owner is None else owner, len(machines))
    made = {machine.name: _make(folder, machine, number, image) for number, machine in enumerate(machines, start=1)}
    with contextlib.ExitStack() as undo:
        for vm in made.values():
            undo.callback(qemu.kill, vm.folder)  # what they left stays, to be read, until `down` or the owner's end
        with _slots(len(machines)) as slots:
            for machine in machines:
                _start(made[machine.name], image, slots)
        for vm in made.values():
            vm.wait()
            _own(vm)
        undo.pop_all()
    return made


def _check(group: str, machines: Sequence[Machine]) -> None:
    names = [machine.name for machine in machines]
    if not all(NAME.fullmatch(name) for name in (group, *names)) or len(set(names)) != len(names):
        raise VmProblem(f"names of a group and its machines are a-z, 0-9 and - (at most 25 letters), each once, not {group!r} with {names}")
    if not 1 <= len(machines) <= SLOTS:
        raise VmProblem(f"{len(machines)} machines; from 1 to {SLOTS} can be had at a time here")
    for machine in machines:
        check_drives(machine.name, machine.drives)


@contextmanager
def _locked() -> Iterator[None]:
    STATE.mkdir(parents=True, exist_ok=True)
    with (STATE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _groups() -> dict[str, dict[str, Any]]:
    return {path.parent.name: json.loads(path.read_text()) for path in STATE.glob("*/group.json")}


def _clear_dead() -> None:
    for name, told in _groups().items():
        if told["owner"] and not qemu.Process(*told["owner"]).alive:
            down(name)


def _take(group: str, owner: int, count: int) -> Path:
    """The group's folder, with its number: machines of one group share a network."""
    with _locked():
        _clear_dead()
        if (STATE / group).exists():
            raise VmProblem(f"a group {group!r} is there already (down makes away with it)")
        taken = {told["network"] for told in _groups().values()}
        network = next(number for number in NETWORKS if number not in taken)
        (STATE / group).mkdir(mode=0o700)
        whose = asdict(qemu.Process.of(owner)) if owner else None
        told = {"owner": list(whose.values()) if whose else None, "network": network, "switch": count > 1}
        (STATE / group / "group.json").write_text(json.dumps(told))
    return STATE / group


@contextmanager
def _slots(count: int) -> Iterator[list[int]]:
    """Locks, all or none, that QEMU is to hold while it runs: at most SLOTS machines at a time, over all processes."""
    deadline = time.monotonic() + SLOT_WAIT_S
    while len(held := _free_slots(count)) < count:
        for slot in held:
            os.close(slot)
        mine = [name for name, told in _groups().items() if told["owner"] == list(asdict(qemu.Process.of(os.getpid())).values())]
        running = sum(qemu.running(path.parent) is not None for name in mine for path in (STATE / name).glob("*/machine.json"))
        if running + count > SLOTS:
            raise VmProblem(
                f"{running} of {SLOTS} machines that can be had run in groups of this same process ({', '.join(mine)}): down one first"
            )
        if time.monotonic() > deadline:
            raise VmProblem(
                f"no free slot for {count} machines within {SLOT_WAIT_S:g} s; groups that are up: {', '.join(sorted(_groups()))}"
            )
        time.sleep(0.5)
        with _locked():
            _clear_dead()
    try:
        yield held
    finally:
        for slot in held:
            os.close(slot)


def _free_slots(count: int) -> list[int]:
    held = []
    with _locked():
        for number in range(SLOTS):
            slot = os.open(STATE / f".slot{number}", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(slot)
                continue
            held.append(slot)
            if len(held) == count:
                break
    return held


def _make(folder: Path, machine: Machine, number: int, image: Image) -> Vm:
    told = json.loads((folder / "group.json").read_text())
    place = folder / machine.name
    place.mkdir()
    network = told["network"] if told["switch"] else 0
    spec = Spec(machine.name, number, network, qemu.free_port(), machine.cold, machine.boot_on_nvme, machine.memory_mib, machine.qemu, {})
    for drive in machine.drives:
        make_files(place, drive)
        spec = spec.with_drive(drive)
    vm_machine.make_disk(place, image, cold=machine.cold)
    spec.write(place)
    vm = Vm(machine.name, ADDRESS, spec.port, image.key, place)
    vm.known_hosts.write_text(f"[{ADDRESS}]:{spec.port} {image.host_key.with_suffix('.pub').read_text()}")
    return vm


def _start(vm: Vm, image: Image, slots: list[int]) -> None:
    """A slot for each machine: QEMU keeps it and no other."""
    spec = Spec.read(vm.folder)
    slot = slots[spec.number - 1]
    if spec.cold:
        qemu.start(vm_machine.arguments(spec, vm.folder), vm.folder, [slot])
        return
    qemu.start(vm_machine.clone_arguments(spec, vm.folder, image), vm.folder, [slot])
    with _monitor(vm) as monitor:
        vm_machine.wake(monitor, spec, vm.folder)


def _own(vm: Vm) -> None:
    spec = Spec.read(vm.folder)
    vm.run("sh", "-c", MAKE_OWN, "sh", vm.name, f"{time.time():.0f}", secrets.token_hex(32), secrets.token_hex(16))
    if spec.serials:
        vm.run("sh", "-c", SEE_DRIVE, "sh", *spec.serials, timeout=DEVICE_S + 30)


def find(group: str) -> dict[str, Vm]:
    """The machines of a group that is up; none when it is not."""
    specs = [(path.parent, Spec.read(path.parent)) for path in sorted((STATE / group).glob("*/machine.json"))]
    key = vm_image.image().key if specs else Path()
    return {spec.name: Vm(spec.name, ADDRESS, spec.port, key, folder) for folder, spec in sorted(specs, key=lambda found: found[1].number)}


def down(group: str) -> None:
    """End all machines of a group and remove what they left. Harmless when there is none."""
    for folder in (STATE / group).glob("*/"):
        qemu.kill(folder)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(STATE / group)


def inventory(group: str, path: Path) -> None:
    """Write an Ansible inventory of the group: gpu_nodes, as root. Host key checking stays on: the key was made here and is known."""
    machines = find(group)
    if not machines:
        raise VmProblem(f"there is no group {group!r}")
    hosts = {}
    for number, vm in enumerate(machines.values(), start=1):
        options = f"-o UserKnownHostsFile={vm.known_hosts} -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes"
        place = {"burnin_rack": "L1", "burnin_position": number}
        hosts[vm.name] = {"ansible_host": vm.address, "ansible_port": vm.port, "ansible_ssh_common_args": options, **place}
    key = next(iter(machines.values())).key
    ours = {"ansible_user": "root", "ansible_private_key_file": str(key), "ansible_python_interpreter": "/usr/bin/python3"}
    path.write_text(json.dumps({"gpu_nodes": {"hosts": hosts, "vars": ours}}, indent=1) + "\n")
