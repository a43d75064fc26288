"""Rule 7: hard faults decide alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from burnin.verdict.model import Health
from unit.verdict.fleets import SOUND, TEST, but, fleet, judged

ONE = ("n0", 3)
BOTH = {TEST: 100.0, "hbm_copy": 10.0}


@pytest.mark.parametrize(
    ("health", "code", "expected"),
    [
        pytest.param(replace(SOUND, row_remap_failure=True), "ROW_REMAP_FAILURE", "RMA", id="a row remap failed"),
        pytest.param(replace(SOUND, sram_threshold_exceeded=True), "SRAM_THRESHOLD", "RMA", id="the SRAM threshold"),
        pytest.param(replace(SOUND, row_remap_pending=True), "RESET_PENDING", "RETEST", id="a row remap is pending"),
        pytest.param(replace(SOUND, recovery_action="reset"), "RESET_PENDING", "RETEST", id="the driver asks for a reset"),
        pytest.param(
            replace(SOUND, recovery_action="drain_p2p"), "RESET_PENDING", "RETEST", id="the driver asks for something we do not know"
        ),
        pytest.param(replace(SOUND, lost=True), "GPU_LOST", "RETEST", id="it fell off the bus once"),
    ],
)
def test_what_the_device_says_of_itself(health: Health, code: str, expected: str) -> None:
    found = judged(but(fleet(), {ONE: {"health": health}}))

    assert found.gpu_codes(*ONE) == {code: expected}
    assert found.worst_but(ONE) == {"PASS"}


@pytest.mark.parametrize(
    "health",
    [
        pytest.param(SOUND, id="all is well"),
        pytest.param(replace(SOUND, recovery_action=None), id="and no recovery action is told"),
    ],
)
def test_a_device_without_a_fault_has_no_finding(health: Health) -> None:
    assert judged(but(fleet(), {ONE: {"health": health}})).gpu(*ONE) == "PASS"


def test_the_worst_flag_wins() -> None:
    both = replace(SOUND, row_remap_failure=True, row_remap_pending=True)

    assert judged(but(fleet(), {ONE: {"health": both}})).gpu(*ONE) == "RMA"


@pytest.mark.parametrize(
    ("shows", "expected"),
    [
        pytest.param({"wrong": (0, 0, 1, 1, 0, 0)}, "RMA", id="wrong on two seeds"),
        pytest.param({"wrong": (1, 1, 1, 0, 0, 0)}, "RETEST", id="wrong in three windows of one seed"),
        pytest.param({"wrong": (1, 0, 0, 1, 0, 0), "seeds": (7,)}, "RETEST", id="wrong twice on the same seed in two starts"),
        pytest.param({"wrong": (1, 0, 0, 0, 0, 0)}, "RETEST", id="wrong once"),
        pytest.param({"wrong": (1, 0, 0, 0, 0, 0), "values": BOTH}, "RMA", id="wrong once in each of two tests"),
        pytest.param({"wrong": (0,)}, "PASS", id="never wrong"),
    ],
)
def test_a_wrong_result_counts_when_it_comes_again_on_another_seed(shows: dict[str, object], expected: str) -> None:
    found = judged(but(fleet(values=BOTH), {ONE: {"values": {TEST: 100.0}} | shows}))

    assert found.gpu(*ONE) == expected


def test_a_wrong_result_counts_in_windows_that_do_not() -> None:
    shows = {
        "wrong": (1, 0, 0, 0, 0, 1),
        "steady": (False, True, True, True, True, True),
        "values": {TEST: (100, 100, 100, 100, 100, None)},
    }

    assert judged(but(fleet(), {ONE: shows})).gpu(*ONE) == "RMA"


def test_no_number_of_checked_results_makes_up_for_two_wrong_ones() -> None:
    found = judged(but(fleet(), {ONE: {"wrong": (1, 0, 0, 1, 0, 0)}})).one(*ONE, "WRONG_RESULT")

    assert (found.value, found.evidence) == (2.0, {"wrong": 2, "checked": 600, "seeds": 2})
