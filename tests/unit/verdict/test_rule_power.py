"""Rule 6: a software power cap at the limit is normal; a limit below the cohort's makes another cohort, and a finding on its node."""

from __future__ import annotations

import pytest

from unit.verdict.fleets import Fleet, Gpu, but, each, fleet, judged
from unit.verdict.folders import Node, everywhere, folder, gpu_codes, node_codes, verdicts

ONE = ("n0", 3)


def limited(limit_w: float | None, default_w: float | None = 700.0, **more: object) -> dict[str, object]:
    return {"power_limit_w": limit_w, "power_limit_default_w": default_w, "kin": f"h100/{limit_w}W", **more}


def sound(nodes: int = 4) -> Fleet:
    return fleet(nodes=nodes, **limited(700.0))


def test_a_software_cap_at_the_limit_all_the_time_is_normal() -> None:
    def change(made: Node) -> None:
        for one in made.measurements:
            one |= {"sw_power_cap_fraction": 1.0, "power_w": 700.0}

    assert everywhere(change).document()["summary"]["PASS"] == 32


def test_a_limit_below_the_cohorts_is_another_cohort_and_its_nodes_finding() -> None:
    found = judged(but(sound(), {ONE: limited(600.0, values={"gemm_bf16": 90.0})}))

    assert found.gpu_codes(*ONE) == {"COHORT_TOO_SMALL": "INCONCLUSIVE"}
    assert found.codes("node", "n0") == {"POWER_LIMIT_LOW": "FAIL"}
    assert found.node("n0", "POWER_LIMIT_LOW").why == "The power limit of 1 of its GPUs (slot 3) is 600 W; others of their kind have 700 W."
    assert found.worst_but(ONE) == {"PASS"}


@pytest.mark.parametrize(
    ("limit_w", "default_w", "expected"),
    [
        pytest.param(600.0, None, {"POWER_LIMIT_LOW": "FAIL"}, id="lower, and its default is not known"),
        pytest.param(600.0, 600.0, {"POWER_LIMIT_LOW": "REVIEW"}, id="lower, as its own firmware has it"),
        pytest.param(699.5, 700.0, {}, id="half a watt is how it is told"),
        pytest.param(698.9, 700.0, {"POWER_LIMIT_LOW": "FAIL"}, id="a watt and more"),
        pytest.param(800.0, 700.0, {}, id="higher is no lower"),
        pytest.param(None, 700.0, {}, id="not told"),
    ],
)
def test_how_much_lower_and_by_whom(limit_w: float | None, default_w: float | None, expected: dict[str, str]) -> None:
    assert judged(but(sound(), {ONE: limited(limit_w, default_w)})).codes("node", "n0") == expected


def test_a_whole_node_that_was_set_lower_is_one_finding() -> None:
    found = judged(each(sound(), lambda gpu: Gpu(gpu.node, gpu.slot, **limited(500.0 if gpu.node == "n0" else 700.0))))  # type: ignore[arg-type]

    assert "8 of its GPUs" in found.node("n0", "POWER_LIMIT_LOW").why
    assert found.codes("node", "n1") == {}


def test_a_fleet_that_was_set_lower_as_a_whole_is_shown_to_a_person() -> None:
    found = judged(fleet(**limited(600.0)))

    assert found.codes("node", "n0") == {"POWER_LIMIT_LOW": "REVIEW"}
    assert "by default 700 W" in found.node("n0", "POWER_LIMIT_LOW").why
    assert found.counts() == {"PASS": 32}


def test_another_kind_of_gpu_has_another_limit() -> None:
    mixed = each(sound(), lambda gpu: Gpu(gpu.node, gpu.slot, model="b200", **limited(1000.0, 1000.0)) if gpu.node == "n0" else gpu)  # type: ignore[arg-type]

    assert judged(mixed).codes("node", "n1") == {}


def test_the_limit_is_read_from_the_identity() -> None:
    def change(made: Node) -> None:
        for look in made.identity.values():
            look["gpus"][2] |= {"power_limit_w": 650.0, "power_limit_default_w": 700.0}

    document = folder(change).document()

    assert node_codes(document) == {"POWER_LIMIT_LOW": "FAIL"}
    assert gpu_codes(document, at=2) == {"COHORT_TOO_SMALL": "INCONCLUSIVE"}
    assert set(verdicts(document)) == {"PASS", "INCONCLUSIVE"}


def test_a_limit_that_was_lowered_during_the_run_is_seen_at_the_second_look() -> None:
    def change(made: Node) -> None:
        made.identity["after"]["gpus"][2]["power_limit_w"] = 650.0

    assert node_codes(folder(change).document()) == {"POWER_LIMIT_LOW": "FAIL"}
