"""preflight on two nodes, one with the defaults and one with everything changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lab import verify

ROOTS = {"node-1": "/var/lib/burnin", "node-2": "/srv/elsewhere/burnin"}
GPUS = {"node-1": 8, "node-2": 2}


def runs() -> list[Path]:
    return sorted((Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "runs").iterdir())


def name_of(host) -> str:
    return host.backend.get_hostname()


def test_check_converge_and_both_again_went_well_and_changed_nothing() -> None:
    records = [record for record in verify.events() if record["playbook"] == "converge.yml"]

    assert [record["check"] for record in records] == [True, False, True, False]
    for record in records:
        assert verify.sound(record)
        assert sorted(record["hosts"]) == ["node-1", "node-2"]
        # It only reads: nothing counts as a change, not in the first run either.
        assert record["changed"] == []


def test_the_identity_of_each_node_came_to_the_run_folder(host) -> None:
    name = name_of(host)
    for run in runs():
        told = json.loads((run / "incoming" / name / "preflight.json").read_text())
        assert told["node"]["hostname"] == name
        assert len(told["gpus"]) == GPUS[name]
    assert len(runs()) == 4


def test_only_the_root_of_the_runs_was_written_and_nobody_else_may_read_it(host) -> None:
    root = ROOTS[name_of(host)]

    assert [host.file(path).exists for path in sorted(ROOTS.values(), key=lambda path: path != root)] == [True, False]
    for run in runs():
        assert host.file(f"{root}/{run.name}/burnin-node.pyz").mode == 0o700
        assert host.file(f"{root}/{run.name}/preflight.json").mode == 0o600


def test_a_node_without_room_is_refused_and_nothing_is_started(host) -> None:
    if name_of(host) != "node-1":
        pytest.skip("once is enough: the play is on both nodes")
    listing = f"find {ROOTS['node-1']} /etc /run/systemd/transient /srv -type f ! -name preflight.json -exec sha256sum {{}} + | sort"
    before = host.check_output(listing)

    refused = verify.play("refuse.yml", REFUSE_FOLDER=str(runs()[-1]))

    assert refused["rc"] == 2
    assert refused["changed"] == []
    assert {failed["host"] for failed in refused["failed"]} == {"node-1", "node-2"}
    for failed in refused["failed"]:
        assert failed["task"] == "Decide | Require room for the evidence"
        assert "MiB free, 999999999 are needed" in failed["message"]
        assert "burnin_run_root" in failed["message"]
    assert len(before.splitlines()) > 10
    assert host.check_output(listing) == before
