"""Start, look at and stop a run on this node. The run itself lives on without whoever started it.

A run folder on the node holds burnin-node.pyz, plan.json, options.json and evidence/. Whoever holds the lock in evidence/ is the run.
Start and stop take turns: a stop waits until a start has shown what became of it, and a start told as failed leaves nothing running.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Dict, List, Optional

from burnin.node.lock import ask_stop, asked_s, hold_lock, running_pid, take_turn
from burnin.node.ownership import check_owner
from burnin.node.plan_file import read_plan
from burnin.node.records import Journal, read_journal

PROGRAM, LOG = "burnin-node.pyz", "agent.log"
STOP_PATIENCE_S = 25.0
START_PATIENCE_S = 20.0
UNIT_PATIENCE_S = 60.0
TURN_PATIENCE_S = UNIT_PATIENCE_S + START_PATIENCE_S + 10  # longer than a start can last
UNDER_WAY = ("active", "activating", "deactivating", "reloading")
RUNTIME_FACTOR, RUNTIME_SLACK_S = 1.5, 900
PAUSE_S = 0.05


class SuperviseProblem(RuntimeError):
    """The run could not be started, stopped or packed; the message says what was found and what to do."""


def _progress(evidence: Path) -> Dict[str, Any]:
    try:
        found = json.loads((evidence / "progress.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def status(run: Path) -> Dict[str, Any]:
    """How the run stands: state is absent, running, finished, stopped, died or failed; the rest is its newest progress."""
    evidence = run / "evidence"
    if not evidence.is_dir():
        return {"state": "absent"}
    pid = running_pid(evidence)
    told = _progress(evidence)
    events = read_journal(evidence / "journal.jsonl")
    last = events[-1] if events else {}
    if pid is not None:
        state = "running"
    elif last.get("event") == "run_ended":
        state = "finished"
    elif last.get("event") in ("stopped", "failed"):
        state = str(last["event"])
    else:
        state = "died" if events else "absent"
    told.update({"state": state, "last_event": last.get("event"), "reason": str(last.get("reason", ""))[:300], "pid": pid})
    return told


def start(run: Path, backend: str, supervisor: str, unit: str, begun: bool = False) -> Dict[str, Any]:
    """Begin or continue the run in the background. `supervisor`: systemd or process. Returns status and `changed`.

    `begun`: it is known to have begun here. Then it is only continued: where its evidence is gone the answer is absent, and nothing runs.
    """
    plan, evidence = read_plan(run / "plan.json"), run / "evidence"
    if not (run / PROGRAM).is_file():
        raise SuperviseProblem(f"{run / PROGRAM} does not exist; copy the node program there first")
    if supervisor not in ("systemd", "process"):
        raise SuperviseProblem(f"supervisor {supervisor!r} is unknown; expected systemd or process")
    check_owner(evidence, plan, backend)
    turn = take_turn(run, TURN_PATIENCE_S)
    if turn is None:
        raise SuperviseProblem(f"another start or stop has been at work on {run} for {TURN_PATIENCE_S:g} s; see what hangs on this node")
    with turn:
        before = status(run)
        if before["state"] in ("running", "finished") or (begun and before["state"] == "absent"):
            return {**before, "changed": False}
        evidence.mkdir(parents=True, exist_ok=True)
        return {**_begin(run, _command(run, backend), supervisor, unit, plan.planned_s), "changed": True}


def _command(run: Path, backend: str) -> List[str]:
    """The run's own command line. `--asked` lets the run see a stop that came while it was on its way."""
    command = [sys.executable, str(run / PROGRAM), "run", "--plan", str(run / "plan.json"), "--out", str(run / "evidence")]
    command += ["--backend", backend, "--asked", repr(asked_s())]
    return [*command, "--options", str(run / "options.json")] if (run / "options.json").exists() else command


def _begin(run: Path, command: List[str], supervisor: str, unit: str, planned_s: float) -> Dict[str, Any]:
    """Start the process and wait for its word. What does not give it is ended: nobody would look after it."""
    known = len(read_journal(run / "evidence" / "journal.jsonl"))
    child = None
    if supervisor == "systemd":
        _start_unit(run, command, unit, planned_s)
    else:
        with (run / LOG).open("ab") as log:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/")
    try:
        return _await_start(run, known, child, unit)
    except SuperviseProblem:
        if child is not None:
            child.kill()
            with suppress(subprocess.TimeoutExpired):
                child.wait(STOP_PATIENCE_S)
        else:
            _stop_unit(unit)
        raise


def _start_unit(run: Path, command: List[str], unit: str, planned_s: float) -> None:
    """A transient unit: it outlives the connection, ends at its limit at the latest, and takes its children with it."""
    properties = {
        "RuntimeMaxSec": str(int(planned_s * RUNTIME_FACTOR + RUNTIME_SLACK_S)),
        "KillMode": "mixed",
        "TimeoutStopSec": str(int(STOP_PATIENCE_S)),
        "OOMScoreAdjust": "-500",
    }
    program = shutil.which("systemd-run")
    if program is None:
        raise SuperviseProblem("systemd-run is not on this node; use --supervisor process")
    argv = [program, f"--unit={unit}", "--collect", "--quiet", "--description=burnin run on this node"]
    argv += [f"--property={name}={value}" for name, value in properties.items()]
    try:
        done = subprocess.run([*argv, "--", *command], capture_output=True, text=True, timeout=UNIT_PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        raise SuperviseProblem(f"systemd-run did not answer within {UNIT_PATIENCE_S:g} s; is systemd well on this node?") from None
    if done.returncode != 0 and running_pid(run / "evidence") is None:  # two starts at once: the other one made the unit
        raise SuperviseProblem(
            f"systemd-run for {unit} exited {done.returncode}: {done.stderr.strip()[:500]}; look at `systemctl status {unit}`"
        )


def _await_start(run: Path, known: int, child: Optional[subprocess.Popen[bytes]], unit: str) -> Dict[str, Any]:
    """Wait until the journal shows the new attempt: a start that shows nothing, or only why it cannot, has failed."""
    deadline = time.monotonic() + START_PATIENCE_S
    gone = False
    while time.monotonic() < deadline and not gone:
        gone = child is not None and child.poll() is not None
        events = read_journal(run / "evidence" / "journal.jsonl")
        if len(events) > known:
            if events[-1]["event"] == "failed":  # asked of the journal: the process may still be on its way out
                raise SuperviseProblem(f"the run could not start: {str(events[-1].get('reason'))[:300]}")
            return status(run)
        time.sleep(PAUSE_S)
    log = run / LOG
    tail = log.read_text(encoding="utf-8", errors="replace")[-500:].strip() if log.exists() else f"see `journalctl -u {unit}`"
    what = "the run ended without a line in its journal" if gone else f"the run wrote nothing to its journal within {START_PATIENCE_S:g} s"
    raise SuperviseProblem(f"{what}; its log ends: {tail or '(empty)'}")


def stop(run: Path, unit: str) -> Dict[str, Any]:
    """End the run and prove that it ended. Harmless when nothing runs. Returns status and `changed`."""
    turn = _turn_of_stop(run)
    try:
        return _stop(run, run / "evidence", unit)
    finally:
        if turn is not None:
            turn.close()


def _turn_of_stop(run: Path) -> Optional[IO[str]]:
    """Leave the mark, then wait for a start that is under way. Neither a start that hangs nor a full disk keeps a stop from its work."""
    if not run.is_dir():
        return None
    try:
        ask_stop(run)
        return take_turn(run, TURN_PATIENCE_S)
    except OSError:
        return None


def _stop(run: Path, evidence: Path, unit: str) -> Dict[str, Any]:
    ran = evidence.is_dir() and running_pid(evidence) is not None
    ran = _stop_unit(unit) or ran  # also where no run is seen: it may not have taken its lock yet, or its folder is gone
    if not ran or not evidence.is_dir():
        return {**status(run), "changed": ran}
    for number in (signal.SIGTERM, signal.SIGKILL):
        if _signalled_and_gone(evidence, number):
            break
    else:
        raise SuperviseProblem(f"process {running_pid(evidence)} survived SIGKILL; it hangs in the kernel: the node needs a reboot")
    _tell_stopped(evidence)
    return {**status(run), "changed": True}


def _stop_unit(unit: str) -> bool:
    """End the unit; whether there was one under way."""
    program = shutil.which("systemctl")
    if program is None or not Path("/run/systemd/system").is_dir():
        return False
    ask = [program, "show", "--property=ActiveState", "--value", unit]
    try:
        found = subprocess.run(ask, capture_output=True, text=True, timeout=UNIT_PATIENCE_S, check=False).stdout.strip() in UNDER_WAY
        subprocess.run([program, "stop", unit], capture_output=True, timeout=STOP_PATIENCE_S + 30, check=False)
    except subprocess.TimeoutExpired:
        return False  # the signals, and the lock, decide
    return found


def _signalled_and_gone(evidence: Path, number: signal.Signals) -> bool:
    """Signal whoever holds the lock until it is free or patience ends. Only a process proven to hold it is signalled, and only once."""
    deadline = time.monotonic() + STOP_PATIENCE_S
    told = None
    while True:
        pid = running_pid(evidence)
        if pid is None:
            return True
        if pid > 1 and pid != told:
            told = pid
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        if time.monotonic() >= deadline:
            return False
        time.sleep(PAUSE_S)


def _tell_stopped(evidence: Path) -> None:
    """A run that had to be killed leaves no last word: it was stopped by us, and did not die by itself."""
    lock = hold_lock(evidence)
    if lock is None:
        return  # somebody started it again in between
    with lock:
        events = read_journal(evidence / "journal.jsonl")
        if not events or events[-1]["event"] not in ("stopped", "failed", "run_ended"):
            journal = Journal(evidence / "journal.jsonl")
            journal.event(
                "stopped", attempt=sum(event["event"] == "run_started" for event in events), reason="SIGKILL: it did not end by itself"
            )
            journal.close()
