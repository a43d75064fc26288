"""Reads the plan's file."""

from __future__ import annotations

from pathlib import Path

from burnin.node.plan import SCHEMA, Plan, PlanProblem, parse_plan


def read_plan(path: Path) -> Plan:
    """The plan in a file. Raises PlanProblem, also for a file that cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise PlanProblem(f"plan: cannot read {path} ({problem.strerror}); give a JSON file with schema {SCHEMA}") from None
    try:
        return parse_plan(data.decode("utf-8"))
    except UnicodeDecodeError as problem:
        raise PlanProblem(f"plan: {path} is no text ({problem.reason} at byte {problem.start}); expected JSON in UTF-8") from None
