"""Status, stop and resume of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from burnin.adapters.ansible import HostState, PlayResult
from burnin.adapters.cancel import Cancel
from burnin.adapters.run_control import read_ledger, say_stop
from burnin.adapters.run_files import read_run_json
from burnin.errors import UsageError
from burnin.stages.burn_in import POLL_TIMEOUT_S, Show, burn_in
from burnin.stages.burn_in import stop as stop_nodes
from burnin.stages.nodes import Driver, Target, target_of
from burnin.status import NodeStatus, parse

States = dict[str, NodeStatus]


def _driver(folder: Path, target: Target, cancel: Cancel) -> tuple[Driver, list[str]]:
    return Driver(folder, target_of(folder, target), cancel), [str(node["node"]) for node in read_run_json(folder)["inventory"]["nodes"]]


def _states(result: PlayResult | None) -> States:
    hosts = result.hosts if result else {}
    return {
        name: parse(host.data) if host.state is HostState.OK else NodeStatus(host.state.value.lower(), why=host.message)
        for name, host in hosts.items()
    }


def status(folder: Path, target: Target, cancel: Cancel) -> States:
    """node -> how its run stands, asked now."""
    driver, nodes = _driver(folder, target, cancel)
    return _states(driver.play("burnin_poll.yml", nodes, stage="status", timeout_s=POLL_TIMEOUT_S))


def stop(folder: Path, target: Target, cancel: Cancel) -> States:
    """End the run on every node; a controller that is still polling then collects and concludes."""
    say_stop(folder)
    driver, nodes = _driver(folder, target, cancel)
    return _states(stop_nodes(driver, nodes))


def resume(folder: Path, target: Target, show: Show, cancel: Cancel) -> dict[str, Any]:
    """Go on where the run stands: what is finished is collected, what is not is continued."""
    run = read_run_json(folder)
    if not any(node.get("burn_in", True) for node in run["inventory"]["nodes"]):
        raise UsageError(f"{folder}: was a preflight, which has nothing to go on with; start a burn-in with `burnin run`")
    # A run opened by an earlier version does not say whether it wanted a preflight; its ledger tells whether it had one.
    preflight = run.get("preflight", any(line.stage == "preflight" for line in read_ledger(folder)))
    return burn_in(folder, target_of(folder, target), show, cancel, preflight=bool(preflight))
