"""The one way to look at the machine: bounded, over any root, and a file that will not be read stops no other.

    reader = Reader("/")          reader.line("/sys/module/nvidia/version")          reader.glob("/sys/bus/pci/devices/*")

Paths are always the node's own (they begin with /); below another root, links are followed as a chroot would follow them, so that nothing
of this machine slips into a test. None and [] = it is not there or would not say; what went wrong beyond "not there" is in `errors`.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import stat
import subprocess
import time
from pathlib import Path
from typing import Dict, List, Optional, Sequence

LONGEST_BYTES = 64 * 1024
MOST_ENTRIES = 4096
MOST_ERRORS = 50
MOST_LINKS = 40
COMMAND_S = 20.0
ALL_S = 60.0  # of one whole reading: a wedged device makes every read slow
ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO)
# A command answers in English and asks nobody.
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}


class Reader:
    """Reads below `root`. `errors`: [{"path", "why"}] of what is there and would not be read, at most MOST_ERRORS."""

    def __init__(self, root: str = "/", seconds: float = ALL_S) -> None:
        self.root = str(Path(root).resolve())
        self.errors: List[Dict[str, str]] = []
        self._until = time.monotonic() + seconds

    def fail(self, path: str, why: str) -> None:
        """Put on record what could not be read."""
        entry = {"path": path[:200], "why": why[:200]}
        if entry not in self.errors and len(self.errors) < MOST_ERRORS:
            self.errors.append(entry)

    def at(self, path: str) -> Optional[str]:
        """Where the node's `path` lies on this machine, links followed inside the root; None when links go in circles."""
        if self.root == "/":
            return path
        left, done, links = path.strip("/").split("/"), "", 0
        while left:
            part = left.pop(0)
            if part in ("", "."):
                continue
            if part == "..":
                done = done.rpartition("/")[0]
                continue
            here = done + "/" + part
            try:
                target = str(Path(self.root + here).readlink())
            except OSError:
                done = here
                continue
            links += 1
            if links > MOST_LINKS:
                return None
            if target.startswith("/"):
                done = ""
            left = target.strip("/").split("/") + left
        return self.root + done

    def read_bytes(self, path: str, limit: int = LONGEST_BYTES) -> Optional[bytes]:
        """The first `limit` bytes of a regular file."""
        if self._late(path):
            return None
        place = self.at(path)
        try:
            # A pipe or a device must not hold us up: opened without waiting, and only a file is read.
            handle = os.open(place or "", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(handle, "rb") as file:
                return file.read(limit) if stat.S_ISREG(os.fstat(handle).st_mode) else None
        except OSError as problem:
            self._note(path, problem)
            return None

    def read_text(self, path: str, limit: int = LONGEST_BYTES) -> Optional[str]:
        """The first `limit` bytes of a file as text; what is no UTF-8 is replaced."""
        content = self.read_bytes(path, limit)
        return None if content is None else content.decode("utf-8", errors="replace")

    def line(self, path: str, longest: int = 200) -> Optional[str]:
        """One short line of a file, printable letters only; None when it is empty."""
        text = self.read_text(path, 4096)
        if text is None:
            return None
        return "".join(letter for letter in text.strip() if letter.isprintable())[:longest].strip() or None

    def listdir(self, path: str) -> List[str]:
        """The names in a folder, sorted, at most MOST_ENTRIES."""
        if self._late(path):
            return []
        try:
            with os.scandir(self.at(path) or "") as found:
                names = sorted(entry.name for entry in found)
        except OSError as problem:
            self._note(path, problem)
            return []
        if len(names) > MOST_ENTRIES:
            self.fail(path, "holds %d entries, the first %d were looked at" % (len(names), MOST_ENTRIES))
        return names[:MOST_ENTRIES]

    def glob(self, pattern: str) -> List[str]:
        """The node's paths that match, sorted; * and ? within one part of the path."""
        found = [""]
        for part in pattern.strip("/").split("/"):
            if any(letter in part for letter in "*?["):
                found = [here + "/" + name for here in found for name in self.listdir(here or "/") if fnmatch.fnmatchcase(name, part)]
            else:
                found = [here + "/" + part for here in found]
            found = found[:MOST_ENTRIES]
        return [path for path in found if self.exists(path)]

    def exists(self, path: str) -> bool:
        """Whether something is there; a link that leads nowhere is not."""
        place = self.at(path)
        if place is None:
            return False
        try:
            os.stat(place)  # noqa: PTH116  Path.exists() raises where it may not look, on Python before 3.12
        except OSError:
            return False
        return True

    def readlink(self, path: str) -> Optional[str]:
        """What a link says, unfollowed; None for what is no link."""
        parent, _, name = path.rpartition("/")
        try:
            return str(Path((self.at(parent or "/") or "") + "/" + name).readlink())
        except OSError as problem:
            if problem.errno != errno.EINVAL:
                self._note(path, problem)
            return None

    def targets(self, path: str, told_as: str) -> List[str]:
        """What the links in a folder say; a folder or link that may not be read is told once, as `told_as` (there may be thousands)."""
        found = []
        try:
            with os.scandir(self.at(path) or "") as entries:
                for entry in entries:
                    found.append(str(Path(entry.path).readlink()) if entry.is_symlink() else "")
                    if len(found) >= MOST_ENTRIES:
                        break
        except OSError as problem:
            self._note(told_as, problem)
        return found

    def realpath(self, path: str) -> Optional[str]:
        """The node's own path with every link followed; None when it is not there."""
        if not self.exists(path):
            return None
        if self.root == "/":
            return os.path.realpath(path)
        return (self.at(path) or "")[len(self.root) :] or "/"

    def run(self, argv: Sequence[str], timeout_s: float = COMMAND_S, limit: int = 4 * 1024 * 1024) -> Optional[str]:
        """What a command prints, whatever its exit code; None below another root, without that command, or when it takes too long."""
        if self.root != "/" or self._late(argv[0]):
            return None
        try:
            done = subprocess.run(
                list(argv), check=False, stdin=subprocess.DEVNULL, capture_output=True, env=ENVIRONMENT,
                timeout=min(timeout_s, max(1.0, self._until - time.monotonic())),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            self.fail(" ".join(argv), "took longer than %d s" % timeout_s)
            return None
        except OSError as problem:
            self._note(argv[0], problem)
            return None
        return done.stdout[:limit].decode("utf-8", errors="replace")

    def _late(self, path: str) -> bool:
        if time.monotonic() < self._until:
            return False
        self.fail(path, "not read: the time for the whole reading is up")
        return True

    def _note(self, path: str, problem: OSError) -> None:
        if problem.errno not in ABSENT:
            self.fail(path, problem.strerror or str(problem))
