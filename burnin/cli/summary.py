"""The end of a verb: the document on stdout, as JSON or as a table that a person reads, and the exit code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from burnin.cli import out
from burnin.outcome import Outcome, exit_code
from burnin.status import NodeStatus
from burnin.verdict.document import dump, outcomes

STYLE = {"RMA": "bold white on red", "FAIL": "bold red", "RETEST": "yellow", "INCONCLUSIVE": "magenta", "REVIEW": "cyan", "PASS": "green"}
MOST_ROWS = 60
STANDING = ("running", "finished", "stopped")


def _text(value: object, style: str = "") -> Text:
    return Text("".join(letter for letter in str(value) if letter.isprintable())[:300], style=style)


def finish(folder: Path | None, document: Mapping[str, Any], *, as_json: bool) -> int:
    """Print the verdict and return the exit code. An empty document (a check run) is nothing to judge: 0."""
    if not document:
        return 0
    if as_json:
        out.write(dump(document))
    else:
        console = out.console()
        _print(console, document)
        if folder is not None:
            report = folder / "report.html"
            _path(console, "Report: ", report if report.exists() else folder / "verdict.json")
    return exit_code(outcomes(document))


def _path(console: Console, label: str, path: Path) -> None:
    console.print(Text(label).append(str(path), style="bold"), soft_wrap=True)


def _print(console: Console, document: Mapping[str, Any]) -> None:
    summary = document["summary"]
    counts = Text(f"{summary['gpus']} GPU{'' if summary['gpus'] == 1 else 's'}:  ")
    for outcome in Outcome:
        count = summary[outcome.value]
        counts.append(f" {outcome.value} {count} ", style=STYLE[outcome.value] if count else "dim").append("  ")
    rows = _rows(document)
    if rows:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for name in ("verdict", "part", "serial", "cause", "finding", "why"):
            table.add_column(name, overflow="fold", no_wrap=name in ("verdict", "serial"))
        for row in rows[:MOST_ROWS]:
            table.add_row(_text(row[0], STYLE[row[0]]), *(_text(cell) for cell in row[1:]))
        console.print(table)
        if len(rows) > MOST_ROWS:
            console.print(_text(f"… and {len(rows) - MOST_ROWS} more; the report lists them all", "dim"))
        console.print()
    console.print(counts)
    if document.get("simulated"):
        console.print(Text("Simulated GPUs: no part here is real.", style="bold yellow"))
    for note in document.get("notes", []):
        console.print(_text(f"Note: {note}", "yellow"))


def _rows(document: Mapping[str, Any]) -> list[tuple[str, str, str, str, str, str]]:
    """Everything that is not PASS, worst first; GPUs that share one node's fate in one row."""
    rows = []
    if document["fleet"]["verdict"] != "PASS":
        rows.append(_row(document["fleet"], "fleet", ""))
    rows += [_row(rack, f"rack {rack['rack']}", "") for rack in document["racks"] if rack["verdict"] != "PASS"]
    rows += [_row(node, f"node {node['node']}", "") for node in document["nodes"] if node["verdict"] != "PASS"]
    alike: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for gpu in document["gpus"]:
        if gpu["verdict"] != "PASS":
            alike.setdefault((str(gpu["node"] or gpu["gpu"]), gpu["verdict"], gpu["findings"][0]["code"]), []).append(gpu)
    for (node, verdict, _code), gpus in alike.items():
        if len(gpus) > 2 and verdict in ("INCONCLUSIVE", "RETEST", "REVIEW"):
            rows.append(_row(gpus[0], f"{len(gpus)} GPUs of {node}", ""))
        else:
            rows += [_row(gpu, _place(gpu), gpu["serial"] or "") for gpu in gpus]
    order = [outcome.value for outcome in Outcome]
    return sorted(rows, key=lambda row: order.index(row[0]))


def _place(gpu: Mapping[str, Any]) -> str:
    slot = "" if gpu["slot"] is None else f" slot {gpu['slot']}"
    where = f"{gpu['node']}{slot}" if gpu["node"] else ""
    return where if gpu["serial"] or gpu["gpu"] is None else f"{where} {gpu['gpu']}".strip()


def _row(judged: Mapping[str, Any], part: str, serial: str) -> tuple[str, str, str, str, str, str]:
    worst = judged["findings"][0] if judged["findings"] else {}
    codes = " ".join(dict.fromkeys(finding["code"] for finding in judged["findings"] if finding["outcome"] != "PASS"))
    return judged["verdict"], part, serial, worst.get("cause") or "", codes or "NOTHING_SHOWN", worst.get("why") or "Nothing was shown."


def show_status(states: Mapping[str, NodeStatus], *, as_json: bool) -> int:
    """Print node -> status; 11 when one does not answer or has gone, else 0."""
    if as_json:
        out.write(json.dumps({"nodes": {node: asdict(state) for node, state in states.items()}}, sort_keys=True) + "\n")
    else:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for name in ("node", "state", "minutes", "hottest", "throttling", "stage"):
            table.add_column(name)
        for node, state in sorted(states.items()):
            cells = (node, state.state, state.minutes, state.hottest, state.throttling or "", state.stage or state.why)
            table.add_row(*(_text(cell) for cell in cells))
        out.console().print(table)
    return 0 if states and all(state.state in STANDING for state in states.values()) else 11
