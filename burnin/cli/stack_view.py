"""What `burnin stack` prints: results on stdout, problems and notes on stderr, or one JSON document."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from burnin.stack.hardware import Hardware
from burnin.stack.model import Level
from burnin.stack.resolution import Resolution
from burnin.stages.stacking import Checked, plain

OK, BAD = 0, 2
LOG_WIDTH = 160


def _console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=LOG_WIDTH)


def _text(value: object, style: str = "") -> Text:
    return Text("".join(letter for letter in str(value) if letter.isprintable()), style=style)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def _print(document: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(document, indent=2, sort_keys=True) + "\n")
    sys.stdout.flush()


def _say(checked: Checked) -> None:
    """Every problem as a sentence, on stderr."""
    for problem in checked.problems:
        sys.stderr.write(f"burnin stack: {problem.level.value}: {_text(problem.sentence)}\n")
    if checked.ok and not checked.skus:
        sys.stderr.write("burnin stack: no SKU is named (skus in the file, or --sku): not checked against any GPU\n")


def _code(checked: Checked) -> int:
    return OK if checked.ok else BAD


def show_check(checked: Checked, *, as_json: bool) -> int:
    """The verdict on the file; its exit code."""
    if as_json:
        _print(checked.as_dict("burnin.stack.check/1"))
        return _code(checked)
    _say(checked)
    bad = [problem for problem in checked.problems if problem.level is Level.ERROR]
    console = _console()
    if bad:
        table = _table("field", "found", "expected", "what to do", "code")
        for problem in bad:
            table.add_row(*(_text(cell) for cell in (problem.field, problem.found, problem.expected, problem.remedy, problem.code)))
        console.print(table)
    warnings = len(checked.problems) - len(bad)
    console.print(_text(f"{checked.where}: {len(bad)} errors, {warnings} warnings", "bold red" if bad else "bold green"), soft_wrap=True)
    return _code(checked)


def show_packages(checked: Checked, made: Resolution | None, *, as_json: bool) -> int:
    """The packages of one distribution; the file's exit code. A file with errors comes to nothing."""
    usable = made if checked.ok else None
    if as_json:
        _print({**checked.as_dict("burnin.stack.packages/1"), "resolution": usable.as_dict() if usable else None})
        return _code(checked)
    _say(checked)
    if usable is not None:
        _resolution(_console(), usable)
    return _code(checked)


def show_host(checked: Checked, hardware: Hardware, made: Mapping[str, Resolution], *, one: bool, as_json: bool) -> int:
    """The stack of one host; its exit code. `one`: a distribution was named, so its packages are shown in full."""
    usable = made if checked.ok else {}
    understood = plain(checked.stack) if checked.stack else None
    if as_json:
        resolved = {name: each.as_dict() for name, each in usable.items()}
        document = {"stack": understood, "hardware": asdict(hardware), "resolutions": resolved}
        _print({**checked.as_dict("burnin.stack.show/1"), **document})
        return _code(checked)
    _say(checked)
    console = _console()
    if checked.stack is not None:
        console.print(_stack(checked, hardware))
    for each in usable.values():
        console.print()
        if one:
            _resolution(console, each)
        else:
            console.print(
                _text(each.distro, "bold"),
                _text(" ".join(package.spec for group in each.groups for package in group.packages)),
                soft_wrap=True,
            )
    return _code(checked)


def _stack(checked: Checked, hardware: Hardware) -> Table:
    stack = checked.stack
    assert stack is not None
    beside = [name for name in ("nvswitch", "nvlink5", "imex") if getattr(hardware, name)]
    rows = {
        "host": checked.where,
        "SKU": f"{hardware.sku or 'not named'} {hardware.generation} {' '.join(beside)}".strip(),
        "driver": f"{stack.driver.version} {stack.driver.flavour} {stack.driver.contents}",
        "CUDA": f"{', '.join(stack.cuda.toolkits)} (default {stack.cuda.default})" if stack.cuda else "not managed",
        "NCCL": f"{stack.nccl.version} for CUDA {stack.nccl.cuda}" if stack.nccl else "not managed",
        "OFED": f"{stack.ofed.kind} {stack.ofed.version}" if stack.ofed else "the distribution's own",
        "DCGM": stack.dcgm.version if stack.dcgm else "not managed",
        "kernel": ", ".join(f"{name} {version}" for name, version in stack.kernel.items()) or "stays as it is",
    }
    table = _table("part", "pinned")
    for name, value in rows.items():
        table.add_row(_text(name), _text(value))
    return table


def _resolution(console: Console, made: Resolution) -> None:
    console.print(
        _text(f"{made.distro} {made.arch} {made.sku or '(no SKU)'}: driver {made.driver['version']} {made.driver['flavour']}", "bold")
    )
    table = _table("group", "package", "why")
    for group in made.groups:
        for package in group.packages:
            table.add_row(_text(group.name), _text(package.spec), _text(package.why))
    console.print(table)
    for label, values in (
        ("module stream", [stream for group in made.groups for stream in group.module_streams]),
        ("pin file", [pin.path for group in made.groups for pin in group.pins]),
        ("service", [service for group in made.groups for service in group.services]),
        ("repository", [one.url for one in made.repositories]),
    ):
        for value in values:
            console.print(_text(f"{label}: {value}"), soft_wrap=True)
    for note in made.notes:
        sys.stderr.write(f"burnin stack: note: {note.text} [{note.code}]\n")
