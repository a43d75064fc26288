"""What a stack comes to on one kind of node: the shape that the roles use. docs/stack.md tells it field by field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

SCHEMA = "burnin.stack.resolution/1"


@dataclass(frozen=True, slots=True)
class Package:
    """`spec` is what the package manager is handed. `version` may end in a glob; "" is not pinned (its version follows nothing of ours)."""

    name: str
    version: str
    spec: str
    why: str


@dataclass(frozen=True, slots=True)
class Pin:
    """A file of apt preferences. Its name has no dot: apt silently ignores a name with one."""

    name: str
    path: str
    content: str


@dataclass(frozen=True, slots=True)
class Group:
    """Packages that go in as one transaction. Patterns are regular expressions for `re.search` over package names.

    `hold`: installed packages to hold afterwards. `same_version`: installed packages that must all have the group's upstream version.
    `absent`: packages that must not be there, so those that a change may remove. `blacklist`: for unattended-upgrades.
    `locks`: lines for dnf versionlock. `excludes`: repository -> patterns for excludepkgs.
    """

    name: str
    version: str = ""
    packages: tuple[Package, ...] = ()
    pins: tuple[Pin, ...] = ()
    hold: tuple[str, ...] = ()
    same_version: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    blacklist: tuple[str, ...] = ()
    locks: tuple[str, ...] = ()
    excludes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    module_streams: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(package.name for package in self.packages)

    @property
    def unwanted(self) -> tuple[str, ...]:
        """`absent` without what the group itself asks for."""
        return tuple(pattern for pattern in self.absent if not any(re.search(pattern, name) for name in self.names))


@dataclass(frozen=True, slots=True)
class Repository:
    """One vendor repository, to be owned by one file. Key: check the fingerprint, and the sha256 where one is known ("" = not known)."""

    source: str
    name: str
    url: str
    label: str
    key_url: str
    key_fingerprint: str
    key_sha256: str
    key_path: str
    path: str
    deb822: Mapping[str, str]
    yum: Mapping[str, str]
    supersedes: tuple[str, ...]
    supersedes_packages: tuple[str, ...]
    confidence: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something a person should know before it is done."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """Everything for one distribution, architecture and SKU. `release` is what `uname -r` must say, "" when the kernel only stays."""

    distro: str
    family: str
    manager: str
    arch: str
    sku: str
    driver: Mapping[str, Any]
    kernel: Mapping[str, str]
    groups: tuple[Group, ...]
    repositories: tuple[Repository, ...]
    setopt: tuple[str, ...]
    repositories_needed: tuple[str, ...]
    alternatives: Mapping[str, str]
    peer_memory: str
    unsigned_modules: tuple[str, ...]
    notes: tuple[Note, ...]

    def group(self, name: str) -> Group:
        """A group by name. Raises KeyError for one that is none."""
        return {group.name: group for group in self.groups}[name]

    def as_dict(self) -> dict[str, Any]:
        """Plain data, JSON-ready; groups by name, and their order apart."""
        plain = asdict(self)
        plain["schema"] = SCHEMA
        plain["order"] = [group.name for group in self.groups]
        plain["groups"] = {group.name: _group(group) for group in self.groups}
        plain["services"] = [service for group in self.groups for service in group.services]
        plain["blacklist"] = list(dict.fromkeys(pattern for group in self.groups for pattern in group.blacklist))
        return {name: _lists(value) for name, value in plain.items()}


def _group(group: Group) -> dict[str, Any]:
    return {
        **asdict(group),
        "absent": group.unwanted,
        "names": group.names,
        "specs": tuple(package.spec for package in group.packages),
    }


def _lists(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _lists(one) for key, one in value.items()}
    return [_lists(one) for one in value] if isinstance(value, list | tuple) else value
