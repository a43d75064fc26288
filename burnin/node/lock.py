"""Who is the run: whoever holds the lock on agent.lock. It survives reused process ids and goes away with the process however it ends.

Start and stop take turns (control.lock), and a stop leaves a mark (stop.json): a start that was under way when the stop came finds it when
it is the run, and ends before it loads anything.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import IO, Optional

LOCK, TURN, STOP_MARK = "agent.lock", "control.lock", "stop.json"
UNKNOWN = -1
TRIES, PAUSE_S = 200, 0.01


def _flock(file: IO[str], how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def hold_lock(evidence: Path) -> Optional[IO[str]]:
    """The open lock file when this process now is the run; None when another one is. Keep it open: closing it lets go."""
    file = (evidence / LOCK).open("a+", encoding="utf-8")
    try:
        for _ in range(TRIES):
            if _flock(file, fcntl.LOCK_EX):
                file.truncate(0)
                file.write(str(os.getpid()))
                file.flush()
                return file
            if not _flock(file, fcntl.LOCK_SH):
                break
            fcntl.flock(file, fcntl.LOCK_UN)  # only somebody who looked (running_pid): he is gone in a moment
            time.sleep(PAUSE_S)
    except OSError:
        file.close()
        raise
    file.close()
    return None


def take_turn(run: Path, patience_s: float) -> Optional[IO[str]]:
    """The open lock of start and stop; None when another one has it for longer than so many seconds. Closing it lets go."""
    file = (run / TURN).open("a", encoding="utf-8")
    deadline = time.monotonic() + patience_s
    while not _flock(file, fcntl.LOCK_EX):
        if time.monotonic() >= deadline:
            file.close()
            return None
        time.sleep(PAUSE_S)
    return file


def asked_s() -> float:
    """When this process began, in seconds since the boot: when it was asked to do what it does. Resolution 10 ms, rounded down."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def ask_stop(run: Path) -> None:
    """Leave word that every start asked for until now is to end."""
    mark = run / STOP_MARK
    partial = mark.with_name(f"{STOP_MARK}.{os.getpid()}")
    try:
        partial.write_text(json.dumps({"boot": _boot(), "s": time.clock_gettime(time.CLOCK_BOOTTIME)}), encoding="utf-8")
        partial.replace(mark)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def stop_asked(run: Path, since_s: float) -> bool:
    """Whether a stop came after `since_s` (seconds since the boot). A mark of an earlier boot, or none that can be read, is none."""
    try:
        told = json.loads((run / STOP_MARK).read_text(encoding="utf-8"))
        return bool(told["boot"] == _boot() and told["s"] > since_s)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()


def running_pid(evidence: Path) -> Optional[int]:
    """The process id of the run, None when nothing runs, UNKNOWN when something runs that cannot be named (yet)."""
    path = evidence / LOCK
    if not path.exists():
        return None
    with path.open("r", encoding="utf-8", errors="replace") as file:
        if _flock(file, fcntl.LOCK_SH):
            return None
        text = file.read(20).strip()
    pid = int(text) if text.isascii() and text.isdigit() else UNKNOWN
    return pid if pid > 1 and _has_open(pid, path) else UNKNOWN


def _has_open(pid: int, path: Path) -> bool:
    """Whether that process has this very file open: the number in the file may be older than the lock, and reused since."""
    wanted = path.stat()
    try:
        handles = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208 - names are all that is needed
    except OSError:
        return False
    for handle in handles:
        try:
            found = os.stat(f"/proc/{pid}/fd/{handle}")  # noqa: PTH116 - a link of the kernel's, not a path
        except OSError:
            continue
        if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
            return True
    return False
