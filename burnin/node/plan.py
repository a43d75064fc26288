"""A plan as the node reads it: checked whole before anything starts. Pure; plan_file.py reads."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, List, Mapping, Sequence, Tuple

from burnin.node.catalog import TESTS

SCHEMA = "burnin.plan/1"
LONGEST_S = 30 * 24 * 3600
MOST_STEPS = 1000
MOST_WINDOWS = 100_000  # as many fsyncs and journal lines: a day of 1 s windows
NAME_LETTERS = 80
FIELDS = ("description", "name", "run_id", "schema", "seed", "steps")
STEP_FIELDS = ("idle_s", "name", "starts", "test", "warmup_s", "window_s", "windows")


class PlanProblem(ValueError):
    """A plan that cannot be run; the message names the field, what was found and what to do."""


@dataclass(frozen=True)
class Step:
    """One test, begun `starts` times from rest. All durations in seconds."""

    name: str
    test: str
    starts: int
    idle_s: float
    warmup_s: float
    window_s: float
    windows: int

    @property
    def start_s(self) -> float:
        """How long one start takes, its idle and warm-up included."""
        return self.idle_s + self.warmup_s + self.window_s * self.windows


@dataclass(frozen=True)
class Plan:
    """The ordered steps of one run on one node. `digest`: of the document it was read from."""

    name: str
    run_id: str
    seed: int
    steps: Tuple[Step, ...]
    digest: str = ""

    @property
    def planned_s(self) -> float:
        """The whole run in seconds."""
        return sum(step.start_s * step.starts for step in self.steps)

    def seed_of(self, start: int) -> int:
        """The seed of a start's data: another one for each start, the same on every node."""
        return self.seed * 1000 + start


def shown(value: Any) -> str:
    """A value as a message shows it: never longer than a line."""
    try:
        text = repr(value)
    except ValueError:
        return "a number too large to print"
    return text if len(text) <= NAME_LETTERS else f"{text[:NAME_LETTERS]}..."


def nearest(name: Any, known: Sequence[str]) -> str:
    """`; did you mean 'x'?` or nothing."""
    near = get_close_matches(str(name), known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _number(where: str, value: Any, low: float, high: float, whole: bool = False) -> float:
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        what = "a whole number" if whole else "a number"
        raise PlanProblem(f"plan: {where} is {shown(value)}; expected {what} from {low:g} to {high:.15g}")
    return value


def _text(where: str, value: Any, least: int = 0) -> str:
    if not isinstance(value, str) or not least <= len(value) <= NAME_LETTERS or not value.isprintable() or "," in value or '"' in value:
        raise PlanProblem(f"plan: {where} is {shown(value)}; expected {least} to {NAME_LETTERS} printable letters, no comma, no quote")
    return value


def _step(index: int, raw: Any) -> Step:
    where = f"steps[{index}]"
    if not isinstance(raw, Mapping):
        raise PlanProblem(f"plan: {where} is {type(raw).__name__}; expected a mapping with test, starts, windows, window_s")
    for key in raw:
        if key not in STEP_FIELDS:
            raise PlanProblem(f"plan: {where} has an unknown field {shown(key)}{nearest(key, STEP_FIELDS)} Known: {', '.join(STEP_FIELDS)}")
    test = raw.get("test")
    if not isinstance(test, str) or test not in TESTS:
        known = sorted(TESTS)
        raise PlanProblem(f"plan: {where}.test is {shown(test)}, which is no test{nearest(test, known)} Known: {', '.join(known)}")
    return Step(
        name=_text(f"{where}.name", raw.get("name", f"{test}-{index + 1}"), 1),
        test=test,
        starts=int(_number(f"{where}.starts", raw.get("starts", 1), 1, 100, whole=True)),
        idle_s=_number(f"{where}.idle_s", raw.get("idle_s", 0), 0, 3600),
        warmup_s=_number(f"{where}.warmup_s", raw.get("warmup_s", 0), 0, 3600),
        window_s=_number(f"{where}.window_s", raw.get("window_s"), 0.1, 24 * 3600),
        windows=int(_number(f"{where}.windows", raw.get("windows"), 1, 10_000, whole=True)),
    )


def parse_plan(text: str) -> Plan:
    """The plan in a JSON text. Raises PlanProblem for anything that is not a plan that can be run."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise PlanProblem(f"plan: not JSON ({problem}); expected a document with schema {SCHEMA}") from None
    return check_plan(raw)


def check_plan(raw: Any) -> Plan:
    """The plan in a decoded document. Raises PlanProblem as parse_plan does."""
    if not isinstance(raw, Mapping) or raw.get("schema") != SCHEMA:
        found = raw.get("schema") if isinstance(raw, Mapping) else type(raw).__name__
        raise PlanProblem(f"plan: schema is {shown(found)}; expected {SCHEMA!r}")
    for key in raw:
        if key not in FIELDS:
            raise PlanProblem(f"plan: unknown field {shown(key)}{nearest(key, FIELDS)} Known: {', '.join(FIELDS)}")
    plan = Plan(
        _text("name", raw.get("name", "")),
        _text("run_id", raw.get("run_id", "")),
        int(_number("seed", raw.get("seed", 0), 0, 2**53, whole=True)),
        tuple(_steps(raw.get("steps"))),
        hashlib.sha256(json.dumps(raw, sort_keys=True, default=str).encode()).hexdigest()[:16],
    )
    if plan.planned_s > LONGEST_S:
        raise PlanProblem(f"plan: lasts {plan.planned_s:g} s; expected at most {LONGEST_S} s (30 days)")
    windows = sum(step.starts * step.windows for step in plan.steps)
    if windows > MOST_WINDOWS:
        raise PlanProblem(f"plan: has {windows} windows; expected at most {MOST_WINDOWS}: make them longer")
    return plan


def _steps(listed: Any) -> List[Step]:
    if not isinstance(listed, list):
        raise PlanProblem(f"plan: steps is {shown(listed)}; expected a list of steps")
    if not 0 < len(listed) <= MOST_STEPS:
        raise PlanProblem(f"plan: steps has {len(listed)} entries; expected 1 to {MOST_STEPS}: a plan without a step shows nothing")
    steps: List[Step] = []
    names = set()
    for index, entry in enumerate(listed):
        step = _step(index, entry)
        if step.name in names:
            raise PlanProblem(f"plan: steps[{index}].name {step.name!r} stands twice; give each step a name of its own")
        names.add(step.name)
        steps.append(step)
    return steps
