"""A simulated InfiniBand fabric: ibsim, with the real infiniband-diags and opensm talking to it. Needs no hardware and no kernel module.

The sockets' names are fixed, so one fabric at a time; whoever comes second waits. Without a simulator the tools hang: each call has a timeout.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lab import qemu, rootfs
from lab.rootfs import Unavailable

__all__ = ["Fabric", "FabricProblem", "Link", "Unavailable", "fabric", "net_file", "started"]

PROGRAMS = {
    "ibsim": "ibsim-utils",
    "iblinkinfo": "infiniband-diags",
    "opensm": "opensm",
    "setpriv": "util-linux",
}
LOCK = Path("/run/lock/burnin-lab-ibsim")
LOCK_S, READY_S, CALL_S, END_S = 300.0, 10.0, 20.0, 10.0
# As ibsim writes them: width 1 = 1X, 3 = 4X; speed and extended speed are what both ends can, 7 and 7 is HDR, the most it knows.
HEALTHY = (3, 7, 7)
SPEEDS = {"SDR": (1, 0), "DDR": (3, 0), "QDR": (7, 0), "FDR": (7, 1), "EDR": (7, 3), "HDR": (7, 7)}
PROMPT = "sim> "


class FabricProblem(Exception):
    """The simulator or the subnet manager did not do what was expected."""


@dataclass(frozen=True, slots=True)
class Link:
    """A cable: the two parts' names and ports. `width`: 1 or 4; `speed`: a name in SPEEDS. Less than 4 and HDR is a degraded link, at both ends."""

    near: str
    near_port: int
    far: str
    far_port: int
    width: int = 4
    speed: str = "HDR"

    def ends(self) -> Iterator[tuple[str, int, str, int]]:
        yield self.near, self.near_port, self.far, self.far_port
        yield self.far, self.far_port, self.near, self.near_port


def fabric(nodes: int = 3, leaves: int = 1) -> list[Link]:
    """A tree: nodes node1, node2 ... in turn on leaf1, leaf2 ...; each leaf's port 16 on spine1. A node's HCA is called "node1 mlx5_0"."""
    up = [Link(f"leaf{leaf}", 16, "spine1", leaf) for leaf in range(1, leaves + 1)]
    return [*up, *(Link(f"node{n + 1} mlx5_0", 1, f"leaf{n % leaves + 1}", n // leaves + 1) for n in range(nodes))]


def net_file(links: Sequence[Link]) -> str:
    """The fabric in ibsim's words. A part whose name has a space is an HCA with one port, any other a switch with 16. GUIDs go by the names' order."""
    names = sorted({end[0] for link in links for end in link.ends()})
    width, speed, extended = HEALTHY
    blocks = [f"width={width}\nspeed={speed}\nextspeed={extended}\n"]
    for number, name in enumerate(names, start=1):
        hca = " " in name
        lines = [f"{'ca' if hca else 'switch'}guid=0x0c42a103{number:04x}0000", f'{"Hca 1" if hca else "Switch 16"} "{name}"']
        lines += [
            f'[{port}] "{far}"[{far_port}]{_degraded(link)}' for link in links for near, port, far, far_port in link.ends() if near == name
        ]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _degraded(link: Link) -> str:
    speed, extended = SPEEDS[link.speed]
    width = {1: 1, 4: 3}[link.width]
    return "" if (width, speed, extended) == HEALTHY else f" w={width} s={speed} e={extended}"


@dataclass(frozen=True, slots=True)
class Fabric:
    """A fabric that runs. `hca`: where its tools are attached when a call names no other."""

    folder: Path
    hca: str
    console: int
    preload: Path

    def run(self, *argv: str, hca: str = "", timeout: float = CALL_S) -> subprocess.CompletedProcess[str]:
        """A real tool (ibstat, iblinkinfo, perfquery, ibqueryerrors) on the fabric, as seen from an HCA. The exit code is the caller's to judge."""
        try:
            return subprocess.run(argv, env=self._environment(hca), capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise FabricProblem(f"{' '.join(argv)} did not end within {timeout:g} s; the simulator's words: {self._words()}") from None

    def do(self, command: str) -> str:
        """One line on ibsim's console, and its answer. Raises FabricProblem when it gives none, or refuses."""
        before = self._words()
        os.write(self.console, f"{command}\n".encode())
        if not qemu.until(lambda: self._words().count(PROMPT) > before.count(PROMPT), READY_S):
            raise FabricProblem(f"ibsim does not answer {command!r}; its words: {self._words()}")
        answer = self._words()[len(before) :].removesuffix(PROMPT).strip()
        if answer.startswith("#") or "no such" in answer.lower():
            raise FabricProblem(f"ibsim refuses {command!r}: {answer}")
        return answer

    def count(self, name: str, port: int, counter: str, value: int) -> None:
        """Set a port's error counter, as perfquery names it: count("leaf1", 1, "SymbolErrorCounter", 1234)."""
        self.do(f'PerformanceSet "{name}"[{port}] PortCounters.{counter}={value}')

    def unlink(self, name: str, port: int) -> None:
        """Pull the cable of a port: both its ends are Down / Polling."""
        self.do(f'Unlink "{name}"[{port}]')

    def relink(self, name: str, port: int) -> None:
        """Put it back; the subnet manager makes it Active at its next sweep, not before."""
        self.do(f'ReLink "{name}"[{port}]')

    def active(self) -> bool:
        """Whether the subnet manager has made the port of `hca` active."""
        return re.search(r"State:\s+Active", self.run("ibstat").stdout) is not None

    def _words(self) -> str:
        return (self.folder / "ibsim.log").read_text(errors="replace")

    def _environment(self, hca: str = "") -> dict[str, str]:
        ours = {"LD_PRELOAD": str(self.preload), "SIM_HOST": hca or self.hca}
        return {**os.environ, **ours, "OSM_TMP_DIR": str(self.folder), "OSM_CACHE_DIR": str(self.folder)}

    def _manage(self) -> subprocess.Popen[bytes]:
        argv = ["opensm", "--log_file", str(self.folder / "opensm.log"), "--sweep", "1"]
        with (self.folder / "opensm.out").open("wb") as out:
            return _child(argv, out.fileno(), subprocess.DEVNULL, self._environment())


def _child(argv: Sequence[str], out: int, console: int, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """A process that ends when this one is killed. The preloaded library would count setpriv as a client, so env comes between them."""
    told = [
        f"{name}={value}"
        for name, value in (environment or {}).items()
        if name in ("LD_PRELOAD", "SIM_HOST", "OSM_TMP_DIR", "OSM_CACHE_DIR")
    ]
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "env", *told, *argv], stdin=console, stdout=out, stderr=out)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_S)
        return
    process.kill()
    process.wait(END_S)


@contextmanager
def _alone() -> Iterator[None]:
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("w") as lock:
        deadline = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise FabricProblem(f"another simulated fabric has run for {LOCK_S:g} s; {LOCK} is its lock") from None
                time.sleep(0.2)
        yield


@contextmanager
def started(links: Sequence[Link], manager: bool = True) -> Iterator[Fabric]:
    """The fabric, while the block runs; `manager`: with opensm, every healthy port active. Raises Unavailable where it cannot be had, FabricProblem."""
    rootfs.install_programs(PROGRAMS)
    preload = Path("/usr/lib", str(sysconfig.get_config_var("MULTIARCH")), "umad2sim/libumad2sim.so")
    if not preload.exists():
        raise Unavailable(f"{preload} is not there; it comes with Debian's ibsim-utils")
    first = min(end[0] for link in links for end in link.ends() if " " in end[0])
    with ExitStack() as stack:
        stack.enter_context(_alone())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="burnin-ibsim-")))
        (folder / "net").write_text(net_file(links))
        theirs, ours = os.pipe()
        stack.callback(os.close, ours)
        with (folder / "ibsim.log").open("wb") as out:
            simulator = _child(["ibsim", "-s", str(folder / "net")], out.fileno(), theirs)
        os.close(theirs)
        stack.callback(_end, simulator)
        made = Fabric(folder, first, ours, preload)
        if not qemu.until(lambda: PROMPT in made._words() or simulator.poll() is not None, READY_S) or simulator.poll() is not None:
            raise FabricProblem(f"ibsim did not start; its words: {made._words()}")
        if manager:
            stack.callback(_end, made._manage())
            if not qemu.until(made.active, READY_S, 0.2):
                raise FabricProblem(f"opensm did not make {first} active; its words: {(folder / 'opensm.out').read_text(errors='replace')}")
        yield made
