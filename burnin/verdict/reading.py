"""What a node wrote, believed only as far as its types hold. Hostile input: nothing here raises, and everything is bounded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MOST_PROBLEMS = 5
LONGEST = 120
MOST_LINES = 1_000_000  # a day of 8 GPUs in windows of a second, the longest plan there is, is 691,200
LONGEST_LINE = 65_536  # characters; a measurement has 700, a journal's reason at most 500
# What a reading can be at all, as (more than, less than): outside it the device did not say. No limit of judgement.
IN_REACH: dict[str, tuple[float, float]] = {
    "value": (1e-9, 1e15),
    "temp_c": (0.0, 1000.0),
    "margin_c": (-1000.0, 1000.0),
    "power_w": (0.0, 1e6),
    "sm_clock_mhz": (0.0, 1e6),
    **dict.fromkeys(("hw_thermal_fraction", "sw_thermal_fraction", "hw_power_brake_fraction"), (-1e-9, 1 + 1e-9)),
}


def text(value: object, most: int = LONGEST) -> str:
    """A short printable text of a string or whole number; '' for anything else (a list is no name)."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value) if abs(value) < 10**80 else ""
    if not isinstance(value, str):
        return ""
    return "".join(letter for letter in value[: 4 * most] if letter.isprintable()).strip()[:most]


def shown(value: object) -> str:
    """A value that is not what it should be, for a sentence."""
    return repr(text(value, 40)) if isinstance(value, str) else text(value, 40) or type(value).__name__


def reading(value: object, name: str) -> float | None:
    """The number, when it is one that this quantity can have; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    low, high = IN_REACH[name]
    if isinstance(value, int) and not -(10**16) < value < 10**16:
        return None
    return float(value) if low < value < high else None


def whole(value: object, most: int = 10**12) -> int | None:
    """A whole number from 0 to `most`, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most else None


def mapping(value: object) -> Mapping[str, Any]:
    """The value when it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


class Problems(list[str]):
    """What is wrong with a node's files: each once, the first few in words, the rest counted."""

    def __init__(self, first: Sequence[str] = ()) -> None:
        super().__init__()
        self._more = 0
        for one in first:
            self.note(one)

    def note(self, problem: str) -> None:
        if problem in self:
            return
        if len(self) < MOST_PROBLEMS:
            self.append(text(problem, 500))
        else:
            self._more += 1

    def told(self) -> tuple[str, ...]:
        return (*self, f"{self._more} more problems of this kind.") if self._more else tuple(self)


def document(content: str | None, name: str, problems: Problems) -> Mapping[str, Any]:
    """A JSON mapping; empty, and a problem noted, when it is none."""
    if content is None:
        return {}
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as problem:
        problems.note(f"{name} is not JSON ({problem}); it is damaged or cut off.")
        return {}
    if not isinstance(found, dict):
        problems.note(f"{name} holds {type(found).__name__}; expected a mapping.")
        return {}
    return found


def records(content: str | None, name: str, problems: Problems) -> Iterator[Mapping[str, Any]]:
    """The records of a JSON-lines text, one at a time. A torn last line was never finished and is left out; any other damage is a problem."""
    for number, line, ended in _lines(content or ""):
        if number > MOST_LINES:
            problems.note(f"{name} has more than {MOST_LINES} lines; the rest was not read.")
            return
        if line is None:
            problems.note(f"{name}, line {number}: longer than {LONGEST_LINE} characters.")
            continue
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            if ended:
                problems.note(f"{name}, line {number}: not JSON.")
            continue
        if isinstance(record, dict):
            yield record
        else:
            problems.note(f"{name}, line {number}: holds {type(record).__name__}; expected a mapping.")


def _lines(content: str) -> Iterator[tuple[int, str | None, bool]]:
    """(number, line, whether its end is there), None for a line that is too long. Split one by one: all at once takes ten times the text."""
    begin, number = 0, 0
    while begin < len(content):
        number += 1
        end = content.find("\n", begin)
        ended, end = end >= 0, end if end >= 0 else len(content)
        yield number, content[begin:end] if end - begin <= LONGEST_LINE else None, ended
        begin = end + 1
