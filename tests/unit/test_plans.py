"""Plans: the shipped ones are sound, and what is wrong in a file is named."""

from __future__ import annotations

import pytest

from burnin import plans
from burnin.errors import PlanError
from burnin.stages.opening import load_plan

GOOD = "schema: burnin.plan/1\nname: mine\nsteps:\n  - {test: gemm_bf16, starts: 2, windows: 3, window_s: 10}\n"


@pytest.mark.parametrize("name", plans.shipped())
def test_a_shipped_plan_can_condemn_and_pass(name: str) -> None:
    _, plan = load_plan(name)

    for test in {step.test for step in plan.steps}:
        starts = sum(step.starts for step in plan.steps if step.test == test)
        windows = sum(step.starts * step.windows for step in plan.steps if step.test == test)
        assert starts >= 2, f"{test}: an RMA needs windows of two starts"
        assert windows >= 3, f"{test}: a verdict needs three windows"


def test_the_acceptance_plan_is_30_minutes_of_full_load_and_two_short_restarts() -> None:
    _, plan = load_plan("acceptance")
    soak, restart = plan.steps[0], plan.steps[1]

    assert soak.warmup_s + soak.window_s * soak.windows == 1800
    assert (restart.test, restart.starts) == (soak.test, 2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(GOOD.replace("gemm_bf16", "gemm_bf17"), "did you mean 'gemm_bf16'", id="an unknown test"),
        pytest.param(GOOD.replace("windows: 3", "windows: 0"), "windows is 0", id="no windows"),
        pytest.param(GOOD.replace("window_s: 10", "window_s: .nan"), "window_s is nan", id="not a number"),
        pytest.param(GOOD.replace("window_s: 10", "window_s: .inf"), "window_s is inf", id="for ever"),
        pytest.param(GOOD.replace("window_s: 10", "window_s: -1"), "window_s is -1", id="negative"),
        pytest.param(GOOD.replace("starts: 2", "start: 2"), "did you mean 'starts'", id="a misspelt field"),
        pytest.param("schema: burnin.plan/1\nsteps: []\n", "steps has 0 entries", id="nothing to do"),
        pytest.param("schema: burnin.plan/2\nsteps: []\n", "schema is 'burnin.plan/2'", id="another schema"),
        pytest.param("[1, 2", "not YAML", id="not YAML"),
        pytest.param("just words", "schema is 'str'", id="no mapping"),
    ],
)
def test_what_is_wrong_in_a_plan_is_named(text: str, told: str) -> None:
    with pytest.raises(PlanError, match=r"mine\.yaml") as refused:
        plans.parse(text, "mine.yaml")

    assert told in str(refused.value)


def test_an_unknown_plan_names_the_nearest() -> None:
    with pytest.raises(PlanError, match="did you mean 'acceptance'"):
        load_plan("aceptance")


def test_a_plan_file_that_is_not_there() -> None:
    with pytest.raises(PlanError, match=r"/nowhere/plan.yaml: cannot be read"):
        load_plan("/nowhere/plan.yaml")
