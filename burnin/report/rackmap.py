"""The map of the rack: node rows and slot columns, each GPU a cell with a step of the deviation's and of the temperature's colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from burnin.outcome import Outcome
from burnin.report.document import Document, Part
from burnin.report.svg import step_of
from burnin.report.text import natural

BEYOND_STEPS, WITHIN_STEPS, OVER_STEPS = 3, 5, 2  # of colour: over the line, from the line to the median, above the median
HEAT_STEPS = 8
ROW_WITHOUT_SLOTS = 16  # cells in a row where no slot is known


@dataclass(frozen=True, slots=True)
class Cell:
    """One GPU: its index in the document, and its colour steps (None: no value)."""

    index: int
    gpu: Part
    deviation_step: int | None
    heat_step: int | None
    deviation_pct: float | None
    temp_c: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """One node; `cells` has None where the node has no such slot."""

    node: str | None
    verdict: Outcome | None
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True)
class Rack:
    """One rack, its columns and its nodes by position."""

    rack: str | None
    slots: tuple[int, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class RackMap:
    """All racks, and what the colours mean."""

    racks: tuple[Rack, ...]
    line_pct: float
    heat_low_c: float
    heat_high_c: float
    has_heat: bool


def deviation_step(deviation_pct: float | None, line_pct: float) -> int | None:
    """0 is the slowest colour; BEYOND_STEPS is the first that is not over the line; the ends take everything further out."""
    if deviation_pct is None:
        return None
    if deviation_pct < line_pct - 1e-7:
        return max(0, BEYOND_STEPS - math.ceil(line_pct - deviation_pct - 1e-9))
    if deviation_pct < 0:
        return BEYOND_STEPS + min(WITHIN_STEPS - 1, int((deviation_pct - line_pct) / -line_pct * WITHIN_STEPS))
    return BEYOND_STEPS + WITHIN_STEPS + min(OVER_STEPS - 1, int(deviation_pct))


def build(document: Document) -> RackMap:
    """The map of a document."""
    line_pct = max((c.line_pct for c in document.cohorts if c.line_pct is not None and c.line_pct < 0), default=-5.0)
    temps = [temp for gpu in document.gpus if (temp := gpu.temp_c) is not None]
    low_c, high_c = _heat_range(temps)
    known = {part.node: part for part in document.nodes}
    racks: dict[str | None, dict[str | None, list[Cell]]] = {}
    for index, gpu in enumerate(document.gpus):
        deviation, temp = gpu.deviation_pct, gpu.temp_c
        cell = Cell(index, gpu, deviation_step(deviation, line_pct), _heat_step(temp, low_c, high_c), deviation, temp)
        racks.setdefault(gpu.rack, {}).setdefault(gpu.node, []).append(cell)
    for node in document.nodes:  # a node that shows no GPU at all keeps its row
        racks.setdefault(node.rack, {}).setdefault(node.node, [])
    built = tuple(
        _rack(rack, nodes, known) for rack, nodes in sorted(racks.items(), key=lambda item: (item[0] is None, natural(item[0] or "")))
    )
    return RackMap(built, line_pct, low_c, high_c, bool(temps))


def _rack(rack: str | None, nodes: dict[str | None, list[Cell]], known: dict[str | None, Part]) -> Rack:
    slots = tuple(
        sorted({cell.gpu.slot for cells in nodes.values() for cell in cells if cell.gpu.slot is not None and 0 <= cell.gpu.slot < 64})
    )
    rows: list[Row] = []
    for node, cells in sorted(nodes.items(), key=lambda item: _row_order(item[0], item[1], known)):
        part = known.get(node)
        rows += [Row(node, part.verdict if part else None, placed) for placed in _placed(cells, slots)]
    return Rack(rack, slots, tuple(rows))


def _row_order(node: str | None, cells: Sequence[Cell], known: dict[str | None, Part]) -> tuple[bool, int, object]:
    parts = [*([known[node]] if node in known else []), *(cell.gpu for cell in cells)]
    position = next((part.position for part in parts if part.position is not None), 10**9)
    return node is None, position, natural(node or "")


def _placed(cells: Sequence[Cell], slots: tuple[int, ...]) -> list[tuple[Cell | None, ...]]:
    """Each GPU in its slot's column; GPUs without a slot, or a second one in a slot, in rows of their own, so that none is lost."""
    in_slot: dict[int, Cell] = {}
    rest: list[Cell] = []
    for cell in cells:
        slot = cell.gpu.slot
        if slot is None or slot not in slots or slot in in_slot:
            rest.append(cell)
        else:
            in_slot[slot] = cell
    rows: list[tuple[Cell | None, ...]] = [tuple(in_slot.get(slot) for slot in slots)] if in_slot or not rest else []
    width = len(slots) or ROW_WITHOUT_SLOTS
    rows += [tuple(rest[start : start + width]) for start in range(0, len(rest), width)]
    return rows


def _heat_range(temps: Sequence[float]) -> tuple[float, float]:
    """Round ends of the temperature's colours, from the data without its hundredth at either end."""
    if not temps:
        return 40.0, 80.0
    ordered = sorted(temps)
    cut = len(ordered) // 100
    low, high = ordered[cut], ordered[-1 - cut]
    step = max(5.0, step_of(high - low, 4))
    return math.floor(low / step) * step, max(math.ceil(high / step), math.floor(low / step) + 2) * step


def _heat_step(temp_c: float | None, low_c: float, high_c: float) -> int | None:
    if temp_c is None:
        return None
    return min(HEAT_STEPS - 1, max(0, int((temp_c - low_c) / (high_c - low_c) * HEAT_STEPS)))
