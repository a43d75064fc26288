"""Scales, ticks, escaping, and the two charts."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from burnin.outcome import Outcome
from burnin.report import charts, svg
from burnin.report.charts import Distribution, Track, Vote
from burnin.report.rackmap import deviation_step
from burnin.report.series import Step


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 100, (0, 20, 40, 60, 80, 100)),
        (-8.0, 2.0, (-8, -6, -4, -2, 0, 2)),
        (0.0, 0.3, (0, 0.1, 0.2, 0.3)),
        (1340, 1790, (1400, 1600)),
        (5, 5, (5,)),
    ],
)
def test_ticks_are_round(low: float, high: float, expected: tuple[float, ...]) -> None:
    assert svg.ticks(low, high, 5 if high != 1790 else 3) == pytest.approx(expected)


def test_nice_ends_hold_the_data() -> None:
    assert svg.nice(33.0, 96.0, 4) == (20.0, 100.0)
    low, high = svg.nice(5.0, 5.0)
    assert low <= 5.0 <= high


def test_a_scale_maps_both_ends_and_does_not_divide_by_zero() -> None:
    assert svg.Scale(0, 10, 100, 200)(10) == 200
    assert svg.Scale(0, 10, 100, 200).clamped(99) == 200
    assert svg.Scale(5, 5, 100, 200)(5) == 150


def test_text_and_attributes_are_escaped() -> None:
    drawn = svg.drawing(10, 10, '"><script>', svg.text("<b>&", 1, 2))

    root = ElementTree.fromstring(drawn)
    assert root.attrib["aria-label"] == '"><script>'
    assert root[0].text == "<b>&"


def vote(deviation: float, outcome: Outcome = Outcome.PASS) -> Vote:
    return Vote(deviation, outcome)


def chart(*votes: Vote) -> ElementTree.Element:
    return ElementTree.fromstring(charts.distribution(Distribution("gemm", "TFLOPS", 731.0, 694.45, -5.0, votes)))


def texts(root: ElementTree.Element) -> list[str]:
    return [node.text or "" for node in root.iter("text")]


def test_every_gpu_is_one_dot_while_dots_fit() -> None:
    root = chart(*(vote(index / 20 - 1) for index in range(40)), vote(-8, Outcome.RMA))

    assert len(root.findall("circle[@class='vote']")) == 40
    assert len(root.findall("use")) == 1


def test_many_gpus_are_bars_and_what_the_test_flags_stays_a_mark() -> None:
    good = [vote((index % 100) / 100) for index in range(5000)]
    flagged = [Vote(-6, Outcome.RMA, flagged_here=True)] * 50 + [Vote(-6, Outcome.RETEST, flagged_here=True), Vote(0.5, Outcome.REVIEW)]
    root = chart(*good, *flagged)

    assert not root.findall("circle")
    assert max(float(bar.attrib["height"]) for bar in root.findall("rect[@class='column']")) > 100
    assert [use.attrib["href"] for use in root.findall("use")] == ["#v-RETEST", "#v-RMA"]


def test_a_value_far_outside_is_counted_at_the_edge_and_stays_in_the_drawing() -> None:
    root = chart(vote(0), vote(-60, Outcome.RMA))

    assert "‹ 1 further left, to −60 %" in texts(root)
    assert 0 <= float(root.findall("use")[0].attrib["x"]) < 20


def test_the_dot_stands_where_its_value_is() -> None:
    root = chart(vote(-5.5), vote(0))
    line = float(root.find("line[@class='line5']").attrib["x1"])  # type: ignore[union-attr]
    left, right = sorted(float(circle.attrib["cx"]) for circle in root.findall("circle"))

    assert left < line < right


def test_labels_stay_inside() -> None:
    for deviations in ((0.0,), (-11.9,), (7.9,), (-60.0, 60.0)):
        for node in chart(*(vote(value) for value in deviations)).iter("text"):
            half = len(node.text or "") * 3.2
            x, anchor = float(node.attrib["x"]), node.attrib.get("text-anchor", "start")
            assert x - (half if anchor == "middle" else 2 * half if anchor == "end" else 0) > -8
            assert x + (half if anchor == "middle" else 2 * half if anchor == "start" else 0) < charts.WIDTH + 8


def a_track(
    values: tuple[float | None, ...], *, flags: tuple[float | None, ...] = (), steps: tuple[Step, ...] = (), end_s: float = 0.0
) -> Track:
    elapsed = tuple(float(at) for at in range(len(values)))
    return Track("x", elapsed, values, (), steps, ((elapsed, flags or (0,) * len(values), "t-hw"),), None, end_s)


def test_a_gpu_that_never_said_anything_has_no_chart() -> None:
    assert charts.track(a_track((None, None)), 100) is None
    assert charts.track(a_track(()), 100) is None


def test_a_long_series_is_at_most_two_points_a_bucket() -> None:
    drawn = charts.track(a_track(tuple(float(index % 7) for index in range(5000))), 100)

    path = ElementTree.fromstring(drawn or "").find("path[@class='own']")
    assert path is not None
    assert len(re.findall("[ML]", path.attrib["d"])) <= 200


def test_throttle_bands_and_step_borders_stand_at_their_time() -> None:
    flags = tuple(1.0 if 50 <= at < 75 else 0.0 for at in range(101))
    drawn = charts.track(a_track((1.0,) * 101, flags=flags, steps=(Step(0, "a", "1"), Step(25, "b", "1"))), 100)
    root = ElementTree.fromstring(drawn or "")
    band, border = root.find("rect[@class='t-hw']"), root.find("line[@class='border']")
    assert band is not None
    assert border is not None

    x = svg.Scale(0, 100, 40, charts.WIDTH - 6)
    assert float(band.attrib["x"]) == pytest.approx(x(50), abs=0.1)
    assert float(band.attrib["width"]) == pytest.approx(x(75) - x(50), abs=0.1)
    assert float(border.attrib["x1"]) == pytest.approx(x(25), abs=0.1)


def test_step_labels_do_not_run_into_each_other() -> None:
    steps = tuple(Step(float(at), f"step_{at}", "1") for at in range(0, 100, 2))
    root = ElementTree.fromstring(charts.track(a_track((1.0,) * 101, steps=steps), 100) or "")

    assert not [node for node in root.iter("text") if node.attrib["class"] == "step"]


@pytest.mark.parametrize(
    ("end_s", "last"),
    [(90, "80 s"), (1800, "30 min"), (86_400, "24 h"), (172_800, "48 h")],
    ids=["seconds", "minutes", "a day", "two days"],
)
def test_time_is_told_in_its_unit(end_s: float, last: str) -> None:
    drawn = charts.track(a_track((1.0, 2.0), end_s=end_s), 10)

    assert last in texts(ElementTree.fromstring(drawn or ""))


@pytest.mark.parametrize(
    ("deviation", "step"),
    [
        (-80.0, 0),
        (-7.01, 0),
        (-6.5, 1),
        (-5.0001, 2),
        (-5.0, 3),
        (-4.99, 3),
        (-0.5, 7),
        (0.0, 8),
        (0.99, 8),
        (1.0, 9),
        (50.0, 9),
        (None, None),
    ],
)
def test_the_colour_changes_at_the_line(deviation: float | None, step: int | None) -> None:
    assert deviation_step(deviation, -5.0) == step
