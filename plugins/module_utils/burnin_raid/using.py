"""Who uses a drive: mounts in every mount namespace, swap, what the kernel stacked on it, open handles. Read below one root."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Iterator

from ansible.module_utils.burnin_raid.model import SYSTEM_TARGETS, Drive, Use, clean
from ansible.module_utils.burnin_raid.texts import unescaped

MOST_DEPTH = 12


def read(path: Path, most: int = 4_000_000) -> str:
    """ "" where it is not there, or went while we looked."""
    try:
        with path.open("rb") as file:
            return file.read(most).decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def mount_lines(text: str) -> Iterator[tuple[str, str, str, str, str, bool]]:
    """Device, root of the mount, target, type, source, read-only: of each line of mountinfo (proc(5))."""
    for line in text.splitlines():
        left, _dash, right = line.partition(" - ")
        words, more = left.split(" "), right.split(" ")
        if len(words) >= 6 and len(more) >= 3:
            read_only = "ro" in words[5].split(",") or "ro" in more[2].split(",")
            yield words[2], unescaped(words[3]), unescaped(words[4]), more[0], unescaped(more[1]), read_only


class Uses:
    """All uses on the machine, by device number; made once a look."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.found: dict[str, list[Use]] = {}
        self._mounts()
        self._swaps()
        self._handles()
        self._pools()

    def of(self, drive: Drive) -> tuple[Use, ...]:
        """Through partitions, md, dm and whatever else stands on it."""
        told: list[Use] = []
        for area in drive.areas:
            told += self._above(area.name, (area.name,) if area.number else ())
        return tuple(dict.fromkeys(told))

    def _above(self, name: str, through: tuple[str, ...]) -> Iterator[Use]:
        folder = self.root / "sys/class/block" / name
        for use in self.found.get(read(folder / "dev").strip(), ()):
            yield Use(use.kind, use.what, through, use.system)
        if len(through) > MOST_DEPTH:
            return
        for holder in sorted(entry.name for entry in _entries(folder / "holders")):
            yield Use("holder", holder, through)
            yield from self._above(holder, (*through, holder))
        if through and not (folder / "partition").is_file():  # a stacked device may be partitioned itself
            for part in sorted(entry.name for entry in _entries(folder) if (entry / "partition").is_file()):
                yield from self._above(part, (*through, part))

    def _note(self, dev: str, use: Use) -> None:
        if dev and use not in self.found.setdefault(dev, []):
            self.found[dev].append(use)

    def _dev(self, path: str) -> str:
        """The number of a device node, however it is named; "" where it is none."""
        if not path.startswith("/dev/"):
            return ""
        name = os.path.basename(os.path.realpath(str(self.root / path.lstrip("/"))))
        return read(self.root / "sys/class/block" / name / "dev").strip()

    def _mounts(self) -> None:
        seen = set()
        for folder in [self.root / "proc/self", *self._processes()]:
            space = _link(folder / "ns/mnt") or ("self" if folder.name == "self" else "")
            if not space or space in seen:
                continue
            first, own = not seen, " (as process %s sees it)" % folder.name
            seen.add(space)
            for dev, _root, target, _kind, source, _read_only in mount_lines(read(folder / "mountinfo")):
                system = first and target in SYSTEM_TARGETS
                for number in {dev, self._dev(source)}:
                    if first or not any(use.kind == "mount" for use in self.found.get(number, ())):
                        self._note(number, Use("mount", target if first else clean(target) + own, (), system))

    def _swaps(self) -> None:
        for line in read(self.root / "proc/swaps").splitlines()[1:]:
            path = unescaped(line.split()[0]) if line.split() else ""
            self._note(self._dev(path), Use("swap", path, (), True))

    def _handles(self) -> None:
        ours = str(os.getpid())
        for folder in self._processes():
            if folder.name == ours:
                continue
            for link in _entries(folder / "fd"):
                dev = self._dev(re.sub(r" \(deleted\)$", "", _link(link)))
                if dev:
                    self._note(dev, Use("handle", "process %s (%s)" % (folder.name, clean(read(folder / "comm", 64), 20))))

    def _pools(self) -> None:
        """btrfs over several drives shows one in mountinfo, and all here."""
        for pool in _entries(self.root / "sys/fs/btrfs"):
            for entry in _entries(pool / "devices"):
                self._note(read(self.root / "sys/class/block" / entry.name / "dev").strip(), Use("mount", "a btrfs (%s)" % pool.name))

    def _processes(self) -> list[Path]:
        return sorted((entry for entry in _entries(self.root / "proc") if entry.name.isdigit()), key=lambda entry: int(entry.name))


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # not there, or gone while we looked
        return []


def _link(path: Path) -> str:
    try:
        return os.readlink(str(path))
    except OSError:
        return ""
