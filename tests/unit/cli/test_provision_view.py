"""What `burnin provision` prints, for people and machines, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from burnin.adapters.ledger import Event, HostResult, HostState
from burnin.cli.provision import finish
from burnin.stages.provisioned import Story, document

DRIVER = {
    "group": "driver",
    "version": "580.126.09",
    "installed": {f"nvidia-{n}": "580.126.09-1" for n in range(12)},
    "files": ["/etc/a", "/etc/b"],
}
NCCL = {"group": "nccl", "version": "2.28.3", "upgraded": {"libnccl2": ["2.27.7", "2.28.3"]}}
REASON = {"found": "the module nvidia 570.86.15 is loaded"}
REBOOTED = {"state": "rebooted", "reasons": [REASON], "seconds": 412.4, "found_before": {"boot_id": "A"}, "found": {"boot_id": "B"}}


def made(*, check: bool = False) -> dict[str, Any]:
    changed, failed = Story(), Story()
    for event in (
        Event("n1", "Install", "changed", DRIVER),
        Event("n1", "Install", "changed", NCCL),
        Event("n1", "Reboot", "changed", REBOOTED),
    ):
        changed.hear(event)
    changed.end(HostResult("n1", HostState.OK), cancelled=False, check=check)
    failed.hear(Event("n2", "Install | Put it in place", "failed", {"code": "LOCKED"}, "dpkg is locked by process 7; wait for it\x1b[31m"))
    failed.end(HostResult("n2", HostState.FAILED, None, "dpkg ..."), cancelled=False, check=check)
    return document("R", {"n1": changed, "n2": failed}, check=check, notes=["BRANCH_ENDED: soon"])


def test_a_person_sees_what_changed_what_failed_and_where_more_is(capsys: pytest.CaptureFixture[str]) -> None:
    code = finish(Path("/runs/R"), made(), as_json=False)

    text = " ".join(capsys.readouterr().out.split())
    assert code == 10
    assert text.index("failed n2") < text.index("changed n1"), "the worst first"
    for told in (
        "driver 580.126.09: installed 12, files 2",
        "moved libnccl2",
        "rebooted in 412 s",
        "[LOCKED]",
        "process 7",
        "Note: BRANCH_ENDED",
    ):
        assert told in text
    assert "2 nodes: 1 rebooted, 1 changed, 1 failed" in text
    assert "/runs/R/provision.json" in text
    assert "\x1b[31m" not in text


def refused(drives: dict[str, str], erase_file: str | None) -> dict[str, Any]:
    story = Story()
    story.hear(Event("n1", "Array | Make it", "failed", {"code": "DISK_NOT_BLANK", "erase": drives}, "S1 holds ext4"))
    story.end(HostResult("n1", HostState.FAILED), cancelled=False, check=False)
    return document("R", {"n1": story}, check=False, erase_file=erase_file)


def test_a_person_sees_the_drives_that_hold_something_and_the_way_to_have_them_erased(capsys: pytest.CaptureFixture[str]) -> None:
    code = finish(None, refused({"S1": "ext4 labelled 'x'", "S2": ""}, "/runs/R/erase.yml"), as_json=False)

    text = " ".join(capsys.readouterr().out.split())
    assert code == 10
    assert "n1: drive S1 holds ext4 labelled 'x' n1: drive S2 holds something" in text
    assert "read /runs/R/erase.yml, then the same again with -e @/runs/R/erase.yml" in text
    assert "[DISK_NOT_BLANK]" in text


def test_of_many_drives_the_first_are_shown_and_the_rest_counted(capsys: pytest.CaptureFixture[str]) -> None:
    finish(None, refused({f"S{n:02}": "xfs" for n in range(62)}, "/e.yml"), as_json=False)

    text = capsys.readouterr().out
    assert text.count(": drive S") == 60
    assert "2 more drives" in text


def test_without_a_want_of_consent_nothing_is_said_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    finish(None, made(), as_json=False)

    assert "erase" not in capsys.readouterr().out


def test_a_machine_gets_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    code = finish(None, made(check=True), as_json=True)

    told = json.loads(capsys.readouterr().out)
    assert code == 10
    assert told["schema"] == "burnin.provision/1"
    assert [node["state"] for node in told["nodes"]] == ["would_change", "failed"]


def test_what_the_other_modules_did_is_told_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burnin.cli.out.LOG_WIDTH", 400)
    story = Story()
    settings = {
        "iommu": {"changed": True, "before": "translates", "after": "passthrough"},
        "memlock": {"changed": False, "before": "unlimited", "after": "unlimited"},
    }
    array = {"device": "/dev/md/scratch", "members": ["S1", "S2", "S3", "S4"]}
    for task, data in (
        ("Cuda | Default", {"group": "cuda", "version": "13.0.2", "alternatives": ["cuda -> /usr/local/cuda-13.0"]}),
        ("Tune", {"settings": settings, "reboot": "kernel command line"}),
        ("Array | Make it", {"state": "created", "array": array, "erase": {"S2": "ext4 'old'"}}),
    ):
        story.hear(Event("n1", task, "changed", data))
    story.end(HostResult("n1", HostState.OK), cancelled=False, check=True)
    told = document("R", {"n1": story}, check=True)

    finish(None, told, as_json=False)

    text = capsys.readouterr().out
    assert "cuda 13.0.2: alternatives cuda -> /usr/local/cuda-13.0" in text
    assert "Tune: settings iommu: translates -> passthrough" in text
    assert "memlock" not in text
    assert "created /dev/md/scratch of 4 drives, erased S2 (ext4 'old')" in text
    assert told["nodes"][0]["reboot"]["state"] == "would_reboot"
