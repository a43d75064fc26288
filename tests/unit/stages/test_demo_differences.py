"""The demo's own check: exactly the planted parts, with verdict and cause."""

from __future__ import annotations

import pytest

from burnin.stages.demo import differences

HOSTS = {
    "n1": {"burnin_run_sim_faults": [{"kind": "slow_silicon", "slot": 1, "expect": {"verdict": "RMA", "cause": "silicon"}}]},
    "n2": {"burnin_run_sim_faults": [{"kind": "node_dies", "at_s": 9, "expect": {"node": "FAIL", "gpus": "INCONCLUSIVE"}}]},
    "n3": {},
}


def gpu(node: str, slot: int, verdict: str, cause: str | None = None) -> dict:
    findings = [{"code": "X", "outcome": verdict, "cause": cause}, {"code": "PERF_OK", "outcome": "PASS", "cause": None}]
    return {"gpu": f"GPU-{node}-{slot}", "node": node, "slot": slot, "verdict": verdict, "findings": findings}


def judged(verdict: str, **names: str) -> dict:
    return {"verdict": verdict, "findings": [{"code": "X", "outcome": verdict, "cause": None}], **names}


def document(**changes: object) -> dict:
    found = {
        "gpus": [gpu("n1", 0, "PASS"), gpu("n1", 1, "RMA", "silicon"), gpu("n2", 0, "INCONCLUSIVE"), gpu("n3", 0, "PASS")],
        "nodes": [judged("PASS", node="n1"), judged("FAIL", node="n2"), judged("PASS", node="n3")],
        "racks": [judged("PASS", rack="A")],
        "fleet": judged("PASS"),
    }
    return {**found, **changes}


def test_exactly_the_planted_parts() -> None:
    assert differences(HOSTS, document()) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        pytest.param({"gpus": [gpu("n1", 1, "RMA", "silicon"), gpu("n3", 0, "REVIEW")]}, "n3 slot 0: REVIEW", id="one too many"),
        pytest.param({"gpus": [gpu("n1", 1, "PASS")]}, "n1 slot 1: PASS", id="one missed"),
        pytest.param({"gpus": [gpu("n1", 1, "RMA", "heat")]}, "cause heat where silicon", id="the wrong cause"),
        pytest.param({"gpus": []}, "n1 slot 1: planted, and not in the verdict", id="not listed at all"),
        pytest.param({"nodes": [judged("PASS", node="n2")]}, "node n2: PASS", id="a node missed"),
        pytest.param({"racks": [judged("FAIL", rack="A")]}, "rack A: FAIL", id="a rack blamed"),
        pytest.param({"fleet": judged("FAIL")}, "the fleet: FAIL", id="the fleet blamed"),
    ],
)
def test_a_difference_is_told(changes: dict, told: str) -> None:
    assert any(told in line for line in differences(HOSTS, document(**changes)))
