"""A node's measurements as rows to judge: only what the plan asked for, in the unit that the catalog says, the newest attempt of each window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from burnin.node.catalog import TESTS
from burnin.node.plan import Plan, Step
from burnin.verdict.measure import STATES
from burnin.verdict.reading import MOST_PROBLEMS, Problems, reading, shown, whole

MOST_ATTEMPTS, MOST_SEED = 10**6, 2**63 - 1
MOST_TIMES = 20  # how often one window may be there: a run that was begun anew more often has other troubles
SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("part", "test", "unit", "better", "step", "start", "window"), pl.String),
    "seed": pl.Int64,
    "value": pl.Float64,
    "steady": pl.Boolean,
    "checked": pl.Int64,
    "wrong": pl.Int64,
    **dict.fromkeys(STATES, pl.Float64),
}
Row = dict[str, Any]


def read(
    keys: Mapping[str, str], records: Iterable[Mapping[str, Any]], plan: Plan, problems: Problems, kind: str = "GPU"
) -> tuple[list[Row], dict[str, tuple[str, ...]]]:
    """The rows of one node, and what is wrong with the numbers of each part. `keys`: UUID (of a drive: its name) -> part key."""
    steps = {step.name: step for step in plan.steps}
    attempts: dict[tuple[str, ...], dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    invalid: dict[str, list[str]] = defaultdict(list)
    left = MOST_TIMES * len(keys) * sum(step.starts * step.windows for step in plan.steps)
    for record in records:
        problem = _unasked(keys, record, steps, kind)
        if problem:
            problems.note(problem)
            continue
        left -= 1
        if left < 0:
            problems.note(f"measurements.jsonl holds more than {MOST_TIMES} times what the plan asks for; the rest was not read.")
            break
        row = _row(keys[record["gpu"]], record)
        other_seed = _other_seed(row, record, plan)
        wrong = _wrong(row, record) or other_seed
        if wrong:
            invalid[row["part"]].append(f"{row['test']}, {row['step']}, start {row['start']}, window {row['window']}: {wrong}")
            row["value"] = None
        key = tuple(row[name] for name in ("part", "test", "step", "start", "window"))
        attempts[key][whole(record.get("attempt"), MOST_ATTEMPTS) or 0].append(row)
    rows = [row for key in attempts for row in _newest(attempts[key], invalid)]
    return rows, {part: tuple(sorted(set(told))[:MOST_PROBLEMS]) for part, told in invalid.items()}


def _unasked(keys: Mapping[str, str], record: Mapping[str, Any], steps: Mapping[str, Step], kind: str) -> str:
    """Why this record belongs to no GPU of the node or no window of the plan, or ''."""
    gpu, name, start, window = (record.get(field) for field in ("gpu", "step", "start", "window"))
    if not isinstance(gpu, str) or gpu not in keys:
        return f"measurements.jsonl names the {kind} {shown(gpu)}, which this node's identity does not list."
    step = steps.get(name) if isinstance(name, str) else None
    if step is None or record.get("test") != step.test:
        return f"measurements.jsonl names {shown(record.get('test'))} in step {shown(name)}, which the plan does not."
    if not 1 <= (whole(start) or 0) <= step.starts or not 1 <= (whole(window) or 0) <= step.windows:
        return f"measurements.jsonl names start {shown(start)}, window {shown(window)} of {step.name!r}, which the plan does not."
    return ""


def _row(part: str, record: Mapping[str, Any]) -> Row:
    test = TESTS[record["test"]]
    return {
        "part": part,
        "test": test.name,
        "unit": test.unit,
        "better": test.better,
        "step": record["step"],
        "start": str(record["start"]),
        "window": str(record["window"]),
        "seed": whole(record.get("seed"), MOST_SEED) or 0,
        "value": reading(record.get("value"), "value"),
        "steady": record.get("steady") is True,
        "checked": whole(record.get("checked")) or 0,
        "wrong": whole(record.get("wrong")) or 0,
        **{name: reading(record.get(name), name) for name in STATES},
    }


def _wrong(row: Row, record: Mapping[str, Any]) -> str:
    """Why the numbers of this window cannot be used, or ''. A count of wrong results that is none hides nothing (B20: it overflowed)."""
    if row["value"] is None:
        return f"{shown(record.get('value'))} is no positive number."
    for name in ("unit", "better"):
        if record.get(name) != row[name]:
            return f"{name} is {shown(record.get(name))}; expected {row[name]!r}."
    for name in ("checked", "wrong"):
        if whole(record.get(name)) is None:
            return f"{name} is {shown(record.get(name))}; expected a count."
    return ""


def _other_seed(row: Row, record: Mapping[str, Any], plan: Plan) -> str:
    """Why this window was not measured on the data that the plan asked for, or ''. Its wrong results then count on no seed of their own."""
    start = record["start"]
    seed = plan.seed_of(start)
    if row["seed"] == seed:
        return ""
    row["seed"] = 0
    return f"seed is {shown(record.get('seed'))}; expected {seed}, the plan's for start {start}."


def _newest(attempts: Mapping[int, list[Row]], invalid: dict[str, list[str]]) -> list[Row]:
    """Of repeated attempts at one window the newest counts; an older one is kept only for the wrong results in it."""
    newest = max(attempts)
    first, kept = attempts[newest][0], [row for attempt, rows in attempts.items() for row in rows if attempt != newest]
    if any(row != first for row in attempts[newest]):
        label = f"{first['test']}, {first['step']}, start {first['start']}, window {first['window']}"
        invalid[first["part"]].append(f"{label}: written twice with different numbers.")
        kept += [{**row, "seed": first["seed"]} for row in attempts[newest]]  # one window has one seed
        first = {**first, **dict.fromkeys(STATES), "value": None, "steady": False, "seed": 0, "checked": 0, "wrong": 0}
    return [first, *({**row, "steady": False} for row in kept if row["wrong"] > 0)]
