"""What went wrong elsewhere, with the numbers of the reports; the ids are those of the project's collection of field reports."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from burnin.verdict.case import Case
from burnin.verdict.model import Health
from burnin.verdict.policy import Policy
from burnin.verdict.rules.heat import margin_c
from unit.verdict.fleets import POLICY, SOUND, STARTS, TEST, Fleet, Gpu, but, each, fleet, judged
from unit.verdict.folders import Node, everywhere, folder, gpu_codes, verdicts

ONE = ("n0", 3)


def single(values: list[float | None], **more: object) -> Fleet:
    """One GPU per node with these values."""
    return {(f"n{number}", 0): Gpu(f"n{number}", 0, values={TEST: (value,) * 6}, **more) for number, value in enumerate(values)}  # type: ignore[arg-type]


def test_b25_a_gpu_in_mig_mode_is_no_part_of_the_cohort() -> None:
    def mig(made: Node) -> None:
        made.identity["before"]["gpus"][0]["mig"] = True
        for one in made.measurements:
            if one["gpu"] == "GPU-n0-0":
                one["value"] /= 7

    document = folder(mig).document()

    assert verdicts(document) == ["INCONCLUSIVE", *["PASS"] * 7]
    assert set(gpu_codes(document)) == {"COHORT_TOO_SMALL"}


@pytest.mark.parametrize("told", ["[N/A]", "[Not Supported]", "ERR!", None])
def test_b25_what_a_card_does_not_support_is_unknown_and_never_zero(told: object) -> None:
    def change(made: Node) -> None:
        for one in made.measurements:
            one["power_w"] = one["sm_clock_mhz"] = told

    document = everywhere(change).document()

    assert set(verdicts(document)) == {"PASS"}
    assert document["gpus"][0]["findings"][1]["evidence"]["power_w"] is None


def test_b30_one_third_of_the_speed_is_seen_beside_seven_siblings() -> None:
    """6698 GFLOPS beside seven at 19100 to 19300: far too small a pool for an RMA, and yet not a pass."""
    rates = [6698, 19148, 19239, 19256, 19191, 19096, 19273, 19187]

    found = judged({(0, slot): Gpu("dgx", slot, values={TEST: (float(rate),) * 6}) for slot, rate in enumerate(rates)})

    assert found.gpu("dgx", 0) == "RETEST"
    assert found.one("dgx", 0, "PERF_BELOW_MEDIAN").deviation_pct == pytest.approx(-65.1, abs=0.1)
    assert found.worst_but(("dgx", 0)) == {"INCONCLUSIVE"}
    assert found.codes("node", "dgx") == {}


@pytest.mark.parametrize(
    ("thermal", "values", "temp_c", "expected"),
    [
        pytest.param((0.0,), 100.0, 78.0, "PASS", id="a violation of 0.0 s at 78 C"),
        pytest.param((1 / 1200, 0, 0, 0, 0, 0), 100.0, 78.0, "PASS", id="1 of 1200 samples"),
        pytest.param((240 / 1200,), 82.0, 86.0, "RMA", id="240 of 1200 samples and 18 % slow"),
    ],
)
def test_b31_a_thermal_violation_counts_by_its_share_of_the_time(
    thermal: tuple[float, ...], values: float, temp_c: float, expected: str
) -> None:
    found = judged(
        but(fleet(temp_c=75.0), {ONE: {"thermal": thermal, "values": {TEST: values}, "temp_c": temp_c, "max_operating_c": 87.0}})
    )

    assert found.gpu(*ONE) == expected
    if expected == "RMA":
        assert found.one(*ONE, "PERF_BELOW_MEDIAN").cause == "heat"


@pytest.mark.parametrize(
    ("shows", "margin", "expected"),
    [
        pytest.param({"temp_c": 31.0, "margin_c": 56.0}, 56.0, "PASS", id="a Hopper with a margin of 56"),
        pytest.param({"temp_c": 60.0, "margin_c": -3.0}, None, "PASS", id="a negative margin alone says nothing"),
        pytest.param({"temp_c": 90.0, "max_operating_c": 87.0, "margin_c": -3.0}, -3.0, "REVIEW", id="over the limit by both"),
        pytest.param({"temp_c": 60.0, "max_operating_c": None, "margin_c": None}, None, "PASS", id="neither is told"),
    ],
)
def test_b33_margin_and_absolute_limit_are_told_apart(shows: dict[str, float], margin: float | None, expected: str) -> None:
    found = judged(but(fleet(), {ONE: shows}))
    measured = next(one for one in found.verdict.measured if one.part.key == found.key(*ONE))

    assert (margin, expected) == (margin_c(Case(found.verdict.evidence, POLICY), measured), found.gpu(*ONE))


def test_b33_a_threshold_that_reads_zero_is_unknown() -> None:
    def change(made: Node) -> None:
        for one in made.identity["before"]["gpus"]:
            one["max_operating_c"] = 0

    assert set(verdicts(folder(change).document())) == {"PASS"}


@pytest.mark.parametrize(
    ("health", "expected"),
    [
        pytest.param(replace(SOUND, row_remap_pending=True), {"RESET_PENDING": "RETEST"}, id="pending: reset, then test again"),
        pytest.param(replace(SOUND, row_remap_failure=True), {"ROW_REMAP_FAILURE": "RMA"}, id="failed: send it back"),
        pytest.param(SOUND, {}, id="correctable rows alone condemn nobody"),
    ],
)
def test_b34_row_remap_reset_watch_or_rma(health: Health, expected: dict[str, str]) -> None:
    assert judged(but(fleet(), {ONE: {"health": health}})).gpu_codes(*ONE) == expected


def test_b34_an_older_card_does_not_have_the_fields() -> None:
    assert judged(fleet(health=Health(lost=False))).counts() == {"PASS": 32}


def test_b36_sound_gpus_with_noisy_runs_are_not_sent_back_and_a_bad_one_always_is() -> None:
    """64 GPUs, true rate N(100, 1.2), noise of one run 2.5 %: under 0.3 false RMAs per fleet, and the 12 % one in every fleet."""
    false = missed = 0
    for seed in range(40):
        rng = random.Random(seed)
        gpus = {}
        for number in range(64):
            true = 88.0 if number == 0 else rng.gauss(100, 1.2)
            gpus[number] = Gpu(f"n{number // 8}", number % 8, values={TEST: tuple(true * rng.gauss(1, 0.025) for _ in STARTS)})
        found = judged(gpus)
        missed += found.gpu("n0", 0) != "RMA"
        false += found.counts().get("RMA", 0) - (found.gpu("n0", 0) == "RMA")

    assert missed == 0
    assert false / 40 <= 0.3


def wide(seed: int, sigma_pct: float) -> Fleet:
    rng = random.Random(seed)
    return each(fleet(nodes=8), lambda gpu: Gpu(gpu.node, gpu.slot, values={TEST: (rng.gauss(100, sigma_pct),) * 6}))


def test_b36_a_fleet_of_wide_spread_is_shown_to_a_person() -> None:
    """A persistent spread of 3 % puts 3 of 64 sound GPUs over the line: a person is told in most such fleets, and of 1.2 % in none."""
    told = [[judged(wide(seed, sigma)).codes("fleet", "") for seed in range(20)] for sigma in (3.0, 1.2)]

    assert told[0].count({"SPREAD_UNUSUAL": "REVIEW"}) >= 14
    assert told[1] == [{}] * 20


def test_b37_two_form_factors_of_one_name_are_two_cohorts() -> None:
    """8 x SXM at 67 TFLOPS and 4 x PCIe at 51: pooled, the four would be 24 % slow."""
    gpus = [Gpu("a", slot, kin="2330/SXM5", values={TEST: 67.0}) for slot in range(8)]
    gpus += [Gpu("b", slot, kin="2331/PCIe", values={TEST: 51.0}) for slot in range(4)]

    found = judged(gpus)

    assert {cohort.name: cohort.median for cohort in found.verdict.cohorts()} == {
        "2330/SXM5/sw1/gemm_bf16": 67.0,
        "2331/PCIe/sw1/gemm_bf16": 51.0,
    }
    assert found.counts() == {"INCONCLUSIVE": 12}


def test_b37_another_power_limit_is_another_cohort() -> None:
    def change(made: Node) -> None:
        for one in made.identity["before"]["gpus"]:
            one["power_limit_w"] = 500
        for one in made.measurements:
            one["value"] *= 0.8

    assert {"RMA", "RETEST"}.isdisjoint(verdicts(folder(change).document()))


def floor(test: str, value: float) -> Policy:
    skus = {**POLICY.skus, "OURS": {"floors": {test: {"value": value, "unit": "GB/s", "why": "x", "source": "y"}}}}
    return Policy(POLICY.name, POLICY.limits, skus)


def test_b38_when_all_are_slow_alike_the_harness_is_suspect() -> None:
    """16 nodes at 15.0 to 15.4 GB/s where 431 is the floor."""
    found = judged(single([15.0 + number * 0.4 / 15 for number in range(16)], sku="OURS"), policy=floor(TEST, 431))

    assert found.codes("fleet", "") == {"ENVIRONMENT_SUSPECT": "FAIL"}
    assert found.counts() == {"RETEST": 16}


def test_b38_one_slow_node_among_fifteen_is_its_own_fault() -> None:
    found = judged(single([440.0] * 15 + [15.0], sku="OURS"), policy=floor(TEST, 431))

    assert found.codes("fleet", "") == {}
    assert found.counts() == {"PASS": 15, "RMA": 1}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([100.0] * 15 + [94.0], {"PASS": 15, "RMA": 1}, id="fifteen equal and one slow: the last alone"),
        pytest.param([100.0] * 16, {"PASS": 16}, id="sixteen equal: none"),
        pytest.param([100.0], {"INCONCLUSIVE": 1}, id="one"),
        pytest.param([100.0, 89.0], {"INCONCLUSIVE": 1, "RETEST": 1}, id="two: nothing says which is right"),
        pytest.param([], {}, id="none at all"),
        pytest.param([100.0, None, 101.0, 99.0], {"INCONCLUSIVE": 4}, id="one that is no number"),
    ],
)
def test_b40_zero_spread_and_tiny_cohorts(values: list[float | None], expected: dict[str, int]) -> None:
    assert judged(single(values)).counts() == expected


@pytest.mark.parametrize(("temp_c", "expected"), [(81.0, "REVIEW"), (45.0, "PASS")], ids=["the hot one", "a cool one"])
def test_b40_temperature_has_its_bad_side_above(temp_c: float, expected: str) -> None:
    gpus = single([100.0] * 16) | {"odd": Gpu("odd", 0, temp_c=temp_c)}

    assert judged(gpus).gpu("odd", 0) == expected


def test_b41_a_cold_first_sample_does_not_decide() -> None:
    found = judged(
        but(fleet(), {ONE: {"values": {TEST: (3, 98, 99, 99, 98, 99)}}, ("n1", 3): {"values": {TEST: (99, 99, 99, 98, 99, 98)}}})
    )

    assert (found.gpu(*ONE), found.gpu("n1", 3)) == ("PASS", "PASS")


def test_b41_a_gpu_is_judged_by_its_steady_windows() -> None:
    """Fast while cold, 110 falling to 100; only the steady windows are compared."""
    settling = {"values": {TEST: (110, 106, 103, 100, 100, 100)}, "steady": (False, False, False, True, True, True)}

    assert judged(but(fleet(), {ONE: settling})).one(*ONE, "PERF_OK").value == 100.0


def test_b55_a_serial_on_two_nodes_makes_no_rma() -> None:
    def change(made: Node) -> None:
        made.identity["before"]["gpus"][0] |= {"serial": "001704"}  # that of slot 0 in n1
        for one in made.measurements:
            one["wrong"] = int(one["gpu"] == "GPU-n0-0")

    document = folder(change).document()

    assert verdicts(document)[0] == "INCONCLUSIVE"
    assert verdicts(document, "n1")[0] == "INCONCLUSIVE"
    assert "DUPLICATE_ID" in gpu_codes(document, "n1")
