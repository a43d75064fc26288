"""preflight on two nodes: one with the defaults and simulated GPUs, one with everything changed, which is taken for an HGX H100."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from lab import verify

ROOTS = {"node-1": "/var/lib/burnin", "node-2": "/srv/elsewhere/burnin"}
LEVELS = {"node-1": "bare", "node-2": "ready"}
LOOK = "Look | Ask the node who it is and hold it against what was bought"


def runs() -> list[Path]:
    return sorted((Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "runs").iterdir())


def name_of(host) -> str:
    return host.backend.get_hostname()


def identity(run: Path, node: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "incoming" / node / "preflight.json").read_text())
    return found


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
        told = identity(run, name)
        assert told["node"]["hostname"] == name
        assert len(told["gpus"]) == 8
        assert told["host"]["level"] == told["preflight"]["level"] == LEVELS[name]
    assert len(runs()) == 4


def test_a_simulated_node_is_read_and_not_held_against_its_sku() -> None:
    told = identity(runs()[-1], "node-1")

    assert told["host"]["kernel"]["running"]
    assert told["host"]["os"]["id"] == "debian"
    assert told["preflight"]["parts_judged"] is False
    assert told["preflight"]["findings"] == []


def test_a_node_taken_for_a_sound_machine_is_ready_but_for_what_it_lacks_here() -> None:
    told = identity(runs()[-1], "node-2")

    assert len(told["host"]["gpus"]) == 8
    assert told["host"]["modules"]["nvidia"]["version"] == "580.126.09"
    # Its system is the node's own: dpkg and systemd answered.
    assert told["host"]["os"]["id"] == "debian"
    assert told["host"]["software"]["manager"] == "apt"
    findings = {finding["code"]: finding for finding in told["preflight"]["findings"]}
    assert set(findings) == {"FABRIC_MANAGER_DOWN", "BACKEND_UNUSABLE"}
    assert findings["FABRIC_MANAGER_DOWN"]["accepted"] == "a test node, molecule, for ever"
    assert told["preflight"]["failed"] is False


def test_only_the_root_of_the_runs_was_written_and_nobody_else_may_read_it(host) -> None:
    root = ROOTS[name_of(host)]

    assert [host.file(path).exists for path in sorted(ROOTS.values(), key=lambda path: path != root)] == [True, False]
    for run in runs():
        assert host.file(f"{root}/{run.name}").mode == 0o700
        assert sorted(host.file(f"{root}/{run.name}").listdir()) == ["burnin-node.pyz", "options.json"]
        assert host.file(f"{root}/{run.name}/burnin-node.pyz").mode == 0o700
        assert host.file(f"{root}/{run.name}/options.json").mode == 0o600
    assert host.run("ls -d ~/.ansible/tmp/*").rc != 0


def test_a_node_that_must_not_go_on_is_refused_in_words_and_nothing_is_changed(host) -> None:
    name = name_of(host)
    listing = f"find {ROOTS[name]} /etc /run/systemd/transient /srv -type f -exec sha256sum {{}} + | sort"
    before = host.check_output(listing)

    # A copy of the last run's folder, under the same run id: what the nodes said in that run is read by the other tests.
    folder = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "refused" / runs()[-1].name
    shutil.copytree(runs()[-1], folder, dirs_exist_ok=True)
    refused = verify.play("refuse.yml", REFUSE_FOLDER=str(folder))

    assert refused["rc"] == 2
    assert refused["changed"] == []
    told = {failed["host"]: failed["message"] for failed in refused["failed"]}
    assert {failed["task"] for failed in refused["failed"]} == {LOOK}
    assert "EVIDENCE_SPACE: /var/lib/burnin has " in told["node-1"]
    assert "MiB free, 999999999 are needed. Make room, or set burnin_run_root" in told["node-1"]
    assert told["node-2"].startswith("NIC_MISSING: 7 of 8 adapter ports")
    assert "none beside 0000:5d:00.0 (slot 24)" in told["node-2"]
    assert "PCIE_WIDTH_LOW" not in told["node-2"], "what is accepted does not fail the node"
    assert len(before.splitlines()) > 10
    assert host.check_output(listing) == before
