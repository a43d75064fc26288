"""Options that several verbs share, and how their values are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from burnin.errors import UsageError

RUNS = Path("runs")

Inventory = Annotated[
    list[str], typer.Option("-i", "--inventory", help="Ansible inventory: a file or folder; may be given again.", show_default=False)
]
OtherInventory = Annotated[
    list[str], typer.Option("-i", "--inventory", help="Another inventory than the run was opened with.", show_default=False)
]
Limit = Annotated[str | None, typer.Option("--limit", help="Only these hosts (Ansible pattern).")]
Out = Annotated[Path, typer.Option("--out", help="Where run folders are made.")]
Extra = Annotated[list[str], typer.Option("-e", "--extra-vars", help="K=V or @FILE, as for ansible-playbook.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Check = Annotated[bool, typer.Option("--check", help="Change nothing; say what would be done.")]
Policy = Annotated[Path | None, typer.Option("--policy", help="A site's own limits (YAML), on top of the shipped ones.")]
Reference = Annotated[
    Path | None, typer.Option("--reference", help="A run (folder or verdict.json) whose medians stand in for a small cohort's own.")
]
Run = Annotated[str | None, typer.Argument(metavar="[RUN]", help="A run folder or run id; the newest when left out.", show_default=False)]
AnsibleArgs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[-- ANSIBLE ARGS]", help="After --: handed to ansible-playbook as they are.", show_default=False),
]


def variables(given: list[str]) -> dict[str, Any]:
    """The -e options as one mapping. Values of K=V are text, as in Ansible. Raises UsageError."""
    import yaml

    found: dict[str, Any] = {}
    for piece in given:
        if piece.startswith("@"):
            path = Path(piece[1:])
            try:
                loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
                raise UsageError(
                    f"-e {piece}: cannot be read ({str(problem).splitlines()[0]}); expected a YAML file of variables"
                ) from None
            if not isinstance(loaded, dict):
                raise UsageError(f"-e {piece}: holds {type(loaded).__name__}; expected a mapping of variables")
            found.update({str(name): value for name, value in loaded.items()})
            continue
        name, equals, value = piece.partition("=")
        if not equals or not name.strip().isidentifier():
            raise UsageError(f"-e {piece.partition('=')[0]!r}: expected K=V with a variable's name, or @FILE")
        found[name.strip()] = value
    return found
