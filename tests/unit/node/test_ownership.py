"""Evidence of two runs never mixes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from burnin.node.ownership import Before, FolderProblem, check_owner, open_folder
from burnin.node.plan import check_plan
from burnin.node.records import Journal

RAW: dict[str, Any] = {
    "schema": "burnin.plan/1",
    "run_id": "run-b",
    "seed": 1,
    "steps": [{"test": "gemm_bf16", "windows": 3, "window_s": 10}],
}
PLAN = check_plan(RAW)


def write(folder: Path, *events: dict[str, Any]) -> None:
    journal = Journal(folder / "journal.jsonl")
    for event in events:
        journal.event(event.pop("event"), **event)
    journal.close()


def begun(**changed: Any) -> dict[str, Any]:
    return {"event": "run_started", "run_id": "run-b", "plan_digest": PLAN.digest, "backend": "sim", **changed}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([], Before(0, False), id="an empty folder"),
        pytest.param([begun()], Before(1, False), id="a run that died"),
        pytest.param([begun(), {"event": "stopped"}, begun(), {"event": "run_ended"}], Before(2, True), id="a run that is complete"),
        pytest.param([{"event": "failed", "run_id": "run-b"}], Before(0, False), id="a run that could not start"),
    ],
)
def test_our_own_folder_is_taken_up_again(tmp_path: Path, events: list[dict[str, Any]], expected: Before) -> None:
    write(tmp_path, *events)

    assert expected == check_owner(tmp_path, PLAN, "sim")


@pytest.mark.parametrize(
    ("event", "told"),
    [
        pytest.param(begun(run_id="run-a"), "run 'run-a', this is 'run-b'", id="another run"),
        pytest.param({"event": "failed", "run_id": "run-a"}, "run 'run-a'", id="another run that could not start"),
        pytest.param(begun(plan_digest="x"), "plan 'x'", id="another plan"),
        pytest.param(begun(backend="cpu"), "backend 'cpu', this is 'sim'", id="another backend"),
    ],
)
def test_another_ones_evidence_is_refused_by_name(tmp_path: Path, event: dict[str, Any], told: str) -> None:
    write(tmp_path, event)

    with pytest.raises(FolderProblem, match=told):
        check_owner(tmp_path, PLAN, "sim")


def test_measurements_without_a_journal_are_nobodys(tmp_path: Path) -> None:
    (tmp_path / "measurements.jsonl").write_text("{}\n")

    with pytest.raises(FolderProblem, match="names no run"):
        check_owner(tmp_path, PLAN, "sim")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")

    with pytest.raises(FolderProblem, match="cannot be made"):
        open_folder(tmp_path / "out")
