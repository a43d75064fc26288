"""The rules, one module for each part of a node, each with `judge(case)`; in the order in which a person reads what they found."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from burnin.stack.drift.case import Case
from burnin.stack.drift.finding import Finding
from burnin.stack.drift.rules import built, cuda, kernel, loaded, ofed, packages, services, sources, staying

Rule = Callable[[Case], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    loaded.judge, kernel.judge, built.judge, packages.judge, ofed.judge, cuda.judge, services.judge, staying.judge, sources.judge,
)  # fmt: skip
