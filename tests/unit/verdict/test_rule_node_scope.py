"""Rule 8, last sentence: what all GPUs of a node do in step names no GPU by its value. It gives node findings, and the limiting GPU to look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from burnin.node.catalog import TESTS
from burnin.node.catalog import Test as Measure
from unit.verdict.fleets import TEST, Fleet, Gpu, Judged, each, fleet, judged

STEP = "train_step"
ONE = ("n0", 3)


@pytest.fixture(autouse=True)
def _a_test_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TESTS, STEP, Measure(STEP, "steps/s", "higher", "node", "compute"))


def stepping(value: float | tuple[float, ...], *, nodes: int = 4, one: Mapping[str, Any] | None = None, **shows: Any) -> Fleet:
    """Nodes whose GPUs are alike alone; in step n0 has this value. `one`: what its slot 3 shows beside that."""

    def change(gpu: Gpu) -> Gpu:
        values = {TEST: 100.0, STEP: value if gpu.node == "n0" else 50.0}
        more = (one or {}) if (gpu.node, gpu.slot) == ONE else {}
        return Gpu(gpu.node, gpu.slot, values=values, **{**shows, **more})

    return each(fleet(nodes=nodes), change)


def only(found: Judged, code: str, outcome: str, *, named: bool = False) -> None:
    """The node has this finding, and no GPU has one but the one that is named."""
    assert found.codes("node", "n0") == {code: outcome}
    assert found.gpu_codes(*ONE) == ({"LIMITING_GPU": "REVIEW"} if named else {})
    assert found.worst_but(ONE) == {"PASS"}
    assert not [what for what in found.verdict.of(("gpu", found.key(*ONE))) if what.test == STEP and what.code.startswith("PERF")]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "code", "outcome"),
    [
        pytest.param(47.0, "NODE_SLOW", "FAIL", id="6 % slow"),
        pytest.param(48.0, "NODE_SLOW", "REVIEW", id="4 % slow"),
        pytest.param((46.0, 46.0, 46.0, 50.0, 50.0, 50.0), "NODE_SLOW", "REVIEW", id="8 % slow in one start: 4 % in the median"),
        pytest.param((44.0, 44.0, 44.0, 48.0, 48.0, 48.0), "NODE_SLOW", "RETEST", id="over the line by one start"),
    ],
)
def test_a_node_that_is_slow_in_step_has_the_finding_and_no_gpu_has(value: Any, code: str, outcome: str) -> None:
    only(judged(stepping(value)), code, outcome)


@pytest.mark.parametrize("value", [50.0, 48.5, 53.0], ids=["as the others", "exactly 3 % slow", "faster"])
def test_a_node_that_keeps_step_has_no_finding(value: float) -> None:
    assert judged(stepping(value)).counts() == {"PASS": 32}
    assert judged(stepping(value)).codes("node", "n0") == {}


def test_two_nodes_cannot_tell_which_of_them_is_slow() -> None:
    found = judged(stepping(47.0, nodes=2))

    assert found.codes("node", "n0") == {"NODE_STEP_UNKNOWN": "INCONCLUSIVE"}
    assert found.codes("node", "n1") == {"NODE_STEP_UNKNOWN": "INCONCLUSIVE"}


def test_too_few_windows_show_nothing_of_a_node() -> None:
    found = judged(each(stepping(50.0), lambda gpu: Gpu(gpu.node, gpu.slot, values={TEST: 100.0, STEP: (50.0, 50.0)})))

    assert found.codes("node", "n0") == {"NODE_STEP_UNKNOWN": "INCONCLUSIVE"}


@pytest.mark.parametrize(
    ("shows", "named", "told"),
    [
        pytest.param({"sm_clock_mhz": 1600.0}, True, "1600 MHz", id="the lowest clock"),
        pytest.param({"temp_c": 66.0}, True, "66 C", id="the hottest for its slot"),
        pytest.param({"sm_clock_mhz": 1690.0}, False, "", id="a clock within 1 %"),
        pytest.param({"temp_c": 62.0}, False, "", id="2 C hotter"),
        pytest.param({"sm_clock_mhz": None, "power_w": 650.0}, False, "", id="a clock that is not told"),
    ],
)
def test_the_limiting_gpu_is_named_to_be_looked_at(shows: dict[str, Any], named: bool, told: str) -> None:
    found = judged(stepping(47.0, one=shows))

    only(found, "NODE_SLOW", "FAIL", named=named)
    if named:
        assert told in found.one(*ONE, "LIMITING_GPU").why
        assert "slot 3" in found.node("n0", "NODE_SLOW").why
    else:
        assert "No GPU of it stands out" in found.node("n0", "NODE_SLOW").why


def test_the_clock_comes_before_the_heat() -> None:
    gpus = stepping(47.0, one={"sm_clock_mhz": 1600.0})
    gpus[("n0", 5)] = Gpu("n0", 5, values={TEST: 100.0, STEP: 47.0}, temp_c=66.0)

    assert judged(gpus).gpu_codes("n0", 3) == {"LIMITING_GPU": "REVIEW"}
    assert judged(gpus).gpu_codes("n0", 5) == {}


def test_nobody_is_named_in_a_node_that_keeps_step() -> None:
    assert judged(stepping(50.0, one={"sm_clock_mhz": 1600.0})).gpu(*ONE) == "PASS"


def test_wrong_results_in_step_are_the_nodes_and_condemn_no_gpu() -> None:
    def change(gpu: Gpu) -> Gpu:
        return Gpu(gpu.node, gpu.slot, values={STEP: 50.0}, wrong=(int(gpu.node == "n0"),))

    found = judged(each(fleet(), change))

    assert found.codes("node", "n0") == {"NODE_WRONG_RESULT": "FAIL"}
    assert {found.gpu("n0", slot) for slot in range(8)} == {"RETEST"}
    assert set(found.gpu_codes("n0", 0)) == {"UNDER_SHARED_FAULT"}
    assert found.codes("node", "n1") == {}


def test_a_plan_of_such_tests_alone_shows_no_gpu() -> None:
    found = judged(fleet(values={STEP: 50.0}), planned={STEP: 6})

    assert found.counts() == {"INCONCLUSIVE": 32}
    assert "by itself" in found.one(*ONE, "TEST_MISSING").why


def test_a_slow_rack_is_seen_in_step_too() -> None:
    def change(gpu: Gpu) -> Gpu:
        return Gpu(gpu.node, gpu.slot, rack=gpu.rack, values={TEST: 100.0, STEP: 47.0 if gpu.rack == "A" else 50.0})

    found = judged(each(fleet(nodes=12, racks=4), change))

    assert found.codes("rack", "A") == {"RACK_SLOW": "FAIL"}
    assert found.counts() == {"PASS": 96}
