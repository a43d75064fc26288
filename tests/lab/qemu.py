"""A QEMU process: its command line, its monitor, its end. Nothing here knows what runs inside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENGINE = ("qemu-system-x86_64", "-accel", "tcg,thread=multi,tb-size=256", "-machine", "q35", "-cpu", "max", "-smp", "2")
PORTS = 12  # empty PCIe root ports, so that drives can be put in and pulled out; the last is the second interface's
SYSTEM = 1  # this root port is the boot drive's, where that is an NVMe drive
MONITOR_S, END_S, STEP_S = 30.0, 10.0, 0.05


class MonitorProblem(Exception):
    """QEMU is gone, does not answer or refuses; the message holds its words."""


@dataclass(frozen=True, slots=True)
class Process:
    """What holds a number: a process id that is given out again is told apart by when it began."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Process:
        return cls(pid, _started(pid))

    @property
    def alive(self) -> bool:
        return bool(self.started) and _started(self.pid) == self.started


def _started(pid: int) -> str:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def until(what: Callable[[], object], seconds: float, step: float = STEP_S) -> bool:
    """Whether it came true in time."""
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(step)
    return True


def tail(log: Path) -> str:
    """The end of a log, for a message."""
    return log.read_text(errors="replace")[-2000:] if log.exists() else "(there is none)"


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens at now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def command(folder: Path, *, memory_mib: int, mac: str, forward: int | None, extra: Iterable[str] = ()) -> list[str]:
    """QEMU's command line but for its drives. What is in it must be the same for the template and its clones; `mac` and `forward` may differ."""
    ssh = f",hostfwd=tcp:127.0.0.1:{forward}-:22" if forward else ""
    argv = [*ENGINE, "-m", str(memory_mib), "-nodefaults", "-no-user-config", "-display", "none", *extra]
    argv += ["-chardev", f"file,id=console,path={folder / 'console.log'},append=on", "-serial", "chardev:console"]
    argv += ["-qmp", f"unix:{folder / 'monitor'},server=on,wait=off", "-rtc", "base=utc"]
    argv += ["-netdev", f"user,id=lab0,net=10.0.2.0/24{ssh}", "-device", f"virtio-net-pci,netdev=lab0,mac={mac},addr=02.0,romfile="]
    argv += ["-object", "rng-random,id=rng,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=rng,addr=03.0"]
    for port in range(1, PORTS + 1):
        argv += [
            "-device",
            f"pcie-root-port,id=rp{port},chassis={port},slot={port},addr={4 + (port - 1) // 8:02x}.{(port - 1) % 8},multifunction=on",
        ]
    return argv


def file_node(name: str, path: Path, kind: str = "raw") -> dict[str, Any]:
    """A block device for -blockdev and blockdev-add. Nothing is flushed: the bytes outlive QEMU, which is all that a test can see."""
    cache = {"direct": False, "no-flush": True}
    below = {"driver": "file", "filename": str(path), "cache": cache, "discard": "unmap"}
    return {"node-name": name, "driver": kind, "file": below, "cache": cache, "discard": "unmap"}


def start(argv: list[str], folder: Path, keep: Iterable[int] = ()) -> Process:
    """Start QEMU apart from this process's session. `keep`: file descriptors (held locks) that it keeps open for as long as it runs."""
    with (folder / "qemu.log").open("ab") as log:
        began = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, pass_fds=tuple(keep))
    process = Process.of(began.pid)
    (folder / "pid").write_text(f"{process.pid} {process.started}")
    return process


def running(folder: Path) -> Process | None:
    """The QEMU of this folder, when it runs."""
    try:
        pid, started = (folder / "pid").read_text().split(" ")
    except (FileNotFoundError, ValueError):
        return None
    process = Process(int(pid), started)
    return process if process.alive else None


def kill(folder: Path) -> None:
    """End it at once: the power is cut. Raises MonitorProblem when it would not end."""
    process = running(folder)
    if process is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        if not until(lambda: not process.alive, END_S):
            raise MonitorProblem(f"process {process.pid} of {folder} would not end")
    (folder / "pid").unlink(missing_ok=True)


class Monitor:
    """QEMU's monitor (QMP): one command, one answer; events on the way are kept."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._rest, self.events = folder, b"", list[dict[str, Any]]()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(MONITOR_S)
        if not until(self._connected, MONITOR_S):
            raise MonitorProblem(f"QEMU's monitor did not open; {self._words()}")
        self._read()
        self.do("qmp_capabilities")

    def _connected(self) -> bool:
        if running(self.folder) is None:
            raise MonitorProblem(f"QEMU has ended; {self._words()}")
        try:
            self._socket.connect(str(self.folder / "monitor"))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True

    def _words(self) -> str:
        log = self.folder / "qemu.log"
        return f"its words ({log}): {log.read_text(errors='replace')[-1000:].strip() or 'none'}"

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _read(self) -> dict[str, Any]:
        while b"\n" not in self._rest:
            try:
                more = self._socket.recv(65536)
            except TimeoutError:
                raise MonitorProblem(f"QEMU's monitor said nothing for {MONITOR_S:g} s; {self._words()}") from None
            except ConnectionError:
                more = b""
            if not more:
                raise MonitorProblem(f"QEMU has ended; {self._words()}")
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        told: dict[str, Any] = json.loads(line)
        return told

    def do(self, verb: str, **arguments: Any) -> Any:
        """One command. Raises MonitorProblem when QEMU refuses."""
        self._socket.sendall(json.dumps({"execute": verb, "arguments": arguments}).encode() + b"\n")
        while True:
            told = self._read()
            if "event" in told:
                self.events.append(told)
            elif "error" in told:
                raise MonitorProblem(f"QEMU refuses {verb}: {told['error']['desc']}")
            elif "return" in told:
                return told["return"]

    def seen(self, event: str, **data: Any) -> bool:
        """Whether an event with these data has come since the monitor was opened."""
        self.do("query-status")
        return any(told["event"] == event and data.items() <= told.get("data", {}).items() for told in self.events)
