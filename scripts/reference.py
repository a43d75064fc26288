"""Make docs/reference.md: the commands, variables, limits, SKUs and finding codes, from the code and data themselves.

python scripts/reference.py           write it
python scripts/reference.py --check   exit 1 when it is not what the code says (tests/unit/test_reference.py does this)
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from burnin.cli import app
from burnin.inventory import CALL_VARIABLES, SITE_VARIABLES
from burnin.node.catalog import TESTS
from burnin.preflight.codes import CODES as PREFLIGHT_CODES
from burnin.preflight.expected import boards, shipped_boards
from burnin.preflight.policy import outcomes
from burnin.stack.drift import codes as drift
from burnin.verdict.codes import CODES
from burnin.verdict.policy import default_policy

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "reference.md"


def table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> list[str]:
    """A Markdown table; pipes in cells are escaped."""
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in cells), ""]


def commands() -> list[str]:
    """Each verb with its first line."""
    rows: list[tuple[object, ...]] = []
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        rows.append((f"`burnin {name}`", (command.callback.__doc__ or "").strip().splitlines()[0]))
    for group in app.registered_groups:
        for command in group.typer_instance.registered_commands if group.typer_instance else ():
            assert command.callback is not None
            rows.append((f"`burnin {group.name} {command.callback.__name__}`", (command.callback.__doc__ or "").strip().splitlines()[0]))
    return ["## Commands", "", "`burnin VERB --help` says what each takes.", "", *table(("command", "what it does"), rows)]


def variables() -> list[str]:
    """The inventory contract and the inputs of every role."""
    lines = [
        "## Variables",
        "",
        "### Of the inventory",
        "",
        *table(("variable", "meaning"), [(f"`{name}`", text) for name, text in SITE_VARIABLES.items()]),
        "### For one call, with `-e`; refused in an inventory",
        "",
        *table(("variable", "meaning"), [(f"`{name}`", text) for name, text in CALL_VARIABLES.items()]),
    ]
    for spec in sorted((ROOT / "roles").glob("*/meta/argument_specs.yml")):
        options = yaml.safe_load(spec.read_text(encoding="utf-8"))["argument_specs"]["main"]["options"]
        rows = [(f"`{name}`", f"`{option.get('default', 'required')!r}`", option["description"]) for name, option in options.items()]
        lines += [f"### Of the role {spec.parent.parent.name}", "", *table(("variable", "default", "meaning"), rows)]
    return lines


def limits() -> list[str]:
    """Every limit of judgement, with why and source."""
    policy = default_policy()
    rows = [(f"`{name}`", f"{entry['value']:g}", entry["unit"], entry["why"], entry["source"]) for name, entry in policy.limits.items()]
    lines = [
        "## Limits of judgement",
        "",
        "A site changes them with `--policy FILE`.",
        "",
        *table(("limit", "value", "unit", "why", "source"), rows),
    ]
    skus = []
    for name, sku in policy.skus.items():
        shown = {key: entry for key, entry in sku.items() if key != "floors"} | {
            f"floor of {test}": entry for test, entry in sku.get("floors", {}).items()
        }
        skus += [(name, key, entry["value"], entry["unit"], entry["why"], entry["source"]) for key, entry in shown.items()]
    return [*lines, "## SKUs", "", *table(("SKU", "what", "value", "unit", "why", "source"), skus)]


def codes() -> list[str]:
    """Every finding code with its action and runbook."""
    rows = [(f"[{name}](runbooks/{name}.md)", code.of, code.action) for name, code in CODES.items()]
    drifts = [(f"[{name}](runbooks/{name}.md)", code.of, code.outcome.value, code.action) for name, code in drift.CODES.items()]
    head = "Compared with the stack file by `burnin drift` and, before a burn-in, by preflight: see [drift](drift.md)."
    return [
        "## Finding codes",
        "",
        *table(("code", "of", "what to do"), rows),
        *preflight_codes(),
        "## Codes of a drift",
        "",
        head,
        "",
        *table(("code", "of", "outcome", "what to do"), drifts),
    ]


def preflight_codes() -> list[str]:
    """What preflight finds, and the parts that it expects."""
    rows: list[tuple[object, ...]] = []
    for name, code in PREFLIGHT_CODES.items():
        entry = outcomes()[name]
        comes_to = entry["value"] if "ready" not in entry else f"{entry['value']}, ready {entry['ready']}"
        rows.append((f"[{name}](runbooks/{name}.md)", comes_to, entry["why"], code.action))
    facts: list[tuple[object, ...]] = []
    for board, parts in shipped_boards().items():
        skus = ", ".join(sku for sku, of in boards().items() if of == board)
        for name, fact in parts.items():
            facts.append((board, name, fact["value"], fact["unit"], fact["why"], fact["source"], fact["confidence"]))
        facts.append((board, "SKUs", skus, "", "", "", ""))
    return [
        "## Codes of the preflight",
        "",
        "See [preflight](preflight.md). A FAIL that rests on a fact of low confidence is a REVIEW.",
        "",
        *table(("code", "outcome", "why", "what to do"), rows),
        "## Parts that the preflight expects, by board",
        "",
        *table(("board", "part", "value", "unit", "why", "source", "confidence"), facts),
    ]


def tests() -> list[str]:
    """Every test that a plan may name."""
    rows = [(f"`{test.name}`", test.unit, test.better, test.scope, test.stresses) for test in TESTS.values()]
    return ["## Tests that a plan may name", "", *table(("test", "unit", "better", "scope", "stresses"), rows)]


def text() -> str:
    """The whole page."""
    head = ["# Reference", "", "Made by `make docs` from the code and its data; a test fails when it is out of date.", ""]
    return "\n".join([*head, *commands(), *variables(), *tests(), *limits(), *codes()]).rstrip() + "\n"


def main() -> int:
    """Write the page, or check it."""
    if "--check" in sys.argv[1:]:
        return 0 if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text() else 1
    TARGET.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
