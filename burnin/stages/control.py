"""Status, stop and resume of a run."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from burnin.adapters.ansible import HostState, PlayResult
from burnin.adapters.cancel import Cancel
from burnin.adapters.run_control import holds_all, read_ledger, say_stop
from burnin.adapters.run_files import locked, read_run_json
from burnin.errors import RunFolderError, UsageError
from burnin.stages.burn_in import NOT_IN_INVENTORY, POLL_TIMEOUT_S, Show, burn_in
from burnin.stages.burn_in import stop as stop_nodes
from burnin.stages.nodes import Driver, Target, present, target_of
from burnin.status import NodeStatus, parse

States = dict[str, NodeStatus]


def _driver(folder: Path, target: Target, cancel: Cancel) -> tuple[Driver, list[str], list[str]]:
    """The driver, the run's nodes, and those that are no longer in the inventory."""
    full = target_of(folder, target)
    nodes = [str(node["node"]) for node in read_run_json(folder)["inventory"]["nodes"]]
    there = present(full)
    return (
        Driver(folder, full, cancel, hosts=there),
        [node for node in nodes if node in there],
        [node for node in nodes if node not in there],
    )


def _states(result: PlayResult | None) -> States:
    hosts = result.hosts if result else {}
    return {
        name: parse(host.data) if host.state is HostState.OK else NodeStatus(host.state.value.lower(), why=host.message)
        for name, host in hosts.items()
    }


def status(folder: Path, target: Target, cancel: Cancel) -> States:
    """node -> how its run stands, asked now."""
    driver, nodes, gone = _driver(folder, target, cancel)
    asked = driver.play("burnin_poll.yml", nodes, stage="status", timeout_s=POLL_TIMEOUT_S) if nodes else None
    return _states(asked) | _missing(gone)


def stop(folder: Path, target: Target, cancel: Cancel) -> States:
    """End the run on every node; a controller that is still polling then collects and concludes."""
    say_stop(folder)
    driver, nodes, gone = _driver(folder, target, cancel)
    _note(driver, gone)
    return _states(stop_nodes(driver, nodes)) | _missing(gone)


def _missing(gone: list[str]) -> States:
    return {node: NodeStatus("missing", why=NOT_IN_INVENTORY) for node in gone}


def _note(driver: Driver, gone: list[str]) -> None:
    """For the verdict. Where another controller drives the run, the ledger is its own: it finds out by itself."""
    folders = {str(node["node"]): str(node["folder"]) for node in read_run_json(driver.folder)["inventory"]["nodes"]}
    with suppress(RunFolderError, OSError), locked(driver.folder):
        for node in gone:
            if not holds_all(driver.folder, folders[node]):
                driver.note("stop", node, "missing", NOT_IN_INVENTORY)


def resume(folder: Path, target: Target, show: Show, cancel: Cancel) -> dict[str, Any]:
    """Go on where the run stands: what is finished is collected, what is not is continued."""
    run = read_run_json(folder)
    if not any(node.get("burn_in", True) for node in run["inventory"]["nodes"]):
        raise UsageError(f"{folder}: was a preflight, which has nothing to go on with; start a burn-in with `burnin run`")
    # A run opened by an earlier version does not say whether it wanted a preflight; its ledger tells whether it had one.
    preflight = run.get("preflight", any(line.stage == "preflight" for line in read_ledger(folder)))
    full = target_of(folder, target)
    return burn_in(folder, full, show, cancel, preflight=bool(preflight), hosts=present(full))
