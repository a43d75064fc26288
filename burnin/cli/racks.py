"""The verbs that go to the nodes: demo, preflight, run, site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from burnin.cli import options
from burnin.errors import UsageError

PASS_THROUGH = {"help_option_names": ["-h", "--help"]}


def register(app: typer.Typer) -> None:
    """Add these verbs to the app."""
    for verb in (demo, preflight, run, site):
        app.command(context_settings=PASS_THROUGH)(verb)


def demo(
    nodes: Annotated[int, typer.Option(min=1, max=512, help="Simulated nodes.")] = 4,
    gpus: Annotated[int, typer.Option(min=1, max=16, help="GPUs in each.")] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, another rack; the planted faults stay.")] = 1,
    out: Annotated[Path, typer.Option(help="Where the demo's folder is made; nothing else is touched.")] = options.RUNS,
    verify: Annotated[bool, typer.Option("--verify", help="Exit 0 when exactly the planted parts were found, else 12.")] = False,
    json: options.Json = False,
) -> int:
    """A simulated rack with planted faults, through real Ansible; prints the report's path.

    Example: burnin demo
    """
    from burnin.adapters.cancel import catching_signals
    from burnin.cli.progress import showing
    from burnin.cli.summary import finish
    from burnin.stages import demo as stage

    if verify and nodes < stage.LEAST_TO_VERIFY:
        raise UsageError(
            f"--verify with --nodes {nodes}: the faults stand in {stage.LEAST_TO_VERIFY} nodes; give --nodes {stage.LEAST_TO_VERIFY} or more"
        )
    with catching_signals() as cancel, showing() as show:
        folder, document, hosts = stage.run(nodes=nodes, gpus=gpus, seed=seed, out=out, show=show, cancel=cancel)
    code = finish(folder, document, as_json=json)
    if not verify:
        return code
    missed = stage.differences(hosts, document)
    for line in missed:
        typer.echo(f"burnin demo: {line}", err=True)
    typer.echo(
        f"burnin demo: {'exactly the planted parts were found' if not missed else f'{len(missed)} differences from what was planted'}",
        err=True,
    )
    return 12 if missed else 0


def _open_and_run(
    *, inventory: list[str], limit: str | None, check: bool, plan: str | None, out: Path, extra: list[str], policy: Path | None,
    ansible_args: list[str] | None, burn_in: bool, provision: bool, json: bool, reference: Path | None,
) -> int:  # fmt: skip
    from burnin.adapters.cancel import catching_signals
    from burnin.cli.progress import showing
    from burnin.cli.summary import finish
    from burnin.stages import racks as stage
    from burnin.stages.nodes import Target

    target = Target(tuple(inventory), limit, options.variables(extra), tuple(ansible_args or ()), check)
    with catching_signals() as cancel, showing() as show:
        folder, document = stage.go(
            target, show, cancel, plan=plan, runs=out, policy=policy, reference=reference, burn_in=burn_in, provision=provision
        )
    return finish(folder, document, as_json=json)


def preflight(
    inventory: options.Inventory,
    limit: options.Limit = None,
    check: options.Check = False,
    out: options.Out = options.RUNS,
    extra_vars: options.Extra = [],  # noqa: B006  Typer reads the default, nobody writes to it
    policy: options.Policy = None,
    json: options.Json = False,
    ansible_args: options.AnsibleArgs = None,
) -> int:
    """Is this the rack that was bought? Reads only.

    Example: burnin preflight -i inventory/mysite
    """
    return _open_and_run(
        inventory=inventory, limit=limit, check=check, plan="preflight", out=out, extra=extra_vars, policy=policy,
        ansible_args=ansible_args, burn_in=False, provision=False, json=json, reference=None,
    )  # fmt: skip


Plan = Annotated[
    str | None, typer.Option("--plan", help="quick, acceptance, soak or a file; default: the inventory's burnin_run_plan, else acceptance.")
]


def run(
    inventory: options.Inventory,
    limit: options.Limit = None,
    check: options.Check = False,
    plan: Plan = None,
    reference: options.Reference = None,
    out: options.Out = options.RUNS,
    extra_vars: options.Extra = [],  # noqa: B006
    policy: options.Policy = None,
    json: options.Json = False,
    ansible_args: options.AnsibleArgs = None,
) -> int:
    """Burn in: look whether the nodes may be loaded, load every GPU, collect the evidence, judge it.

    A node that has drifted from its stack, or whose GPUs somebody uses, is refused, unless burnin_drift_accept or burnin_preflight_accept names why.

    Example: burnin run -i inventory/mysite --plan acceptance
    """
    return _open_and_run(
        inventory=inventory, limit=limit, check=check, plan=plan, out=out, extra=extra_vars, policy=policy,
        ansible_args=ansible_args, burn_in=True, provision=False, json=json, reference=reference,
    )  # fmt: skip


def site(
    inventory: options.Inventory,
    limit: options.Limit = None,
    check: options.Check = False,
    plan: Plan = None,
    reference: options.Reference = None,
    out: options.Out = options.RUNS,
    extra_vars: options.Extra = [],  # noqa: B006
    policy: options.Policy = None,
    json: options.Json = False,
    ansible_args: options.AnsibleArgs = None,
) -> int:
    """The whole way: preflight, the pinned stack, burn-in of the nodes that passed, the verdict.

    Example: burnin site -i inventory/mysite
    """
    return _open_and_run(
        inventory=inventory, limit=limit, check=check, plan=plan, out=out, extra=extra_vars, policy=policy,
        ansible_args=ansible_args, burn_in=True, provision=True, json=json, reference=reference,
    )  # fmt: skip
