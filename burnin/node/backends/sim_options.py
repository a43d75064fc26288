"""The simulation's options, checked whole: a fault that is planted wrong would look like a part that is sound."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from burnin.node.backends.base import BackendProblem

OPTIONS = ("compress", "faults", "gpus", "node", "seed")
MOST_GPUS = 64
# kind -> its own field, with the range and the default (None = it must be given). Every kind but node_dies names a slot.
FAULTS: Dict[str, Dict[str, Tuple[float, float, Any]]] = {
    "slow_silicon": {"deficit_pct": (0.0, 90.0, 8.0)},
    "heat": {"resistance_factor": (1.0, 10.0, 2.1)},
    "hot": {"temp_c": (40.0, 88.0, 84.0)},
    "wrong_result": {"chance": (0.0, 1.0, 0.03)},
    "missing": {},
    "lost": {"at_s": (0.0, 1e7, None)},
    "node_dies": {"at_s": (0.0, 1e7, None)},
    "row_remap_failure": {},
    "reset_pending": {},
}
NODE_FAULTS = ("node_dies",)
UNREAD = ("expect",)  # for whoever checks the demo; the simulation must not see it


@dataclass(frozen=True)
class Fault:
    """One planted fault. `slot` is -1 for a fault of the node. `value`: the one number that the kind takes, else 0."""

    kind: str
    slot: int
    value: float


@dataclass(frozen=True)
class SimOptions:
    """`compress`: virtual seconds per real second; 0 = as fast as it goes."""

    node: str
    gpus: int
    seed: int
    compress: float
    faults: Tuple[Fault, ...]


def _unknown(where: str, key: Any, known: Sequence[str]) -> BackendProblem:
    near = get_close_matches(str(key), known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return BackendProblem(f"options: {where}{str(key)[:60]!r} is unknown{hint} Known: {', '.join(known)}")


def _number(where: str, value: Any, low: float, high: float, whole: bool = False) -> float:
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        what = "a whole number" if whole else "a number"
        raise BackendProblem(f"options: {where} is {str(value)[:60]!r}; expected {what} from {low:g} to {high:.15g}")
    return value


def read(raw: Mapping[str, Any]) -> SimOptions:
    """The options in a decoded document. Raises BackendProblem naming the field, what was found and what was expected."""
    for key in raw:
        if key not in OPTIONS:
            raise _unknown("", key, OPTIONS)
    node, listed = raw.get("node", "node"), raw.get("faults", [])
    if not isinstance(node, str) or not 0 < len(node) <= 255:
        raise BackendProblem(f"options: node is {str(node)[:60]!r}; expected a name of 1 to 255 letters")
    gpus = int(_number("gpus", raw.get("gpus", 8), 1, MOST_GPUS, whole=True))
    if not isinstance(listed, list):
        raise BackendProblem(f"options: faults is {type(listed).__name__}; expected a list of mappings with kind and slot")
    return SimOptions(
        node,
        gpus,
        int(_number("seed", raw.get("seed", 1), 0, 2**53, whole=True)),
        _compress(raw.get("compress", 0)),
        _faults(listed, gpus),
    )


def _compress(value: Any) -> float:
    found = _number("compress", value, 0, 1e6)
    if 0 < found < 1:
        raise BackendProblem(
            f"options: compress is {found:g}; expected 0 (as fast as it goes) or virtual seconds per real second, 1 and more"
        )
    return found


def _faults(listed: List[Any], gpus: int) -> Tuple[Fault, ...]:
    found: List[Fault] = []
    for index, raw in enumerate(listed):
        fault = _fault(f"faults[{index}]", raw, gpus)
        if (fault.kind, fault.slot) in {(other.kind, other.slot) for other in found}:
            raise BackendProblem(f"options: faults[{index}] plants {fault.kind} twice in one place; leave one out")
        found.append(fault)
    if {fault.slot for fault in found if fault.kind == "missing"} >= set(range(gpus)):
        raise BackendProblem("options: faults take every GPU away; leave one in")
    return tuple(found)


def _fault(where: str, raw: Any, gpus: int) -> Fault:
    if not isinstance(raw, Mapping):
        raise BackendProblem(f"options: {where} is {type(raw).__name__}; expected a mapping with kind and slot")
    kind = raw.get("kind")
    if not isinstance(kind, str) or kind not in FAULTS:
        raise _unknown(f"{where}.kind ", kind, tuple(FAULTS))
    known = ("kind", *(() if kind in NODE_FAULTS else ("slot",)), *FAULTS[kind], *UNREAD)
    for key in raw:
        if key not in known:
            raise _unknown(f"{where}.", key, known)
    slot = -1 if kind in NODE_FAULTS else int(_number(f"{where}.slot", raw.get("slot"), 0, gpus - 1, whole=True))
    for name, (low, high, default) in FAULTS[kind].items():
        return Fault(kind, slot, float(_number(f"{where}.{name}", raw.get(name, default), low, high)))
    return Fault(kind, slot, 0.0)
