"""A node that preflight refused stays refused when a run is resumed, until a preflight passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from burnin.adapters.run_files import append_line, write_json
from burnin.stages.burn_in import refused
from burnin.verdict.policy import default_policy
from burnin.verdict.run_folder import RunFiles, read_run

RUN = {"schema": "burnin.run/1", "run_id": "r", "inventory": {"nodes": [{"node": "n1", "folder": "n1", "expected_gpus": 1}]}}


@pytest.mark.parametrize(
    ("words", "stays"),
    [
        pytest.param([("preflight", "failed"), ("start", "ok"), ("collect", "ok")], True, id="burned in all the same"),
        pytest.param([("preflight", "failed"), ("preflight", "ok"), ("collect", "ok")], False, id="passed later"),
        pytest.param([("preflight", "ok"), ("start", "ok")], False, id="never refused"),
    ],
)
def test_only_a_preflight_that_passes_takes_a_refusal_back(tmp_path: Path, words: list[tuple[str, str]], stays: bool) -> None:
    write_json(tmp_path / "run.json", RUN)
    ledger = [{"stage": stage, "node": "n1", "state": state, "why": "no room"} for stage, state in words]
    for entry in ledger:
        append_line(tmp_path / "controller.jsonl", entry)

    evidence = read_run(RunFiles(RUN, ledger), default_policy())

    assert refused(tmp_path) == ({"n1"} if stays else set())
    assert (evidence.nodes[0].trouble_code == "PREFLIGHT_FAILED") is stays
