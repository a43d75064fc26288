"""Who is the run: whoever holds the lock on agent.lock. It survives reused process ids and goes away with the process however it ends."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import IO, Optional

LOCK = "agent.lock"
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
