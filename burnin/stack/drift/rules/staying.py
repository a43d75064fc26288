"""What keeps the stack where it is: holds, locks, pins, and what unattended-upgrades keeps off."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from hashlib import sha256

from burnin.stack.drift.case import Case, text, texts
from burnin.stack.drift.finding import Finding, listed

UPGRADER = "unattended-upgrades"


def judge(case: Case) -> Iterator[Finding]:
    """Holding the top package holds none of its siblings: every installed one that matches must be held (shine-cluster issue 50)."""
    if case.read:
        yield from _holds(case) if case.apt else _locks(case)
    if case.apt:
        yield from _pins(case)
        yield from _upgrades(case)


def _holds(case: Case) -> Iterator[Finding]:
    for group in case.groups:
        loose = tuple(one.name for one in case.matching(group["hold"]) if one.held is False)
        if loose:
            yield Finding("HOLD_MISSING", group["name"], f"{listed(loose)} not held", "each held", loose)


def _locks(case: Case) -> Iterator[Finding]:
    """Our own lines as they are, and for whatever else belongs to the stack a line about it, at whatever version: another one is told as such."""
    there = texts(case.software.get("locks")) or []
    about = [name for line in there if not line.startswith("!") for name in _names(line)]
    for group in case.groups:
        ours = [str(line) for line in group["locks"]] + [f"!{pattern}" for pattern in group["excludes"].get("main", ())]
        gone = [line for line in ours if line not in there]
        loose = [str(one) for one in case.matching(group["hold"]) if not any(fnmatchcase(one.name, name) for name in about)]
        told = tuple(dict.fromkeys([*gone, *loose]))
        if told:
            yield Finding("LOCK_MISSING", group["name"], f"no versionlock of {listed(told)}", "each locked", told)


def _names(line: str) -> list[str]:
    """What may be the name in a line of versionlock: all of it, or what stands before a version, or before version and release."""
    first = line.rpartition("-")[0]
    return [line, first, first.rpartition("-")[0]]


def _pins(case: Case) -> Iterator[Finding]:
    """apt ignores a file whose name has a dot, silently; ours have none."""
    there = case.software.get("pins")
    if not isinstance(there, dict):
        return
    for group in case.groups:
        gone = tuple(str(pin["path"]) for pin in group["pins"] if pin["path"] not in there)
        if gone:
            yield Finding("PIN_MISSING", group["name"], f"no {listed(gone)}", "as the stack comes to", gone)
        changed = tuple(
            str(pin["path"])
            for pin in group["pins"]
            if pin["path"] in there and there[pin["path"]] != sha256(str(pin["content"]).encode()).hexdigest()
        )
        if changed:
            yield Finding("PIN_CHANGED", group["name"], f"{listed(changed)} has another content", "as the stack comes to", changed)


def _upgrades(case: Case) -> Iterator[Finding]:
    there = texts(case.software.get("blacklist"))
    if there is not None:
        gone = tuple(str(pattern) for pattern in case.want["blacklist"] if pattern not in there)
        if gone:
            total = len(case.want["blacklist"])
            yield Finding(
                "BLACKLIST_MISSING", "node", f"{len(gone)} of {total} patterns are not there: {listed(gone)}", "all of them", gone
            )
    if case.named(UPGRADER):
        labels = [str(one["label"]).lower() for one in case.want["repositories"]]
        taken = tuple(one for one in texts(case.software.get("unattended_origins")) or () if _takes(one.lower(), labels))
        if taken:
            yield Finding("UNATTENDED_ORIGIN", "node", listed(taken), "the distribution's own origins only", taken)


def _takes(origin: str, labels: list[str]) -> bool:
    """`origin=*`, or one that names the vendor's label; `${distro_id}:...` is the distribution's own."""
    return text(origin) is not None and ("=*" in origin or origin.startswith("*") or any(label in origin for label in ("nvidia", *labels)))
