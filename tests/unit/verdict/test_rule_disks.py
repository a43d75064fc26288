"""Drives in the verdict: held against like drives, and judged by their health log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from burnin.outcome import Outcome
from burnin.report.document import read
from burnin.verdict.document import outcomes
from unit.verdict import folders
from unit.verdict.folders import Folder, Json

STEP = {"name": "drives", "test": "nvme_read", "starts": 2, "warmup_s": 1, "window_s": 3, "windows": 3}
PLAN = {**folders.PLAN, "steps": [*folders.PLAN["steps"], STEP]}
SMART = {"critical_warning": 0, "media_errors": 0, "percentage_used": 0, "temp_c": 40, "problem": None}


def drives(
    nodes: int = 4, each: int = 4, value: float = 6.0, before: Json | None = None, after: Json | None = None, **first: Any
) -> Folder:
    """Sound nodes with drives; the first drive of n0 reads `value`, says `before` and `after` in its log, and `first` of itself.

    gone=True: it is not there at the second look; windows=N: so many of its six.
    """
    base = folders.folder(nodes=nodes)
    made = {}
    for name, files in base.nodes.items():
        journal = [json.loads(line) for line in (files.journal or "").splitlines()]
        lines = files.measurements or ""
        identity = json.loads(files.identity or "")
        looks = [[], []]  # type: list[list[Json]]
        for number in range(each):
            mine = name == "n0" and number == 0
            disk = {"disk": f"{name}S{number}", "serial": f"{name}S{number}", "model": "A", "firmware": "1", "size_bytes": 10**12}
            if mine:
                disk |= {key: told for key, told in first.items() if key in ("firmware", "serial")}
            looks[0].append({**disk, "smart": {**SMART, **((before or {}) if mine else {})}})
            if not (mine and first.get("gone")):
                looks[1].append({**disk, "smart": {**SMART, **((after or {}) if mine else {})}})
            cells = [(start, window) for start in (1, 2) for window in (1, 2, 3)][: first.get("windows", 6) if mine else 6]
            for start, window in cells:
                row = {**folders.record("x", folders.PLAN["steps"][0], start, window), "disk": disk["disk"], "test": "nvme_read"}
                slow = name == "n0" and number < first.get("slow", 1)
                row |= {"step": "drives", "unit": "GB/s", "value": value if slow else 6.0, "seed": 1000 + start}
                del row["gpu"]
                lines += json.dumps(row) + "\n"
        ended = journal.pop()
        journal += [
            {"event": "window", "step": "drives", "test": "nvme_read", "start": start, "window": window}
            for start in (1, 2)
            for window in (1, 2, 3)
        ]
        identity["before"]["disks"], identity["after"]["disks"] = looks
        made[name] = folders.NodeFiles(json.dumps(identity), folders.lines([*journal, ended]), lines, files.collected)
    return Folder({**base.run, "plan": PLAN}, made)


def first_disk(folder: Folder) -> tuple[str, set[str]]:
    document = folder.document()
    disk = next(one for one in document["disks"] if one["disk"] == "n0S0")
    return disk["verdict"], {one["code"] for one in disk["findings"]}


def test_sound_drives_pass_and_no_gpu_is_touched() -> None:
    document = drives().document()

    assert {one["verdict"] for one in document["disks"]} == {"PASS"}
    assert len(document["disks"]) == 16
    assert {one["verdict"] for one in document["gpus"] + document["nodes"]} == {"PASS"}
    assert document["summary"]["gpus"] == 32
    assert len(read(document).disks) == 16


@pytest.mark.parametrize(
    ("value", "verdict", "code"),
    [
        pytest.param(5.7, "PASS", "DISK_OK", id="exactly 5 % below is not more"),
        pytest.param(5.69, "RMA", "DISK_BELOW_MEDIAN", id="more than 5 % below in two starts"),
    ],
)
def test_the_line_is_five_percent(value: float, verdict: str, code: str) -> None:
    assert first_disk(drives(value=value)) == (verdict, {code})


@pytest.mark.parametrize(("nodes", "each"), [(4, 3), (2, 8)], ids=["12 drives", "2 nodes"])
def test_a_small_cohort_condemns_and_passes_nobody(nodes: int, each: int) -> None:
    assert first_disk(drives(nodes, each)) == ("INCONCLUSIVE", {"DISK_COHORT_TOO_SMALL"})
    assert first_disk(drives(nodes, each, value=3.0)) == ("RETEST", {"DISK_BELOW_MEDIAN"})


@pytest.mark.parametrize(
    ("before", "after", "verdict", "code"),
    [
        pytest.param({}, {"critical_warning": 1}, "RMA", "DISK_CRITICAL_WARNING", id="a warning"),
        pytest.param({}, {"critical_warning": 2}, "RETEST", "DISK_CRITICAL_WARNING", id="heat alone is not the drive's"),
        pytest.param({"critical_warning": 1}, {"critical_warning": 2}, "RMA", "DISK_CRITICAL_WARNING", id="the bits of both looks count"),
        pytest.param({"media_errors": 1}, {"media_errors": 1}, "REVIEW", "DISK_MEDIA_ERRORS", id="an old media error"),
        pytest.param({}, {"media_errors": 1}, "RMA", "DISK_MEDIA_ERRORS", id="a media error of this run"),
        pytest.param({}, {"percentage_used": 5}, "PASS", "DISK_OK", id="wear at the limit"),
        pytest.param({}, {"percentage_used": 6}, "REVIEW", "DISK_WORN", id="wear over the limit"),
        pytest.param({"temp_c": 70}, {}, "PASS", "DISK_OK", id="as hot as the limit"),
        pytest.param({"temp_c": 71}, {}, "REVIEW", "DISK_HOT", id="hotter than the limit"),
        pytest.param({"media_errors": None}, {"media_errors": None}, "INCONCLUSIVE", "DISK_HEALTH_UNKNOWN", id="a log that does not tell"),
        pytest.param({}, {"media_errors": None}, "INCONCLUSIVE", "DISK_HEALTH_UNKNOWN", id="a log that fell silent under load"),
    ],
)
def test_health_is_judged_by_the_worse_look(before: Json, after: Json, verdict: str, code: str) -> None:
    assert first_disk(drives(before=before, after=after)) == (verdict, {code, "DISK_OK"})


def test_two_slow_drives_of_a_node_may_share_a_fault_and_neither_is_condemned() -> None:
    assert first_disk(drives(value=3.0, slow=1)) == ("RMA", {"DISK_BELOW_MEDIAN"})
    assert first_disk(drives(value=3.0, slow=2)) == ("RETEST", {"DISK_BELOW_MEDIAN"})


@pytest.mark.parametrize("serial", [None, "n1S0"], ids=["none", "another node's"])
def test_without_a_serial_of_its_own_no_drive_is_sent_back(serial: str | None) -> None:
    assert first_disk(drives(value=3.0, serial=serial)) == ("RETEST", {"DISK_BELOW_MEDIAN"})
    assert first_disk(drives(after={"critical_warning": 1}, serial=serial)) == ("RETEST", {"DISK_CRITICAL_WARNING", "DISK_OK"})


def test_without_a_second_look_no_drive_is_shown_to_be_healthy() -> None:
    whole = drives()
    identity = json.loads(whole.nodes["n0"].identity or "")
    del identity["after"]["disks"]
    files = folders.NodeFiles(json.dumps(identity), whole.nodes["n0"].journal, whole.nodes["n0"].measurements, whole.nodes["n0"].collected)

    assert first_disk(Folder(whole.run, {**whole.nodes, "n0": files})) == ("INCONCLUSIVE", {"DISK_HEALTH_UNKNOWN", "DISK_OK"})


def test_a_drive_that_went_away_fails_and_counts_for_the_exit_code() -> None:
    document = drives(gone=True).document()

    assert first_disk(drives(gone=True)) == ("FAIL", {"DISK_LOST"})
    assert Outcome.FAIL in outcomes(document)


def test_missing_windows_are_no_pass() -> None:
    assert first_disk(drives(windows=5)) == ("INCONCLUSIVE", {"DISK_NOT_MEASURED", "DISK_OK"})
    assert first_disk(drives(windows=2)) == ("INCONCLUSIVE", {"DISK_NOT_MEASURED", "DISK_TOO_FEW_WINDOWS"})


def test_another_firmware_than_most_is_told_and_not_compared() -> None:
    assert first_disk(drives(firmware="2")) == ("INCONCLUSIVE", {"DISK_FIRMWARE_DIFFERS", "DISK_COHORT_TOO_SMALL"})


def test_a_node_that_lists_no_drives_is_inconclusive() -> None:
    whole = drives()
    identity = json.loads(whole.nodes["n0"].identity or "")
    del identity["before"]["disks"]
    files = folders.NodeFiles(json.dumps(identity), whole.nodes["n0"].journal, whole.nodes["n0"].measurements, whole.nodes["n0"].collected)

    document = Folder(whole.run, {**whole.nodes, "n0": files}).document()

    assert {one["node"]: one["verdict"] for one in document["nodes"]}["n0"] == "INCONCLUSIVE"
