"""The verb stack: check, show, packages. Reads one file; touches no node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from burnin.cli import options

File = Annotated[Path, typer.Argument(metavar="FILE", help="The stack file: inventory/SITE/group_vars/all/stack.yml.", show_default=False)]
Distro = Annotated[str | None, typer.Option("--distro", help="ubuntu2204, ubuntu2404, ubuntu2604, debian12, debian13, rhel9 or rhel10.")]
Arch = Annotated[str | None, typer.Option("--arch", help="x86_64 or sbsa (aarch64 servers); default: what the SKU comes with.")]

app = typer.Typer(
    help="The pinned stack: driver, CUDA, NCCL, OFED, DCGM, kernel; one file, checked before anything is touched.",
    epilog="Example: burnin stack check inventory/mysite/group_vars/all/stack.yml",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(parent: typer.Typer) -> None:
    """Add the verb to the app."""
    parent.add_typer(app, name="stack")


@app.command()
def check(
    file: File,
    sku: Annotated[list[str], typer.Option("--sku", help="GPUs to check it against, beside those the file names; may be repeated.")] = [],  # noqa: B006
    json: options.Json = False,
) -> int:
    """Check a stack file against the compat matrix. Exit 2 when it has an error.

    Example: burnin stack check inventory/mysite/group_vars/all/stack.yml
    """
    from burnin.cli.stack_view import show_check
    from burnin.stages import stacking as stage

    return show_check(stage.check_file(file, sku), as_json=json)


@app.command()
def show(
    inventory: options.Inventory,
    host: Annotated[str, typer.Option("--host", help="A host of the inventory.", show_default=False)],
    distro: Distro = None,
    arch: Arch = None,
    json: options.Json = False,
) -> int:
    """The stack as one host of the inventory has it, checked for its GPUs, with the packages of each distribution.

    Example: burnin stack show -i inventory/mysite --host gpu-a1-01 --distro ubuntu2404
    """
    from burnin.cli.stack_view import show_host
    from burnin.stages import stacking as stage

    checked = stage.check_host(inventory, host)
    found = stage.hardware_of(checked, None)
    made = {} if checked.stack is None else stage.resolutions(checked.stack, found, arch, *([[distro]] if distro else []))
    return show_host(checked, found, made, one=distro is not None, as_json=json)


@app.command()
def packages(
    file: File,
    distro: Annotated[
        str, typer.Option("--distro", help="ubuntu2204, ubuntu2404, ubuntu2604, debian12, debian13, rhel9 or rhel10.", show_default=False)
    ],
    sku: Annotated[
        str | None, typer.Option("--sku", help="The GPUs, e.g. H100-SXM5-80GB; default: the only SKU that the file names.")
    ] = None,
    arch: Arch = None,
    json: options.Json = False,
) -> int:
    """What a stack file comes to on one distribution: packages, pins, repositories, services.

    Example: burnin stack packages inventory/mysite/group_vars/all/stack.yml --distro ubuntu2404 --sku H100-SXM5-80GB
    """
    from burnin.cli.stack_view import show_packages
    from burnin.stages import stacking as stage

    checked = stage.check_file(file, [sku] if sku else [])
    found = stage.hardware_of(checked, sku)
    made = {} if checked.stack is None else stage.resolutions(checked.stack, found, arch, [distro])
    return show_packages(checked, made.get(distro), as_json=json)
