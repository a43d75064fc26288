"""The judgement in order: hard faults, medians, shared faults, heat, speed, completeness."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from burnin.outcome import Outcome, overall
from burnin.verdict.case import Case, Found, Where, finding
from burnin.verdict.measure import Cohort, Measured, measure
from burnin.verdict.model import Evidence, Finding
from burnin.verdict.policy import Policy
from burnin.verdict.rules import completeness, hard_faults, heat, shared, speed

HOT_CODES = ("HEAT_NEAR_LIMIT", "HEAT_OVER_SLOT_PEERS", "HEAT_OVER_COHORT", "THERMAL_SLOWDOWN")


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
    """Judge the evidence by the policy. `reference`: cohort name -> median of a reference run."""
    found: list[Found] = list(hard_faults.judge(Case(evidence, policy)))
    condemned = {where.key for where, what in found if where.kind == "gpu" and what.outcome is Outcome.RMA}
    measured = tuple(measure(evidence, policy, condemned, reference))
    shared_found, suppressed = shared.judge(Case(evidence, policy, measured))
    found += shared_found
    hot_found = list(heat.judge(Case(evidence, policy, measured, suppressed)))
    found += hot_found
    hot = frozenset(where.key for where, what in hot_found if where.kind == "gpu" and what.code in HOT_CODES)
    case = Case(evidence, policy, measured, suppressed, hot)
    found += speed.judge(case)
    found += completeness.judge(case)
    return Verdict(evidence, policy, _sorted(found + list(_sound(case, found))), measured)


def _sound(case: Case, found: Iterable[Found]) -> Iterable[Found]:
    """A node, rack or fleet that was looked at and showed no fault of its own says so: silence is not a pass."""
    faulty = {where for where, _ in found}
    facts = {node.node: node for node in case.evidence.nodes}
    measured_nodes = {one.part.node for one in case.measured if one.part.node is not None}
    names = measured_nodes if case.evidence.from_table else {name for name, node in facts.items() if node.shown}
    for name in sorted(names):
        if Where("node", name) not in faulty:
            why = (
                "Its GPUs were held against the fleet and are not slow together."
                if case.evidence.from_table
                else "All its parts showed up and the plan was run to its end."
            )
            yield Where("node", name), finding("NODE_OK", Outcome.PASS, why)
    for rack in sorted({part.rack for part in case.evidence.parts if part.rack is not None}):
        if Where("rack", rack) not in faulty:
            yield Where("rack", rack), finding("RACK_OK", Outcome.PASS, "No fault that its nodes share.")
    if Where("fleet", "") not in faulty:
        if case.measured or (not case.evidence.planned and not case.evidence.from_table and case.evidence.parts):
            yield Where("fleet", ""), finding("FLEET_OK", Outcome.PASS, "No fault that the whole fleet shares.")


def _sorted(found: Iterable[Found]) -> dict[Where, tuple[Finding, ...]]:
    gathered: dict[Where, list[Finding]] = defaultdict(list)
    for where, what in found:
        gathered[where].append(what)
    order = list(Outcome)
    return {
        where: tuple(sorted(whats, key=lambda what: (order.index(what.outcome), what.code, what.test or "", what.why)))
        for where, whats in sorted(gathered.items())
    }
