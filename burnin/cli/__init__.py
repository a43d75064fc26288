"""The command line: one verb per stage. Results on stdout, talk on stderr; the stages are imported when their verb runs."""

from __future__ import annotations

import sys

import typer
from typer.exceptions import TyperException

from burnin import __version__
from burnin.cli import control, drifting, looking, provision, racks, stack
from burnin.errors import BurninError

USAGE, STOPPED, BROKEN = 2, 11, 12

EPILOG = "Exit codes: 0 all pass · 2 bad input, nothing was touched · 10 something is RMA or FAIL · 11 inconclusive or to be retested · 12 burnin broke"

app = typer.Typer(
    name="burnin",
    help="Turn a rack of unboxed GPU servers into nodes that can be trusted, and say with evidence which parts go back.\n\nTry it without a GPU: burnin demo",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"burnin {__version__}")
        raise typer.Exit


@app.callback()
def _main(version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version.")) -> None:
    """Options of the command itself."""


for module in (racks, provision, control, looking, stack, drifting):
    module.register(app)


def run(argv: list[str]) -> int:
    """Run the command line `argv`; returns the exit code. What is not expected is left to fly: the caller makes it exit 12."""
    try:
        code = app(argv or ["--help"], standalone_mode=False)
    except TyperException as problem:
        sys.stderr.write(f"burnin: {problem.format_message()} (see burnin --help)\n")
        return USAGE
    except BrokenPipeError:
        return BROKEN
    except OSError as problem:
        sys.stderr.write(f"burnin: {problem}; what was written so far stays, make room or give a place that can be written\n")
        return BROKEN
    except BurninError as problem:
        sys.stderr.write(f"burnin: {problem}\n")
        return problem.exit_code
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("burnin: stopped\n")
        return STOPPED
    return int(code or 0)
