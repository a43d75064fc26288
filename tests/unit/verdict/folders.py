"""Makes run folders as texts: what a controller wrote of a run and what each node sent, to be broken by tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from burnin.verdict.document import build, dump
from burnin.verdict.engine import judge
from burnin.verdict.policy import default_policy
from burnin.verdict.run_folder import NodeFiles, RunFiles, read_run

POLICY = default_policy()
Json = dict[str, Any]
RUN_ID = "20260101T120000Z-a1b2c3"
PLAN: Json = {
    "schema": "burnin.plan/1", "name": "acceptance", "run_id": RUN_ID, "seed": 1,
    "steps": [
        {"name": "soak", "test": "gemm_bf16", "starts": 1, "warmup_s": 60, "window_s": 60, "windows": 3},
        {"name": "restart", "test": "gemm_bf16", "starts": 2, "warmup_s": 60, "window_s": 60, "windows": 2},
        {"name": "memory", "test": "hbm_copy", "starts": 2, "warmup_s": 60, "window_s": 30, "windows": 2},
    ],
}  # fmt: skip
SOUND = {"gemm_bf16": ("TFLOPS", 730.0), "hbm_copy": ("GB/s", 2900.0)}


def gpu(node: str, slot: int) -> Json:
    return {
        "gpu": f"GPU-{node}-{slot}", "serial": f"00{node[1:]}7{slot}4", "pci": f"00000000:{slot + 16:02X}:00.0", "slot": slot,
        "device_id": "2330", "form_factor": "SXM5", "memory_mib": 81559, "power_limit_w": 700.0, "ecc": True, "mig": False,
        "max_operating_c": 87.0,
        "health": {"lost": False, "row_remap_failure": False, "row_remap_pending": False, "sram_threshold_exceeded": False, "recovery_action": "none"},
    }  # fmt: skip


def record(gpu_name: str, step: Json, start: int, window: int) -> Json:
    unit, value = SOUND[step["test"]]
    return {
        "gpu": gpu_name, "test": step["test"], "step": step["name"], "start": start, "window": window, "attempt": 1, "value": value,
        "unit": unit, "better": "higher", "scope": "gpu", "elapsed_s": 100.0, "duration_s": 60.0, "began": "2026-01-01T12:00:00+00:00",
        "steady": True, "seed": 1000 + start, "checked": 60, "wrong": 0, "temp_c": 65.0, "mem_temp_c": 70.0, "margin_c": 22.0,
        "power_w": 699.0, "sm_clock_mhz": 1755.0, "hw_thermal_fraction": 0.0, "sw_thermal_fraction": 0.0, "hw_power_brake_fraction": 0.0,
        "sw_power_cap_fraction": 1.0,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Node:
    """What one node sent, as data: change it, then `files` makes the texts."""

    name: str
    identity: Any
    journal: list[Any]
    measurements: list[Any]
    collected: Any

    def files(self) -> NodeFiles:
        return NodeFiles(json.dumps(self.identity), lines(self.journal), lines(self.measurements), json.dumps(self.collected))


def lines(records: Sequence[Any]) -> str:
    return "".join(json.dumps(one) + "\n" for one in records)


def node(name: str, gpus: int = 8, plan: Json = PLAN) -> Node:
    """A sound node that ran the plan to its end."""
    listed = [gpu(name, slot) for slot in range(gpus)]
    identity = {"before": {"fingerprint": "sw1", "gpus": listed}, "after": {"fingerprint": "sw1", "gpus": listed}}
    journal: list[Json] = [{"event": "run_started", "run_id": RUN_ID, "plan": plan["name"], "boot_id": f"boot-{name}", "elapsed_s": 0.0}]
    measured: list[Json] = []
    for step in plan["steps"]:
        for start in range(1, step["starts"] + 1):
            where = {"step": step["name"], "test": step["test"], "start": start}
            journal.append({"event": "start_begun", **where})
            for window in range(1, step["windows"] + 1):
                measured += [record(one["gpu"], step, start, window) for one in listed]
                journal.append({"event": "window", **where, "window": window, "elapsed_s": 100.0})
            journal.append({"event": "start_ended", **where})
    journal.append({"event": "run_ended", "complete": True, "boot_id": f"boot-{name}", "elapsed_s": 900.0})
    return Node(name, json.loads(json.dumps(identity)), journal, measured, {"state": "finished", "boot_id": f"boot-{name}"})


@cache
def sound_files(name: str, gpus: int) -> NodeFiles:
    return node(name, gpus).files()


@dataclass(frozen=True, slots=True)
class Folder:
    """A run folder as texts."""

    run: Json
    nodes: Mapping[str, NodeFiles]
    controller: Sequence[Any] = field(default_factory=list)

    def files(self) -> RunFiles:
        return RunFiles(self.run, self.controller, self.nodes)

    def document(self) -> Json:
        return build(judge(read_run(self.files(), POLICY), POLICY))

    def dump(self) -> str:
        return dump(self.document())

    def changed(self, name: str, **texts: Any) -> Folder:
        """With other texts of that node."""
        return replace(self, nodes={**self.nodes, name: replace(self.nodes[name], **texts)})

    def without(self, name: str) -> Folder:
        return replace(self, nodes={other: files for other, files in self.nodes.items() if other != name})


def folder(*changes: Callable[[Node], Node | None], nodes: int = 4, gpus: int = 8) -> Folder:
    """Four sound nodes; `changes` are done to node n0."""
    made = {f"n{number}": sound_files(f"n{number}", gpus) for number in range(nodes)}
    if changes:
        broken = node("n0", gpus)
        for change in changes:
            broken = change(broken) or broken
        made["n0"] = broken.files()
    entries = [
        {"node": name, "folder": name, "rack": "A", "position": number, "sku": None, "expected_gpus": gpus, "burn_in": True}
        for number, name in enumerate(made)
    ]
    run = {"schema": "burnin.run/1", "run_id": RUN_ID, "plan": PLAN, "inventory": {"nodes": entries}}
    return Folder(run, made)


def everywhere(change: Callable[[Node], None]) -> Folder:
    """Four nodes, all changed alike."""
    made = {}
    for number in range(4):
        one = node(f"n{number}")
        change(one)
        made[one.name] = one.files()
    return replace(folder(), nodes=made)


def verdicts(document: Json, name: str = "n0") -> list[str]:
    """The verdicts of a node's GPUs, by slot."""
    return [one["verdict"] for one in document["gpus"] if one["node"] == name]


def node_codes(document: Json, name: str = "n0") -> dict[str, str]:
    """code -> outcome of the node's findings."""
    return {one["code"]: one["outcome"] for entry in document["nodes"] if entry["node"] == name for one in entry["findings"]}


def gpu_codes(document: Json, name: str = "n0", at: int = 0) -> dict[str, str]:
    """code -> outcome of the findings, other than PASS, of the node's GPU at that place of the list."""
    listed = [one for one in document["gpus"] if one["node"] == name][at]
    return {one["code"]: one["outcome"] for one in listed["findings"] if one["outcome"] != "PASS"}


def preflight(run: Folder) -> Folder:
    """The same nodes as a preflight leaves them: an identity, no plan, no journal."""
    looked = {name: NodeFiles(identity=files.identity) for name, files in run.nodes.items()}
    plan = {"schema": "burnin.plan/1", "name": "preflight", "steps": []}
    entries = [{**entry, "burn_in": False} for entry in run.run["inventory"]["nodes"]]
    return Folder({**run.run, "plan": plan, "inventory": {"nodes": entries}}, looked)
