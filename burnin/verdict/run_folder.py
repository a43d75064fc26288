"""A run folder's contents as evidence. Pure: the files were read by an adapter; here they are believed only as far as they hold together."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from burnin.node.catalog import TESTS
from burnin.verdict import journal
from burnin.verdict.model import WINDOW_COLUMNS, Evidence, Health, NodeFacts, Part
from burnin.verdict.policy import Policy

PLACEHOLDERS = ("", "0", "n/a", "none", "unknown", "not specified", "to be filled by o.e.m.", "default string", "1234567890", "0123456789")
MOST_PROBLEMS = 5
STATES = ("temp_c", "margin_c", "power_w", "sm_clock_mhz", "hw_thermal_fraction", "sw_thermal_fraction", "hw_power_brake_fraction")
SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("part", "test", "unit", "better", "step", "start", "window"), pl.String),
    "seed": pl.Int64, "value": pl.Float64, "steady": pl.Boolean, "checked": pl.Int64, "wrong": pl.Int64, **dict.fromkeys(STATES, pl.Float64),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """The texts that came from one node; None = the file is not there. `problems`: what the adapter found wrong (checksums)."""

    identity: str | None = None
    journal: str | None = None
    measurements: str | None = None
    collected: str | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunFiles:
    """A run folder as read: run.json, controller.jsonl (one entry per stage and node) and each node's files by folder name."""

    run: Mapping[str, Any]
    controller: Sequence[Mapping[str, Any]] = ()
    nodes: Mapping[str, NodeFiles] = field(default_factory=dict)


def serial_text(value: object) -> str | None:
    """A serial as text, or None for one that identifies nothing (B55: vendors leave placeholders)."""
    if value is None or isinstance(value, bool):
        return None
    text = str(value).strip()[:80]
    return None if text.lower() in PLACEHOLDERS else text


def read_run(files: RunFiles, policy: Policy) -> Evidence:
    """The evidence of a run. What cannot be read becomes a problem of its node, never an exception and never a pass."""
    plan = files.run.get("plan") or {}
    parts: list[Part] = []
    rows: list[dict[str, Any]] = []
    nodes: list[NodeFacts] = []
    trouble = _trouble(files.controller)
    for entry in files.run["inventory"]["nodes"]:
        facts, mine, windows = _node(entry, files.nodes.get(entry["folder"]), trouble.get(entry["node"]), policy)
        nodes.append(facts)
        parts += mine
        rows += windows
    frame = pl.DataFrame(rows, schema=SCHEMA).select(WINDOW_COLUMNS)
    return Evidence(tuple(_duplicates(parts)), frame, tuple(nodes), _planned(plan), files.run.get("run_id"), plan.get("name"))


def _planned(plan: Mapping[str, Any]) -> dict[str, int]:
    owed: dict[str, int] = defaultdict(int)
    for step in plan.get("steps", []):
        owed[step["test"]] += int(step.get("starts", 1)) * int(step["windows"])
    return dict(owed)


def _trouble(controller: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    """node -> (code, sentence): the newest word of the controller on each node that it could not bring through."""
    newest: dict[str, Mapping[str, Any]] = {}
    for entry in controller:
        newest[str(entry.get("node"))] = entry
    found = {}
    for node, entry in newest.items():
        stage, state, why = entry.get("stage"), entry.get("state"), str(entry.get("why", ""))[:500]
        if state in ("unreachable", "missing"):
            found[node] = ("NODE_UNREACHABLE", f"Unreachable in stage {stage}: {why or 'no answer'}")
        elif state == "failed":
            code = "PREFLIGHT_FAILED" if stage == "preflight" else "RUN_FAILED"
            found[node] = (code, f"Stage {stage} failed: {why or 'no reason given'}")
    return found


class _Problems(list[str]):
    """What is wrong with a node's files: the first few in words, the rest counted."""

    def __init__(self, first: Sequence[str] = ()) -> None:
        super().__init__(first)
        self.more = 0

    def note(self, text: str) -> None:
        if len(self) < MOST_PROBLEMS:
            self.append(text)
        else:
            self.more += 1

    def told(self) -> tuple[str, ...]:
        return (*self, f"{self.more} more problems of this kind.") if self.more else tuple(self)


def _json(text: str | None, name: str, problems: _Problems) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except ValueError as problem:
        problems.note(f"{name} is not JSON ({problem}); it is damaged or cut off.")
        return {}
    if not isinstance(found, dict):
        problems.note(f"{name} holds {type(found).__name__}; expected a mapping.")
        return {}
    return found


def _lines(text: str | None, name: str, problems: _Problems) -> list[dict[str, Any]]:
    """The records of a JSON-lines file. A torn last line was never finished and is left out; any other damage is a problem."""
    records = []
    lines = (text or "").split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError:
            if number < len(lines):
                problems.note(f"{name}, line {number}: not JSON.")
            continue
        if isinstance(record, dict):
            records.append(record)
        else:
            problems.note(f"{name}, line {number}: holds {type(record).__name__}; expected a mapping.")
    return records


def _node(
    entry: Mapping[str, Any], files: NodeFiles | None, trouble: tuple[str, str] | None, policy: Policy
) -> tuple[NodeFacts, list[Part], list[dict[str, Any]]]:
    facts = NodeFacts(
        node=entry["node"],
        rack=entry.get("rack"),
        position=entry.get("position"),
        sku=entry.get("sku"),
        expected_gpus=entry.get("expected_gpus"),
        trouble_code=trouble[0] if trouble else None,
        trouble=trouble[1] if trouble else None,
    )
    if files is None:
        return replace(facts, shown=False, complete=False), [], []
    problems = _Problems(files.problems)
    identity = _json(files.identity, "identity.json", problems)
    events = _lines(files.journal, "journal.jsonl", problems)
    run = journal.read(events, _json(files.collected, "collected.json", problems))
    parts = _parts(facts, identity, policy, problems)
    windows, invalid = _windows(facts, {part.gpu for part in parts}, _lines(files.measurements, "measurements.jsonl", problems), problems)
    parts = [replace(part, invalid=tuple(invalid[part.key][:MOST_PROBLEMS])) for part in parts]
    if run.failed and facts.trouble_code is None:
        facts = replace(facts, trouble_code="RUN_FAILED", trouble=f"The run could not go on: {run.failed}")
    facts = replace(
        facts,
        shown=bool(identity),
        seen_slots=tuple(part.slot for part in parts),
        unreadable=problems.told(),
        complete=run.complete or (not events and files.journal is None and not _expects_journal(entry)),
        stopped=run.stopped,
        rebooted=run.rebooted,
        where=run.where,
        skipped=run.skipped,
    )
    return facts, parts, windows


def _expects_journal(entry: Mapping[str, Any]) -> bool:
    """A preflight collects identity alone; a burn-in owes a journal."""
    return bool(entry.get("burn_in", True))


def _parts(node: NodeFacts, identity: Mapping[str, Any], policy: Policy, problems: _Problems) -> list[Part]:
    before, after = identity.get("before") or {}, identity.get("after") or {}
    listed = before.get("gpus")
    if not isinstance(listed, list):
        if identity:
            problems.note("identity.json has no list of GPUs.")
        return []
    later = {str(gpu.get("gpu")): gpu for gpu in after.get("gpus", []) if isinstance(gpu, dict)}
    parts = []
    for gpu in listed:
        if not isinstance(gpu, dict) or not gpu.get("gpu"):
            problems.note("identity.json lists a GPU without an id.")
            continue
        parts.append(_part(node, gpu, later.get(str(gpu["gpu"])), bool(after), str(before.get("fingerprint") or ""), policy))
    return parts


def _part(
    node: NodeFacts, gpu: Mapping[str, Any], later: Mapping[str, Any] | None, looked_again: bool, fingerprint: str, policy: Policy
) -> Part:
    name, slot = str(gpu["gpu"])[:120], gpu.get("slot")
    power = gpu.get("power_limit_w")
    kin = "/".join(
        str(piece)[:40]
        for piece in (
            gpu.get("device_id"), gpu.get("form_factor"), f"{gpu.get('memory_mib')}MiB", f"{power:g}W" if isinstance(power, int | float) else "?W",
            {True: "ecc", False: "noecc"}.get(gpu.get("ecc"), "ecc?"), {True: "mig", False: "nomig"}.get(gpu.get("mig"), "mig?"),
        )
    )  # fmt: skip
    limit = gpu.get("max_operating_c")
    return Part(
        key=f"{node.node}|{name}",
        gpu=name,
        serial=serial_text(gpu.get("serial")),
        node=node.node,
        slot=slot if isinstance(slot, int) and not isinstance(slot, bool) else None,
        rack=node.rack,
        position=node.position,
        pci=str(gpu["pci"])[:40] if gpu.get("pci") else None,
        sku=node.sku,
        kin=kin,
        fingerprint=fingerprint[:40],
        max_operating_c=float(limit)
        if isinstance(limit, int | float) and not isinstance(limit, bool) and limit > 0
        else policy.max_operating_c(node.sku),
        judge_heat=gpu.get("kind") != "cpu",
        health=_health(gpu.get("health") or {}, (later or {}).get("health") or {}, looked_again and later is None),
    )


def _health(before: Mapping[str, Any], after: Mapping[str, Any], gone: bool) -> Health:
    """The worse of two looks: a flag that was up once counts."""

    def flag(name: str) -> bool | None:
        values = [look.get(name) for look in (before, after) if isinstance(look.get(name), bool)]
        return any(values) if values else None

    actions = [str(look["recovery_action"]) for look in (after, before) if look.get("recovery_action") not in (None, "none")]
    return Health(
        lost=True if gone else flag("lost"),
        row_remap_failure=flag("row_remap_failure"),
        row_remap_pending=flag("row_remap_pending"),
        sram_threshold_exceeded=flag("sram_threshold_exceeded"),
        recovery_action=actions[0][:40] if actions else None,
    )


def _finite(value: object) -> float | None:
    """A number that is one, or None."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _windows(
    node: NodeFacts, known: set[str], records: list[dict[str, Any]], problems: _Problems
) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    """The windows to judge: of repeated attempts the newest counts; an older one is kept only for the wrong results in it."""
    newest: dict[tuple[str, ...], tuple[int, dict[str, Any]]] = {}
    kept: list[dict[str, Any]] = []
    invalid: dict[str, list[str]] = defaultdict(list)
    for record in records:
        gpu, test = record.get("gpu"), record.get("test")
        if gpu not in known or test not in TESTS:
            problems.note(f"measurements.jsonl names {str(gpu)[:60]!r} in {str(test)[:40]!r}: no GPU of this node's identity, or no test.")
            continue
        row = _row(f"{node.node}|{gpu}", record)
        if row["value"] is None:
            invalid[row["part"]].append(
                f"{test}, start {row['start']}, window {row['window']}: {str(record.get('value'))[:40]!r} is no positive number."
            )
        key, attempt = tuple(row[name] for name in ("part", "test", "step", "start", "window")), _whole(record.get("attempt"))
        older = newest.get(key)
        if older is None or attempt >= older[0]:
            newest[key] = (attempt, row)
            older = older and (older[0], older[1])
        else:
            older = (attempt, row)
        if older is not None and older[1]["wrong"] > 0:
            kept.append({**older[1], "steady": False})
    return [row for _, row in newest.values()] + kept, invalid


def _row(part: str, record: Mapping[str, Any]) -> dict[str, Any]:
    test = TESTS[str(record["test"])]
    value = _finite(record.get("value"))
    return {
        "part": part,
        "test": test.name,
        "unit": test.unit,
        "better": test.better,
        "step": str(record.get("step", ""))[:80],
        "start": str(record.get("start", ""))[:20],
        "window": str(record.get("window", ""))[:20],
        "seed": _whole(record.get("seed")),
        "value": value if value is not None and value > 0 else None,
        "steady": record.get("steady") is True,
        "checked": _whole(record.get("checked")),
        "wrong": _whole(record.get("wrong")),
        **{name: _finite(record.get(name)) for name in STATES},
    }


def _duplicates(parts: list[Part]) -> list[Part]:
    """A UUID, or a serial, on two nodes: both keep their record and neither can be condemned or passed."""
    homes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for part in parts:
        homes[("gpu", part.gpu)].add(part.node or "")
        if part.serial:
            homes[("serial", part.serial)].add(part.node or "")
    result = []
    for part in parts:
        shared = homes[("gpu", part.gpu)] | (homes[("serial", part.serial)] if part.serial else set())
        result.append(replace(part, duplicate_on=tuple(sorted(shared))) if len(shared) > 1 else part)
    return result
