"""Rules 1 to 4: one GPU one vote, more than 5 % below, small cohorts, and the cause."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from burnin.errors import RunFolderError
from burnin.verdict.engine import judge
from burnin.verdict.model import Health
from unit.verdict.fleets import POLICY, STARTS, TEST, Gpu, Judged, but, evidence, fleet, judged, limits

ONE = ("n0", 0)


def slow(value: float, **more: object) -> dict[str, object]:
    return {"values": {TEST: value}, **more}


@pytest.mark.parametrize(
    ("better", "median", "value", "expected"),
    [
        pytest.param("higher", 100.0, 95.01, "PASS", id="4.99 % slower where higher is better"),
        pytest.param("higher", 100.0, 95.0, "PASS", id="exactly 5 % slower"),
        pytest.param("higher", 100.0, 94.99, "RMA", id="5.01 % slower"),
        pytest.param("higher", 989.0, 939.55, "PASS", id="exactly 5 % of 989, as the report has it"),
        pytest.param("higher", 19.2, 18.24, "PASS", id="exactly 5 % of 19.2, as the report has it"),
        pytest.param("higher", 22.6, 21.47, "PASS", id="exactly 5 % of 22.6, which floats put below"),
        pytest.param("higher", 35.2, 33.44, "PASS", id="exactly 5 % of 35.2, which floats put below"),
        pytest.param("lower", 21.47, 22.6, "PASS", id="exactly 5 % of the rate at 22.6 s, which floats put below"),
        pytest.param("higher", 989.0, 939.54, "RMA", id="a hair more than 5 % of 989"),
        pytest.param("higher", 19.2, 18.239, "RMA", id="a hair more than 5 % of 19.2"),
        pytest.param("lower", 95.0, 100.0, "PASS", id="exactly 5 % slower where lower is better"),
        pytest.param("lower", 95.0, 99.98, "PASS", id="4.98 % slower where lower is better"),
        pytest.param("lower", 95.0, 100.02, "RMA", id="5.02 % slower where lower is better"),
        pytest.param("lower", 100.0, 105.2, "PASS", id="5.2 % more time is 4.94 % less rate"),
        pytest.param("higher", 100.0, 140.0, "PASS", id="far faster is no fault"),
        pytest.param("lower", 100.0, 60.0, "PASS", id="far less time is no fault"),
    ],
)
def test_the_line_is_more_than_five_percent_in_rate(better: str, median: float, value: float, expected: str) -> None:
    gpus = but(fleet(values={TEST: median}), {ONE: slow(value)})

    found = judged(gpus, better=better)

    assert found.gpu(*ONE) == expected
    assert found.worst_but(ONE) == {"PASS"}


def test_deviation_is_told_in_rate_and_negative_is_slower() -> None:
    found = judged(but(fleet(values={TEST: 100.0}), {ONE: slow(125.0)}), better="lower").one(*ONE, "PERF_BELOW_MEDIAN")

    assert (100.0, 125.0, pytest.approx(-20.0), 32, 6) == (found.median, found.value, found.deviation_pct, found.cohort_size, found.windows)


@pytest.mark.parametrize(
    ("values", "starts", "expected"),
    [
        pytest.param((90, 90, 90), (1, 1, 2), "RMA", id="3 windows over the line of two starts"),
        pytest.param((90, 90), (1, 2), "RETEST", id="2 windows over the line"),
        pytest.param((90, 90, 90), (1, 1, 1), "RETEST", id="3 windows of one start"),
        pytest.param((90, 90, 90, 94, 100), (1, 1, 1, 2, 2), "RMA", id="the second start confirms with one window"),
        pytest.param((90, 90, 90, 96, 96), (1, 1, 1, 2, 2), "RETEST", id="the second start does not confirm"),
        pytest.param((90, 90, 96, 96, 96, 96), STARTS, "PASS", id="two slow windows do not move the median over the line"),
        pytest.param((94, 94, 95.5, 95.5), (1, 2, 1, 2), "RETEST", id="the median is over the line, 2 windows are"),
        pytest.param((90,), (1,), "RETEST", id="one number is no RMA"),
        pytest.param((100, 100, 100), (1, 1, 2), "PASS", id="3 good windows"),
        pytest.param((100, 100), (1, 2), "INCONCLUSIVE", id="2 good windows are too few"),
        pytest.param((100,), (1,), "INCONCLUSIVE", id="one good window is too few"),
    ],
)
def test_an_rma_is_confirmed_by_windows_and_starts(values: tuple[float, ...], starts: tuple[int, ...], expected: str) -> None:
    gpus = but(fleet(), {ONE: {"values": {TEST: values}, "starts": starts}})

    assert judged(gpus).gpu(*ONE) == expected


def test_a_gpu_that_shows_no_value_is_not_passed() -> None:
    gone = judged(but(fleet(), {ONE: {"values": {}}}), planned={TEST: 6})

    assert gone.gpu_codes(*ONE) == {"TEST_MISSING": "INCONCLUSIVE"}


def test_windows_that_are_not_steady_do_not_count() -> None:
    found = judged(but(fleet(), {ONE: {"values": {TEST: (50, 50, 50, 100, 100, 100)}, "steady": (False,) * 3 + (True,) * 3}}))

    assert found.one(*ONE, "PERF_OK").windows == 3


def test_a_gpu_without_one_steady_window_is_not_passed() -> None:
    found = judged(but(fleet(), {ONE: {"steady": (False,)}}), planned={TEST: 6})

    assert found.gpu_codes(*ONE) == {"TOO_FEW_WINDOWS": "INCONCLUSIVE"}


def test_one_gpu_has_one_vote_however_often_it_ran() -> None:
    """The Longhorn trap: over runs the median is another one, for a GPU may run 139 times."""
    eager = {("n1", slot): {"values": {TEST: [90.0] * 60}, "starts": (1, 2)} for slot in range(8)}

    assert judged(but(fleet(), eager)).one(*ONE, "PERF_OK").median == 100.0


def test_the_condemned_do_not_vote() -> None:
    broken = {(f"n{node}", slot): {"values": {TEST: 50.0}, "wrong": (1,)} for node in range(3) for slot in range(8)}

    found = judged(but(fleet(nodes=6), broken))

    assert found.one("n5", 0, "PERF_OK").median == 100.0
    assert found.one("n5", 0, "PERF_OK").cohort_size == 24


def test_when_all_are_condemned_nothing_passes() -> None:
    found = judged(fleet(wrong=(1,)))

    assert found.counts() == {"RMA": 32}
    assert found.verdict.measured == ()


@pytest.mark.parametrize(
    ("nodes", "gpus", "slow_one", "sound_one"),
    [
        pytest.param(4, 4, "RMA", "PASS", id="16 GPUs of 4 nodes"),
        pytest.param(5, 3, "RETEST", "INCONCLUSIVE", id="15 GPUs of 5 nodes"),
        pytest.param(3, 8, "RMA", "PASS", id="3 nodes"),
        pytest.param(2, 16, "RETEST", "INCONCLUSIVE", id="2 nodes"),
        pytest.param(1, 1, "INCONCLUSIVE", "INCONCLUSIVE", id="a single GPU is its own median"),
    ],
)
def test_a_small_cohort_condemns_and_passes_nobody(nodes: int, gpus: int, slow_one: str, sound_one: str) -> None:
    found = judged(but(fleet(nodes=nodes, gpus=gpus), {ONE: slow(80.0)}))

    assert found.gpu(*ONE) == slow_one
    assert found.gpu(f"n{nodes - 1}", gpus - 1) == sound_one


def test_where_nodes_are_not_known_the_gpus_alone_are_counted() -> None:
    gpus = [Gpu(None, None, uuid=f"GPU-{number}", values={TEST: 80.0 if number == 0 else 100.0}) for number in range(16)]

    assert judged(gpus).counts() == {"RMA": 1, "PASS": 15}


def test_a_reference_judges_a_small_cohort() -> None:
    small = but(fleet(nodes=1, gpus=4), {ONE: slow(94.0)})

    found = judged(small, reference={"h100/sw1/gemm_bf16": 100.0})

    assert (found.gpu(*ONE), found.gpu("n0", 1)) == ("RMA", "PASS")
    assert "reference" in found.one(*ONE, "PERF_BELOW_MEDIAN").why


@pytest.mark.parametrize("name", ["h100/sw2/gemm_bf16", "h100/sw1/hbm_copy", ""])
def test_a_reference_of_another_cohort_judges_nobody(name: str) -> None:
    found = judged(but(fleet(nodes=1, gpus=4), {ONE: slow(94.0)}), reference={name: 100.0})

    assert found.gpu("n0", 1) == "INCONCLUSIVE"


def test_a_large_cohort_is_its_own_yardstick_also_beside_a_reference() -> None:
    found = judged(but(fleet(), {ONE: slow(94.0)}), reference={"h100/sw1/gemm_bf16": 98.0})

    assert found.one(*ONE, "PERF_BELOW_MEDIAN").median == 100.0


@pytest.mark.parametrize("median", [0.0, -1.0, float("nan"), float("inf")])
def test_a_reference_that_is_no_number_is_refused(median: float) -> None:
    with pytest.raises(RunFolderError, match=r"reference.*expected a positive number"):
        judged(fleet(), reference={"h100/sw1/gemm_bf16": median})


def test_hbm_and_gemm_are_judged_apart() -> None:
    both = {TEST: 100.0, "hbm_copy": 3000.0}
    gpus = but(fleet(values=both), {ONE: {"values": {TEST: 100.0, "hbm_copy": 2700.0}}})

    found = judged(gpus)

    assert found.one(*ONE, "PERF_OK").test == TEST
    assert found.one(*ONE, "PERF_BELOW_MEDIAN").test == "hbm_copy"
    assert found.one(*ONE, "PERF_BELOW_MEDIAN").cause == "memory"


def test_gpus_of_another_kind_are_not_compared() -> None:
    other = {(f"n{node}", slot): {"kin": "h100-pcie", "values": {TEST: 76.0}} for node in range(4) for slot in range(4, 8)}

    found = judged(but(fleet(), other))

    assert found.counts() == {"PASS": 32}
    assert sorted({cohort.median for cohort in found.verdict.cohorts()}) == [76.0, 100.0]


@pytest.mark.parametrize(
    ("shows", "expected"),
    [
        pytest.param({"thermal": (0.2,), "power_w": 500.0, "sm_clock_mhz": 1400.0}, "heat", id="heat comes before power"),
        pytest.param({"sw_thermal": 0.2}, "heat", id="a software thermal reason"),
        pytest.param({"temp_c": 83.0, "max_operating_c": 87.0}, "heat", id="4 C from its limit"),
        pytest.param(
            {"temp_c": 82.0, "max_operating_c": 87.0, "sm_clock_mhz": 1500.0}, "silicon", id="exactly 5 C from its limit is not hot"
        ),
        pytest.param({"power_w": 692.9, "sm_clock_mhz": 1500.0}, "power", id="1.01 % less power"),
        pytest.param({"power_w": 693.0, "sm_clock_mhz": 1500.0}, "silicon", id="exactly 1 % less power"),
        pytest.param({"sm_clock_mhz": 1600.0}, "silicon", id="low clock at full power"),
        pytest.param({"sm_clock_mhz": 1683.0}, "host", id="exactly 1 % less clock is full clock"),
        pytest.param({}, "host", id="full clock, full power, and still slow"),
        pytest.param({"power_w": None}, "unknown", id="power was not told"),
        pytest.param({"sm_clock_mhz": None}, "unknown", id="clock was not told"),
    ],
)
def test_the_cause_is_told_and_never_changes_the_outcome(shows: dict[str, object], expected: str) -> None:
    found = judged(but(fleet(), {ONE: slow(92.0, **shows)})).one(*ONE, "PERF_BELOW_MEDIAN")

    assert (expected, "RMA") == (found.cause, found.outcome.value)


@pytest.mark.parametrize(("margin", "expected"), [(4.9, "heat"), (5.0, "memory")])
def test_heat_in_another_test_is_no_cause_and_in_this_one_is(margin: float, expected: str) -> None:
    """Hottest in GEMM and named hot there; what made it slow is looked for where it was slow."""
    rows = but(fleet(values={TEST: 100.0, "hbm_copy": 100.0}), {ONE: {"values": {TEST: 100.0, "hbm_copy": 90.0}}})
    shown = evidence(rows)
    mine = (pl.col("part") == rows[ONE].key) & (pl.col("test") == "hbm_copy")
    other = (pl.col("part") == rows[ONE].key) & (pl.col("test") == TEST)
    temp = pl.when(mine).then(87.0 - margin).when(other).then(86.0).otherwise(pl.col("temp_c")).alias("temp_c")
    parts = tuple(replace(part, max_operating_c=87.0) for part in shown.parts)

    found = Judged(judge(replace(shown, parts=parts, windows=shown.windows.with_columns(temp)), POLICY))

    assert found.one(*ONE, "HEAT_NEAR_LIMIT").test == TEST
    assert found.one(*ONE, "PERF_BELOW_MEDIAN").cause == expected


@pytest.mark.parametrize(("test", "expected"), [("pcie_h2d", "link"), ("nccl_allreduce", "link"), ("hbm_copy", "memory"), (TEST, "host")])
def test_the_cause_follows_what_the_test_stresses(test: str, expected: str) -> None:
    gpus = but(fleet(values={test: 100.0}), {ONE: {"values": {test: 92.0}}})

    assert judged(gpus).one(*ONE, "PERF_BELOW_MEDIAN").cause == expected


def test_the_sentence_gives_the_numbers_of_the_cause() -> None:
    found = judged(but(fleet(), {ONE: slow(92.0, power_w=600.0)}))

    assert "600 W (median 700)" in found.one(*ONE, "PERF_BELOW_MEDIAN").why


def test_the_line_is_the_policys() -> None:
    gpus = but(fleet(), {ONE: slow(94.0)})

    assert judged(gpus, policy=limits(perf_below_median_pct=7.0)).gpu(*ONE) == "PASS"
    assert judged(gpus, policy=limits(perf_windows_over=7)).gpu(*ONE) == "RETEST"
    assert judged(gpus, policy=limits(cohort_least_gpus=33)).gpu(*ONE) == "RETEST"
    assert judged(gpus, policy=limits(perf_least_windows=7)).gpu("n1", 1) == "INCONCLUSIVE"


def test_a_gpu_that_owes_a_reset_is_tested_again_before_it_is_condemned_for_speed() -> None:
    found = judged(but(fleet(), {ONE: slow(80.0, health=Health(row_remap_pending=True))}))

    assert found.gpu(*ONE) == "RETEST"


def test_a_doubtful_identity_is_neither_condemned_nor_passed() -> None:
    gpus = fleet()
    evidence_of = judged(but(gpus, {ONE: slow(80.0, wrong=(1,))}))
    assert evidence_of.gpu(*ONE) == "RMA"
    twins = replace(
        evidence_of.verdict.evidence, parts=tuple(replace(part, duplicate_on=("n0", "n3")) for part in evidence_of.verdict.evidence.parts)
    )

    found = Judged(judge(twins, POLICY))

    assert set(found.counts()) == {"INCONCLUSIVE"}
