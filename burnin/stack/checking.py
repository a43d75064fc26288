"""A stack against the compat matrix."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from burnin.stack.case import Case
from burnin.stack.compat import Compat, compat
from burnin.stack.hardware import hardware
from burnin.stack.model import Problem, Stack, ordered
from burnin.stack.rules import branch, cuda, dcgm, fabric, gpus, nccl

RULES = (branch, gpus, cuda, nccl, fabric, dcgm)


def check(stack: Stack, today: date, skus: Iterable[str] = (), matrix: Compat | None = None) -> list[Problem]:
    """What is wrong with it, or not known, on that day: errors first. `skus` adds to those the file names.

    Raises StackError for a SKU that is not known.
    """
    named = tuple(hardware(sku) for sku in sorted({*stack.skus, *skus}))
    case = Case(stack, matrix or compat(), named, today)
    return ordered(problem for rule in RULES for problem in rule.judge(case))
