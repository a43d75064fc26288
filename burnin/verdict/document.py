"""verdict.json: the verdict as one document. Same evidence and policy, same bytes."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from burnin.outcome import Outcome
from burnin.verdict.case import Where
from burnin.verdict.engine import Verdict
from burnin.verdict.measure import Cohort
from burnin.verdict.model import WINDOW_COLUMNS, Disk, Evidence, Finding, NodeFacts, Part
from burnin.verdict.rules.completeness import absent, missing_slots

SCHEMA = "burnin.verdict/1"


def _round(value: float | int | None, digits: int = 6) -> float | int | None:
    """So many significant digits; integers and None as they are. Decisions were made before this."""
    if value is None or isinstance(value, int):
        return value
    return float(f"{value:.{digits}g}")


def _finding(one: Finding) -> dict[str, Any]:
    return {
        "code": one.code,
        "outcome": one.outcome.value,
        "test": one.test,
        "value": _round(one.value),
        "unit": one.unit,
        "median": _round(one.median),
        "deviation_pct": None if one.deviation_pct is None else round(one.deviation_pct, 3) + 0.0,
        "cohort": one.cohort,
        "cohort_size": one.cohort_size,
        "windows": one.windows,
        "cause": one.cause,
        "why": one.why,
        "action": one.action,
        "evidence": {name: _round(value) for name, value in sorted(one.evidence.items())},
    }


def _judged(verdict: Verdict, where: Where) -> dict[str, Any]:
    return {"verdict": verdict.outcome(where).value, "findings": [_finding(one) for one in verdict.of(where)]}


def _gpu(verdict: Verdict, part: Part) -> dict[str, Any]:
    who = {name: getattr(part, name) for name in ("gpu", "serial", "node", "slot", "rack", "position", "pci", "sku")}
    return who | _judged(verdict, Where("gpu", part.key))


def _absent(node: NodeFacts, slot: int | None) -> dict[str, Any]:
    """An expected part that did not show up, with what is known of it."""
    what = absent(node)
    who = {
        "gpu": None,
        "serial": None,
        "node": node.node,
        "slot": slot,
        "rack": node.rack,
        "position": node.position,
        "pci": None,
        "sku": node.sku,
    }
    return who | {"verdict": what.outcome.value, "findings": [_finding(what)]}


def _disk(verdict: Verdict, disk: Disk) -> dict[str, Any]:
    part = disk.part
    who = {name: getattr(part, name) for name in ("serial", "node", "rack", "position", "pci")}
    what = {"disk": part.gpu, "model": disk.model, "firmware": disk.firmware, "size_bytes": disk.size_bytes}
    return who | what | _judged(verdict, Where("disk", part.key))


def _cohort(cohort: Cohort, below_pct: float) -> dict[str, Any]:
    return {
        "cohort": cohort.name,
        "test": cohort.test,
        "unit": cohort.unit,
        "better": cohort.better,
        "size": cohort.size,
        "nodes": cohort.nodes,
        "referenced": cohort.referenced,
        "median": _round(cohort.median),
        "sigma_pct": _round(cohort.sigma_pct, 4),
        "line": _round(cohort.line(below_pct)),
        "temp_median_c": _round(cohort.temp_c),
    }


def digest(evidence: Evidence, policy_digest: str) -> str:
    """A hash over the evidence and the policy that does not depend on the order of either."""
    total = hashlib.sha256(policy_digest.encode())
    for part in sorted(evidence.parts, key=lambda part: part.key):
        total.update(repr(part).encode())
    for node in sorted(evidence.nodes, key=lambda node: node.node):
        total.update(repr(node).encode())
    for disk in sorted(evidence.disks, key=lambda disk: disk.part.key):
        total.update(repr(disk).encode())
    columns = list(WINDOW_COLUMNS)
    for windows in (evidence.windows, *([] if evidence.disk_windows is None else [evidence.disk_windows])):
        total.update(windows.select(columns).sort(columns, nulls_last=True).write_csv().encode())
    return total.hexdigest()


def _text(value: object) -> str:
    """Sorts None first and numbers by size."""
    return "" if value is None else f"{value:020d}" if isinstance(value, int) else str(value)


def build(verdict: Verdict) -> dict[str, Any]:
    """The document (schema burnin.verdict/1), every list sorted."""
    evidence, policy = verdict.evidence, verdict.policy
    gpus = [_gpu(verdict, part) for part in evidence.parts]
    gpus += [_absent(node, slot) for node in evidence.nodes for slot in missing_slots(node)]
    gpus.sort(key=lambda one: [_text(one[name]) for name in ("rack", "position", "node", "slot", "gpu")])
    counts = Counter(one["verdict"] for one in gpus)
    where_node = {part.node: {"rack": part.rack, "position": part.position} for part in evidence.parts if part.node is not None}
    where_node |= {node.node: {"rack": node.rack, "position": node.position} for node in evidence.nodes}
    nodes = sorted(where.key for where in verdict.findings if where.kind == "node")
    racks = sorted(where.key for where in verdict.findings if where.kind == "rack")
    return {
        "schema": SCHEMA,
        "run_id": evidence.run_id,
        "plan": evidence.plan,
        "simulated": evidence.simulated,
        "notes": sorted(evidence.notes),
        "digest": digest(evidence, policy.digest),
        "policy": {
            "name": policy.name,
            "digest": policy.digest,
            "limits": {name: dict(entry) for name, entry in sorted(policy.limits.items())},
        },
        "summary": {"gpus": len(gpus), **{outcome.value: counts[outcome.value] for outcome in Outcome}},
        "gpus": gpus,
        "nodes": [
            {"node": name, **where_node.get(name, {"rack": None, "position": None}), **_judged(verdict, Where("node", name))}
            for name in nodes
        ],
        "racks": [{"rack": name, **_judged(verdict, Where("rack", name))} for name in racks],
        "links": [],
        "disks": [_disk(verdict, disk) for disk in sorted(evidence.disks, key=lambda disk: disk.part.key)],
        "fleet": _judged(verdict, Where("fleet", "")),
        "cohorts": [_cohort(cohort, policy.limit("perf_below_median_pct")) for cohort in verdict.cohorts()],
    }


def outcomes(document: Mapping[str, Any]) -> list[Outcome]:
    """Every verdict in a document, for the exit code. A document without a GPU has shown nothing."""
    judged = [*document["gpus"], *document["nodes"], *document["racks"], *document["disks"], document["fleet"]]
    found = [Outcome(one["verdict"]) for one in judged]
    return found if document["gpus"] else [*found, Outcome.INCONCLUSIVE]


def dump(document: Mapping[str, Any]) -> str:
    """The document's text; NaN is refused, keys are sorted."""
    return json.dumps(document, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"
