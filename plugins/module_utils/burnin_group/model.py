"""What the parts of burnin_group say to each other: a group, a plan, a refusal, and what a package manager must be able to do."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object


class Refusal(Exception):
    """Why it is not done: one of the module's codes, and a sentence with what was found, what was expected and what to do.

    Raised before anything was changed, unless core.py says what was.
    """

    def __init__(self, code: str, message: str) -> None:
        message = "".join(letter if letter.isprintable() else "?" for letter in message)  # a node's text must not act on a terminal
        super().__init__(message)
        self.code, self.message = code, message


@dataclass(frozen=True)
class Installed:
    """One package as the manager's database has it. `held`: kept at its version; `whole`: not half-installed or half-configured."""

    name: str
    version: str
    held: bool
    whole: bool = True


@dataclass(frozen=True)
class File:
    """A file that we own whole. `secret` keys of repositories are none: they are public. `what` tells a person what it is for."""

    path: str
    content: bytes
    mode: int = 0o644
    what: str = "file"


@dataclass(frozen=True)
class Group:
    """A group of the resolution (burnin/stack/resolution.py), as far as this module reads it."""

    name: str
    version: str = ""
    packages: Tuple[Tuple[str, str, str], ...] = ()  # name, version (may end in a glob; "" is any), spec
    pins: Tuple[Tuple[str, str], ...] = ()  # path, content
    hold: Tuple[str, ...] = ()
    same_version: Tuple[str, ...] = ()
    absent: Tuple[str, ...] = ()
    blacklist: Tuple[str, ...] = ()
    locks: Tuple[str, ...] = ()
    excludes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    module_streams: Tuple[str, ...] = ()
    services: Tuple[str, ...] = ()

    @property
    def names(self) -> Tuple[str, ...]:
        return tuple(name for name, _version, _spec in self.packages)

    def ours(self, name: str) -> bool:
        """Whether the group decides about this package: asked for, dragged in and held, or of the group's version."""
        return name in self.names or any_match((*self.hold, *self.same_version), name)


def group_of(told: Mapping[str, Any]) -> Group:
    """From the plain data of the resolution. Raises Refusal for one that is no group."""
    try:
        return Group(
            name=str(told["name"]),
            version=str(told.get("version") or ""),
            packages=tuple((str(one["name"]), str(one["version"]), str(one["spec"])) for one in told.get("packages") or ()),
            pins=tuple((str(one["path"]), str(one["content"])) for one in told.get("pins") or ()),
            excludes={str(name): [str(one) for one in value] for name, value in (told.get("excludes") or {}).items()},
            **{
                name: tuple(str(one) for one in told.get(name) or ())
                for name in ("hold", "same_version", "absent", "blacklist", "locks", "module_streams", "services")
            },
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise Refusal(
            "BAD_GROUP", "group: found %.200r; expected a group of `burnin stack packages --json` (%r)" % (told, error)
        ) from error


@dataclass
class Plan:
    """What one transaction would do. `change`: name -> (old, new). `finish`: packages of the group that were left half-installed."""

    install: Dict[str, str] = field(default_factory=dict)
    change: Dict[str, Tuple[str, str]] = field(default_factory=dict)
    remove: Dict[str, str] = field(default_factory=dict)
    downgrade: List[str] = field(default_factory=list)
    finish: List[str] = field(default_factory=list)
    disk_kib: int = 0
    fetch_kib: int = 0

    def __bool__(self) -> bool:
        return bool(self.install or self.change or self.remove or self.finish)

    @property
    def touched(self) -> List[str]:
        return sorted({*self.install, *self.change, *self.remove, *self.finish})


class Manager(Protocol):
    """A package manager. Nothing below changes the node but `apply`, `hold` and what core.py writes of `files`."""

    root: Path

    def installed(self) -> Dict[str, Installed]:
        """Everything that is installed, by name; one cheap call."""

    def files(self, group: Group, repositories: Sequence[Mapping[str, Any]]) -> List[File]:
        """Keys, sources, pins, and what keeps automatic upgrades off, as they are to be. Raises Refusal where a key is not the one expected."""

    def superseded(self, repositories: Sequence[Mapping[str, Any]]) -> List[str]:
        """Source files that ours replace and that are there now. Raises Refusal (SOURCE_CONFLICT) for another owner of the same place."""

    def unmet(self, group: Group, installed: Mapping[str, Installed]) -> List[str]:
        """Sentences: what of the packages is not as the group wants it; [] = no transaction is needed."""

    def unheld(self, group: Group, installed: Mapping[str, Installed]) -> List[str]:
        """Installed packages that the group holds and that are not held."""

    def plan(self, group: Group, files: Sequence[File], gone: Sequence[str], installed: Mapping[str, Installed]) -> Plan:
        """With `files` and without `gone` in a private place: what the transaction would do. Raises Refusal where it cannot be done."""

    def prepare(self, group: Group) -> None:
        """After the files were written: read the sources for real."""

    def apply(self, group: Group, plan: Plan) -> None:
        """The transaction, exactly as planned. Raises Refusal (TRANSACTION_FAILED) with the manager's last words."""

    def hold(self, group: Group, names: Sequence[str]) -> None:
        """Keep these at their versions."""

    def wait(self, timeout_s: float) -> None:
        """Until no other package manager works. Raises Refusal (LOCKED) naming the process."""

    def newer(self, one: str, other: str) -> bool:
        """Whether a version is newer than another, by the manager's own rules."""


def any_match(patterns: Iterable[str], name: str) -> bool:
    """Whether one of these regular expressions is found in the name."""
    return any(re.search(pattern, name) for pattern in patterns)


def fits(version: str, wanted: str) -> bool:
    """Whether an installed version is the wanted one, which may end in a glob; "" is any."""
    return not wanted or version == wanted or fnmatch.fnmatchcase(version, wanted)


def upstream(version: str) -> str:
    """Without epoch and packaging release: 1:4.4.1-1 -> 4.4.1."""
    rest = version.partition(":")[2] or version
    return rest.rpartition("-")[0] or rest


def of_version(version: str, wanted: str) -> bool:
    """Whether a package's version is of this upstream version, which may name the release as well (NCCL: 2.28.9-1+cuda12.9)."""
    rest = version.partition(":")[2] or version
    return not wanted or wanted in (rest, upstream(version))


def few(names: Iterable[str], most: int = 8) -> str:
    """For a sentence: the first ones, and how many more."""
    listed = list(names)
    return ", ".join(listed[:most]) + (" and %d more" % (len(listed) - most) if len(listed) > most else "")


def unwanted(group: Group, name: str) -> bool:
    """Whether an installed package is one that the group says must not be there."""
    return name not in group.names and any_match(group.absent, name)


def unmet(group: Group, installed: Mapping[str, Installed]) -> List[str]:
    """What any manager says: missing, of another version, half there, or not wanted."""
    found = []
    for name, version, _spec in group.packages:
        there: Optional[Installed] = installed.get(name)
        if there is None:
            found.append("%s is not installed" % name)
        elif not fits(there.version, version):
            found.append("%s is %s, not %s" % (name, there.version, version))
    for name, there in sorted(installed.items()):
        if not there.whole and group.ours(name):
            found.append("%s is not wholly installed" % name)
        elif unwanted(group, name):
            found.append("%s must not be there" % name)
        elif any_match(group.same_version, name) and not of_version(there.version, group.version):
            found.append("%s is %s, not of %s" % (name, there.version, group.version))
    return found
