"""Whose evidence a folder holds. Evidence of two runs, two plans or two backends never mixes."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List

from burnin.node.plan import Plan
from burnin.node.records import read_journal


class FolderProblem(ValueError):
    """An --out folder that cannot hold this run; the message names it and says what to do."""


@dataclass(frozen=True)
class Before:
    """What earlier attempts left: how many there were, and whether the run is complete."""

    attempts: int
    finished: bool


def open_folder(out: Path) -> Path:
    """The folder, made if need be. Raises FolderProblem when it can be no folder of ours; a full disk stays an OSError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        raise FolderProblem(f"out: {out} cannot be made ({problem.strerror}); give another --out") from None
    if not os.access(out, os.W_OK | os.X_OK):
        raise FolderProblem(f"out: {out} cannot be written (read-only disk or no permission); give another --out")
    return out


def check_owner(out: Path, plan: Plan, backend: str) -> Before:
    """Raises FolderProblem when the folder's evidence is of another run, plan or backend. Reads only."""
    events = read_journal(out / "journal.jsonl")
    begun = [event for event in events if event["event"] == "run_started"]
    _refuse(out, "run_id", "run", {event["run_id"] for event in events if isinstance(event.get("run_id"), str)}, plan.run_id)
    _refuse(out, "plan_digest", "plan", _told(begun, "plan_digest"), plan.digest)
    _refuse(out, "backend", "backend", _told(begun, "backend"), backend)
    if not begun and _has_content(out / "measurements.jsonl"):
        raise FolderProblem(f"out: {out} holds measurements, and its journal names no run; give another --out, or move that folder away")
    return Before(len(begun), bool(events) and events[-1]["event"] == "run_ended")


def _told(events: List[Dict[str, Any]], name: str) -> set[str]:
    return {str(event[name]) for event in events if event.get(name)}


def _refuse(out: Path, field: str, what: str, found: set[str], ours: str) -> None:
    others = sorted(found - {ours})
    if others:
        raise FolderProblem(
            f"out: {out} holds the evidence of {what} {others[0][:80]!r}, this is {ours[:80]!r} ({field} in journal.jsonl); "
            f"evidence of two never mixes: give another --out"
        )


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0
