"""Start, look at, stop and pack a run on this node. The run itself lives on without whoever started it.

A run folder on the node holds burnin-node.pyz, plan.json, options.json and evidence/. Whoever holds the lock on agent.lock is the run:
that survives reused process ids, and goes away with the process however it ends.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

from burnin.node.backends import open_backend
from burnin.node.plan import parse_plan
from burnin.node.records import now, read_journal, write_whole

LOCK = "agent.lock"
STOP_PATIENCE_S = 25.0
START_PATIENCE_S = 20.0
RUNTIME_FACTOR, RUNTIME_SLACK_S = 1.5, 900


class SuperviseProblem(RuntimeError):
    """The run could not be started or stopped; the message says what was found and what to do."""


def hold_lock(evidence: Path) -> Optional[Any]:
    """The open lock file when this process now is the run; None when another one is."""
    file = (evidence / LOCK).open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    file.seek(0)
    file.truncate()
    file.write(str(os.getpid()))
    file.flush()
    return file


def running_pid(evidence: Path) -> Optional[int]:
    """The process id of the run, or None when nothing runs."""
    path = evidence / LOCK
    if not path.exists():
        return None
    with path.open("r+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            text = file.read().strip()
            return int(text) if text.isdigit() else -1
    return None


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


def start(run: Path, backend: str, supervisor: str, unit: str) -> Dict[str, Any]:
    """Begin or continue the run in the background. `supervisor`: systemd or process. Returns status and `changed`."""
    evidence = run / "evidence"
    evidence.mkdir(parents=True, exist_ok=True)
    before = status(run)
    if before["state"] in ("running", "finished"):
        return {**before, "changed": False}
    plan = parse_plan((run / "plan.json").read_text(encoding="utf-8"))
    command = [sys.executable, str(run / "burnin-node.pyz"), "run", "--plan", str(run / "plan.json"), "--out", str(evidence)]
    command += ["--backend", backend, "--options", str(run / "options.json")]
    if supervisor == "systemd":
        _start_unit(command, unit, plan.planned_s)
    elif supervisor == "process":
        with (run / "agent.log").open("ab") as log:
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/", close_fds=True)
    else:
        raise SuperviseProblem(f"supervisor {supervisor!r} is unknown; expected systemd or process")
    return {**_await_start(run, len(read_journal(evidence / "journal.jsonl"))), "changed": True}


def _start_unit(command: List[str], unit: str, planned_s: float) -> None:
    """A transient unit: it outlives the connection, ends at its limit at the latest, and takes its children with it."""
    properties = {
        "RuntimeMaxSec": str(int(planned_s * RUNTIME_FACTOR + RUNTIME_SLACK_S)),
        "KillMode": "mixed",
        "TimeoutStopSec": str(int(STOP_PATIENCE_S)),
        "OOMScoreAdjust": "-500",
    }
    argv = ["systemd-run", f"--unit={unit}", "--collect", "--quiet", "--description=burnin run on this node"]
    argv += [f"--property={name}={value}" for name, value in properties.items()]
    done = subprocess.run([*argv, "--", *command], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise SuperviseProblem(
            f"systemd-run for {unit} exited {done.returncode}: {done.stderr.strip()[:500]}; look at `systemctl status {unit}`"
        )


def _await_start(run: Path, known: int) -> Dict[str, Any]:
    """Wait until the journal shows the new attempt: a start that shows nothing has failed."""
    deadline = time.monotonic() + START_PATIENCE_S
    while time.monotonic() < deadline:
        if len(read_journal(run / "evidence" / "journal.jsonl")) > known:
            return status(run)
        time.sleep(0.05)
    log = run / "agent.log"
    tail = log.read_text(encoding="utf-8", errors="replace")[-500:].strip() if log.exists() else ""
    raise SuperviseProblem(f"the run wrote nothing to its journal within {START_PATIENCE_S:g} s; its log ends: {tail or '(empty)'}")


def stop(run: Path, unit: str) -> Dict[str, Any]:
    """End the run and prove that it ended. Harmless when nothing runs. Returns status and `changed`."""
    evidence = run / "evidence"
    if not evidence.is_dir() or running_pid(evidence) is None:
        return {**status(run), "changed": False}
    if shutil.which("systemctl") and Path("/run/systemd/system").is_dir():
        subprocess.run(["systemctl", "stop", unit], capture_output=True, timeout=STOP_PATIENCE_S + 30, check=False)
    for number in (signal.SIGTERM, signal.SIGKILL):
        pid = running_pid(evidence)
        if pid is None:
            break
        if pid > 1:
            os.kill(pid, number)
        deadline = time.monotonic() + STOP_PATIENCE_S
        while running_pid(evidence) is not None and time.monotonic() < deadline:
            time.sleep(0.05)
    if running_pid(evidence) is not None:
        raise SuperviseProblem(f"process {running_pid(evidence)} survived SIGKILL; it hangs in the kernel: the node needs a reboot")
    return {**status(run), "changed": True}


def _digest(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            total.update(block)
    return total.hexdigest()


def pack(run: Path, backend: str) -> Dict[str, Any]:
    """Put the evidence into evidence.tar beside it, with a manifest of checksums; samples compressed. Returns path, bytes, sha256, status."""
    evidence, staging = run / "evidence", run / "packed"
    if not evidence.is_dir():
        raise SuperviseProblem(f"{evidence} does not exist: this run never started here")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    options = json.loads((run / "options.json").read_text(encoding="utf-8")) if (run / "options.json").exists() else {}
    state = status(run)
    boot_id = open_backend(backend, options, run, 0).boot_id()
    write_whole(
        staging / "collected.json", {"state": state["state"], "boot_id": boot_id, "packed": now(), "reason": state.get("reason", "")}
    )
    for name in ("identity.json", "journal.jsonl", "measurements.jsonl"):
        if (evidence / name).exists():
            shutil.copyfile(evidence / name, staging / name)
    if (evidence / "samples.csv").exists():
        with (evidence / "samples.csv").open("rb") as plain, gzip.GzipFile(staging / "samples.csv.gz", "wb", 6, mtime=0) as packed:
            shutil.copyfileobj(plain, packed)
    if (run / "agent.log").exists():
        (staging / "raw").mkdir()
        shutil.copyfile(run / "agent.log", staging / "raw" / "agent.log")
    names = sorted(str(path.relative_to(staging)) for path in staging.rglob("*") if path.is_file())
    write_whole(staging / "manifest.json", {"schema": "burnin.manifest/1", "files": {name: _digest(staging / name) for name in names}})
    partial = run / "evidence.tar.partial"
    with tarfile.open(partial, "w") as tar:
        for name in ["manifest.json", *names]:
            tar.add(staging / name, arcname=name, recursive=False)
    partial.replace(run / "evidence.tar")
    shutil.rmtree(staging)
    packed_file = run / "evidence.tar"
    return {**state, "path": str(packed_file), "bytes": packed_file.stat().st_size, "sha256": _digest(packed_file)}
