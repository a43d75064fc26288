"""How a run stands, and how it is ended: only what is proven to be the run is ever signalled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from burnin.node import supervise
from burnin.node.lock import LOCK, asked_s, stop_asked, take_turn
from burnin.node.plan import PlanProblem
from burnin.node.records import Journal, read_journal
from burnin.node.supervise import SuperviseProblem, start, status, stop

PLAN = {"schema": "burnin.plan/1", "run_id": "r", "steps": [{"test": "gemm_bf16", "windows": 1, "window_s": 1}]}
HOLD = """
import fcntl, os, signal, sys, time
if sys.argv[2] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
file = open(sys.argv[1], "a+")
fcntl.flock(file, fcntl.LOCK_EX)
file.truncate(0); file.write(str(os.getpid())); file.flush()
print("held", flush=True)
time.sleep(60)
"""


def journal(run: Path, *names: str) -> None:
    (run / "evidence").mkdir(exist_ok=True)
    lines = Journal(run / "evidence" / "journal.jsonl")
    for name in names:
        lines.event(name)
    lines.close()


@pytest.fixture
def holder(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is the run; `deaf` to SIGTERM or not."""
    journal(tmp_path, "run_started")
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "evidence" / LOCK), request.param], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    # Nobody else waits for it: a zombie holds no lock.
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize(
    ("names", "state"),
    [
        pytest.param((), "absent", id="an empty folder"),
        pytest.param(("run_started",), "died", id="a run that ended without a word"),
        pytest.param(("run_started", "stopped"), "stopped", id="a run that was stopped"),
        pytest.param(("failed",), "failed", id="a run that could not start"),
        pytest.param(("run_started", "run_ended"), "finished", id="a run that is complete"),
        pytest.param(("run_started", "stopped", "run_started"), "died", id="a run taken up again that died"),
    ],
)
def test_how_a_run_stands(tmp_path: Path, names: tuple[str, ...], state: str) -> None:
    journal(tmp_path, *names)

    assert state == status(tmp_path)["state"]


@pytest.mark.parametrize("left", ["", "{", "[1]", "\udc80"])
def test_progress_that_cannot_be_read_hides_no_state(tmp_path: Path, left: str) -> None:
    journal(tmp_path, "run_started", "run_ended")
    (tmp_path / "evidence" / "progress.json").write_bytes(left.encode("utf-8", "surrogateescape"))

    assert status(tmp_path)["state"] == "finished"


@pytest.mark.parametrize("make", [(), ("run",), ("run", "run/evidence")])
def test_folders_that_are_not_or_half_there(tmp_path: Path, make: tuple[str, ...]) -> None:
    for name in make:
        (tmp_path / name).mkdir()

    assert status(tmp_path / "run")["state"] == "absent"
    assert stop(tmp_path / "run", "burnin-test") == {**status(tmp_path / "run"), "changed": False}


def test_stopping_a_complete_run_changes_nothing(tmp_path: Path) -> None:
    journal(tmp_path, "run_started", "run_ended")
    (tmp_path / "evidence" / LOCK).write_text(str(os.getppid()))
    before = (tmp_path / "evidence" / "journal.jsonl").read_bytes()

    told = stop(tmp_path, "burnin-test")

    assert (told["state"], told["changed"]) == ("finished", False)
    assert before == (tmp_path / "evidence" / "journal.jsonl").read_bytes()


@pytest.mark.parametrize("holder", ["deaf"], indirect=True)
def test_a_run_that_ignores_sigterm_is_killed_and_the_journal_says_who_did_it(
    tmp_path: Path, holder: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "STOP_PATIENCE_S", 0.5)

    told = stop(tmp_path, "burnin-test")

    assert holder.wait(5) == -signal.SIGKILL
    assert (told["state"], told["changed"]) == ("stopped", True)
    assert "SIGKILL" in read_journal(tmp_path / "evidence" / "journal.jsonl")[-1]["reason"]


@pytest.mark.parametrize("holder", ["obedient"], indirect=True)
def test_a_process_whose_number_only_stands_in_the_file_is_left_alone(
    tmp_path: Path, holder: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "STOP_PATIENCE_S", 0.3)
    with subprocess.Popen(["/bin/sleep", "60"]) as bystander:
        (tmp_path / "evidence" / LOCK).write_text(str(bystander.pid))

        with pytest.raises(SuperviseProblem, match="process -1"):
            stop(tmp_path, "burnin-test")

        assert (bystander.poll(), holder.poll()) == (None, None)
        bystander.kill()


@pytest.mark.parametrize("holder", ["obedient"], indirect=True)
def test_the_number_is_waited_for_when_the_lock_is_taken_first(
    tmp_path: Path, holder: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evidence" / LOCK).write_text("")
    slept: list[float] = []

    def nap(seconds: float) -> None:
        slept.append(seconds)
        (tmp_path / "evidence" / LOCK).write_text(str(holder.pid))
        real_sleep(0.01)

    real_sleep = time.sleep
    monkeypatch.setattr(supervise.time, "sleep", nap)

    assert stop(tmp_path, "burnin-test")["changed"] is True
    assert holder.wait(5) == -signal.SIGTERM
    assert slept


def fake_systemctl(folder: Path, monkeypatch: pytest.MonkeyPatch, state: str) -> Path:
    """A systemctl that says that the unit is in this state, and writes down what it was asked for."""
    asked = folder / "asked"
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / "systemctl").write_text(f'#!/bin/sh\necho "$@" >> {asked}\n[ "$1" = show ] && echo {state}\nexit 0\n')
    (folder / "bin" / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:/bin:/usr/bin")
    real = Path.is_dir
    monkeypatch.setattr(Path, "is_dir", lambda path: str(path) == "/run/systemd/system" or real(path))
    return asked


@pytest.mark.parametrize(("state", "changed"), [("activating", True), ("active", True), ("inactive", False)])
@pytest.mark.parametrize("made", [True, False], ids=["a run whose process has not come to its lock", "a run whose folder is gone"])
def test_the_unit_is_stopped_also_where_no_run_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, changed: bool, made: bool
) -> None:
    asked, run = fake_systemctl(tmp_path, monkeypatch, state), tmp_path / "run"
    if made:
        (run / "evidence").mkdir(parents=True)

    told = stop(run, "burnin-r")

    assert asked.read_text().splitlines()[-1] == "stop burnin-r"
    assert (told["changed"], told["state"]) == (changed, "stopped" if made and changed else "absent")


def test_a_start_that_is_told_as_failed_leaves_nothing_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "START_PATIENCE_S", 0.5)
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    (tmp_path / "burnin-node.pyz").write_text(
        f"import os, pathlib, time; pathlib.Path({str(tmp_path)!r}, 'pid').write_text(str(os.getpid())); time.sleep(60)"
    )

    with pytest.raises(SuperviseProblem, match="wrote nothing to its journal"):
        start(tmp_path, "sim", "process", "u")

    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


def test_neither_a_start_that_hangs_nor_a_full_disk_keeps_a_stop_from_its_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "TURN_PATIENCE_S", 0.2)
    asked = fake_systemctl(tmp_path, monkeypatch, "active")
    journal(tmp_path, "run_started")

    with take_turn(tmp_path, 0) or pytest.fail("no turn"):
        assert stop(tmp_path, "u1")["changed"] is True
        assert stop_asked(tmp_path, asked_s())
        with pytest.raises(SuperviseProblem, match="another start or stop"):
            (tmp_path / "plan.json").write_text(json.dumps(PLAN))
            (tmp_path / "burnin-node.pyz").touch()
            start(tmp_path, "sim", "process", "u")

    def full(_run: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(supervise, "ask_stop", full)
    assert stop(tmp_path, "u2")["changed"] is True
    assert [line for line in asked.read_text().splitlines() if line.startswith("stop")] == ["stop u1", "stop u2"]


def test_a_start_without_plan_or_program_touches_nothing(tmp_path: Path) -> None:
    with pytest.raises(PlanProblem, match="cannot read"):
        start(tmp_path, "sim", "process", "u")
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    with pytest.raises(SuperviseProblem, match=r"burnin-node\.pyz does not exist"):
        start(tmp_path, "sim", "process", "u")

    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.parametrize("left", [None, "", "evidence"], ids=["no folder", "no journal", "a journal"])
def test_a_run_that_had_begun_here_is_continued_and_never_begun_anew(tmp_path: Path, left: str | None) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    (tmp_path / "burnin-node.pyz").write_text("raise SystemExit('it was started')")
    if left is not None:
        journal(tmp_path, *(["stopped"] if left else []))

    if left:
        with pytest.raises(SuperviseProblem, match="it was started"):
            start(tmp_path, "sim", "process", "u", begun=True)
    else:
        told = start(tmp_path, "sim", "process", "u", begun=True)
        assert (told["state"], told["changed"]) == ("absent", False)
        with pytest.raises(SuperviseProblem, match="it was started"):
            start(tmp_path, "sim", "process", "u")


def test_a_program_that_dies_at_once_is_told_with_its_log(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    (tmp_path / "burnin-node.pyz").write_text("raise SystemExit('no such luck')")

    begun = time.monotonic()
    with pytest.raises(SuperviseProblem, match=r"ended without a line in its journal; its log ends: no such luck"):
        start(tmp_path, "sim", "process", "u")

    assert time.monotonic() - begun < 10


def test_a_program_that_cannot_go_on_is_told_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    (tmp_path / "burnin-node.pyz").write_text(
        'import pathlib, sys\npathlib.Path(sys.argv[sys.argv.index(\'--out\') + 1], \'journal.jsonl\').write_text(\'{"event": "failed", "reason": "no luck"}\\n\')'
    )

    with pytest.raises(SuperviseProblem, match="the run could not start: no luck"):
        start(tmp_path, "sim", "process", "u")


def fake_systemd(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "systemd-run").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "bin" / "systemd-run").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:/bin:/usr/bin")
    (folder / "plan.json").write_text(json.dumps(PLAN))
    (folder / "burnin-node.pyz").write_text("")


def test_a_unit_is_bounded_in_time_and_gets_the_whole_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_systemd(
        tmp_path, monkeypatch, f'echo "$@" > {tmp_path}/argv; echo \'{{"event": "run_started"}}\' > {tmp_path}/evidence/journal.jsonl'
    )

    told = start(tmp_path, "sim", "systemd", "burnin-r")

    argv = (tmp_path / "argv").read_text()
    assert told["changed"] is True
    assert "--unit=burnin-r --collect" in argv
    assert "--property=RuntimeMaxSec=901" in argv
    assert f"burnin-node.pyz run --plan {tmp_path}/plan.json --out {tmp_path}/evidence --backend sim" in argv


def test_a_unit_that_does_not_start_is_told_in_systemds_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_systemd(tmp_path, monkeypatch, "echo 'Failed to start transient service unit' >&2; exit 1")

    with pytest.raises(SuperviseProblem, match="exited 1: Failed to start transient service unit"):
        start(tmp_path, "sim", "systemd", "burnin-r")


def test_a_systemd_that_hangs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_systemd(tmp_path, monkeypatch, "exec sleep 60")
    monkeypatch.setattr(supervise, "UNIT_PATIENCE_S", 0.2)

    with pytest.raises(SuperviseProblem, match="did not answer"):
        start(tmp_path, "sim", "systemd", "burnin-r")


def test_no_systemd_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_systemd(tmp_path, monkeypatch, "")
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(SuperviseProblem, match="use --supervisor process"):
        start(tmp_path, "sim", "systemd", "burnin-r")
