"""The compat matrix as typed data: branches and their life, CUDA's floors, NCCL builds, DOCA, names. Shipped in burnin/data."""

from __future__ import annotations

import calendar
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

ENDED, UNKNOWN = "ended", "unknown"


@dataclass(frozen=True, slots=True)
class Fact:
    """One entry of our data. `value` may be text, a number or a list; "" and [] mean that it is not known."""

    value: Any
    unit: str
    why: str
    source: str
    confidence: str


@dataclass(frozen=True, slots=True)
class Branch:
    """One driver branch. `eol` holds a year-month, `ended` or `unknown`; `cuda` what its libcuda implements, X.Y."""

    number: int
    kind: str
    eol: Fact
    cuda: Fact
    newest: Fact | None

    def ended(self, today: date) -> bool:
        """Whether it is out of support on that day: its last month is counted whole."""
        if self.eol.value in (ENDED, UNKNOWN):
            return bool(self.eol.value == ENDED)
        year, month = (int(part) for part in str(self.eol.value).split("-"))
        return today > date(year, month, calendar.monthrange(year, month)[1])


@dataclass(frozen=True, slots=True)
class Toolkit:
    """One CUDA toolkit: the driver it was released with, and where it has been seen."""

    driver: Fact
    distros: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Names:
    """Packages of one part of the stack, for a family and a range of branches. `needs`: traits of the hardware, or an architecture.

    `source`: whose packages they are, nvidia's or the distribution's.
    """

    family: str
    contents: str
    flavour: str
    source: str
    since: int
    before: int
    needs: tuple[str, ...]
    packages: tuple[str, ...]
    epoch: str
    pinned: bool
    fact: Fact

    def serves(self, families: tuple[str, ...], branch: int) -> bool:
        return self.family in families and self.since <= branch < self.before


@dataclass(frozen=True, slots=True)
class Compat:
    """All of it. Keys of `branches` and `floors` are numbers, of the rest versions as text."""

    branches: Mapping[int, Branch]
    floors: Mapping[int, Fact]
    toolkits: Mapping[str, Toolkit]
    nccl: Mapping[str, Fact]
    doca: Mapping[str, Fact]
    rules: Mapping[str, Fact]
    names: Mapping[str, tuple[Names, ...]]

    def cuda_of(self, branch: int) -> str | None:
        """The CUDA X.Y that a driver branch implements; of an unknown branch, that of the nearest known one below it."""
        known = [number for number in self.branches if number <= branch]
        return str(self.branches[max(known)].cuda.value) if known else None


def fact(entry: Mapping[str, Any]) -> Fact:
    """An entry as the file has it. Raises KeyError for one that does not explain itself (a fault of ours)."""
    return Fact(entry["value"], entry["unit"], entry["why"], entry["source"], entry["confidence"])


def load(name: str) -> dict[str, Any]:
    """A data file of ours."""
    document: dict[str, Any] = yaml.safe_load(files("burnin.data").joinpath(name).read_text(encoding="utf-8"))
    return document


def _branch(number: int, entry: Mapping[str, Any]) -> Branch:
    newest = fact(entry["newest"]) if "newest" in entry else None
    return Branch(number, entry["kind"], fact(entry["eol"]), fact(entry["cuda"]), newest)


def _names(entry: Mapping[str, Any]) -> Names:
    return Names(
        family=entry["family"],
        contents=entry.get("contents", ""),
        flavour=entry.get("flavour", ""),
        source=entry.get("source_of_packages", "nvidia"),
        since=entry.get("from", 0),
        before=entry.get("before", 10_000),
        needs=tuple(entry.get("needs", ())),
        packages=tuple(entry["value"]),
        epoch=entry.get("epoch", ""),
        pinned=entry.get("pinned", True),
        fact=fact(entry),
    )


@cache
def compat() -> Compat:
    """The matrix that ships with burnin."""
    data = load("compat.yaml")
    rules = {f"{part}.{name}": fact(entry) for part in ("ofed", "dcgm", "flavours") for name, entry in data[part].items()}
    return Compat(
        branches={number: _branch(number, entry) for number, entry in data["branches"].items()},
        floors={number: fact(entry) for number, entry in data["minor_floors"].items()},
        toolkits={name: Toolkit(fact(entry), tuple(entry["distros"])) for name, entry in data["toolkits"].items()},
        nccl={name: fact(entry) for name, entry in data["nccl"].items()},
        doca={name: fact(entry) for name, entry in data["doca"].items()},
        rules=rules,
        names={part: tuple(_names(entry) for entry in entries) for part, entries in data["names"].items()},
    )
