"""Append-only files that survive a kill and a full disk: the journal and the measurements (JSON lines), and the samples (CSV)."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, List, Mapping

SAMPLE_FIELDS = (
    "elapsed_s", "step", "start", "phase", "gpu", "temp_c", "mem_temp_c", "power_w", "sm_clock_mhz", "mem_clock_mhz",
    "hw_thermal", "sw_thermal", "hw_power_brake", "sw_power_cap",
)  # fmt: skip
BLOCK = 65536
RESERVE, RESERVE_BYTES = "agent.reserve", 65536  # given back when the disk is full, so that the journal can still say so
WAITING_LINES = 2000


def now() -> str:
    """The time, aware, in UTC, to the millisecond."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def mend_tail(path: Path) -> int:
    """Drop what a kill or a full disk left half-written behind the last line end; returns the bytes dropped."""
    if not path.exists():
        return 0
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        keep = size
        while keep > 0:
            begin = max(0, keep - BLOCK)
            file.seek(begin)
            cut = file.read(keep - begin).rfind(b"\n")
            if cut >= 0:
                keep = begin + cut + 1
                break
            keep = begin
        if keep < size:
            file.truncate(keep)
            os.fsync(file.fileno())
        return size - keep


class Lines:
    """A file of lines, opened for appending. `sync` puts what was written on the disk. A write that fails leaves whole lines only."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.dropped = mend_tail(path)
        self._file = path.open("ab", buffering=0)
        self.empty = os.fstat(self._file.fileno()).st_size == 0
        self._waiting: List[str] = []

    def write(self, line: str) -> None:
        self._waiting.append(line)
        if len(self._waiting) >= WAITING_LINES:
            self.flush()

    def flush(self) -> None:
        if not self._waiting:
            return
        data = memoryview(("\n".join(self._waiting) + "\n").encode("utf-8", "backslashreplace"))
        self._waiting = []  # dropped when the disk is full: what was asked for is then lost, what was written stays whole
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError:
            mend_tail(self._path)
            raise

    def sync(self) -> None:
        self.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        try:
            self.sync()
        finally:
            self._file.close()


class Journal:
    """What happened, one JSON line an event, on the disk before the call returns."""

    def __init__(self, path: Path) -> None:
        self._lines = Lines(path)
        self.dropped = self._lines.dropped
        if self._lines.empty:
            sync_folder(path.parent)

    def event(self, name: str, **fields: Any) -> None:
        record: Dict[str, Any] = {"t": now(), "event": name}
        record.update(fields)
        self._lines.write(json.dumps(record, allow_nan=False, ensure_ascii=False))
        self._lines.sync()

    def close(self) -> None:
        self._lines.close()


def sync_folder(folder: Path) -> None:
    """Put the folder's list of names on the disk: a new file is safe only then."""
    handle = os.open(str(folder), os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_journal(path: Path) -> List[Dict[str, Any]]:
    """The events that can be read. A torn last line was never finished, a damaged one tells nothing: both are left out."""
    if not path.exists():
        return []
    events = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("event"), str):
            events.append(record)
    return events


def last_line(path: Path) -> str:
    """The last whole line of a text file; empty when there is none."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - BLOCK))
        lines = file.read().decode("utf-8", errors="replace").split("\n")
    return lines[-2] if len(lines) > 1 else ""


def hold_reserve(folder: Path) -> None:
    """Take the room that the last word needs when the disk is full."""
    path = folder / RESERVE
    if not path.exists():
        path.write_bytes(b"\0" * RESERVE_BYTES)


def drop_reserve(folder: Path) -> None:
    """Give that room back."""
    (folder / RESERVE).unlink(missing_ok=True)


def write_whole(path: Path, document: Mapping[str, Any], durable: bool = True) -> None:
    """Replace the file at once: a reader sees the old one or the new one, never half of one."""
    partial = path.with_name(path.name + ".partial")
    data = json.dumps(document, allow_nan=False, ensure_ascii=False, sort_keys=True) + "\n"
    try:
        with partial.open("wb") as file:
            file.write(data.encode("utf-8", "backslashreplace"))
            if durable:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
