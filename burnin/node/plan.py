"""A plan as the node reads it: checked whole before anything starts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, List, Mapping, Tuple

from burnin.node.catalog import TESTS

SCHEMA = "burnin.plan/1"
LONGEST_S = 30 * 24 * 3600
MOST_STEPS = 1000


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
    """The ordered steps of one run on one node."""

    name: str
    run_id: str
    seed: int
    steps: Tuple[Step, ...]

    @property
    def planned_s(self) -> float:
        """The whole run in seconds."""
        return sum(step.start_s * step.starts for step in self.steps)


def _number(where: str, value: Any, low: float, high: float, whole: bool = False) -> float:
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        what = "a whole number" if whole else "a number"
        raise PlanProblem(f"plan: {where} is {value!r}; expected {what} from {low:g} to {high:g}")
    return value


def _step(index: int, raw: Any) -> Step:
    where = f"steps[{index}]"
    if not isinstance(raw, Mapping):
        raise PlanProblem(f"plan: {where} is {type(raw).__name__}; expected a mapping with test, starts, windows, window_s")
    known = {"name", "test", "starts", "idle_s", "warmup_s", "window_s", "windows"}
    for key in raw:
        if key not in known:
            near = get_close_matches(str(key), sorted(known), 1)
            raise PlanProblem(f"plan: {where} has an unknown field {str(key)[:60]!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    test = raw.get("test")
    if test not in TESTS:
        near = get_close_matches(str(test), sorted(TESTS), 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise PlanProblem(f"plan: {where}.test is {str(test)[:60]!r}, which is no test{hint} Known: {', '.join(sorted(TESTS))}")
    name = raw.get("name", f"{test}-{index + 1}")
    if not isinstance(name, str) or not 0 < len(name) <= 80 or any(ord(letter) < 32 or letter in ',"' for letter in name):
        raise PlanProblem(f"plan: {where}.name is {str(name)[:90]!r}; expected 1 to 80 printable characters without comma or quote")
    return Step(
        name=name,
        test=str(test),
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
    except ValueError as problem:
        raise PlanProblem(f"plan: not JSON ({problem}); expected a document with schema {SCHEMA}") from None
    return check_plan(raw)


def check_plan(raw: Any) -> Plan:
    """The plan in a decoded document. Raises PlanProblem as parse_plan does."""
    if not isinstance(raw, Mapping) or raw.get("schema") != SCHEMA:
        found = raw.get("schema") if isinstance(raw, Mapping) else type(raw).__name__
        raise PlanProblem(f"plan: schema is {str(found)[:60]!r}; expected {SCHEMA!r}")
    steps: List[Step] = []
    listed = raw.get("steps")
    if not isinstance(listed, list) or len(listed) > MOST_STEPS:
        raise PlanProblem(f"plan: steps is {type(listed).__name__}; expected a list of at most {MOST_STEPS} steps")
    for index, entry in enumerate(listed):
        step = _step(index, entry)
        if step.name in {other.name for other in steps}:
            raise PlanProblem(f"plan: steps[{index}].name {step.name!r} stands twice; give each step a name of its own")
        steps.append(step)
    plan = Plan(
        str(raw.get("name", "")), str(raw.get("run_id", "")), int(_number("seed", raw.get("seed", 0), 0, 2**53, whole=True)), tuple(steps)
    )
    if plan.planned_s > LONGEST_S:
        raise PlanProblem(f"plan: lasts {plan.planned_s:g} s; expected at most {LONGEST_S} s (30 days)")
    return plan
