"""burnin_run on two nodes: one with the defaults (systemd), one with everything changed (a process, another root, other GPUs)."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from lab import verify

ROOTS = {"node-1": "/var/lib/burnin", "node-2": "/srv/elsewhere/burnin"}
GPUS = {"node-1": 8, "node-2": 2}
STARTED = "Start | Begin or continue the run"
BAD = "20260101T000000Z-bad000"


def opened() -> dict[str, Any]:
    return json.loads((Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "run.json").read_text())


def name_of(host) -> str:
    return host.backend.get_hostname()


def journal(host) -> list[dict[str, Any]]:
    path = f"{ROOTS[name_of(host)]}/{opened()['run_id']}/evidence/journal.jsonl"
    return [json.loads(line) for line in host.file(path).content_string.splitlines()]


def test_check_on_a_virgin_node_converge_and_both_again() -> None:
    records = [record for record in verify.events() if record["playbook"] == "converge.yml"]

    assert [record["check"] for record in records] == [True, False, True, False]
    for record in records:
        assert verify.sound(record)
        assert sorted(record["hosts"]) == ["node-1", "node-2"]
    assert {step["host"] for step in records[1]["changed"] if step["task"] == STARTED} == {"node-1", "node-2"}
    # The run is complete: a second check and a second converge have nothing to do.
    assert [record["changed"] for record in records[2:]] == [[], []]
    assert {host["changed"] for record in records[2:] for host in record["hosts"].values()} == {0}


def test_the_run_ran_once_and_to_its_end(host) -> None:
    events = journal(host)

    assert [event["event"] for event in events].count("run_started") == 1
    assert events[-1]["event"] == "run_ended"
    assert events[-1]["complete"] is True
    assert sum(event["event"] == "window" for event in events) == 6


def test_the_evidence_came_to_the_controller(host) -> None:
    name = name_of(host)
    with tarfile.open(Path(opened()["folder"]) / "incoming" / name / "evidence.tar") as packed:
        names = packed.getnames()
        member = packed.extractfile("measurements.jsonl")
        assert member is not None
        measured = [json.loads(line) for line in member.read().splitlines()]

    assert {"identity.json", "journal.jsonl", "samples.csv.gz", "manifest.json"} < set(names)
    assert len({line["gpu"] for line in measured}) == GPUS[name]
    assert len(measured) == 6 * GPUS[name]


def test_nothing_is_left_running_and_nobody_else_may_read_the_evidence(host) -> None:
    root = ROOTS[name_of(host)]

    assert host.run("pgrep -f burnin-node.pyz").rc == 1
    assert host.check_output("systemctl list-units --all --no-legend 'burnin-*'") == ""
    assert host.file(f"{root}/{opened()['run_id']}").mode == 0o700
    assert [host.file(path).exists for path in sorted(ROOTS.values(), key=lambda path: path != root)] == [True, False]


def test_a_plan_that_cannot_be_run_is_refused_and_nothing_runs(host) -> None:
    if name_of(host) != "node-1":
        pytest.skip("once is enough: the play is on both nodes")
    listing = f"find {ROOTS['node-1']}/{opened()['run_id']} /etc /run/systemd/transient -type f -exec sha256sum {{}} + | sort"
    before = host.check_output(listing)

    refused = verify.play("refuse.yml")

    assert refused["rc"] == 2
    assert {failed["host"] for failed in refused["failed"]} == {"node-1", "node-2"}
    for failed in refused["failed"]:
        assert failed["task"] == STARTED
        assert "'gemm_bf61', which is no test; did you mean 'gemm_bf16'?" in failed["message"]
    assert not [step for step in refused["changed"] if step["task"] == STARTED]
    assert len(before.splitlines()) > 10
    assert host.check_output(listing) == before
    assert not host.file(f"{ROOTS['node-1']}/{BAD}/evidence").exists
    assert host.run("pgrep -f burnin-node.pyz").rc == 1
