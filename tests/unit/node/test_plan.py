"""A plan is refused whole, in one line, before anything starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from burnin.node.plan import PlanProblem, check_plan, parse_plan
from burnin.node.plan_file import read_plan

STEP = {"test": "gemm_bf16", "windows": 3, "window_s": 10}


def plan(*steps: Any, **fields: Any) -> dict[str, Any]:
    return {"schema": "burnin.plan/1", "name": "p", "run_id": "r", "seed": 1, "steps": list(steps), **fields}


def test_a_plan_gets_names_and_lengths() -> None:
    found = check_plan(plan(STEP, {**STEP, "name": "again", "starts": 2, "idle_s": 1, "warmup_s": 2.5}))

    assert [(step.name, step.start_s) for step in found.steps] == [("gemm_bf16-1", 30), ("again", 33.5)]
    assert found.planned_s == 97


def test_the_digest_follows_the_content_and_not_its_order() -> None:
    straight = check_plan(plan(STEP))
    turned = check_plan(dict(reversed(plan(dict(reversed(STEP.items()))).items())))

    assert straight.digest == turned.digest
    assert straight.digest != check_plan(plan(STEP, seed=2)).digest


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        pytest.param([], "schema is 'list'", id="no mapping"),
        pytest.param({"schema": "burnin.plan/2", "steps": [STEP]}, "expected 'burnin.plan/1'", id="another schema"),
        pytest.param(plan(), "steps has 0 entries", id="no steps"),
        pytest.param(plan(*[STEP] * 1001), "steps has 1001 entries", id="too many steps"),
        pytest.param({**plan(STEP), "steps": {"a": 1}}, "expected a list of steps", id="steps that are a mapping"),
        pytest.param(plan("gemm"), "steps[0] is str", id="a step that is text"),
        pytest.param(plan(STEP, sede=3), "'sede'; did you mean 'seed'?", id="a misspelt field"),
        pytest.param(plan({**STEP, "window": 3}), "did you mean 'windows'?", id="a misspelt field of a step"),
        pytest.param(plan({**STEP, "test": "gemm_bf61"}), "did you mean 'gemm_bf16'?", id="a misspelt test"),
        pytest.param(plan({**STEP, "test": ["gemm_bf16"]}), "steps[0].test is ['gemm_bf16']", id="a test that is a list"),
        pytest.param(plan({**STEP, "test": None}), "steps[0].test is None", id="no test"),
        pytest.param(plan({**STEP, "windows": "3"}), "steps[0].windows is '3'; expected a whole number", id="a number as text"),
        pytest.param(plan({**STEP, "windows": True}), "steps[0].windows is True", id="a truth for a number"),
        pytest.param(plan({**STEP, "windows": 2.5}), "steps[0].windows is 2.5", id="half a window"),
        pytest.param(plan({**STEP, "windows": 0}), "steps[0].windows is 0", id="no window"),
        pytest.param(plan({**STEP, "window_s": float("nan")}), "steps[0].window_s is nan", id="NaN"),
        pytest.param(plan({**STEP, "window_s": float("inf")}), "steps[0].window_s is inf", id="an infinite window"),
        pytest.param(plan({**STEP, "window_s": None}), "steps[0].window_s is None", id="no length"),
        pytest.param(plan({**STEP, "warmup_s": -1}), "steps[0].warmup_s is -1", id="a negative warm-up"),
        pytest.param(plan({**STEP, "idle_s": 10**400}), "steps[0].idle_s is 1000", id="a number beyond floats"),
        pytest.param(plan({**STEP, "name": "a"}, {**STEP, "name": "a"}), "steps[1].name 'a' stands twice", id="two steps of one name"),
        pytest.param(plan({**STEP, "name": "a,b"}), "no comma", id="a comma in a name"),
        pytest.param(plan({**STEP, "name": "a\nb"}), "printable", id="a line end in a name"),
        pytest.param(plan({**STEP, "name": "\udc80"}), "printable", id="half a letter in a name"),
        pytest.param(plan({**STEP, "name": "x" * 81}), "1 to 80", id="a long name"),
        pytest.param(plan(STEP, run_id=7), "run_id is 7", id="a run id that is a number"),
        pytest.param(plan(STEP, name={"a": 1}), "name is {'a': 1}", id="a name that is a mapping"),
        pytest.param(plan(STEP, seed="1"), "seed is '1'", id="a seed as text"),
        pytest.param(plan(STEP, seed=-1), "seed is -1", id="a negative seed"),
        pytest.param(plan({**STEP, "window_s": 86400, "windows": 31}), "lasts 2.6784e+06 s", id="a month and a day"),
        pytest.param(
            plan({**STEP, "window_s": 0.1, "windows": 10_000, "starts": 11}), "has 110000 windows", id="more windows than a disk likes"
        ),
    ],
)
def test_what_is_no_plan_is_refused_in_one_short_line(raw: Any, told: str) -> None:
    with pytest.raises(PlanProblem) as refused:
        check_plan(raw)

    assert told in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("data", "told"),
    [
        pytest.param(b"{", "not JSON", id="torn JSON"),
        pytest.param(b"", "not JSON", id="an empty file"),
        pytest.param(b"[" * 200_000, "not JSON", id="brackets without end"),
        pytest.param(b"9" * 100_000, "JSON", id="a number without end"),
        pytest.param(b"\xff\xfe{}", "no text", id="bytes that are no text"),
    ],
)
def test_a_file_that_holds_no_plan_is_refused(tmp_path: Path, data: bytes, told: str) -> None:
    (tmp_path / "plan.json").write_bytes(data)

    with pytest.raises(PlanProblem) as refused:
        read_plan(tmp_path / "plan.json")

    if told == "JSON":  # an interpreter with a limit on digits says so, one without reads a number
        assert "JSON" in str(refused.value) or "schema" in str(refused.value)
    else:
        assert told in str(refused.value)


def test_a_plan_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(PlanProblem, match=r"cannot read .*absent\.json \(No such file"):
        read_plan(tmp_path / "absent.json")


def test_text_and_document_give_the_same_plan() -> None:
    assert check_plan(plan(STEP)) == parse_plan(json.dumps(plan(STEP)))
