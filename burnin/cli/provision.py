"""The verb provision, and what it prints."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from burnin.cli import options, out
from burnin.outcome import exit_code
from burnin.status import count

STYLE = {
    "failed": "bold red",
    "unreachable": "bold red",
    "reboot_required": "yellow",
    "changed": "green",
    "ok": "green",
    "would_change": "cyan",
}
VERBS = {
    "installed": "installed",
    "upgraded": "moved",
    "downgraded": "moved back",
    "removed": "removed",
    "held": "held",
    "files": "files",
    "services": "services",
    "alternatives": "alternatives",
    "settings": "settings",
    "array": "array",
    "did": "did",
}
MOST_ROWS, MOST_NAMES = 60, 3
BY_NAME = ("installed", "upgraded", "downgraded", "removed", "services", "alternatives", "settings", "array", "did")


def register(app: typer.Typer) -> None:
    """Add the verb to the app."""
    app.command(context_settings={"help_option_names": ["-h", "--help"]})(provision)


def provision(
    inventory: options.Inventory,
    limit: options.Limit = None,
    check: options.Check = False,
    run_folders: options.Out = options.RUNS,
    extra_vars: options.Extra = [],  # noqa: B006  Typer reads the default, nobody writes to it
    json: options.Json = False,
    ansible_args: options.AnsibleArgs = None,
) -> int:
    """Give every node exactly the pinned stack, rebooting once where it must. Exit 2 when the stack does not fit together.

    Example: burnin provision -i inventory/mysite --check
    """
    from burnin.adapters.cancel import catching_signals
    from burnin.cli.progress import showing
    from burnin.stages import provision as stage
    from burnin.stages.nodes import Target

    target = Target(tuple(inventory), limit, options.variables(extra_vars), tuple(ansible_args or ()), check)
    with catching_signals() as cancel, showing() as show:
        folder, document = stage.go(target, show, cancel, runs=run_folders)
    return finish(folder, document, as_json=json)


def finish(folder: Path | None, document: Mapping[str, Any], *, as_json: bool) -> int:
    """Print what was done and return the exit code."""
    from burnin.stages.provisioned import outcomes

    if as_json:
        out.write(json_module.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n")
    else:
        console = out.console()
        console.print(_table(document))
        hidden = len(document["nodes"]) - MOST_ROWS
        if hidden > 0:
            console.print(_text(f"… and {hidden} more; provision.json lists them all", "dim"))
        summary = document["summary"]
        counts = ", ".join(f"{number} {state.replace('_', ' ')}" for state, number in summary.items() if number and state != "nodes")
        console.print(_text(f"{count(summary['nodes'], 'node')}: {counts}"))
        for note in document["notes"]:
            console.print(_text(f"Note: {note}", "yellow"))
        for line in _consent(document):
            console.print(line, soft_wrap=True)
        if folder is not None:
            console.print(Text("Run: ").append(str(folder / "provision.json"), style="bold"), soft_wrap=True)
    return exit_code(outcomes(document))


def _consent(document: Mapping[str, Any]) -> Iterator[Text]:
    """The drives that were refused for want of a consent, and where that is to be had."""
    drives = [(node["node"], serial, on_it) for node in document["nodes"] for serial, on_it in node["erase"].items()]
    for node, serial, on_it in drives[:MOST_ROWS]:
        yield _text(f"{node}: drive {serial} holds {on_it or 'something'}", "yellow")
    if len(drives) > MOST_ROWS:
        yield _text(f"… and {len(drives) - MOST_ROWS} more drives", "dim")
    if document["erase_file"]:
        yield (
            Text("Nothing of theirs was touched. To erase them: read ")
            .append(document["erase_file"], style="bold")
            .append(f", then the same again with -e @{document['erase_file']}")
        )


def _text(value: object, style: str = "") -> Text:
    return Text("".join(letter for letter in str(value) if letter.isprintable())[:600], style=style)


def _table(document: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("state", "node", "would change" if document["check"] else "changed", "reboot", "why"):
        table.add_column(name, overflow="fold", no_wrap=name in ("state", "node"))
    order = list(STYLE)
    rows = sorted(document["nodes"], key=lambda node: (order.index(node["state"]) if node["state"] in order else 1, node["node"]))
    for node in rows[:MOST_ROWS]:
        state = node["state"].replace("_", " ")
        table.add_row(
            _text(state, STYLE.get(node["state"], "magenta")),
            *(_text(cell) for cell in (node["node"], _changes(node), _reboot(node), _why(node))),
        )
    return table


def _changes(node: Mapping[str, Any]) -> str:
    return "; ".join(_change(one) for one in node["changes"]) or "nothing"


def _change(one: Mapping[str, Any]) -> str:
    """'driver 580.126.09: installed 12, files 3', few packages by name; else the task's name. All names are in provision.json."""
    parts = []
    for name, verb in VERBS.items():
        names = list(one.get(name) or ())
        if names:
            parts.append(f"{verb} {', '.join(names) if name in BY_NAME and len(names) <= MOST_NAMES else len(names)}")
    head = f"{one['group']} {one['version']}".strip()
    if not parts:
        return str(one["task"])
    return f"{head or one['task']}: {', '.join(parts)}"


def _reboot(node: Mapping[str, Any]) -> str:
    reboot = node["reboot"]
    if reboot is None:
        return ""
    seconds = f" in {reboot['seconds']:.0f} s" if isinstance(reboot.get("seconds"), int | float) else ""
    return f"{reboot['state'].replace('_', ' ')}{seconds}: {'; '.join(reboot['reasons'])}"


def _why(node: Mapping[str, Any]) -> str:
    failure = node["failure"]
    if node["state"] != "failed" or not failure:
        return str(node["why"])
    return f"{failure['task']}: {failure['message']}" + (f" [{failure['code']}]" if failure["code"] else "")
