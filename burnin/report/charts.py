"""The two charts of the report: a test's distribution over the GPUs, and one GPU's telemetry over time against its slot peers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from markupsafe import Markup

from burnin.outcome import Outcome
from burnin.report import svg
from burnin.report.envelope import Buckets, Values, intervals, pieces, spread
from burnin.report.series import Step
from burnin.report.text import number, percent, whole

WIDTH = 400.0  # about what a phone and a third of a desktop have, so text keeps its size


@dataclass(frozen=True, slots=True)
class Vote:
    """One GPU in a distribution."""

    deviation_pct: float
    outcome: Outcome
    flagged_here: bool = False  # by a finding of this very test


@dataclass(frozen=True, slots=True)
class Distribution:
    """What a chart of one cohort shows: deviations in rate, slow on the left."""

    label: str
    unit: str
    median: float | None
    line: float | None
    line_pct: float
    votes: tuple[Vote, ...]


_TOP, _BOTTOM, _FLOOR = 26.0, 36.0, 168.0  # of the drawing of 204
_COLUMN = 9.0  # a dot with its air
_ROOM = _FLOOR - _TOP - 4


def distribution(data: Distribution) -> Markup:
    """Dots, one a GPU, while they fit; else bars with marks for what this test flagged. Values far outside stand at the edge, counted."""
    scale = _scale(data)
    line, median = scale(data.line_pct), scale(0.0)
    line_words = f"{percent(data.line_pct, 0)} % line  {number(data.line)}"
    return svg.drawing(
        WIDTH,
        _FLOOR + _BOTTOM,
        data.label,
        svg.rectangle(0, _TOP, line, _FLOOR - _TOP, "beyond"),
        *_axis(scale),
        *(_dots(data, scale) if has_dots(data) else _bars(data, scale)),
        _marker_line(line, "line5"),
        _marker_line(median, "median"),
        svg.text(line_words, line, _TOP - 10, class_="strong", anchor=_anchor(line, 62)),
        svg.text(f"median  {number(data.median)}", median, _TOP - 10, class_="strong", anchor=_anchor(median, 52)),
        *_outside(data, scale),
    )


def has_dots(data: Distribution) -> bool:
    """Whether every GPU is drawn as one dot or mark."""
    scale = _scale(data)
    counts = Counter(_column(scale, vote) for vote in data.votes)
    return max(counts.values(), default=0) * _COLUMN <= _ROOM


def _scale(data: Distribution) -> svg.Scale:
    deviations = [vote.deviation_pct for vote in data.votes]
    low = max(min([*deviations, data.line_pct - 1.5]) - 0.5, data.line_pct - 7)
    high = min(max([*deviations, 2.0]) + 0.5, 8.0)
    return svg.Scale(low, high, 12, WIDTH - 12)


def _outside(data: Distribution, scale: svg.Scale) -> Iterator[Markup]:
    left = [vote.deviation_pct for vote in data.votes if vote.deviation_pct < scale.low]
    right = [vote.deviation_pct for vote in data.votes if vote.deviation_pct > scale.high]
    if left:
        words = f"\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK} {len(left):,} further left, to {percent(min(left), 0)} %"
        yield svg.text(words, 8, _TOP + 12, class_="tick")
    if right:
        words = f"{len(right):,} further right, to {percent(max(right), 0)} % \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
        yield svg.text(words, WIDTH - 8, _TOP + 12, class_="tick", anchor="end")


def _axis(scale: svg.Scale) -> list[Markup]:
    parts = [svg.line((0, _FLOOR), (WIDTH, _FLOOR), "axis")]
    for value in svg.ticks(scale.low, scale.high, 6):
        parts.append(svg.line((scale(value), _FLOOR), (scale(value), _FLOOR + 4), "axis"))
        parts.append(svg.text(percent(value, 0), scale(value), _FLOOR + 16, class_="tick", anchor=_anchor(scale(value), 10)))
    parts.append(svg.text("slower", 8, _FLOOR + 32, class_="tick"))
    parts.append(svg.text("% from the median", WIDTH / 2, _FLOOR + 32, class_="tick", anchor="middle"))
    parts.append(svg.text("faster", WIDTH - 8, _FLOOR + 32, class_="tick", anchor="end"))
    return parts


def _column(scale: svg.Scale, vote: Vote) -> int:
    return int(scale.clamped(vote.deviation_pct) // _COLUMN)


def _marks(votes: Iterable[Vote], scale: svg.Scale) -> dict[int, list[Outcome]]:
    """Column -> the verdicts of its flagged GPUs, the mildest first (lowest)."""
    found: dict[int, list[Outcome]] = {}
    for vote in sorted(votes, key=lambda vote: vote.outcome.badness):
        found.setdefault(_column(scale, vote), []).append(vote.outcome)
    return found


def _dots(data: Distribution, scale: svg.Scale) -> Iterator[Markup]:
    counts = Counter(_column(scale, vote) for vote in data.votes if vote.outcome is Outcome.PASS)
    for column, count in sorted(counts.items()):
        for row in range(count):
            yield svg.element("circle", cx=(column + 0.5) * _COLUMN, cy=_FLOOR - (row + 0.5) * _COLUMN - 1, r=3.6, class_="vote")
    for column, outcomes in sorted(_marks((vote for vote in data.votes if vote.outcome is not Outcome.PASS), scale).items()):
        for row, outcome in enumerate(outcomes, start=counts[column]):
            yield mark(outcome, (column + 0.5) * _COLUMN, _FLOOR - (row + 0.5) * _COLUMN - 1)


def _bars(data: Distribution, scale: svg.Scale) -> Iterator[Markup]:
    counts = Counter(_column(scale, vote) for vote in data.votes)
    tallest = max(counts.values(), default=0)
    for column, count in sorted(counts.items()):
        height = max(1.0, count / tallest * (_ROOM - 14))
        yield svg.rectangle(column * _COLUMN + 0.5, _FLOOR - height, _COLUMN - 1, height, "column")
    column, count = max(counts.items(), key=lambda item: (item[1], item[0]))
    yield svg.text(f"{count:,} GPUs", max((column + 1) * _COLUMN, scale(0.0)) + 5, _TOP + 22, class_="tick")
    for column, outcomes in sorted(_marks((vote for vote in data.votes if vote.flagged_here), scale).items()):
        # One mark a verdict and column: a thousand marks on one spot show no more than one. Above the bar, where they hide nothing.
        base = _FLOOR - counts[column] / tallest * (_ROOM - 14)
        for row, outcome in enumerate(dict.fromkeys(outcomes)):
            yield mark(outcome, (column + 0.5) * _COLUMN, base - 8 - row * 11)


def mark(outcome: Outcome, x: float, y: float) -> Markup:
    """The verdict's shape; the same shapes as the icons (templates/report.html.j2)."""
    return svg.element("use", href=f"#v-{outcome.value}", x=x - 6, y=y - 6, width=12.0, height=12.0, class_=f"c-{outcome.value}")


def _marker_line(x: float, class_: str) -> Markup:
    return svg.line((x, _TOP - 5), (x, _FLOOR), class_)


def _anchor(x: float, half_px: float) -> str:
    if x < half_px:
        return "start"
    return "end" if x > WIDTH - half_px else "middle"


@dataclass(frozen=True, slots=True)
class Track:
    """One quantity of one GPU over time, and the same of its peers."""

    label: str
    elapsed_s: Sequence[float]
    values: Values
    peers: tuple[tuple[Sequence[float], Values], ...]
    steps: tuple[Step, ...]
    throttled: tuple[tuple[Sequence[float], Values, str], ...]  # elapsed, flag, class of the band
    limit: float | None = None
    end_s: float = 0.0
    thin: bool = False


_LEFT, _RIGHT, _HEAD, _FOOT, _HEIGHT = 40.0, 6.0, 16.0, 20.0, 150.0


def track(data: Track, buckets: int) -> Markup | None:
    """The line of this GPU over the band of its peers; None where the GPU has no value at all."""
    extent = Buckets(0.0, max([data.end_s, *data.elapsed_s[-1:]]), buckets)
    own = pieces(data.elapsed_s, data.values, extent)
    if not own:
        return None
    others = spread(data.peers, extent)
    values = [y for piece in own for _x, y in piece] + [edge for piece in others for _x, low, high in piece for edge in (low, high)]
    if data.limit is not None:
        values.append(data.limit)
    low, high = svg.nice(min(values), max(values), 4)
    x = svg.Scale(0.0, extent.end_s, _LEFT, WIDTH - _RIGHT)
    y = svg.Scale(low, high, _HEIGHT - _FOOT, _HEAD)
    return svg.drawing(
        WIDTH,
        _HEIGHT,
        data.label,
        *_throttle_bands(data, x),
        *_grid(x, y, low, high, extent.end_s),
        *_step_borders(data.steps, x, extent.end_s),
        svg.band([[(x(at), y(lowest), y(highest)) for at, lowest, highest in piece] for piece in others], "peers"),
        *(() if data.limit is None else (svg.line((_LEFT, y(data.limit)), (WIDTH - _RIGHT, y(data.limit)), "limit"),)),
        svg.polyline([[(x(at), y(value)) for at, value in piece] for piece in own], "own"),
    )


def tracks_over(
    label: str, members: Sequence[tuple[Sequence[float], Values]], steps: tuple[Step, ...], end_s: float, buckets: int
) -> Markup | None:
    """All of a node's GPUs as thin lines, to see where they ended."""
    extent = Buckets(0.0, end_s, buckets)
    lines = [pieces(elapsed_s, values, extent) for elapsed_s, values in members]
    values = [value for line in lines for piece in line for _at, value in piece]
    if not values:
        return None
    low, high = svg.nice(min(values), max(values), 4)
    x = svg.Scale(0.0, extent.end_s, _LEFT, WIDTH - _RIGHT)
    y = svg.Scale(low, high, _HEIGHT - _FOOT, _HEAD)
    last_s = max(elapsed_s[-1] for elapsed_s, _values in members if elapsed_s)
    ended = []
    if last_s < 0.98 * end_s:
        ended = [
            svg.rectangle(x(last_s), _HEAD, x(end_s) - x(last_s), _HEIGHT - _FOOT - _HEAD, "silence"),
            svg.text("no samples", x((last_s + end_s) / 2), _HEAD + 14, class_="tick", anchor="middle"),
        ]
    drawn = (svg.polyline([[(x(at), y(value)) for at, value in piece] for piece in line], "member") for line in lines)
    return svg.drawing(WIDTH, _HEIGHT, label, *ended, *_grid(x, y, low, high, extent.end_s), *_step_borders(steps, x, extent.end_s), *drawn)


def _grid(x: svg.Scale, y: svg.Scale, low: float, high: float, end_s: float) -> list[Markup]:
    parts = []
    for value in svg.ticks(low, high, 4):
        parts.append(svg.line((_LEFT, y(value)), (WIDTH - _RIGHT, y(value)), "grid"))
        parts.append(svg.text(number(value) if abs(value) < 1 else whole(value), _LEFT - 5, y(value) + 4, class_="tick", anchor="end"))
    step_s, divisor, unit = _time_step(end_s)
    count = int(end_s / step_s + 1e-9)
    for index in range(count + 1):
        at = index * step_s
        shown = f"{at / divisor:g}" + (f" {unit}" if index == count else "")
        parts.append(svg.text(shown, x(at), _HEIGHT - 5, class_="tick", anchor=_anchor(x(at), 20)))
    return parts


def _time_step(end_s: float) -> tuple[float, float, str]:
    """The distance between two ticks in seconds, and the unit to print them in."""
    divisor, unit = (1.0, "s") if end_s < 180 else (60.0, "min") if end_s < 3 * 3600 else (3600.0, "h")
    steps = (1, 2, 5, 10, 15, 20, 30, 60) if unit != "h" else (1, 2, 3, 6, 12, 24, 48, 96)
    return next((step * divisor for step in steps if end_s / (step * divisor) <= 5.5), end_s / 4 or 1.0), divisor, unit


def _step_borders(steps: Iterable[Step], x: svg.Scale, end_s: float) -> list[Markup]:
    parts: list[Markup] = []
    known = [step for step in steps if step.elapsed_s <= end_s][:60]
    free_px = 0.0
    for step, following in zip_longest(known, known[1:]):
        at = x(step.elapsed_s)
        until = x(following.elapsed_s) if following else WIDTH - _RIGHT
        if step.elapsed_s > 0:
            parts.append(svg.line((at, _HEAD), (at, _HEIGHT - _FOOT), "border"))
        shown = step.name[:24]
        if shown and at >= free_px and 5.6 * len(shown) <= until - at:  # no label where it would run into the next step
            parts.append(svg.text(shown, at + 2, _HEAD - 5, class_="step"))
            free_px = at + 5.6 * len(shown) + 6
    return parts


def _throttle_bands(data: Track, x: svg.Scale) -> list[Markup]:
    """Full height for the first kind of throttling; strips on the floor for the others, so that they show side by side."""
    parts = []
    for order, (elapsed_s, flags, class_) in enumerate(data.throttled):
        top, height = (_HEAD, _HEIGHT - _FOOT - _HEAD) if order == 0 else (_HEIGHT - _FOOT - 6.0 * order, 5.0)
        for start_s, end_s in intervals(elapsed_s, flags, (x.high - x.low) / 120):
            parts.append(svg.rectangle(x(start_s), top, max(1.0, x(end_s) - x(start_s)), height, class_))
    return parts
