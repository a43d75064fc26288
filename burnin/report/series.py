"""samples.csv -> one time series per GPU.

A node that died leaves a file that ends in the middle of a line; a sick device leaves empty cells. Both are evidence, so what can
be read is read, and what could not is said in `notes`.
"""

from __future__ import annotations

import io
import math
from collections.abc import Collection
from dataclasses import dataclass

MAX_GPUS = 64  # of one file, which is one node's
MAX_SAMPLES = 200_000  # of one GPU: two days at 1 Hz
MAX_LINE_CHARACTERS = 2_000

VALUES = ("temp_c", "mem_temp_c", "power_w", "sm_clock_mhz", "mem_clock_mhz", "hw_thermal", "sw_thermal", "hw_power_brake", "sw_power_cap")


@dataclass(frozen=True, slots=True)
class Step:
    """The elapsed time at which a step of the plan, or a further start of it, began."""

    elapsed_s: float
    name: str
    start: str


@dataclass(frozen=True, slots=True)
class Series:
    """One GPU's telemetry. All tuples are as long as elapsed_s, which never falls; None is 'the device would not say'; flags are 0 or 1."""

    elapsed_s: tuple[float, ...]
    temp_c: tuple[float | None, ...]
    mem_temp_c: tuple[float | None, ...]
    power_w: tuple[float | None, ...]
    sm_clock_mhz: tuple[float | None, ...]
    mem_clock_mhz: tuple[float | None, ...]
    hw_thermal: tuple[float | None, ...]
    sw_thermal: tuple[float | None, ...]
    hw_power_brake: tuple[float | None, ...]
    sw_power_cap: tuple[float | None, ...]
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Samples:
    """What a file gave, and what of it could not be read, in sentences."""

    series: dict[str, Series]
    notes: tuple[str, ...]


class _Growing:
    """One GPU's columns while the file is read."""

    __slots__ = ("columns", "elapsed_s", "steps")

    def __init__(self) -> None:
        self.elapsed_s: list[float] = []
        self.columns: list[list[float | None]] = [[] for _ in VALUES]
        self.steps: list[Step] = []


def parse_samples(text: str, only: Collection[str] | None = None) -> dict[str, Series]:
    """UUID -> Series, as in read_samples; what could not be read stands in each Series' notes."""
    return read_samples(text, only).series


def read_samples(text: str, only: Collection[str] | None = None) -> Samples:
    """The series of a samples.csv (of the GPUs in `only`, if given) and what could not be read. Never raises for what the file holds."""
    lines = io.StringIO(text)
    header = lines.readline(MAX_LINE_CHARACTERS).rstrip("\r\n").split(",")
    if "elapsed_s" not in header or "gpu" not in header or len(set(header)) != len(header):
        return Samples({}, (f"samples.csv: not a header we know: {','.join(header)[:120]!r}" if text else "samples.csv is empty",))
    reader = _Reader(header, only)
    for count, line in enumerate(lines, start=2):
        reader.take(count, line)
    notes = reader.notes()
    return Samples({gpu: _finished(grown, notes) for gpu, grown in reader.grown.items()}, notes)


class _Reader:
    """Takes one line after the other; remembers what was wrong with them."""

    def __init__(self, header: list[str], only: Collection[str] | None) -> None:
        self.width = len(header)
        self.elapsed, self.gpu = header.index("elapsed_s"), header.index("gpu")
        self.step = header.index("step") if "step" in header else None
        self.start = header.index("start") if "start" in header else None
        self.values = [header.index(name) if name in header else None for name in VALUES]
        self.missing = [name for name in VALUES if name not in header]
        self.only = only
        self.grown: dict[str, _Growing] = {}
        self.bad_lines: list[int] = []
        self.last_line, self.last_was_cut = 1, False
        self.left_out: set[str] = set()
        self.cut_short = False

    def take(self, count: int, line: str) -> None:
        self.last_line = count
        self.last_was_cut = not line.endswith("\n")
        fields = line.rstrip("\r\n").split(",") if len(line) <= MAX_LINE_CHARACTERS else []
        elapsed_s = _number(fields[self.elapsed]) if len(fields) == self.width else None
        if elapsed_s is None or not fields[self.gpu]:
            self.bad_lines.append(count)
            return
        if self.only is not None and fields[self.gpu] not in self.only:
            return
        grown = self._grown(fields[self.gpu])
        if grown is None:
            return
        if grown.elapsed_s and elapsed_s < grown.elapsed_s[-1]:
            self.bad_lines.append(count)
            return
        self._append(grown, elapsed_s, fields)

    def _grown(self, gpu: str) -> _Growing | None:
        grown = self.grown.get(gpu)
        if grown is None:
            if len(self.grown) >= MAX_GPUS:
                self.left_out.add(gpu[:80])
                return None
            grown = self.grown[gpu] = _Growing()
        if len(grown.elapsed_s) >= MAX_SAMPLES:
            self.cut_short = True
            return None
        return grown

    def _append(self, grown: _Growing, elapsed_s: float, fields: list[str]) -> None:
        grown.elapsed_s.append(elapsed_s)
        for column, index in zip(grown.columns, self.values, strict=True):
            column.append(None if index is None else _number(fields[index]))
        name = "" if self.step is None else fields[self.step]
        start = "" if self.start is None else fields[self.start]
        if not grown.steps or (grown.steps[-1].name, grown.steps[-1].start) != (name, start):
            grown.steps.append(Step(elapsed_s, name, start))

    def notes(self) -> tuple[str, ...]:
        found = []
        if self.bad_lines == [self.last_line] and self.last_was_cut:
            found.append(f"samples.csv ends in the middle of line {self.last_line}")
        elif self.bad_lines:
            found.append(
                f"samples.csv: {len(self.bad_lines)} of {self.last_line - 1} lines could not be read, the first is line {self.bad_lines[0]}"
            )
        if self.last_line == 1:
            found.append("samples.csv holds no samples")
        if self.missing:
            found.append(f"samples.csv has no column {', '.join(self.missing)}")
        if self.left_out:
            found.append(f"samples.csv names more than {MAX_GPUS} GPUs; {len(self.left_out)} were left out")
        if self.cut_short:
            found.append(f"samples.csv: only the first {MAX_SAMPLES:,} samples of a GPU were read")
        return tuple(found)


def _finished(grown: _Growing, notes: tuple[str, ...]) -> Series:
    values = {name: tuple(column) for name, column in zip(VALUES, grown.columns, strict=True)}
    return Series(elapsed_s=tuple(grown.elapsed_s), steps=tuple(grown.steps), notes=notes, **values)


def _number(text: str) -> float | None:
    if not text or "_" in text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
