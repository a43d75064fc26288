"""Append-only files that survive a kill: the journal and the measurements (JSON lines), and the samples (CSV)."""

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


def now() -> str:
    """The time, aware, in UTC, to the millisecond."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def mend_tail(path: Path) -> int:
    """Drop what a kill left half-written behind the last line end; returns the bytes dropped."""
    if not path.exists():
        return 0
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        keep = size
        while keep > 0:
            begin = max(0, keep - 65536)
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
    """A file of lines, opened for appending; `sync` puts what was written on the disk."""

    def __init__(self, path: Path) -> None:
        self.dropped = mend_tail(path)
        self._file = path.open("a", encoding="utf-8", newline="\n")

    def write(self, line: str) -> None:
        self._file.write(line + "\n")

    def flush(self) -> None:
        self._file.flush()

    def sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self.sync()
        self._file.close()


class Journal:
    """What happened, one JSON line an event, on the disk before the call returns."""

    def __init__(self, path: Path) -> None:
        self._lines = Lines(path)
        self.dropped = self._lines.dropped

    def event(self, name: str, **fields: Any) -> None:
        record: Dict[str, Any] = {"t": now(), "event": name}
        record.update(fields)
        self._lines.write(json.dumps(record, allow_nan=False, ensure_ascii=False))
        self._lines.sync()

    def close(self) -> None:
        self._lines.close()


def read_journal(path: Path) -> List[Dict[str, Any]]:
    """The events that can be read; a torn last line is left out (it was never finished)."""
    if not path.exists():
        return []
    events = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            events.append(record)
    return events


def write_whole(path: Path, document: Mapping[str, Any], durable: bool = True) -> None:
    """Replace the file at once: a reader sees the old one or the new one, never half of one."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(document, file, allow_nan=False, ensure_ascii=False, sort_keys=True)
        file.write("\n")
        if durable:
            file.flush()
            os.fsync(file.fileno())
    partial.replace(path)
