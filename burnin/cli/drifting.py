"""The verb drift."""

from __future__ import annotations

import typer

from burnin.cli import options


def register(app: typer.Typer) -> None:
    """Add the verb to the app."""
    app.command(context_settings={"help_option_names": ["-h", "--help"]})(drift)


def drift(
    inventory: options.Inventory,
    limit: options.Limit = None,
    extra_vars: options.Extra = [],  # noqa: B006
    json: options.Json = False,
    ansible_args: options.AnsibleArgs = None,
) -> int:
    """Hold every node against its stack file: versions, holds, pins, modules, services. Reads only. Exit 10 when one has drifted.

    Example: burnin drift -i inventory/mysite
    """
    from burnin.adapters.cancel import catching_signals
    from burnin.cli.drift_view import show_drift
    from burnin.cli.progress import showing
    from burnin.stages import drifting as stage
    from burnin.stages.nodes import Target

    target = Target(tuple(inventory), limit, options.variables(extra_vars), tuple(ansible_args or ()))
    with catching_signals() as cancel, showing() as show:
        document = stage.drift(target, show, cancel)
    return show_drift(document, as_json=json)
