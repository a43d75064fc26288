"""A node and what it is to have, typed: dicts end here. What the node's document lacks is None, and stays unknown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from burnin.stack import handing


@dataclass(frozen=True, slots=True)
class Installed:
    """A package that is there. `held`: None where the package manager has no holds (dnf)."""

    name: str
    version: str
    held: bool | None

    @property
    def bare(self) -> str:
        """Without the epoch."""
        return self.version.partition(":")[2] if re.match(r"[0-9]+:", self.version) else self.version

    @property
    def upstream(self) -> str:
        """Without epoch and packaging release: 580.126.09-0ubuntu1 is 580.126.09."""
        return self.bare.rpartition("-")[0] or self.bare

    def is_of(self, version: str) -> bool:
        """Whether that is its upstream version, or its whole one (NCCL's, with the +cudaX.Y)."""
        return self.bare == version or self.bare.startswith(f"{version}-")

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True, slots=True)
class Case:
    """`want` is a resolution as plain data (Resolution.as_dict), `host` a document burnin.host/1."""

    want: Mapping[str, Any]
    host: Mapping[str, Any]
    installed: tuple[Installed, ...]
    read: bool

    @property
    def apt(self) -> bool:
        return bool(self.want["manager"] == "apt")

    @property
    def boots_here(self) -> bool:
        """Whether the kernel that runs is this system's own. In a container it is its host's, and nothing is to be built for it."""
        return self.has_gpus or self.running in (self.kernels("installed") or ())

    @property
    def groups(self) -> list[Mapping[str, Any]]:
        """In the order in which they are installed."""
        return [self.want["groups"][name] for name in self.want["order"]]

    def group(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.want["groups"][name]
        return found

    @property
    def software(self) -> Mapping[str, Any]:
        return mapping(self.host.get("software"))

    @property
    def running(self) -> str | None:
        """The kernel that runs."""
        return text(mapping(self.host.get("kernel")).get("running"))

    def kernels(self, what: str) -> list[str] | None:
        """`installed` or `headers`: the releases."""
        return texts(mapping(self.host.get("kernel")).get(what))

    def loaded(self, module: str) -> str | None:
        """The version of a loaded module; "" when it is loaded and says none, None when it is not loaded."""
        found = mapping(self.host.get("modules"))
        return (text(mapping(found[module]).get("version")) or "") if found.get(module) is not None else None

    @property
    def has_gpus(self) -> bool:
        """GPUs on the PCI bus. A container has none, and its modules are its host's."""
        found = self.host.get("gpus")
        return isinstance(found, list) and bool(found)

    def matching(self, patterns: Iterable[str]) -> list[Installed]:
        """Installed packages whose name any of the patterns finds."""
        told = list(patterns)
        return [one for one in self.installed if any(re.search(pattern, one.name) for pattern in told)]

    def named(self, name: str) -> list[Installed]:
        return [one for one in self.installed if one.name == name]


def case_of(want: Mapping[str, Any], host: Mapping[str, Any]) -> Case:
    """What the rules look at. A package that is only half there counts as installed: DPKG_BROKEN names it."""
    listed = mapping(host.get("software")).get("packages")
    rows = [mapping(row) for row in listed] if isinstance(listed, list) else []
    found = [
        Installed(name, version, row.get("held") if isinstance(row.get("held"), bool) else None)
        for row in rows
        if (name := text(row.get("name"))) and (version := text(row.get("version")))
    ]
    # As the roles: no fabric manager where the node was looked at and has no NVSwitch.
    driver = handing.group(want, "driver", host)
    want = {**want, "groups": {**want["groups"], "driver": driver}}
    return Case(want, host, tuple(sorted(found, key=lambda one: (one.name, one.version))), read=isinstance(listed, list))


def mapping(value: object) -> Mapping[str, Any]:
    """A mapping, or an empty one."""
    return value if isinstance(value, Mapping) else {}


def text(value: object) -> str | None:
    """A text that says something, or None."""
    return value if isinstance(value, str) and value else None


def texts(value: object) -> list[str] | None:
    """A list of texts; None for what is no list."""
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else None
