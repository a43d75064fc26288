"""The distributions: names in the vendors' repositories, kernels' packages, keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

from burnin.errors import StackError
from burnin.stack.compat import Fact, fact, load
from burnin.stack.model import ARCHES

EL = ("RedHat", "Rocky", "AlmaLinux", "CentOS", "OracleLinux", "Oracle Linux", "RHEL", "Red Hat Enterprise Linux")
MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "sbsa", "arm64": "sbsa", "sbsa": "sbsa"}


@dataclass(frozen=True, slots=True)
class Distro:
    """One distribution. `family` is ubuntu, debian or el; `manager` apt or dnf; `sqv`: its apt refuses SHA-1 signatures on keys."""

    name: str
    family: str
    manager: str
    directories: Mapping[str, str]
    key: str
    first_branch: int
    modular: bool
    sqv: bool
    kernel: tuple[str, ...]
    headers: tuple[str, ...]
    kernel_held: tuple[str, ...]
    source: str
    confidence: str

    @property
    def families(self) -> tuple[str, ...]:
        """What `family` in compat.yaml may say and still mean this one."""
        return (self.family, self.manager, "any")


@dataclass(frozen=True, slots=True)
class Key:
    """A signing key: whole OpenPGP fingerprint, the file's name at the vendor, its sha256; "" = not known."""

    fingerprint: str
    file: str
    sha256: str
    fact: Fact


@dataclass(frozen=True, slots=True)
class Source:
    """A vendor's repository: its URL with {directory} {arch} {version}, the Release label, and what it supersedes."""

    name: str
    url: str
    label: str
    suite: str
    arches: Mapping[str, str]
    supersedes: tuple[str, ...]
    fact: Fact


@cache
def _data() -> dict[str, Any]:
    return load("distros.yaml")


@cache
def known() -> Mapping[str, Distro]:
    """Name -> distribution."""
    return {name: _distro(name, entry, _data()["families"][entry["family"]]) for name, entry in _data()["distros"].items()}


def _distro(name: str, entry: Mapping[str, Any], family: Mapping[str, Any]) -> Distro:
    return Distro(
        name=name,
        family=entry["family"],
        manager=entry["manager"],
        directories={"cuda": entry["directory"], "doca": entry["doca"], "mlnx": entry["mlnx"]},
        key=entry["key"],
        first_branch=entry["first_branch"],
        modular=entry.get("modular", False),
        sqv=entry.get("sqv", False),
        kernel=tuple(family["kernel"]),
        headers=tuple(family["headers"]),
        kernel_held=tuple(family["kernel_held"]),
        source=entry["source"],
        confidence=entry["confidence"],
    )


@cache
def keys() -> Mapping[str, Key]:
    """Name -> key."""
    return {name: Key(entry["value"], entry["file"], entry["sha256"], fact(entry)) for name, entry in _data()["keys"].items()}


@cache
def sources() -> Mapping[str, Source]:
    """Name -> vendor's repository."""
    return {
        name: Source(
            name, entry["url"]["value"], entry["label"], entry["suite"], entry["arches"], tuple(entry["supersedes"]), fact(entry["url"])
        )
        for name, entry in _data()["sources"].items()
    }


def distro(name: str) -> Distro:
    """That distribution. Raises StackError, naming those that we know."""
    if name not in known():
        near = get_close_matches(str(name), list(known()), 1)
        raise StackError(
            f"distro {name!r}: not one of ours" + (f"; did you mean {near[0]!r}?" if near else "") + f" Known: {', '.join(known())}"
        )
    return known()[name]


def distro_of(distribution: str, version: str) -> str:
    """Ansible's distribution and distribution_version -> our name: ('Debian', '12.15') -> debian12. Raises StackError.

    Debian's directory has the major only, Ubuntu's the whole version without its dot: dropping dots from both gives debian1215.
    """
    first = str(version).partition(".")[0]
    if distribution == "Ubuntu":
        return distro("ubuntu" + str(version).replace(".", "")).name
    if distribution == "Debian":
        return distro(f"debian{first}").name
    if distribution in EL:
        return distro(f"rhel{first}").name
    raise StackError(f"distribution {distribution!r} {version!r}: not one of ours. Known: {', '.join(known())}")


def arch_of(machine: str) -> str:
    """A machine's architecture -> the vendor's directory: aarch64 servers are sbsa, not aarch64. Raises StackError."""
    if machine not in MACHINES:
        raise StackError(f"architecture {machine!r}: not one of ours; expected {' or '.join(ARCHES)}")
    return MACHINES[machine]
