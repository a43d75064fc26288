"""What is known of links, as shipped (burnin/data/links.yaml): speeds of a lane, what a state means, what a count is held against."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a port is not active. `manager`: the subnet manager's to change, not the cable's."""

    cause: str
    action: str
    manager: bool = False


@dataclass(frozen=True, slots=True)
class Counter:
    """What a counter is held against: more than `per_hour`, and at least `least`. At `full` its field stops counting. `of`: errors or flaps."""

    name: str
    per_hour: float
    least: int
    full: int
    of: str
    why: str

    def exceeded(self, count: int, hours: float) -> bool:
        """Whether that many in that time are too many. A full field says at least so many."""
        return count >= self.least and count > self.per_hour * hours


@cache
def _data() -> Mapping[str, Any]:
    found: dict[str, Any] = yaml.safe_load(files("burnin.data").joinpath("links.yaml").read_text(encoding="utf-8"))
    return found


def lane_gb_s(speed: str | None) -> float | None:
    """Gb/s of one lane of that speed; None for a name that we do not know."""
    entry = _data()["speeds"].get(speed or "")
    return float(entry["value"]) if entry else None


@cache
def counters() -> Mapping[str, Counter]:
    """Name -> what it is held against."""
    return {
        name: Counter(name, float(one["value"]), int(one["least"]), int(one["full"]), str(one["of"]), str(one["why"]))
        for name, one in _data()["counters"].items()
    }


def cause_of(state: str | None, physical: str | None) -> Cause:
    """Why a port in that state is not active."""
    states = _data()["states"]
    key = state if state in states else physical
    if key in states:
        return Cause(states[key]["cause"], states[key]["action"], bool(states[key]["manager"]))
    told = physical or state or "not told"
    return Cause(f"its link is {told}", f"{told}: look at cable and far end, then at the kernel's log")


def link_type_line(address: object, port: object, layer: str) -> str | None:
    """The command that would make this port speak that layer; None where we know no number for it, or its address is none.

    Such a card shows each port as a function of its own (0 is P1, 1 is P2) with one port; an older one shows both as ports of one function.
    """
    entry = _data()["link_types"].get(layer)
    if entry is None or not isinstance(address, str) or not ADDRESS.fullmatch(address):
        return None
    function = int(address[-1])
    number = port if isinstance(port, int) and port > 1 else function + 1
    return f"mlxconfig -d {address} set LINK_TYPE_P{number}={entry['value']}" if number in (1, 2) else None
