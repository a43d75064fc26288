"""The policy's limits as rows of a table: any record with a `value` is a limit, whatever it lies in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from burnin.report.document import finite
from burnin.report.text import MINUS, unit

MAX_LIMITS = 300
MAX_DEPTH = 6


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit is data: value, unit, why, source."""

    name: str
    value: str
    unit: str
    why: str
    source: str


def rows(policy: object) -> tuple[Limit, ...]:
    """The limits in a policy, in its own order; none for what is no policy."""
    found: list[Limit] = []
    for limit in _walk(policy, (), 0):
        if len(found) >= MAX_LIMITS:
            break
        found.append(limit)
    return tuple(found)


def _walk(entry: object, path: tuple[str, ...], depth: int) -> Iterator[Limit]:
    if depth > MAX_DEPTH:
        return
    if isinstance(entry, Mapping):
        if "value" in entry and path:
            yield _limit(entry, path)
            return
        for key, inner in entry.items():
            yield from _walk(inner, (*path, str(key)[:80]), depth + 1)
    elif isinstance(entry, list | tuple):
        for position, inner in enumerate(entry):
            name = inner.get("name", position) if isinstance(inner, Mapping) else position
            yield from _walk(inner, (*path, str(name)[:80]), depth + 1)


def _limit(entry: Mapping[str, Any], path: tuple[str, ...]) -> Limit:
    shown = path[1:] if path[0] == "limits" and len(path) > 1 else path
    return Limit(
        " \N{MIDDLE DOT} ".join(shown),
        _value(entry.get("value")),
        unit(_string(entry.get("unit"))),
        _string(entry.get("why")),
        _string(entry.get("source")),
    )


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    known = finite(value)
    if known is not None:
        return f"{known:g}".replace("-", MINUS)
    if isinstance(value, list | tuple):
        return ", ".join(_value(inner) for inner in value[:20])
    return value[:200] if isinstance(value, str) else ""


def _string(value: object) -> str:
    return value[:600] if isinstance(value, str) else ""
