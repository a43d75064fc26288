"""Packages: there, in the pinned version, of one version, none that must not be there, none half-way in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from burnin.stack.drift.case import Case, Installed, texts
from burnin.stack.drift.finding import Finding, listed

FABRIC_MANAGER = ("^nvidia-fabric-?manager(-[0-9]+)?$",)


def judge(case: Case) -> Iterator[Finding]:
    """The kernel's packages carry the version in their name; rules/kernel.py looks at what is there instead."""
    if not case.read:
        return
    for group in case.groups:
        if group["name"] != "kernel":
            yield from _group(case, group)
        if there := case.matching(group["absent"]):
            names = tuple(str(one) for one in there)
            yield Finding("PACKAGE_UNWANTED", group["name"], f"{listed(names)} installed", "not installed", names)
    if broken := texts(case.software.get("audit")):
        yield Finding("DPKG_BROKEN", "node", listed(broken), "every package installed and configured", tuple(broken))


def missing(case: Case, group: Mapping[str, Any]) -> list[str]:
    """Names that the group asks for and that are not there."""
    return [str(package["name"]) for package in group["packages"] if not case.named(str(package["name"]))]


def _group(case: Case, group: Mapping[str, Any]) -> Iterator[Finding]:
    name = group["name"]
    if gone := missing(case, group):
        yield Finding("PACKAGE_MISSING", name, f"{listed(gone)} not installed", _version(group), tuple(gone))
    alike = case.matching(group["same_version"]) if group["version"] else []
    if name == "nccl" and len({one.bare for one in alike}) > 1:
        both = tuple(str(one) for one in alike)
        yield Finding("NCCL_PAIR", name, listed(both), f"{group['version']} for both", both)
        return
    pinned = {str(package["name"]): str(package["version"]) for package in group["packages"] if package["version"]}
    wrong = [one for package, version in pinned.items() for one in case.named(package) if not _fits(one, version)]
    other = [one for one in alike if not one.is_of(str(group["version"]))]
    if len({one.upstream for one in alike}) == 1:
        # All of one wrong version: nothing is mixed, the whole group is another one.
        wrong, other = list(dict.fromkeys([*wrong, *other])), []
    yield from _wrong(case, group, wrong)
    if mixed := tuple(str(one) for one in other if one not in wrong):
        yield Finding("MIXED_VERSIONS", name, listed(mixed), f"{group['version']}, as the others have", mixed)


def _wrong(case: Case, group: Mapping[str, Any], wrong: list[Installed]) -> Iterator[Finding]:
    """Fabric manager has a code of its own while the driver itself is right: then it alone was moved."""
    managers = [one for one in wrong if one in case.matching(FABRIC_MANAGER)]
    if managers and len(managers) == len(wrong):
        shown = tuple(str(one) for one in managers)
        yield Finding("FABRIC_MANAGER_VERSION", group["name"], listed(shown), f"{group['version']}, the driver's", shown)
    elif wrong:
        shown = tuple(str(one) for one in wrong)
        yield Finding("PACKAGE_VERSION", group["name"], listed(shown), _version(group), shown)


def _version(group: Mapping[str, Any]) -> str:
    """The group's version, or those of its packages where each has its own (toolkits)."""
    own = list(dict.fromkeys(str(package["version"]).removesuffix("-*") for package in group["packages"] if package["version"]))
    return listed(own) or str(group["version"]) or "as the stack file has it"


def _fits(package: Installed, version: str) -> bool:
    return fnmatchcase(package.version, version) or fnmatchcase(package.bare, version)
