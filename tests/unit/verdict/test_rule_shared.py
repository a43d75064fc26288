"""Rule 8: faults that a node, a rack or the fleet shares; and software cohorts (rule 3)."""

from __future__ import annotations

import pytest

from burnin.verdict.case import Where
from unit.verdict.fleets import TEST, Fleet, Gpu, but, each, fleet, judged, limits


def slow(node: str, values: tuple[float, ...]) -> dict[tuple[str, int], dict[str, object]]:
    return {(node, slot): {"values": {TEST: value}} for slot, value in enumerate(values)}


def pool(nodes: int = 6, gpus: int = 8, **shows: object) -> Fleet:
    return fleet(nodes=nodes, gpus=gpus, **shows)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param((96.9, 96.9, 96.9, 100), "REVIEW", id="3 of 4 are 3.1 % slow, none over the line"),
        pytest.param((97.0, 97.0, 97.0, 97.0), "PASS", id="4 of 4 are exactly 3 % slow"),
        pytest.param((96.9, 96.9, 100, 100), "PASS", id="2 of 4 are slow"),
        pytest.param((96.9, 96.9, 94.0, 100), "FAIL", id="3 of 4 are slow, one over the line"),
        pytest.param((94, 94, 94, 94), "FAIL", id="all are over the line"),
    ],
)
def test_three_quarters_of_a_small_node_make_it_slow(values: tuple[float, ...], expected: str) -> None:
    found = judged(but(pool(gpus=4), slow("n0", values)))

    assert found.codes("node", "n0") == ({} if expected == "PASS" else {"NODE_SLOW": expected})


@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [
        (2, 2, {"NODE_SLOW": "FAIL"}),
        (1, 1, {}),
        (1, 2, {}),
        (4, 5, {"NODE_SLOW": "FAIL"}),
        (3, 5, {}),
        (5, 6, {"NODE_SLOW": "FAIL"}),
        (4, 6, {}),
    ],
)
def test_the_share_of_a_node_is_rounded_up_and_at_least_two(count: int, size: int, expected: dict[str, str]) -> None:
    found = judged(but(pool(nodes=20, gpus=size), slow("n0", (94.0,) * count)))

    assert found.codes("node", "n0") == expected


def test_gpus_under_a_slow_node_are_retested_never_condemned_never_passed() -> None:
    found = judged(but(pool(gpus=4), slow("n0", (90.0, 90.0, 90.0, 100.0))))

    assert [found.gpu("n0", slot) for slot in range(4)] == ["RETEST"] * 4
    assert found.worst_but(*[("n0", slot) for slot in range(4)]) == {"PASS"}


def test_under_a_node_that_is_only_to_be_reviewed_gpus_are_too() -> None:
    found = judged(but(pool(gpus=4), slow("n0", (96.9,) * 4)))

    assert [found.gpu("n0", slot) for slot in range(4)] == ["REVIEW"] * 4


def test_too_little_shown_stays_so_under_a_slow_node() -> None:
    few = {("n0", slot): {"values": {TEST: (96.9, 96.9)}} for slot in range(4)}

    assert judged(but(pool(gpus=4), few)).gpu("n0", 0) == "INCONCLUSIVE"


@pytest.mark.parametrize(
    ("others", "mine", "node", "gpu"),
    [
        pytest.param(97.4, 94.0, "FAIL", "RETEST", id="the others are 2.6 % slow: the node's fault"),
        pytest.param(97.5, 94.0, "PASS", "RMA", id="the others are exactly 2.5 % slow: its own"),
        pytest.param(97.4, 92.0, "FAIL", "RMA", id="more than 5 % under the others too: bad within a slow node"),
        pytest.param(90.0, 80.0, "FAIL", "RMA", id="bad within a node that is itself over the line"),
        pytest.param(90.0, 85.6, "FAIL", "RETEST", id="4.9 % under the others: the node's fault"),
        pytest.param(100.0, 94.0, "PASS", "RMA", id="the others are sound"),
        pytest.param(97.4, 97.4, "REVIEW", "REVIEW", id="all are 2.6 % slow, none over the line"),
    ],
)
def test_in_large_nodes_the_others_are_a_yardstick(others: float, mine: float, node: str, gpu: str) -> None:
    found = judged(but(pool(), slow("n0", (mine, *[others] * 7))))

    assert found.codes("node", "n0") == ({} if node == "PASS" else {"NODE_SLOW": node})
    assert found.gpu("n0", 0) == gpu


def test_in_nodes_under_eight_gpus_the_others_are_none() -> None:
    found = judged(but(pool(gpus=7), slow("n0", (94.0, *[97.4] * 6))))

    assert found.codes("node", "n0") == {}
    assert found.gpu("n0", 0) == "RMA"


def test_one_bad_gpu_does_not_make_its_node_slow() -> None:
    found = judged(but(pool(), slow("n0", (80.0,))))

    assert found.codes("node", "n0") == {}


def rack_of(slow_nodes: int, value: float = 94.0, racks: int = 2) -> Fleet:
    """Racks of four nodes; so many of rack A's are slow."""
    gpus = fleet(nodes=4 * racks, racks=racks)
    return but(gpus, {place: change for node in range(slow_nodes) for place, change in slow(f"n{node}", (value,) * 8).items()})


@pytest.mark.parametrize(
    ("count", "value", "expected"),
    [
        pytest.param(3, 94.0, {"RACK_SLOW": "FAIL"}, id="3 of 4 nodes"),
        pytest.param(3, 96.9, {"RACK_SLOW": "REVIEW"}, id="3 of 4 nodes, none over the line"),
        pytest.param(2, 94.0, {}, id="2 of 4 nodes"),
    ],
)
def test_three_quarters_of_a_rack_make_it_slow(count: int, value: float, expected: dict[str, str]) -> None:
    found = judged(rack_of(count, value, racks=3))

    assert found.codes("rack", "A") == expected
    assert found.codes("rack", "B") == {}


def test_under_a_slow_rack_nobody_is_passed() -> None:
    assert judged(rack_of(3, racks=3)).gpu("n3", 0) == "RETEST"


def test_a_gpu_that_is_bad_by_itself_stays_so_under_a_slow_rack() -> None:
    found = judged(but(rack_of(3, racks=3), {("n3", 0): {"values": {TEST: 80.0}}}))

    assert found.gpu("n3", 0) == "RMA"


def test_a_single_rack_has_nothing_to_compare_it_with() -> None:
    """Three of its four nodes are slow; the other nodes stand in no rack that we know of."""
    homeless = {(f"n{node}", slot): {"rack": None} for node in range(4, 12) for slot in range(8)}

    found = judged(but(rack_of(3, racks=3), homeless))

    assert found.codes("rack", "A") == {}
    assert found.codes("node", "n0") == {"NODE_SLOW": "FAIL"}


def of_sku(value: float, sku: str | None = "H100-SXM5-80GB") -> Fleet:
    return fleet(values={TEST: value}, sku=sku)


@pytest.mark.parametrize(
    ("value", "expected"), [(619.9, {"ENVIRONMENT_SUSPECT": "FAIL"}), (620.0, {})], ids=["under the floor", "on the floor"]
)
def test_a_fleet_under_its_sanity_floor_is_no_pile_of_bad_parts(value: float, expected: dict[str, str]) -> None:
    found = judged(but(of_sku(value), {("n0", 0): {"values": {TEST: value / 2}}}))

    assert found.codes("fleet", "") == expected
    assert found.gpu("n0", 0) == ("RETEST" if expected else "RMA")
    assert found.worst_but(("n0", 0)) == ({"RETEST"} if expected else {"PASS"})


def test_without_a_sku_there_is_no_floor() -> None:
    assert judged(of_sku(100.0, sku=None)).codes("fleet", "") == {}


def test_the_floor_of_one_test_does_not_touch_another() -> None:
    found = judged(fleet(values={TEST: 100.0, "hbm_copy": 2900.0}, sku="H100-SXM5-80GB"))

    assert found.one("n0", 0, "UNDER_SHARED_FAULT").test == TEST
    assert found.one("n0", 0, "PERF_OK").test == "hbm_copy"


def test_the_floor_holds_the_fleets_own_median_also_beside_a_reference() -> None:
    found = judged(fleet(nodes=2, values={TEST: 600.0}, sku="H100-SXM5-80GB"), reference={"h100/sw1/gemm_bf16": 730.0})

    assert set(found.counts()) == {"RETEST"}
    assert found.fleet("ENVIRONMENT_SUSPECT").value == 600.0


@pytest.mark.parametrize(("value", "expected"), [(96.9, "RETEST"), (97.0, "PASS")], ids=["3.1 % under the reference", "exactly 3 %"])
def test_a_small_fleet_that_is_slow_alike_against_its_reference_is_not_sent_back(value: float, expected: str) -> None:
    gpus = [Gpu(None, None, uuid=f"GPU-{number}", values={TEST: value}, rack=None) for number in range(15)]

    found = judged(gpus, reference={"h100/sw1/gemm_bf16": 100.0})

    assert set(found.counts()) == {expected}


def software(value: float, nodes: int = 6) -> Fleet:
    other = {(f"n{node}", slot): {"fingerprint": "sw2", "values": {TEST: value}} for node in range(3) for slot in range(8)}
    return but(fleet(nodes=nodes), other)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(97.0, {}, id="exactly 3 % apart"),
        pytest.param(96.9, {"COHORTS_DIFFER": "FAIL"}, id="3.1 % apart"),
        pytest.param(103.0, {}, id="the other software is 3 % faster, so ours is 2.9 % slower"),
        pytest.param(104.0, {"COHORTS_DIFFER": "FAIL"}, id="ours is the slow one"),
    ],
)
def test_a_slow_driver_does_not_hide_in_its_own_cohort(value: float, expected: dict[str, str]) -> None:
    found = judged(software(value))

    assert found.codes("fleet", "") == expected
    slower = ("n0", 0) if value < 100 else ("n5", 0)
    assert found.gpu(*slower) == ("RETEST" if expected else "PASS")


def test_one_gpu_with_another_driver_says_nothing_about_the_driver() -> None:
    found = judged(but(fleet(), {("n0", slot): {"fingerprint": "sw2", "values": {TEST: 80.0}} for slot in range(7)}))

    assert found.codes("fleet", "") == {}


def test_of_three_softwares_each_slow_one_is_named_once() -> None:
    third = {(f"n{node}", slot): {"fingerprint": "sw3", "values": {TEST: 92.0}} for node in range(3, 6) for slot in range(8)}

    found = judged(but(software(96.0, nodes=9), third))

    assert [(what.code, what.cohort) for what in found.verdict.of(Where("fleet", ""))] == [
        ("COHORTS_DIFFER", "h100/sw2/gemm_bf16"),
        ("COHORTS_DIFFER", "h100/sw3/gemm_bf16"),
    ]


def spread(step: float) -> Fleet:
    """Half of the GPUs at 100 +/- step: a robust sigma of 1.4826 x step."""
    return each(fleet(), lambda gpu: Gpu(gpu.node, gpu.slot, values={TEST: 100 + step * ((gpu.slot or 0) % 3 - 1)}))


@pytest.mark.parametrize(("step", "expected"), [(1.6, {}), (1.8, {"SPREAD_UNUSUAL": "REVIEW"})], ids=["2.4 %", "2.7 %"])
def test_a_spread_that_puts_sound_gpus_over_the_line_is_shown_to_a_person(step: float, expected: dict[str, str]) -> None:
    assert judged(spread(step)).codes("fleet", "") == expected


def test_the_limits_are_the_policys() -> None:
    four = but(pool(gpus=4), slow("n0", (96.9,) * 4))
    assert judged(four, policy=limits(node_each_pct=4.0)).codes("node", "n0") == {}
    assert judged(four, policy=limits(node_least_gpus=5)).codes("node", "n0") == {}
    three = but(pool(gpus=4), slow("n0", (96.9, 96.9, 96.9)))
    assert judged(three, policy=limits(node_share=0.76)).codes("node", "n0") == {}
    assert judged(rack_of(3, racks=3), policy=limits(rack_least_nodes=4)).codes("rack", "A") == {}
