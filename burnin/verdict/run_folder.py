"""A run folder's contents as evidence. Pure: the files were read by an adapter; here they are believed only as far as they hold together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from burnin.errors import RunFolderError
from burnin.node.catalog import TESTS
from burnin.node.plan import Plan, PlanProblem, check_plan
from burnin.verdict import journal, looked, windows
from burnin.verdict.disks import disks_of
from burnin.verdict.identity import mark_duplicates, parts_of
from burnin.verdict.model import WINDOW_COLUMNS, Disk, Evidence, NodeFacts, Part
from burnin.verdict.policy import Policy
from burnin.verdict.reading import Problems, document, mapping, records, text, whole

MOST_GPUS, MOST_POSITION = 1024, 10**6


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """The texts that came from one node; None = the file is not there.

    `problems`: what is not what the node wrote (checksums). `lacking`: what is true as far as it goes, and is not all.
    """

    identity: str | None = None
    journal: str | None = None
    measurements: str | None = None
    collected: str | None = None
    preflight: str | None = None
    problems: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunFiles:
    """A run folder as read: run.json, controller.jsonl (one entry per stage and node) and each node's files by folder name.

    `ledger`: what is wrong with controller.jsonl itself.
    """

    run: Mapping[str, Any]
    controller: Sequence[Mapping[str, Any]] = ()
    nodes: Mapping[str, NodeFiles] = field(default_factory=dict)
    ledger: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Run:
    """What run.json says of the whole run."""

    run_id: str | None
    plan: str | None
    planned: Plan
    policy: Policy


@dataclass(slots=True)
class _Drives:
    """The drives of all nodes and their windows, gathered node by node."""

    disks: list[Disk] = field(default_factory=list)
    rows: list[windows.Row] = field(default_factory=list)


# Words that stand until the same stage goes well on that node.
STANDS = {"PREFLIGHT_FAILED": "preflight", "PROVISION_FAILED": "provision", "REBOOT_REQUIRED": "provision"}


@dataclass(frozen=True, slots=True)
class _Word:
    """The controller's newest word on a node: a code and sentence of trouble, and what it could not unpack."""

    code: str | None = None
    why: str | None = None
    damaged: tuple[str, ...] = ()


def read_run(files: RunFiles, policy: Policy) -> Evidence:
    """The evidence of a run. What a node wrote and cannot be read becomes a problem of that node, never an exception and never a pass.

    Raises RunFolderError for a run.json (the controller's own file) that names no nodes or no plan that can be run.
    """
    plan = files.run.get("plan")
    planned = _planned(plan)
    run = _Run(text(files.run.get("run_id")) or None, text(mapping(plan).get("name")) or None, planned, policy)
    words = _words(files.controller)
    parts: list[Part] = []
    rows: list[windows.Row] = []
    nodes: list[NodeFacts] = []
    drives = _Drives()
    for entry in _entries(files.run):
        word = words.get(entry["node"]) or words.get(entry["folder"]) or _Word()
        facts, mine, measured = _node(run, entry, files.nodes.get(entry["folder"]), word, drives)
        nodes.append(facts)
        parts += mine
        rows += measured
    frame = pl.DataFrame(rows, schema=windows.SCHEMA).select(WINDOW_COLUMNS)
    simulated = any(node.simulated for node in nodes)
    return Evidence(
        mark_duplicates(parts),
        frame,
        tuple(nodes),
        _owed(_of_drives(planned, False)),
        run.run_id,
        run.plan,
        simulated=simulated,
        ledger=tuple(files.ledger),
        disks=tuple(drives.disks),
        disk_windows=pl.DataFrame(drives.rows, schema=windows.SCHEMA).select(WINDOW_COLUMNS) if drives.disks else None,
        disks_planned=_owed(_of_drives(planned, True)),
    )


def _of_drives(plan: Plan, drives: bool) -> Plan:
    """The part of the plan that tests drives, or the rest of it."""
    return replace(plan, steps=tuple(step for step in plan.steps if (TESTS[step.test].scope == "disk") is drives))


def _owed(plan: Plan) -> dict[str, int]:
    """test -> how many windows of it the plan asks of each part."""
    owed: dict[str, int] = defaultdict(int)
    for step in plan.steps:
        owed[step.test] += step.starts * step.windows
    return dict(owed)


def _planned(plan: object) -> Plan:
    """The plan; one without a step for a preflight."""
    if plan is None or (isinstance(plan, Mapping) and not plan.get("steps")):
        return Plan("", "", 0, ())
    try:
        return check_plan(plan)
    except PlanProblem as problem:
        raise RunFolderError(f"run.json: {problem}; the file is damaged, the run cannot be judged") from None


def _entries(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = mapping(run.get("inventory")).get("nodes")
    if not isinstance(listed, list) or not listed:
        raise RunFolderError("run.json: inventory.nodes lists no node; the file is damaged, the run cannot be judged")
    names: set[str] = set()
    for entry in listed:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("node"), str) or not isinstance(entry.get("folder"), str):
            raise RunFolderError("run.json: inventory.nodes holds an entry without node and folder; the file is damaged")
        if entry["node"] in names:
            raise RunFolderError(f"run.json: inventory.nodes names {entry['node']!r} twice; the file is damaged")
        names.add(entry["node"])
    return listed


def _words(controller: Sequence[Mapping[str, Any]]) -> dict[str, _Word]:
    """node -> what the controller last said of it. What was collected again after a damaged archive is judged afresh."""
    found: dict[str, _Word] = {}
    for entry in controller:
        if not isinstance(entry, Mapping):
            continue
        node, stage, state, why = (text(entry.get(name), 500) for name in ("node", "stage", "state", "why"))
        word = found.get(node, _Word())
        if state == "damaged":
            found[node] = replace(word, damaged=(*word.damaged, why or "What it sent is damaged.")[-5:])
            continue
        if stage != STANDS.get(word.code or "", stage):
            continue  # only that stage, when it goes well, takes this back
        code, told = _trouble(stage, state, why)
        found[node] = _Word(code, told, () if stage == "collect" else word.damaged)
    return found


def _trouble(stage: str, state: str, why: str) -> tuple[str | None, str | None]:
    if state in ("unreachable", "missing"):
        return "NODE_UNREACHABLE", f"Unreachable in stage {stage}: {why or 'no answer'}"
    if state == "failed":
        code = {"preflight": "PREFLIGHT_FAILED", "provision": "PROVISION_FAILED"}.get(stage, "RUN_FAILED")
        return code, f"Stage {stage} failed: {why or 'no reason given'}"
    if state == "reboot_required":
        return "REBOOT_REQUIRED", f"It is not yet as it shall be: {why or 'it waits for a reboot'}"
    return None, None


def _node(
    run: _Run, entry: Mapping[str, Any], files: NodeFiles | None, word: _Word, drives: _Drives
) -> tuple[NodeFacts, list[Part], list[windows.Row]]:
    sku = text(entry.get("sku")) or None
    expected = whole(entry.get("expected_gpus"), MOST_GPUS)
    facts = NodeFacts(
        node=entry["node"],
        rack=text(entry.get("rack")) or None,
        position=whole(entry.get("position"), MOST_POSITION),
        sku=sku,
        expected_gpus=run.policy.expected_gpus(sku) if expected is None else expected,
        burn_in=entry.get("burn_in", True) is not False,
        trouble_code=word.code,
        trouble=word.why,
        unreadable=word.damaged,
    )
    if files is None or files == NodeFiles():
        return replace(facts, shown=False, complete=False), [], []
    problems = Problems((*word.damaged, *files.problems, *files.lacking))
    facts = replace(facts, damaged=bool(files.problems or word.damaged), preflight=looked.findings(files.preflight))
    if files.identity is None:
        problems.note("identity.json is not there.")
    identity = document(files.identity, "identity.json", problems)
    events = journal.kept(records(files.journal, "journal.jsonl", problems))
    told = journal.read(events, document(files.collected, "collected.json", problems), run.run_id, run.plan)
    if told.foreign and events:
        problems.note(f"Nothing from this node counts: {told.foreign}.")
        return replace(facts, shown=False, complete=False, unreadable=problems.told()), [], []
    return _shown(run, _journalled(facts, told, events, files), identity, files, problems, told, drives)


def _journalled(facts: NodeFacts, told: journal.JournalFacts, events: Sequence[Mapping[str, Any]], files: NodeFiles) -> NodeFacts:
    """The node with what its journal says. A preflight looks at the identity alone; a burn-in owes a journal."""
    if told.failed and facts.trouble_code is None:
        facts = replace(facts, trouble_code="RUN_FAILED", trouble=f"The run could not go on: {told.failed}")
    only_looked = not facts.burn_in and not events and files.journal is None
    return replace(
        facts,
        complete=told.complete or only_looked,
        stopped=told.stopped,
        rebooted=told.rebooted,
        where=told.where,
        skipped=told.skipped,
    )


def _shown(
    run: _Run,
    facts: NodeFacts,
    identity: Mapping[str, Any],
    files: NodeFiles,
    problems: Problems,
    told: journal.JournalFacts,
    drives: _Drives,
) -> tuple[NodeFacts, list[Part], list[windows.Row]]:
    """The node with its parts and their windows, as far as they can be read."""
    parts = parts_of(facts, identity, problems)
    if parts is None and identity:
        problems.note("identity.json has no list of GPUs.")
    content = files.measurements
    if told.foreign and any(records(content, "measurements.jsonl", problems)):
        problems.note("measurements.jsonl is there without a readable journal: nothing says which run it belongs to, so it does not count.")
        content = None
    measured = (record for record in records(content, "measurements.jsonl", problems) if "disk" not in record)
    keys = {part.gpu: part.key for part in parts or ()}
    rows, invalid = windows.read(keys, measured, _of_drives(run.planned, False), problems) if parts is not None else ([], {})
    disk_rows = _drives_of(run, facts, identity, content, problems, drives)
    if told.complete:
        _thin(identity, [*rows, *disk_rows], told, problems)
    found = [replace(part, invalid=(*part.invalid, *invalid.get(part.key, ())), losses=_losses(part, told)) for part in parts or ()]
    slots = tuple(sorted((part.slot for part in found), key=lambda slot: (slot is None, slot)))
    simulated = mapping(identity.get("before")).get("backend") == "sim"
    return replace(facts, shown=parts is not None, seen_slots=slots, unreadable=problems.told(), simulated=simulated), found, rows


def _drives_of(
    run: _Run, facts: NodeFacts, identity: Mapping[str, Any], content: str | None, problems: Problems, drives: _Drives
) -> list[windows.Row]:
    """Gather this node's drives where the plan tests drives; their windows. A value that cannot be used is no window that was measured."""
    planned = _of_drives(run.planned, True)
    if not planned.steps or not identity:
        return []
    found = disks_of(facts, identity, problems)
    keys = {disk.part.gpu: disk.part.key for disk in found}
    measured = ({**record, "gpu": record["disk"]} for record in records(content, "measurements.jsonl", problems) if "disk" in record)
    rows, invalid = windows.read(keys, measured, planned, problems, "disk")
    for told in invalid.values():
        problems.note(f"measurements.jsonl has a value of a disk that cannot be used: {told[0]}")
    drives.disks += found
    drives.rows += [row for row in rows if row["value"] is not None]
    return rows


def _thin(identity: Mapping[str, Any], rows: Sequence[windows.Row], told: journal.JournalFacts, problems: Problems) -> None:
    """What a run that came to its end owes beside its numbers. One that did not come to it is no pass anyway."""
    if identity and not isinstance(mapping(identity.get("after")).get("gpus"), list):
        problems.note("identity.json has no second look: whether its GPUs were still there after the load is not shown.")
    if not told.boots_told:
        problems.note("journal.jsonl does not say on which boot the run began and ended: whether the node went down is not shown.")
    untold = sorted({(row["step"], row["start"], row["window"]) for row in rows} - told.windows)
    if untold:
        step, start, window = untold[0]
        first = f"window {window} of start {start} of {step!r}"
        problems.note(f"measurements.jsonl holds {len(untold)} windows that its journal does not tell of (one is {first}).")


def _losses(part: Part, told: journal.JournalFacts) -> tuple[str, ...]:
    """Where it fell off the bus, the second look included: one that the journal left away is the same loss."""
    places = told.losses.get(part.gpu, ())
    return (*places, "when it was looked at again") if part.health.lost and part.gpu not in told.away else places
