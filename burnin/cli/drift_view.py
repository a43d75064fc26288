"""What `burnin drift` prints: one row a code, with the nodes that have it; or one JSON document."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from burnin.cli import out
from burnin.cli.summary import STYLE
from burnin.outcome import exit_code
from burnin.stack.drift.document import outcomes
from burnin.status import count

MOST_FOUND, MOST_PARTS = 3, 24


def show_drift(document: Mapping[str, Any], *, as_json: bool) -> int:
    """Print it; its exit code: 0 none, 10 drift, 11 nothing worse than a node that was not seen."""
    if as_json:
        out.write(json.dumps(document, indent=2, sort_keys=True) + "\n")
        return exit_code(outcomes(document))
    console = out.console()
    rows = document["findings"]
    if rows:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0), header_style="dim")
        for name in ("", "code", "nodes", "found", "what to do"):
            table.add_column(name, overflow="fold", no_wrap=name in ("", "code"))
        for row in rows:
            style = "dim" if row["accepted"] else STYLE[row["outcome"]]
            table.add_row(
                _text("accepted" if row["accepted"] else row["outcome"], style), _text(row["code"]), _text(_nodes(row)), _text(_found(row)),
                _text("; ".join(row["accepted"]) if row["accepted"] else row["action"]),
            )  # fmt: skip
        console.print(table)
    console.print(_summary(document))
    if any(not row["accepted"] for row in rows):
        console.print(_text("docs/runbooks/CODE.md says more of each code.", "dim"))
    return exit_code(outcomes(document))


def _text(value: object, style: str = "") -> Text:
    return Text("".join(letter for letter in str(value) if letter.isprintable()), style=style)


def _nodes(row: Mapping[str, Any]) -> str:
    named = folded(row["nodes"])
    return named if row["of"] == 1 else f"{len(row['nodes'])} of {row['of']}: {named}"


def _found(row: Mapping[str, Any]) -> str:
    """The commonest first; how often each, where the nodes differ."""
    told, nodes = row["found"], len(row["nodes"])
    shown = [one["found"] + (f" ({one['nodes']} of {nodes})" if len(told) > 1 else "") for one in told[:MOST_FOUND]]
    rest = f"; and {len(told) - MOST_FOUND} more (--json has all)" if len(told) > MOST_FOUND else ""
    expected = row["expected"] if row["outcome"] != "INCONCLUSIVE" else []
    return "; ".join(shown) + rest + (f". Expected: {expected[0]}" if len(expected) == 1 else "")


def folded(nodes: Iterable[str]) -> str:
    """gpu-01, gpu-02, gpu-03, gpu-07 -> gpu-[01-03,07]; names without a number as they are."""
    alike: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    plain: list[str] = []
    for node in sorted(set(nodes)):
        found = _last_number(node)
        if found is None:
            plain.append(node)
        else:
            before, number, after = found
            alike[before, after, len(number)].append(int(number))
    parts = plain + [_range(before, after, width, sorted(numbers)) for (before, after, width), numbers in sorted(alike.items())]
    return ", ".join(parts[:MOST_PARTS]) + (f" and {len(parts) - MOST_PARTS} more (--json has all)" if len(parts) > MOST_PARTS else "")


def _last_number(node: str) -> tuple[str, str, str] | None:
    found = re.fullmatch(r"(.*?)([0-9]{1,9})([^0-9]*)", node)
    return (found[1], found[2], found[3]) if found else None


def _range(before: str, after: str, width: int, numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"{before}{numbers[0]:0{width}}{after}"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    told = [f"{run[0]:0{width}}" if len(run) == 1 else f"{run[0]:0{width}}-{run[-1]:0{width}}" for run in runs]
    return f"{before}[{','.join(told)}]{after}"


def _summary(document: Mapping[str, Any]) -> Text:
    summary = document["summary"]
    words = {"PASS": "clean", "FAIL": "drifted", "REVIEW": "to be looked at", "INCONCLUSIVE": "not seen", "RETEST": "to be retested"}
    line = Text(f"{count(summary['nodes'], 'node')}: ")
    told = [(f"{summary[outcome]} {word}", STYLE[outcome]) for outcome, word in words.items() if summary[outcome]]
    for number, (text, style) in enumerate(told):
        line.append(", " if number else "").append(text, style=style)
    return line
