"""What a run folder tells the next command: how far each node came, and the word of `burnin stop` to who drives the run."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burnin.adapters.run_files import read_node
from burnin.node.records import read_journal

LEDGER, STOP_WORD = "controller.jsonl", ".stop"
LARGEST_LEDGER_BYTES = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the ledger: what the controller saw of a node in a stage."""

    stage: str
    node: str
    state: str


def read_ledger(folder: Path) -> list[Line]:
    """The ledger's lines, oldest first; what cannot be read is left out."""
    try:
        with (folder / LEDGER).open("rb") as file:
            text = file.read(LARGEST_LEDGER_BYTES).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return [Line(*(str(entry.get(name, "")) for name in ("stage", "node", "state"))) for entry in _entries(text)]


def _entries(text: str) -> list[dict[str, Any]]:
    found = []
    for line in text.splitlines():
        with suppress(ValueError, RecursionError):
            entry = json.loads(line)
            if isinstance(entry, dict):
                found.append(entry)
    return found


def newest(lines: list[Line], stage: str) -> dict[str, str]:
    """node -> its newest state in this stage."""
    return {line.node: line.state for line in lines if line.stage == stage}


def journal_of(folder: Path, node_folder: str) -> Path:
    """Where a node's journal lies when it was collected."""
    return folder / "nodes" / node_folder / "journal.jsonl"


def begun(folder: Path, folders: Mapping[str, str]) -> set[str]:
    """The nodes (name -> folder) on which the run is known to have begun: a start went well, or something was collected."""
    started = {line.node for line in read_ledger(folder) if (line.stage, line.state) == ("start", "ok")}
    return {node for node, name in folders.items() if node in started or journal_of(folder, name).is_file()}


def holds_all(folder: Path, node_folder: str) -> bool:
    """Whether a node's whole run is here: its journal ends with the run's end, and no file lacks its checksum."""
    journal = journal_of(folder, node_folder)
    last = (read_journal(journal) or [{}])[-1]
    return last.get("event") == "run_ended" and last.get("complete") is True and not read_node(journal.parent).problems


def say_stop(folder: Path) -> None:
    """Tell who drives this run that it is to end, also where a node has not begun yet. A full disk does not keep the stop from its work."""
    with suppress(OSError):
        (folder / STOP_WORD).write_text(secrets.token_hex(8), encoding="utf-8")


def stop_word(folder: Path) -> str:
    """The newest word of a stop; another one than before means that somebody asked meanwhile."""
    try:
        return (folder / STOP_WORD).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
