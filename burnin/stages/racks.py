"""preflight, run and site: from an inventory to a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from burnin.adapters.ansible import HostState
from burnin.adapters.cancel import Cancel
from burnin.adapters.run_files import locked
from burnin.stages.burn_in import GIVE_UP, PLAY_TIMEOUT_S, Show, conclude, patience_s
from burnin.stages.burn_in import burn_in as burn_in_stage
from burnin.stages.nodes import Driver, Target, resolve
from burnin.stages.opening import Opened, open_run
from burnin.stages.provision import check_stacks, drop_run, has_stack, pace_of
from burnin.status import NodeStatus, clean, count

DEFAULT_PLAN = "acceptance"


def plan_of(hosts: Mapping[str, Mapping[str, Any]], asked: str | None) -> str:
    """The plan asked for, else the one that all nodes name, else the default."""
    named = {str(variables.get("burnin_run_plan", DEFAULT_PLAN)) for variables in hosts.values()}
    return asked or (named.pop() if len(named) == 1 else DEFAULT_PLAN)


def with_patience(target: Target, hosts: Mapping[str, Mapping[str, Any]]) -> Target:
    """The longest patience that a node's variables ask for, kept with the run so that a resume has it too."""
    asked = [variables[GIVE_UP] for variables in hosts.values() if GIVE_UP in variables]
    if GIVE_UP in target.variables or not asked:
        return target
    longest = max(patience_s(replace(target, variables={GIVE_UP: value})) for value in asked)
    return replace(target, variables={**target.variables, GIVE_UP: longest})


def go(
    target: Target,
    show: Show,
    cancel: Cancel,
    *,
    plan: str | None,
    runs: Path,
    policy: Path | None,
    reference: Path | None,
    burn_in: bool,
    provision: bool,
) -> tuple[Path, dict[str, Any]]:
    """Open a run and drive it; returns its folder and the verdict's document ({} in check mode). Every burn-in looks at the nodes first."""
    hosts = resolve(target)
    target = with_patience(target, hosts)
    chosen = plan if not burn_in else plan_of(hosts, plan)
    pace, warnings = _pinned(hosts, target) if provision else (None, [])
    opened = open_run(
        hosts, plan=chosen or DEFAULT_PLAN, runs=runs, policy_path=policy, source=target.source(), burn_in=burn_in, preflight=True,
        provision=pace,
    )  # fmt: skip
    for warning in warnings:
        show.say(warning)
    show.say(f"Run {opened.run_id}: {count(len(opened.nodes), 'node')}, plan {opened.plan.name}, in {opened.folder}")
    try:
        if burn_in:
            document = burn_in_stage(opened.folder, target, show, cancel, preflight=True, hosts=hosts, reference=reference)
            return opened.folder, document
        return opened.folder, _look(opened, target, hosts, show, cancel)
    finally:
        if target.check and burn_in:
            drop_run(opened.folder)


def _pinned(hosts: Mapping[str, Mapping[str, Any]], target: Target) -> tuple[dict[str, Any] | None, list[str]]:
    """The pace at which the nodes are provisioned first, and what a person should know; None where the inventory pins nothing. Raises StackError."""
    if not has_stack(hosts):
        return None, [
            "The inventory has no burnin_stack: nothing is pinned, so nothing is provisioned; the nodes are burned in as they are."
        ]
    warnings = [f"Warning: {warning}" for warning in check_stacks(hosts)]
    return asdict(pace_of(hosts, target.variables)), warnings


def _look(opened: Opened, target: Target, hosts: Mapping[str, Mapping[str, Any]], show: Show, cancel: Cancel) -> dict[str, Any]:
    """Preflight alone: who is there, judged against what was bought."""
    with locked(opened.folder):
        driver = Driver(opened.folder, target, cancel, hosts=hosts)
        show.stage(f"Preflight of {count(len(opened.nodes), 'node')}")
        result = driver.play("preflight.yml", [node.node for node in opened.nodes], stage="preflight", timeout_s=PLAY_TIMEOUT_S)
        for name, state in driver.note_all("preflight", result).items():
            show.node(
                name, NodeStatus("identified" if state is HostState.OK else state.value.lower(), why=clean(result.hosts[name].message))
            )
        return conclude(opened.folder, show)
