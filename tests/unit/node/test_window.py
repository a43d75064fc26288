"""One window as one measurement."""

from __future__ import annotations

import json
import math

import pytest

from burnin.node.backends.base import Sample, Work
from burnin.node.window import Window


def window(rates: list[float], temps: list[float | None]) -> Window:
    found = Window()
    for rate in rates:
        found.add(Work(rate, 1.0, 1, 0))
    found.samples = [Sample("g", temp_c=temp) for temp in temps]
    return found


@pytest.mark.parametrize(
    ("rates", "temps", "steady"),
    [
        pytest.param([100.0] * 10, [60.0] * 10, True, id="level"),
        pytest.param([100.0] * 5 + [98.1] * 5, [60.0] * 10, True, id="the rate falls by less than 2 %"),
        pytest.param([100.0] * 5 + [97.9] * 5, [60.0] * 10, False, id="the rate falls by more than 2 %"),
        pytest.param([100.0] * 10, [60.0] * 5 + [62.0] * 5, True, id="it warms by 2 C"),
        pytest.param([100.0] * 10, [60.0] * 5 + [63.0] * 5, False, id="it warms by 3 C"),
        pytest.param([30.0] + [100.0] * 9, [60.0] * 10, True, id="one cold first iteration"),
        pytest.param([100.0] * 10, [None] * 10, True, id="a temperature that nobody says"),
    ],
)
def test_steady_is_what_does_not_drift(rates: list[float], temps: list[float | None], steady: bool) -> None:
    assert steady == window(rates, temps).record(len(rates))["steady"]


def test_a_gpu_that_was_not_there_to_the_end_was_not_steady() -> None:
    assert window([100.0] * 9, [60.0] * 9).record(10)["steady"] is False


def test_what_nobody_says_is_null_and_never_zero() -> None:
    record = window([100.0] * 4, [None] * 4).record(4)

    assert [record[name] for name in ("temp_c", "margin_c", "power_w", "sm_clock_mhz", "hw_thermal_fraction", "sw_power_cap_fraction")] == [
        None
    ] * 6


def test_fractions_count_the_samples_that_say_something() -> None:
    found = window([100.0] * 4, [])
    found.samples = [Sample("g", hw_thermal=flag) for flag in (True, False, None, False)]

    assert found.record(4)["hw_thermal_fraction"] == pytest.approx(1 / 3, abs=1e-6)


@pytest.mark.parametrize("amount", [math.nan, math.inf])
def test_a_value_that_is_no_number_is_null(amount: float) -> None:
    found = window([amount] * 4, [math.nan] * 4)

    assert (found.record(4)["value"], found.record(4)["temp_c"]) == (None, None)
    json.dumps(found.record(4), allow_nan=False)


def test_no_work_is_no_value() -> None:
    assert Window().record(0)["value"] is None
