"""The table of all parts: one compact row a GPU, the worst first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from burnin.outcome import Outcome
from burnin.report.cards import Cards, first_finding
from burnin.report.document import Document, Part
from burnin.report.text import number, percent, whole

MAX_TEST_COLUMNS = 6


@dataclass(frozen=True, slots=True)
class PartRow:
    """A GPU's row; `index` is its place in the document, which the map's cells name too."""

    index: int
    gpu: Part
    verdict: str
    flagged: bool
    anchor: str | None
    code: str
    results: tuple[tuple[str, str, bool], ...]  # value, deviation, over the line
    temp: str


def part_rows(document: Document, cards: Cards) -> Iterator[PartRow]:
    """The rows, worst first, then in the document's order."""
    tests = document.tests[:MAX_TEST_COLUMNS]
    for index, gpu in sorted(enumerate(document.gpus), key=lambda entry: -entry[1].verdict.badness):
        worst = first_finding(gpu)
        performance = gpu.performance
        results = []
        for test in tests:
            finding = performance.get(test)
            over = finding is not None and finding.code == "PERF_BELOW_MEDIAN"
            results.append((number(finding.value), percent(finding.deviation_pct), over) if finding else ("", "", False))
        temp_c = gpu.temp_c
        yield PartRow(
            index=index,
            gpu=gpu,
            verdict=gpu.verdict.value,
            flagged=gpu.verdict is not Outcome.PASS,
            anchor=cards.anchor_of.get(index),
            code=worst.code if worst else "",
            results=tuple(results),
            temp="" if temp_c is None else whole(temp_c),
        )
