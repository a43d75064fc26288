"""Plans by name or file. Pure but for reading the named file, which the caller does."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib.resources import files
from typing import Any

import yaml

from burnin.errors import PlanError
from burnin.node.plan import Plan, PlanProblem, check_plan

PREFLIGHT: dict[str, Any] = {"schema": "burnin.plan/1", "name": "preflight", "steps": []}


def shipped() -> list[str]:
    """The names of the plans that ship with burnin."""
    return sorted(
        entry.name.removesuffix(".yaml") for entry in files("burnin.data").joinpath("plans").iterdir() if entry.name.endswith(".yaml")
    )


def shipped_text(name: str) -> str:
    """The text of a plan by name. Raises PlanError for a name that is none."""
    if name not in shipped():
        near = get_close_matches(name, shipped(), 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise PlanError(f"plan {name!r} is unknown{hint} Known: {', '.join(shipped())}, or give the path of a file (.yaml, .json)")
    return files("burnin.data").joinpath("plans", f"{name}.yaml").read_text(encoding="utf-8")


def parse(text: str, where: str) -> tuple[dict[str, Any], Plan]:
    """The plan in a YAML or JSON text, as data and checked. Raises PlanError naming file, field and remedy."""
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        raise PlanError(f"{where}: not YAML ({str(problem).splitlines()[0]}); expected a plan with schema burnin.plan/1") from None
    try:
        checked = check_plan(raw)
    except PlanProblem as problem:
        raise PlanError(f"{where}: {problem}") from None
    return dict(raw), checked


def for_node(raw: Mapping[str, Any], run_id: str, seed: int) -> dict[str, Any]:
    """The plan as the node gets it: with the run's id and seed."""
    return {**raw, "run_id": run_id, "seed": seed}
