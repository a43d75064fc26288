"""What a stack file says, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

VARIABLE = "burnin_stack"
DISTROS = ("ubuntu2204", "ubuntu2404", "ubuntu2604", "debian12", "debian13", "rhel9", "rhel10")
ARCHES = ("x86_64", "sbsa")
SOURCES = ("cuda", "doca", "mlnx")
HOLD = "hold"


class Level(StrEnum):
    """How bad. An error stops everything before anything is touched; a warning is said."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, or not known. `field` is its path in the file; `confidence` is "low" where our own data is."""

    level: Level
    code: str
    field: str
    found: str
    expected: str
    remedy: str
    source: str
    confidence: str = "high"

    @property
    def sentence(self) -> str:
        doubt = " (low confidence: check it yourself)" if self.confidence == "low" else ""
        return f"{self.field}: found {self.found}; expected {self.expected}; {self.remedy}{doubt} [{self.code}]"

    def as_dict(self) -> dict[str, str]:
        return {
            "level": self.level.value, "code": self.code, "field": self.field, "found": self.found, "expected": self.expected,
            "remedy": self.remedy, "source": self.source, "confidence": self.confidence,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Driver:
    """`version` is the whole upstream version, e.g. 580.126.09. `source`: whose packages, nvidia's or the distribution's own."""

    version: str
    flavour: str
    contents: str = "full"
    source: str = "nvidia"

    @property
    def branch(self) -> int:
        return int(self.version.partition(".")[0])


@dataclass(frozen=True, slots=True)
class Cuda:
    """`toolkits` as X.Y.Z; `default` is the one that /usr/local/cuda leads to."""

    toolkits: tuple[str, ...]
    default: str


@dataclass(frozen=True, slots=True)
class Nccl:
    """`cuda` is the X.Y it was built for, the +cudaX.Y of the package."""

    version: str
    cuda: str


@dataclass(frozen=True, slots=True)
class Ofed:
    """`kind` is doca or mlnx; what the distribution brings is no Ofed at all (None in a Stack)."""

    kind: str
    version: str


@dataclass(frozen=True, slots=True)
class Dcgm:
    """DCGM; its packages follow the driver's CUDA major."""

    version: str


@dataclass(frozen=True, slots=True)
class Override:
    """A site's own place of a source: URL with {distro} and {arch}, its key, and what the key must be. Empty = the vendor's."""

    url: str = ""
    key_url: str = ""
    key_sha256: str = ""
    key_fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Stack:
    """The whole file. A part that is None is not managed. `kernel`: distro -> version; a distro not in it keeps the kernel it runs."""

    driver: Driver
    cuda: Cuda | None = None
    nccl: Nccl | None = None
    ofed: Ofed | None = None
    dcgm: Dcgm | None = None
    kernel: Mapping[str, str] = field(default_factory=dict)
    repositories: Mapping[str, Override] = field(default_factory=dict)
    skus: tuple[str, ...] = ()


def errors(problems: Iterable[Problem]) -> list[Problem]:
    """Those that stop."""
    return [problem for problem in problems if problem.level is Level.ERROR]


def ordered(problems: Iterable[Problem]) -> list[Problem]:
    """Errors first, then by field and code, each once."""
    return sorted(dict.fromkeys(problems), key=lambda one: (one.level is not Level.ERROR, one.field, one.code, one.found, one.expected))


def summary(problems: Iterable[Problem]) -> dict[str, Any]:
    """Counts and the list, as `--json` prints them."""
    listed = ordered(problems)
    bad = len(errors(listed))
    return {"errors": bad, "warnings": len(listed) - bad, "problems": [one.as_dict() for one in listed]}
