"""The verbs for a run that is under way: status, resume, stop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from burnin.cli import options

if TYPE_CHECKING:
    from burnin.stages.nodes import Target


def register(app: typer.Typer) -> None:
    """Add these verbs to the app."""
    for verb in (status, resume, stop):
        app.command()(verb)


def status(
    run: options.Run = None,
    inventory: options.OtherInventory = [],  # noqa: B006
    out: options.Out = options.RUNS,
    extra_vars: options.Extra = [],  # noqa: B006
    json: options.Json = False,
) -> int:
    """How a run stands, asked from its nodes now. Exit 11 when one does not answer.

    Example: burnin status
    """
    from burnin.adapters.cancel import catching_signals
    from burnin.cli.summary import show_status
    from burnin.stages import control

    with catching_signals() as cancel:
        return show_status(control.status(_folder(run, out), _target(inventory, extra_vars), cancel), as_json=json)


def resume(
    run: options.Run = None,
    inventory: options.OtherInventory = [],  # noqa: B006
    out: options.Out = options.RUNS,
    extra_vars: options.Extra = [],  # noqa: B006
    json: options.Json = False,
) -> int:
    """Go on with a run whose controller or nodes went away, or conclude it.

    Example: burnin resume 20260101T120000Z-a1b2c3
    """
    from burnin.adapters.cancel import catching_signals
    from burnin.cli.progress import showing
    from burnin.cli.summary import finish
    from burnin.stages import control

    folder = _folder(run, out)
    with catching_signals() as cancel, showing() as show:
        document = control.resume(folder, _target(inventory, extra_vars), show, cancel)
    return finish(folder, document, as_json=json)


def stop(
    run: options.Run = None,
    inventory: options.OtherInventory = [],  # noqa: B006
    out: options.Out = options.RUNS,
    extra_vars: options.Extra = [],  # noqa: B006
    json: options.Json = False,
) -> int:
    """End the load on every node of a run, and prove that it ended. What was measured stays.

    Example: burnin stop
    """
    from burnin.adapters.cancel import catching_signals
    from burnin.cli.summary import show_status
    from burnin.stages import control

    with catching_signals() as cancel:
        return show_status(control.stop(_folder(run, out), _target(inventory, extra_vars), cancel), as_json=json)


def _target(inventory: list[str], extra_vars: list[str]) -> Target:
    from burnin.stages.nodes import Target

    return Target(tuple(inventory), variables=options.variables(extra_vars))


def _folder(run: str | None, out: Path) -> Path:
    from burnin.adapters.run_files import find_run

    return find_run(run, out)
