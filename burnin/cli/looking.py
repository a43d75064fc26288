"""The verbs that only read: verdict, report, node."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from burnin.cli import options
from burnin.errors import UsageError


class Better(StrEnum):
    """Which direction of a table's value is good."""

    LOWER = "lower"
    HIGHER = "higher"


class Format(StrEnum):
    """What a report can be."""

    HTML = "html"
    JUNIT = "junit"
    PROMETHEUS = "prometheus"
    JSONL = "jsonl"
    CSV = "csv"


def register(app: typer.Typer) -> None:
    """Add these verbs to the app."""
    app.command()(verdict)
    app.command()(report)
    app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})(node)


def verdict(
    run: options.Run = None,
    table: Annotated[
        Path | None, typer.Option("--table", help="Judge a CSV of measurements instead of a run: one row per GPU and start.")
    ] = None,
    columns: Annotated[str | None, typer.Option("--columns", help="OURS=THEIRS,... e.g. gpu=uuid,value=perf,temp_c=temp")] = None,
    test: Annotated[str, typer.Option("--test", help="What the table's value measures.")] = "value",
    better: Annotated[Better | None, typer.Option("--better", help="Whether a lower or a higher value is good.")] = None,
    sku: Annotated[str | None, typer.Option("--sku", help="What the table's GPUs are, e.g. H100-SXM5-80GB.")] = None,
    policy: options.Policy = None,
    reference: options.Reference = None,
    out: options.Out = options.RUNS,
    json: options.Json = False,
) -> int:
    """Judge a run, or a table: each GPU held to its fleet's median, with the cause.

    Example: burnin verdict --table runs.csv --columns gpu=uuid,value=perf --better lower
    """
    from burnin.cli.summary import finish
    from burnin.stages import judging

    if table is not None:
        if run is not None:
            raise UsageError(f"verdict: both RUN ({run}) and --table ({table}) were given; give one")
        direction = better.value if better else None
        document = judging.judge_table(
            table, columns=columns, test=test, better=direction, sku=sku, policy_path=policy, reference=reference
        )
        if better is None:
            typer.echo(judging.assumed_direction(test), err=True)
        return finish(None, document, as_json=json)
    for name, value in (("--columns", columns), ("--better", better), ("--sku", sku)):
        if value is not None:
            raise UsageError(f"verdict: {name} belongs to --table FILE, and a run says these things itself")
    from burnin.adapters.run_files import find_run
    from burnin.stages.reporting import write_reports

    folder = find_run(run, out)
    with judging.judged(folder, policy, reference) as (document, driven):
        if driven:
            typer.echo(f"burnin verdict: {driven}", err=True)
        else:
            write_reports(folder, document)
    return finish(None if driven else folder, document, as_json=json)


def report(
    run: options.Run = None,
    format: Annotated[Format, typer.Option("--format", help="What to write.")] = Format.HTML,  # noqa: A002  the contract's word
    out: Annotated[Path | None, typer.Option("--out", help="The file to write; default: report.html in the run folder, or stdout.")] = None,
    runs: Annotated[Path, typer.Option("--runs", help="Where run folders are.")] = options.RUNS,
) -> int:
    """Write a run's verdict as a page, JUnit, Prometheus metrics, JSON lines or CSV.

    Example: burnin report --format junit --out junit.xml
    """
    from burnin.adapters.run_files import find_run, write_text
    from burnin.cli import out as output
    from burnin.stages.judging import judged
    from burnin.stages.reporting import FILES, render

    folder = find_run(run, runs)
    target = out or (folder / FILES["html"] if format is Format.HTML else None)
    with judged(folder) as (document, driven):
        if driven and out is None and target is not None:
            raise UsageError(f"{driven}; give --out FILE for the report")
        if driven:
            typer.echo(f"burnin report: {driven}", err=True)
        text = render(folder, document, format.value)
        try:
            if target is not None:
                write_text(target, text)
        except OSError as problem:
            raise UsageError(f"--out {target}: cannot be written ({problem.strerror}); give a file in a folder that exists") from None
    if target is None:
        output.write(text)
        return 0
    typer.echo(str(target))
    return 0


def node(context: typer.Context) -> int:
    """The part that runs on a node, by hand on this machine: identity, run.

    Example: burnin node identity --backend cpu
    """
    from burnin.node.__main__ import main

    try:
        return main(context.args)
    except SystemExit as left:  # argparse leaves this way
        return int(left.code or 0)
