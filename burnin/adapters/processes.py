"""Finding and ending every process of a play, wherever it hid.

ansible-runner kills one process group. Ansible's workers are sessions of their own, and so their loads live on (field report B44). What
they keep is the environment they were born with, so a mark in it names them, also after their parents are gone. Only the masters that ssh
leaves behind have none: ssh writes its title over it. They name their socket in that title. Linux only: elsewhere nothing is found, and
the runner's own kill is all there is.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
SETTLE_S = 5.0
STEP_S = 0.02
MAX_ROUNDS = 50

# A process is its number and its start time: numbers are given out again.
Process = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Ended:
    """Process numbers: all that were to end, and those of them that would not."""

    numbers: frozenset[int]
    left: frozenset[int]


def end(*, mark: str = "", naming: str = "") -> Ended:
    """Kill every process with `mark` (NAME=value) in its environment or with `naming` in its command line, and their children.

    All are stopped first, so that none can start another while we look.
    """
    doomed: set[Process] = set()
    for _round in range(MAX_ROUNDS):
        fresh = find(mark=mark, naming=naming) - doomed
        if not fresh:
            break
        for process in fresh:
            _signal(process, signal.SIGSTOP)
        doomed |= fresh
    for process in doomed:
        _signal(process, signal.SIGKILL)
    deadline = time.monotonic() + SETTLE_S
    while (left := {process for process in doomed if _alive(process)}) and time.monotonic() < deadline:
        time.sleep(STEP_S)
    return Ended(frozenset(number for number, _ in doomed), frozenset(number for number, _ in left))


def find(*, mark: str = "", naming: str = "") -> set[Process]:
    """The living processes that `mark` or `naming` mean, and their descendants (sudo cleans the environment, but has a parent)."""
    parents = dict(_processes())
    found = {process for process in parents if mark and mark.encode() in _read(process[0], "environ").split(b"\0")}
    found |= {process for process in parents if naming and naming.encode() in _read(process[0], "cmdline")}
    numbers = {number for number, _ in found}
    while grown := {process for process, parent in parents.items() if parent in numbers and process not in found}:
        found |= grown
        numbers |= {number for number, _ in grown}
    return {process for process in found if process[0] != os.getpid()}


def _processes() -> Iterator[tuple[Process, int]]:
    """Each living process and its parent's number."""
    for entry in PROC.iterdir() if PROC.is_dir() else ():
        if entry.name.isdigit() and (status := _status(int(entry.name))):
            state, parent, started = status
            if state not in "ZX":
                yield (int(entry.name), started), parent


def _status(number: int) -> tuple[str, int, int] | None:
    """State, parent and start time, from /proc/N/stat; the name in it may hold anything, so it is read from the last ')'."""
    fields = _read(number, "stat").rpartition(b")")[2].split()
    return (fields[0].decode(), int(fields[1]), int(fields[19])) if len(fields) > 19 else None


def _alive(process: Process) -> bool:
    status = _status(process[0])
    return status is not None and status[2] == process[1] and status[0] not in "ZX"


def _signal(process: Process, number: signal.Signals) -> None:
    if _alive(process):
        try:
            os.kill(process[0], number)
        except (ProcessLookupError, PermissionError):
            return  # gone meanwhile, or not ours to end: `end` reports what is left


def _read(number: int, what: str) -> bytes:
    try:
        return (PROC / str(number) / what).read_bytes()
    except OSError:
        return b""  # ended while we looked, or another user's
