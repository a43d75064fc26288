"""Rule 5: heat, judged apart from speed."""

from __future__ import annotations

import pytest

from unit.verdict.fleets import STARTS, TEST, Fleet, Gpu, but, each, fleet, judged, limits

ONE = ("n0", 3)


def hot(temp_c: float | None, **more: object) -> dict[str, object]:
    return {"temp_c": temp_c, **more}


@pytest.mark.parametrize(
    ("shows", "margin", "expected"),
    [
        pytest.param(hot(82.1, max_operating_c=87.0), 4.9, "REVIEW", id="4.9 C from the device's limit"),
        pytest.param(hot(82.0, max_operating_c=87.0), 5.0, "PASS", id="exactly 5 C from it"),
        pytest.param(hot(82.1, max_operating_c=87.1), 5.0, "PASS", id="exactly 5 C, in tenths"),
        pytest.param(hot(90.0, max_operating_c=87.0), -3.0, "REVIEW", id="over its limit"),
        pytest.param(hot(60.0, margin_c=4.9), 4.9, "REVIEW", id="the device tells a margin of 4.9"),
        pytest.param(hot(60.0, margin_c=5.0), 5.0, "PASS", id="the device tells a margin of 5"),
        pytest.param(hot(60.0, margin_c=0.0), None, "PASS", id="a margin of 0 means unknown"),
        pytest.param(hot(60.0, margin_c=-5.0), None, "PASS", id="so does a negative one"),
        pytest.param(hot(79.0, sku="V100-SXM2-16GB"), 4.0, "REVIEW", id="the SKU's limit stands in"),
        pytest.param(hot(78.0, sku="V100-SXM2-16GB"), 5.0, "PASS", id="exactly 5 C from the SKU's limit"),
        pytest.param(
            hot(79.0, sku="V100-SXM2-16GB", margin_c=20.0), 20.0, "PASS", id="the device's own margin comes before the SKU's limit"
        ),
    ],
)
def test_the_margin_to_the_maximum_operating_temperature(shows: dict[str, object], margin: float | None, expected: str) -> None:
    level = {"temp_c": 75.0 if shows["temp_c"] != 60.0 else 60.0}

    found = judged(but(fleet(**level), {ONE: shows}))
    told = found.one(*ONE, "HEAT_OK" if expected == "PASS" else "HEAT_NEAR_LIMIT").evidence["margin_c"]

    assert found.gpu(*ONE) == expected
    assert told == (margin if margin is None else pytest.approx(margin))


def test_exactly_the_limit_is_not_less_where_floats_make_it_so() -> None:
    """87.0 - 85.9 is 1.0999999999999943."""
    found = judged(but(fleet(temp_c=80.0), {ONE: hot(85.9, max_operating_c=87.0)}), policy=limits(heat_margin_c=1.1))

    assert found.gpu(*ONE) == "PASS"


@pytest.mark.parametrize(("base", "expected"), [(60.4, "PASS"), (60.3, "REVIEW")], ids=["exactly 8 C, which floats put above", "8.1 C"])
def test_exactly_eight_degrees_are_not_more_where_floats_make_it_so(base: float, expected: str) -> None:
    assert judged(but(fleet(nodes=10, temp_c=base), {ONE: hot(68.4)})).gpu(*ONE) == expected


def slots(offsets: tuple[float, ...] = (0, 11, 0, 11, 0, 11, 0, 11), nodes: int = 10) -> Fleet:
    """A chassis whose odd slots are 11 C hotter, as Longhorn's are."""
    return each(fleet(nodes=nodes), lambda gpu: Gpu(gpu.node, gpu.slot, temp_c=60.0 + offsets[gpu.slot or 0]))


@pytest.mark.parametrize(
    ("temp_c", "expected"),
    [
        pytest.param(79.0, "PASS", id="exactly 8 C over its slot peers"),
        pytest.param(79.1, "REVIEW", id="8.1 C over its slot peers"),
        pytest.param(51.0, "PASS", id="20 C under its slot peers"),
    ],
)
def test_a_gpu_hotter_than_the_same_slot_of_other_nodes(temp_c: float, expected: str) -> None:
    found = judged(but(slots(), {ONE: hot(temp_c)}))

    assert found.gpu(*ONE) == expected
    assert found.worst_but(ONE) == {"PASS"}


def test_the_slot_explains_eleven_degrees() -> None:
    """69 C is 9 C over the median of all, and cool for this slot."""
    assert judged(but(slots(), {ONE: hot(69.0)})).gpu(*ONE) == "PASS"


def spread(step: float, excess: float) -> Fleet:
    """Nine peers around 60 C whose median absolute deviation is `step`."""
    temps = (60 - 2 * step, 60 - step, 60 - step, 60 - step, 60.0, 60 + step, 60 + step, 60 + step, 60 + 2 * step)
    gpus = fleet(nodes=10)
    changes = {(f"n{node + 1}", 3): hot(temp) for node, temp in enumerate(temps)}
    return but(gpus, changes | {ONE: hot(60.0 + excess)})


@pytest.mark.parametrize(
    ("excess", "expected"),
    [
        pytest.param(3.5 * 1.4826 * 3 + 0.05, "REVIEW", id="z a hair over 3.5"),
        pytest.param(3.5 * 1.4826 * 3, "PASS", id="z exactly 3.5"),
        pytest.param(3.5 * 1.4826 * 3 - 0.05, "PASS", id="z a hair under 3.5, though far more than 8 C"),
    ],
)
def test_where_slots_differ_widely_eight_degrees_are_nothing(excess: float, expected: str) -> None:
    assert judged(spread(3.0, excess)).gpu(*ONE) == expected


@pytest.mark.parametrize(("temp_c", "expected"), [(67.0, "PASS"), (67.1, "REVIEW")], ids=["3.5 floors over", "more"])
def test_equal_readings_have_a_floor_under_their_sigma(temp_c: float, expected: str) -> None:
    """With a sigma of 0, 1 C more would be infinitely many sigmas. By the shipped limits 8 C are more than that; a site may ask for less."""
    found = judged(but(fleet(nodes=10), {ONE: hot(temp_c)}), policy=limits(heat_slot_excess_c=0.5))

    assert found.gpu(*ONE) == expected


@pytest.mark.parametrize(("nodes", "expected"), [(9, "REVIEW"), (8, "PASS")], ids=["8 peers", "7 peers are too few"])
def test_slot_peers_are_needed(nodes: int, expected: str) -> None:
    assert judged(but(fleet(nodes=nodes), {ONE: hot(70.0)})).gpu(*ONE) == expected


def test_slot_peers_are_of_other_nodes_and_of_the_same_kind() -> None:
    alike = {(f"n{node}", 3): {"kin": "other"} for node in range(1, 10)}

    assert judged(but(but(fleet(nodes=10), alike), {ONE: hot(70.0)})).one(*ONE, "HEAT_OK").evidence["slot_peers"] == 0


@pytest.mark.parametrize(
    ("temp_c", "expected"), [(72.0, "PASS"), (72.1, "REVIEW"), (45.0, "PASS")], ids=["exactly 12 C over", "12.1 C over", "15 C under"]
)
def test_without_limit_and_slot_only_a_wide_gap_to_the_cohort_says_anything(temp_c: float, expected: str) -> None:
    gpus = [Gpu(f"n{number // 4}", None, uuid=f"GPU-{number}") for number in range(15)]
    gpus.append(Gpu("n4", None, temp_c=temp_c))

    assert judged(gpus).gpu("n4", None) == expected


def test_heat_does_not_touch_speed_nor_speed_heat() -> None:
    found = judged(but(slots(), {ONE: hot(82.0, values={TEST: 101.0}), ("n1", 3): {"values": {TEST: 90.0}}}))

    assert found.gpu_codes(*ONE) == {"HEAT_OVER_SLOT_PEERS": "REVIEW"}
    assert found.gpu_codes("n1", 3) == {"PERF_BELOW_MEDIAN": "RMA"}


def test_the_hottest_test_decides() -> None:
    gpus = fleet(nodes=10, values={TEST: 100.0, "hbm_copy": 10.0})

    assert judged(but(gpus, {ONE: hot(75.0)})).one(*ONE, "HEAT_OVER_SLOT_PEERS").value == 75.0


def test_no_temperature_is_no_pass() -> None:
    assert judged(but(fleet(), {ONE: hot(None)})).gpu_codes(*ONE) == {"HEAT_UNKNOWN": "INCONCLUSIVE"}


def test_a_part_that_has_no_temperature_of_its_own_is_not_asked_for_one() -> None:
    assert judged(but(fleet(), {ONE: hot(None, has_sensors=False)})).gpu(*ONE) == "PASS"


def test_a_gpu_that_measured_nothing_has_no_finding_on_heat() -> None:
    found = judged(but(fleet(), {ONE: {"values": {}}}), planned={TEST: 6})

    assert found.gpu_codes(*ONE) == {"TEST_MISSING": "INCONCLUSIVE"}


@pytest.mark.parametrize(
    ("fractions", "starts", "expected"),
    [
        pytest.param((0.01,), STARTS, "PASS", id="exactly 1 % of the time is nothing"),
        pytest.param((0.011,), STARTS, "RMA", id="1.1 % in 6 windows of 2 starts"),
        pytest.param((0.2, 0.2, 0.0, 0.2, 0.0, 0.0), STARTS, "RMA", id="3 windows of 2 starts"),
        pytest.param((0.2, 0.2, 0.2, 0.0, 0.0, 0.0), STARTS, "RETEST", id="3 windows of one start"),
        pytest.param((0.2, 0.0, 0.0, 0.2, 0.0, 0.0), STARTS, "RETEST", id="2 windows"),
        pytest.param((0.0,), STARTS, "PASS", id="none"),
        pytest.param((None,), STARTS, "INCONCLUSIVE", id="the device does not tell"),
    ],
)
def test_hardware_thermal_slowdown(fractions: tuple[float | None, ...], starts: tuple[int, ...], expected: str) -> None:
    found = judged(but(fleet(), {ONE: {"thermal": fractions, "starts": starts}}))

    assert found.gpu(*ONE) == expected
    assert found.worst_but(ONE) == {"PASS"}


@pytest.mark.parametrize(("nodes", "expected"), [(3, "RMA"), (2, "RETEST"), (1, "RETEST")], ids=["2 peers", "1 peer", "no peer"])
def test_without_slot_peers_nothing_tells_the_part_from_the_air(nodes: int, expected: str) -> None:
    assert judged(but(fleet(nodes=nodes), {ONE: {"thermal": (0.3,)}})).one(*ONE, "THERMAL_SLOWDOWN").outcome.value == expected


def test_a_slowdown_in_an_unknown_slot_is_no_rma() -> None:
    gpus = [Gpu(f"n{number // 4}", None, uuid=f"GPU-{number}") for number in range(16)] + [Gpu("n4", None, thermal=(0.3,))]

    assert judged(gpus).gpu("n4", None) == "RETEST"


@pytest.mark.parametrize(("count", "node", "gpu"), [(6, "FAIL", "RETEST"), (5, "PASS", "RMA")], ids=["6 of 8", "5 of 8"])
def test_a_node_whose_gpus_throttle_together_is_hot_itself(count: int, node: str, gpu: str) -> None:
    found = judged(but(fleet(), {("n0", slot): {"thermal": (0.3,)} for slot in range(count)}))

    assert found.codes("node", "n0") == ({} if node == "PASS" else {"NODE_HOT": node})
    assert found.gpu("n0", 0) == gpu


def test_under_a_hot_node_nobody_is_passed_or_condemned() -> None:
    throttling = {("n0", slot): {"thermal": (0.3,), "values": {TEST: 80.0}} for slot in range(6)}

    found = judged(but(fleet(), throttling))

    assert {found.gpu("n0", slot) for slot in range(8)} == {"RETEST"}
    assert found.one("n0", 7, "UNDER_SHARED_FAULT").cause == "heat"
    assert found.worst_but(*[("n0", slot) for slot in range(8)]) == {"PASS"}


def test_one_window_of_each_gpu_does_not_fail_a_node() -> None:
    found = judged(but(fleet(), {("n0", slot): {"thermal": (0.3, 0, 0, 0, 0, 0)} for slot in range(8)}))

    assert found.codes("node", "n0") == {"NODE_HOT": "RETEST"}


@pytest.mark.parametrize(("count", "rack", "gpu"), [(2, "FAIL", "RETEST"), (1, "PASS", "RMA")], ids=["2 of 4 nodes", "1 of 4 nodes"])
def test_a_slot_that_throttles_in_half_of_a_rack_is_the_racks(count: int, rack: str, gpu: str) -> None:
    """Also when the heat makes them more than 5 % slow: what the air does condemns no part."""
    throttling = {(f"n{node}", 3): {"thermal": (0.3,), "values": {TEST: 80.0}} for node in range(count)}

    found = judged(but(fleet(nodes=8, racks=2), throttling))

    assert found.codes("rack", "A") == ({} if rack == "PASS" else {"RACK_HOT": rack})
    assert found.gpu("n0", 3) == gpu


def test_the_medians_of_the_cohort_are_told_with_the_temperature() -> None:
    assert judged(fleet()).one("n0", 0, "HEAT_OK").median == 60.0
