"""The burn-in stage: preflight, start, poll until the nodes are done, collect, judge. Resuming is the same path."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from burnin.adapters.ansible import Event, HostState, PlayResult
from burnin.adapters.cancel import Cancel
from burnin.adapters.clock import monotonic_s
from burnin.adapters.run_control import begun, holds_all, newest, read_ledger, stop_word
from burnin.adapters.run_files import locked, read_run_json
from burnin.errors import UsageError
from burnin.node.plan import check_plan
from burnin.stages.judging import judge_run
from burnin.stages.loads import Loads, few
from burnin.stages.nodes import Driver, Target
from burnin.stages.provision import in_site
from burnin.stages.reporting import write_reports
from burnin.status import NodeStatus, clean, count, duration, parse

PLAY_TIMEOUT_S = 900.0
POLL_TIMEOUT_S = 120.0
GIVE_UP, GIVE_UP_AFTER_S = "burnin_run_give_up_s", 900.0  # the role's variable and its default, told in its defaults/main.yml
OVERTIME_FACTOR, OVERTIME_S = 1.5, 900.0
NOT_IN_INVENTORY = "no longer in the inventory, so it was not tried; a load may still run there"
EVIDENCE_GONE = "the run had begun on this node and its evidence is gone from it (emptied, installed anew, another disk)"
AGAIN = "It cannot be continued: burn the node in again with `burnin run -i INVENTORY"
DONE = ("finished", "stopped", "died", "failed", "absent")


class Show(Protocol):
    """Who tells a person how it goes."""

    def stage(self, text: str) -> None:
        """A stage begins."""

    def node(self, node: str, status: NodeStatus) -> None:
        """The newest word of a node."""

    def say(self, text: str) -> None:
        """A line worth reading."""


@dataclass(slots=True)
class Watched:
    """What the poll knows of the nodes."""

    state: dict[str, str] = field(default_factory=dict)
    heard_s: dict[str, float] = field(default_factory=dict)
    give_up_s: float = GIVE_UP_AFTER_S

    def waiting(self) -> list[str]:
        return sorted(node for node, state in self.state.items() if state not in (*DONE, "given up"))


def poll_interval_s(planned_s: float) -> float:
    """Seconds between looks: a hundredth of the plan, from 2 s to 30 s."""
    return min(30.0, max(2.0, planned_s / 100))


def patience_s(target: Target) -> float:
    """Seconds without an answer after which a node is given up; the others were not waiting for it. Raises UsageError."""
    asked = target.variables.get(GIVE_UP, GIVE_UP_AFTER_S)
    try:
        seconds = float(asked)
    except (TypeError, ValueError):
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise UsageError(f"{GIVE_UP}: found {asked!r}; expected seconds above 0, like {GIVE_UP_AFTER_S:g}")
    return seconds


def burn_in(
    folder: Path,
    target: Target,
    show: Show,
    cancel: Cancel,
    *,
    preflight: bool,
    hosts: Mapping[str, Mapping[str, Any]] | None = None,
    reference: Path | None = None,
    interval_s: float | None = None,
) -> dict[str, Any]:
    """Drive the run in this folder to its verdict; returns the verdict's document. Safe to call again on a run that was interrupted.

    `hosts`: what the inventory has now, with variables; the run's other nodes are told of and not tried. None: all of them.
    """
    give_up_s = patience_s(target)
    with locked(folder), Loads(folder) as loads:
        run = read_run_json(folder)
        asked = stop_word(folder)
        plan = check_plan(run["plan"])
        driver = Driver(folder, target, cancel, lambda event: _watch(event, show), hosts)
        nodes = _reachable_by_name(driver, run, hosts, show, loads)
        nodes = in_site(driver, run, nodes, show)
        ready = _ready(driver, nodes, show, preflight=preflight)
        _heed(folder, asked, cancel)
        started = _start(driver, run, ready, show, plan.planned_s, loads) if ready and not cancel() else []
        if started and not target.check:
            _heed(folder, asked, cancel)
            interval_s = interval_s or poll_interval_s(plan.planned_s)
            watched = Watched(dict.fromkeys(started, "started"), dict.fromkeys(started, monotonic_s()), give_up_s)
            _poll(driver, watched, show, cancel, interval_s, plan.planned_s, loads)
            started = _with_evidence(driver, run, started, watched.state, show)
            if cancel() and started:
                show.say(f"Stopping the load on {count(len(started), 'node')} ({cancel.reason}).")
                _stop_and_tell(driver, started, show, loads)
            _collect(driver, started, show)
        if target.check:
            return {}
        return conclude(folder, show, reference)


def _reachable_by_name(driver: Driver, run: dict[str, Any], hosts: Mapping[str, Any] | None, show: Show, loads: Loads) -> list[str]:
    """The run's nodes that are still in the inventory. Of the others a person is told, and the verdict."""
    folders = _folders(run)
    gone = sorted(set(folders) - set(hosts)) if hosts is not None else []
    # A node whose whole run is here has nothing left to do: it may go.
    if owing := [node for node in gone if not holds_all(driver.folder, folders[node])]:
        loads.begun(owing)
        for node in owing:
            driver.note("resume", node, "missing", NOT_IN_INVENTORY)
        show.say(f"{few(owing)}: {NOT_IN_INVENTORY}. Put them back and call `burnin resume {driver.folder}` again, or end it on the node.")
    return [node for node in folders if node not in gone]


def _with_evidence(driver: Driver, run: dict[str, Any], nodes: list[str], states: Mapping[str, str], show: Show) -> list[str]:
    """Those of these nodes that have not lost what they had. A run that began anew would be another run: that is for a person to decide."""
    folders = _folders(run)
    emptied = [node for node in nodes if states.get(node) == "absent"]
    owing = [node for node in emptied if not holds_all(driver.folder, folders[node])]
    for node in owing:
        driver.note("start", node, "failed", f"{EVIDENCE_GONE}; what was collected before stays. {AGAIN} --limit {node}`")
        show.say(f"{node}: {EVIDENCE_GONE}; nothing is started there.")
    stop(driver, owing)  # files that are gone end no process: a unit of it may still be loading the GPUs
    return [node for node in nodes if node not in emptied]


def _folders(run: dict[str, Any]) -> dict[str, str]:
    return {str(node["node"]): str(node["folder"]) for node in run["inventory"]["nodes"]}


def _heed(folder: Path, asked: str, cancel: Cancel) -> None:
    """A `burnin stop` that came while nodes were still to be started cannot reach them: it ends this run here."""
    if stop_word(folder) != asked:
        cancel.set("burnin stop")


def refused(folder: Path) -> set[str]:
    """The nodes whose newest preflight failed: without another one a resume does not burn them in."""
    return {node for node, state in newest(read_ledger(folder), "preflight").items() if state == "failed"}


def _ready(driver: Driver, nodes: list[str], show: Show, *, preflight: bool) -> list[str]:
    """The nodes that may be burned in. `preflight`: only those that have passed one, in this call or an earlier one."""
    if not preflight:
        return sorted(set(nodes) - refused(driver.folder))
    passed = {node for node, state in newest(read_ledger(driver.folder), "preflight").items() if state == "ok"} & set(nodes)
    rest = sorted(set(nodes) - passed)
    return sorted(passed.union(_preflight(driver, rest, show) if rest else ()))


def conclude(folder: Path, show: Show, reference: Path | None = None) -> dict[str, Any]:
    """Judge what is there and write the reports."""
    show.stage("Judge and report")
    document = judge_run(folder, reference=reference)
    write_reports(folder, document)
    return document


def _watch(event: Event, show: Show) -> None:
    if event.state in ("ok", "changed") and event.data.get("state"):
        show.node(event.host, parse(event.data))
    elif event.state in ("failed", "unreachable"):
        show.node(event.host, NodeStatus(event.state, why=clean(event.message)))


def _preflight(driver: Driver, nodes: list[str], show: Show) -> list[str]:
    """The nodes that may be burned in."""
    show.stage(f"Preflight of {count(len(nodes), 'node')}")
    # A load wants the driver and the stack: level ready, unless somebody asked for another.
    level = {"preflight_level": "ready", **{name: value for name, value in driver.target.variables.items() if name == "preflight_level"}}
    states = driver.note_all("preflight", driver.play("preflight.yml", nodes, stage="preflight", timeout_s=PLAY_TIMEOUT_S, **level))
    return sorted(node for node, state in states.items() if state is HostState.OK)


def _start(driver: Driver, run: dict[str, Any], nodes: list[str], show: Show, planned_s: float, loads: Loads) -> list[str]:
    """Begin or continue; returns the nodes on which it may be running (a cancelled play may have started some)."""
    show.stage(f"Start on {count(len(nodes), 'node')}: {duration(planned_s)} planned")
    if not driver.target.check:
        loads.begun(nodes)
    known = sorted(begun(driver.folder, _folders(run)) & set(nodes))
    result = driver.play("burnin_start.yml", nodes, stage="start", timeout_s=PLAY_TIMEOUT_S, burnin_run_begun=known)
    # A node that says that it could not start has nothing running: that is what its program promises.
    loads.ended(node for node, host in result.hosts.items() if host.state is HostState.FAILED)
    states = driver.note_all("start", result)
    if result.status != "finished":
        return nodes
    answers = {node: parse(host.data).state for node, host in result.hosts.items()}
    loads.ended(node for node, answer in answers.items() if answer == "absent")
    return _with_evidence(driver, run, sorted(node for node, state in states.items() if state is HostState.OK), answers, show)


def _collect(driver: Driver, nodes: list[str], show: Show) -> None:
    if nodes:
        show.stage("Collect the evidence")
        driver.note_all("collect", driver.play("burnin_collect.yml", nodes, stage="collect", timeout_s=PLAY_TIMEOUT_S, deaf=True))


def _poll(driver: Driver, watched: Watched, show: Show, cancel: Cancel, interval_s: float, planned_s: float, loads: Loads) -> None:
    show.stage("Burn in")
    deadline = monotonic_s() + planned_s * OVERTIME_FACTOR + OVERTIME_S
    while (waiting := watched.waiting()) and not cancel():
        looked = monotonic_s()
        result = driver.play("burnin_poll.yml", waiting, stage="poll", timeout_s=POLL_TIMEOUT_S)
        _hear(driver, watched, result, show)
        loads.ended(node for node, state in watched.state.items() if state in DONE)
        if monotonic_s() > deadline:
            show.say(f"Time is up: {', '.join(watched.waiting())} did not end; stopping them.")
            _stop_and_tell(driver, watched.waiting(), show, loads)
            return
        if watched.waiting():
            cancel.wait(max(0.0, interval_s - (monotonic_s() - looked)))


def _hear(driver: Driver, watched: Watched, result: PlayResult, show: Show) -> None:
    """Take in one look. A node that does not answer keeps nobody waiting: it is given up after a while."""
    now = monotonic_s()
    for node, host in result.hosts.items():
        if host.state is HostState.OK and host.data.get("state"):
            watched.state[node], watched.heard_s[node] = parse(host.data).state, now
        elif result.status == "finished" and now - watched.heard_s[node] > watched.give_up_s:
            watched.state[node] = "given up"
            driver.note("poll", node, "unreachable", host.message or f"no answer for {watched.give_up_s:.0f} s")
            show.say(f"{node} has not answered for {now - watched.heard_s[node]:.0f} s; going on without it.")


def stop(driver: Driver, nodes: list[str]) -> PlayResult | None:
    """End the load on these nodes, whatever a person pressed meanwhile."""
    return driver.play("burnin_stop.yml", nodes, stage="stop", timeout_s=PLAY_TIMEOUT_S, deaf=True) if nodes else None


def _stop_and_tell(driver: Driver, nodes: list[str], show: Show, loads: Loads) -> None:
    """As stop; names the nodes that do not say that it ended there."""
    result = stop(driver, nodes)
    ended = {node for node, host in result.hosts.items() if host.state is HostState.OK} if result else set()
    loads.ended(ended)
    if left := set(nodes) - ended:
        show.say(f"Not shown to be stopped: {few(left)}. {loads.told()}.")
