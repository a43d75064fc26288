"""Many nodes with one stack: who differs from the others in what the stack file does not pin. The few are named, never "some nodes"."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from burnin.stack.drift.case import Case, mapping, text
from burnin.stack.drift.finding import Finding, listed

# Their names carry the version, so another version is another package.
KERNEL_PACKAGES = "linux-", "kernel"
# What a node's own kernel makes of a resolution is no other stack.
OWN = ("groups", "order", "notes", "services", "blacklist")
Facts = Callable[[Case], Iterator[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Shared:
    """A finding of several nodes; `of` is how many share the stack."""

    finding: Finding
    nodes: tuple[str, ...]
    of: int


def stack_key(want: Mapping[str, Any]) -> str:
    """Nodes with the same key may be compared: one distribution, architecture, SKU and stack file."""
    groups = {name: group for name, group in want["groups"].items() if name != "kernel"}
    told = {name: value for name, value in want.items() if name not in OWN} | {"groups": groups}
    return sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:12]


def minorities(cases: Mapping[str, Case]) -> list[Shared]:
    """`cases`: node -> its case. What the same few nodes have differently is one finding."""
    alike: dict[str, dict[str, Case]] = defaultdict(dict)
    for node, case in sorted(cases.items()):
        alike[stack_key(case.want)][node] = case
    return [one for key in sorted(alike) for code, facts in FACTS.items() for one in _few(code, facts, alike[key])]


def _few(code: str, facts: Facts, cases: Mapping[str, Case]) -> Iterator[Shared]:
    told: dict[str, dict[str, str]] = defaultdict(dict)
    for node, case in cases.items():
        for label, value in facts(case):
            told[label][node] = value
    by_nodes: dict[tuple[str, ...], list[tuple[str, str]]] = defaultdict(list)
    for label, values in sorted(told.items()):
        nodes, found, usual = _split(label, values)
        if nodes:
            by_nodes[nodes].append((found, usual))
    for nodes, rows in sorted(by_nodes.items()):
        items = tuple(found for found, _ in rows)
        yield Shared(Finding(code, "fleet", listed(items), listed([usual for _, usual in rows]), items), nodes, len(cases))


def _split(label: str, values: Mapping[str, str]) -> tuple[tuple[str, ...], str, str]:
    """The nodes outside the majority, what they have, and what the others have. Without a majority all are named."""
    counted = Counter(values.values())
    if len(counted) < 2:
        return (), "", ""
    usual, most = sorted(counted.items(), key=lambda one: (-one[1], one[0]))[0]
    if most * 2 <= len(values):
        each = [f"{value} on {number}" for value, number in sorted(counted.items(), key=lambda one: (-one[1], one[0]))]
        return tuple(sorted(values)), f"{label}: {listed(each)} of {len(values)} nodes", "one for all; none has the majority"
    few = sorted(node for node, value in values.items() if value != usual)
    theirs = sorted({values[node] for node in few})
    return tuple(few), f"{label} {listed(theirs)}", f"{usual}, as {most} of {len(values)} nodes have"


def _kernel(case: Case) -> Iterator[tuple[str, str]]:
    if case.running and not mapping(case.want["kernel"]).get("release"):
        yield "kernel", case.running


def _packages(case: Case) -> Iterator[tuple[str, str]]:
    """Those that no rule of one node holds to a version."""
    pinned = {str(package["name"]) for group in case.groups for package in group["packages"] if package["version"]}
    pinned |= {one.name for group in case.groups if group["version"] for one in case.matching(group["same_version"])}
    for one in case.installed:
        if one.name not in pinned and not one.name.startswith(KERNEL_PACKAGES):
            yield one.name, one.version


def _modules(case: Case) -> Iterator[tuple[str, str]]:
    for name in mapping(case.host.get("modules")):
        version = case.loaded(str(name))
        if version and name != "nvidia":
            yield str(name), version


def _firmware(case: Case) -> Iterator[tuple[str, str]]:
    """By model: a NIC of another kind has other firmware by right."""
    board = mapping(case.host.get("firmware"))
    if bios := text(board.get("bios_version")):
        yield f"BIOS of {text(board.get('product')) or 'this board'}", bios
    for part, label, model, version in (
        ("nics", "firmware of NIC", "board_id", "firmware"),
        ("nvme", "firmware of NVMe", "model", "firmware"),
        ("gpus", "VBIOS of GPU", "device", "vbios"),
    ):
        found: dict[str, set[str]] = defaultdict(set)
        for row in _rows(case.host.get(part)):
            if (kind := text(row.get(model))) and (has := text(row.get(version))):
                found[kind].add(has)
        for kind, has_all in sorted(found.items()):
            yield f"{label} {kind}", " + ".join(sorted(has_all))


def _rows(told: object) -> Sequence[Mapping[str, Any]]:
    return [mapping(row) for row in told] if isinstance(told, list) else []


FACTS: dict[str, Facts] = {
    "KERNEL_MINORITY": _kernel, "PACKAGE_MINORITY": _packages, "MODULE_MINORITY": _modules, "FIRMWARE_MINORITY": _firmware,
}  # fmt: skip
