"""The judgement in order: hard faults, medians, shared faults, heat, speed, completeness; then what no part may be condemned for."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from burnin.errors import RunFolderError
from burnin.outcome import Outcome, overall
from burnin.verdict import looked
from burnin.verdict.case import Case, Found, Where, finding
from burnin.verdict.measure import Cohort, Measured, measure
from burnin.verdict.model import Evidence, Finding, Part
from burnin.verdict.policy import Policy
from burnin.verdict.rules import completeness, disks, hard_faults, heat, power, shared, silence, slowdown, speed

HOT_CODES = ("HEAT_NEAR_LIMIT", "HEAT_OVER_SLOT_PEERS", "HEAT_OVER_COHORT", "THERMAL_SLOWDOWN")
PEER_CODES = ("PERF_BELOW_MEDIAN", "THERMAL_SLOWDOWN")


@dataclass(frozen=True, slots=True)
class Verdict:
    """All findings by what they are about, and the medians they rest on."""

    evidence: Evidence
    policy: Policy
    findings: Mapping[Where, tuple[Finding, ...]]
    measured: tuple[Measured, ...]

    def of(self, where: Where) -> tuple[Finding, ...]:
        """The findings there, worst first."""
        return self.findings.get(where, ())

    def outcome(self, where: Where) -> Outcome:
        return overall(one.outcome for one in self.of(where))

    def cohorts(self) -> list[Cohort]:
        return sorted({one.cohort.name: one.cohort for one in self.measured}.values(), key=lambda cohort: (cohort.test, cohort.name))


def judge(evidence: Evidence, policy: Policy, reference: Mapping[str, float] | None = None) -> Verdict:
    """Judge the evidence by the policy. `reference`: cohort name -> median of a reference run.

    Raises RunFolderError for a reference whose median is no positive number.
    """
    for name, given in (reference or {}).items():
        if not (math.isfinite(given) and given > 0):
            raise RunFolderError(f"--reference: cohort {name!r} has the median {given}; expected a positive number")
    found: list[Found] = list(hard_faults.judge(Case(evidence, policy)))
    condemned = {where.key for where, what in found if where.kind == "gpu" and what.outcome is Outcome.RMA}
    measured = tuple(measure(evidence, policy, condemned, reference))
    case = Case(evidence, policy, measured)
    slow_found, slow = shared.judge(case)
    hot_found, hot = slowdown.judge(case)
    hot_found += heat.judge(case)
    named_hot = frozenset((where.key, what.test) for where, what in hot_found if where.kind == "gpu" and what.code in HOT_CODES)
    # Heat comes first among causes (rule 4), and a shared heat is never milder than a shared slowness.
    under = {key: {**slow.get(key, {}), **hot.get(key, {})} for key in sorted(slow.keys() | hot.keys())}
    case = Case(evidence, policy, measured, under, named_hot)
    found += [*slow_found, *hot_found, *speed.judge(case), *power.judge(case), *silence.judge(case), *completeness.judge(case)]
    found += looked.judge(case)
    found += disks.judge(case)
    found = list(_capped(case, found))
    return Verdict(evidence, policy, _sorted([*found, *_sound(case, found)]), measured)


def _capped(case: Case, found: Iterable[Found]) -> Iterator[Found]:
    """No RMA while it is not clear whose numbers these are, whether they are whole, or while a reset is still owed."""
    parts = {part.key: part for part in case.evidence.parts}
    damaged = {node.node for node in case.evidence.nodes if node.damaged}
    pending = {where.key for where, what in found if what.code == "RESET_PENDING"}
    for where, what in found:
        part = parts.get(where.key) if where.kind == "gpu" and what.outcome is Outcome.RMA else None
        cap = _cap(part, damaged) if part is not None else None
        if part is not None and cap is None and where.key in pending and what.code in PEER_CODES:
            cap = (Outcome.RETEST, "A reset is owed first", "Reset the GPU (or reboot the node), then run again.")
        if cap is None:
            yield where, what
        else:
            outcome, told, action = cap
            yield where, replace(what, outcome=outcome, why=f"{what.why} {told}, so this condemns nothing yet.", action=action)


def _cap(part: Part, damaged: set[str]) -> tuple[Outcome, str, str] | None:
    if part.duplicate_on:
        return Outcome.INCONCLUSIVE, "Two parts carry its identity", "Find out which part this is (DUPLICATE_ID) before any RMA."
    if part.node in damaged:
        return Outcome.RETEST, "Its node's files do not match their checksums", "Collect the evidence again, or run again; then judge it."
    return None


def _sound(case: Case, found: Iterable[Found]) -> Iterator[Found]:
    """A node, rack or fleet that was looked at and showed no fault of its own says so: silence is not a pass."""
    faulty = {where for where, _ in found}
    evidence = case.evidence
    looked_only = bool(evidence.nodes) and not any(node.burn_in for node in evidence.nodes)
    if evidence.from_table:
        nodes, why = {one.part.node for one in case.measured}, "Its GPUs were held against the fleet and are not slow together."
    else:
        nodes, why = {node.node for node in evidence.nodes if node.shown}, "All its parts showed up and the plan was run to its end."
    racks = {part.rack for part in evidence.parts} if looked_only else {one.part.rack for one in case.measured}
    for name in sorted(name for name in nodes if name is not None and Where("node", name) not in faulty):
        yield Where("node", name), finding("NODE_OK", Outcome.PASS, why)
    for rack in sorted(rack for rack in racks if rack is not None and Where("rack", rack) not in faulty):
        yield Where("rack", rack), finding("RACK_OK", Outcome.PASS, "No fault that its nodes share.")
    if Where("fleet", "") in faulty:
        return
    if case.measured or (looked_only and evidence.parts):
        yield Where("fleet", ""), finding("FLEET_OK", Outcome.PASS, "No fault that the whole fleet shares.")
    else:
        yield Where("fleet", ""), finding("NOTHING_SHOWN", Outcome.INCONCLUSIVE, "No part showed a value that can be judged.")


def _sorted(found: Iterable[Found]) -> dict[Where, tuple[Finding, ...]]:
    gathered: dict[Where, list[Finding]] = defaultdict(list)
    for where, what in found:
        gathered[where].append(what)
    order = list(Outcome)
    return {
        where: tuple(sorted(whats, key=lambda what: (order.index(what.outcome), what.code, what.test or "", what.why)))
        for where, whats in sorted(gathered.items())
    }
