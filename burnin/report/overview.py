"""The parts of the page that are about the whole run: its plan, the map's legend, the distributions, what is not shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from burnin.outcome import Outcome
from burnin.report import charts
from burnin.report.cards import MAX_CARDS, MAX_PEERS, MAX_SERIES_CARDS, Cards
from burnin.report.document import Cohort, Document, Finding, Part
from burnin.report.parts_table import MAX_TEST_COLUMNS
from burnin.report.rackmap import HEAT_STEPS, RackMap
from burnin.report.series import Series
from burnin.report.text import number, percent, plain, plural, whole
from burnin.report.words import place

MAX_DISTRIBUTIONS = 24
MAX_NAMED = 8  # flagged GPUs named under a distribution


@dataclass(frozen=True, slots=True)
class NamedVote:
    """A GPU that its test's finding flags."""

    anchor: str | None
    place: str
    outcome: Outcome
    deviation: str


@dataclass(frozen=True, slots=True)
class DistributionView:
    """One cohort's chart and its caption."""

    test: str
    cohort: str
    facts: str
    chart: Markup
    named: tuple[NamedVote, ...]
    further: int


@dataclass(frozen=True, slots=True)
class Legend:
    """What stands under the maps: ends and ticks of the two scales."""

    line: str
    deviation_low: str
    deviation_high: str
    heat_ticks: tuple[str, ...]


def plan_line(document: Document, run: Mapping[str, Any]) -> str | None:
    """'acceptance (gemm_bf16, hbm_copy, ...)'."""
    plan = run.get("plan")
    plan = plan if isinstance(plan, Mapping) else {}
    name = document.plan or (plan["name"] if isinstance(plan.get("name"), str) else None)
    steps = plan.get("steps")
    names = (
        [step["name"] for step in steps if isinstance(step, Mapping) and isinstance(step.get("name"), str)]
        if isinstance(steps, list | tuple)
        else []
    )
    if not names:
        return name
    listed = ", ".join(dict.fromkeys(names[:12])) + (" and more" if len(names) > 12 else "")
    return f"{name or 'plan'} ({listed})"


def legend(rack_map: RackMap) -> Legend:
    """The numbers under the colour bars."""
    span = rack_map.heat_high_c - rack_map.heat_low_c
    ticks = tuple(whole(rack_map.heat_low_c + span * index / 4) for index in range(5)) if HEAT_STEPS % 4 == 0 else ()
    return Legend(percent(rack_map.line_pct, 0), percent(rack_map.line_pct - 3, 0), "+2", ticks)


def distributions(document: Document, cards: Cards) -> tuple[tuple[DistributionView, ...], int]:
    """A chart for each cohort of each test, the largest first, and how many more there would be."""
    voters: dict[tuple[str, str | None], list[tuple[int, Part]]] = {}
    for index, gpu in enumerate(document.gpus):
        for test, finding in gpu.performance.items():
            if finding.deviation_pct is not None:
                voters.setdefault((test, finding.cohort), []).append((index, gpu))
    known = {(cohort.test, cohort.cohort): cohort for cohort in document.cohorts}
    keys = sorted(voters, key=lambda key: (-len(voters[key]), key[0], key[1] or ""))
    shown = sorted(keys[:MAX_DISTRIBUTIONS], key=lambda key: (key[0], -len(voters[key]), key[1] or ""))
    views = tuple(_view(test, known.get((test, cohort or "")), voters[test, cohort], cohort, cards) for test, cohort in shown)
    return views, len(keys) - len(shown)


def _view(test: str, cohort: Cohort | None, voters: list[tuple[int, Part]], cohort_id: str | None, cards: Cards) -> DistributionView:
    first = voters[0][1].performance[test]
    unit = cohort.unit if cohort else first.unit or ""
    median = cohort.median if cohort else first.median
    line_pct = (cohort.line_pct if cohort else None) or -5.0
    votes = tuple(_votes(test, voters))
    shown = charts.Distribution(
        label=f"{test}: {len(votes)} GPUs around the median {number(median)} {unit}",
        unit=unit,
        median=median,
        line=cohort.line if cohort else None,
        line_pct=line_pct,
        votes=votes,
    )
    flagged = [(index, gpu) for index, gpu in voters if _is_flagged(gpu.performance[test])]
    flagged.sort(key=lambda entry: entry[1].performance[test].deviation_pct or 0.0)
    named = tuple(
        NamedVote(cards.anchor_of.get(index), place(gpu), gpu.performance[test].outcome, percent(gpu.performance[test].deviation_pct))
        for index, gpu in flagged[:MAX_NAMED]
    )
    facts = [f"median {number(median)} {unit} of {_base(cohort, first, len(votes))}"]
    if cohort and cohort.sigma_pct is not None:
        facts.append(f"robust sigma {plain(cohort.sigma_pct)} %")
    if cohort and cohort.better == "lower":
        facts.append("lower is faster")
    caption = ", ".join(facts) + _beyond(cohort, first, len(votes))
    if not charts.has_dots(shown):
        caption += "; bars count GPUs, marks are GPUs that this test flags"
    return DistributionView(test, cohort_id or "", caption, charts.distribution(shown), named, len(flagged) - len(named))


def _base(cohort: Cohort | None, first: Finding, measured: int) -> str:
    """What the median rests on: '30 GPUs in 4 nodes'."""
    if cohort and cohort.referenced:
        return "the reference run"
    size = _size(cohort, first) or measured
    return plural(size, "GPU") + (f" in {plural(cohort.nodes, 'node')}" if cohort and cohort.nodes else "")


def _beyond(cohort: Cohort | None, first: Finding, measured: int) -> str:
    """What the chart shows where that is not what the median rests on."""
    if cohort and cohort.referenced:
        return f"; {measured:,} measured"
    size = _size(cohort, first) or measured
    if measured == size:
        return ""
    voteless = "" if measured < size else ", a condemned GPU does not vote" if measured == size + 1 else ", condemned GPUs do not vote"
    return f"; {measured:,} measured{voteless}"


def _size(cohort: Cohort | None, first: Finding) -> int | None:
    return cohort.size if cohort and cohort.size is not None else first.cohort_size


def _votes(test: str, voters: list[tuple[int, Part]]) -> Iterator[charts.Vote]:
    for _index, gpu in voters:
        finding = gpu.performance[test]
        if finding.deviation_pct is not None:
            yield charts.Vote(finding.deviation_pct, gpu.verdict, _is_flagged(finding))


def _is_flagged(finding: Finding) -> bool:
    """Whether the test says something against the GPU; that evidence is missing does not."""
    return finding.outcome not in (Outcome.PASS, Outcome.INCONCLUSIVE)


def not_shown(document: Document, cards: Cards, series: Mapping[str, Series], charts_left_out: int, has_limits: bool) -> tuple[str, ...]:
    """What a reader might look for and not find, in sentences."""
    found = []
    if cards.left_out:
        count = plural(len(cards.left_out), "flagged part")
        found.append(f"{count} beyond the first {MAX_CARDS} cards; verdict.json has them all, the table of parts all GPUs.")
    if cards.without_series:
        count = plural(cards.without_series, "flagged GPU")
        found.append(f"Time series of {count} beyond the worst {MAX_SERIES_CARDS}; the run folder has the samples.")
    bare = sum(1 for card in cards.cards if card.has_series and card.part.gpu not in series)
    if bare:
        found.append(f"Time series of {plural(bare, 'flagged GPU')} for which no samples were at hand.")
    if charts_left_out:
        found.append(f"{plural(charts_left_out, 'distribution')} of smaller cohorts.")
    if len(document.tests) > MAX_TEST_COLUMNS:
        found.append(f"{plural(len(document.tests) - MAX_TEST_COLUMNS, 'test')} in the table of all parts; gpus.csv has every test.")
    if not has_limits:
        found.append("The policy's limits: the run's record does not hold them.")
    if not document.disks and not document.links:
        found.append("Disks and links: none was judged in this run.")
    stated = document.summary.get("gpus")
    if stated is not None and stated != len(document.gpus):
        found.append(
            f"verdict.json's summary speaks of {stated:,} GPUs, its list has {len(document.gpus):,}; the counts here are of the list."
        )
    found.append("Single samples: a line keeps the lowest and the highest value of each short stretch of time.")
    found.append(f"Slot peers beyond {MAX_PEERS}: the band behind a GPU's line is drawn from at most so many, its own rack's first.")
    return tuple(found)
