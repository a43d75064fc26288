"""Rule 5, first half: temperature, judged apart from speed, on medians of steady windows. rules.slowdown has the second half."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from burnin.outcome import Outcome
from burnin.verdict.case import Case, Found, Where, finding
from burnin.verdict.measure import Measured
from burnin.verdict.model import Finding
from burnin.verdict.peers import Peers

Slot = tuple[str, int, str]  # kin, slot, test


def judge(case: Case) -> Iterator[Found]:
    """One finding on temperature per part, in the test where it was hottest."""
    hottest: dict[str, tuple[float, Measured]] = {}
    for one in case.measured:
        temp = one.state["temp_c"]
        if temp is not None and (one.part.key not in hottest or temp > hottest[one.part.key][0]):
            hottest[one.part.key] = (temp, one)
    slots = Slots(case)
    measured = {one.part.key for one in case.measured}
    for part in case.evidence.parts:
        where = Where("gpu", part.key)
        if not part.has_sensors or part.key not in measured:
            continue
        if part.key in hottest:
            temp, one = hottest[part.key]
            yield where, _temperature(case, one, temp, slots)
        elif (
            hottest and case.evidence.from_table
        ):  # one without any temperature was never meant to show one; of a run rules.silence says so
            yield where, finding("HEAT_UNKNOWN", Outcome.INCONCLUSIVE, "Its temperature was never read under load.")


def margin_c(case: Case, one: Measured) -> float | None:
    """Degrees to the maximum operating temperature: by the device's own limit, its own margin, or its SKU's limit.

    A margin of 0 or less is some drivers' way to say unknown (gpud#1208).
    """
    temp, told = one.state["temp_c"], one.state["margin_c"]
    if temp is not None and one.part.max_operating_c:
        return one.part.max_operating_c - temp
    if told is not None and told > 0:
        return told
    limit = case.policy.max_operating_c(one.part.sku)
    return limit - temp if limit and temp is not None else None


class Slots:
    """The temperatures of each slot in each test, and whose they are: peers are the same slot of other nodes."""

    def __init__(self, case: Case) -> None:
        numbers: dict[Slot, list[float]] = defaultdict(list)
        self._mine: dict[tuple[Slot, str], list[float]] = defaultdict(list)
        self._known: dict[tuple[Slot, str], tuple[int, float | None]] = {}
        for one in case.measured:
            slot, temp = self._slot(one), one.state["temp_c"]
            if slot is not None and temp is not None and one.part.node is not None:
                numbers[slot].append(temp)
                self._mine[(slot, one.part.node)].append(temp)
        self._temps = {slot: Peers(temps) for slot, temps in numbers.items()}

    @staticmethod
    def _slot(one: Measured) -> Slot | None:
        return None if one.part.slot is None else (one.part.kin, one.part.slot, one.cohort.test)

    def peers(self, one: Measured) -> tuple[int, float | None]:
        """How many peers it has, and their median. None where slot or node is not known. Once per node, for a table may call all one node."""
        slot, node = self._slot(one), one.part.node
        if slot is None or node is None:
            return 0, None
        if (slot, node) not in self._known:
            temps, mine = self._temps[slot], self._mine[(slot, node)]
            self._known[(slot, node)] = len(temps) - len(mine), temps.median_without(mine)
        return self._known[(slot, node)]

    def sigma(self, one: Measured, middle: float) -> float:
        """The robust sigma of its peers, which it must have."""
        slot, node = self._slot(one), one.part.node
        return 0.0 if slot is None or node is None else self._temps[slot].sigma_without(self._mine[(slot, node)], middle)


def _temperature(case: Case, one: Measured, temp: float, slots: Slots) -> Finding:
    policy, margin = case.policy, margin_c(case, one)
    count, middle = slots.peers(one)
    enough = count >= policy.count("heat_slot_least_peers") and middle is not None
    facts = {
        "test": one.cohort.test, "value": temp, "unit": "C", "windows": one.windows, "cohort": one.cohort.name,
        "median": middle if enough else one.cohort.temp_c,
        "evidence": {"margin_c": margin, "slot_peers": count, "slot_median_c": middle, "power_w": one.state["power_w"]},
    }  # fmt: skip
    if margin is not None and policy.falls_short(margin, "heat_margin_c"):
        why = f"{temp:.1f} C steady, {margin:.1f} C from its maximum operating temperature."
        return finding("HEAT_NEAR_LIMIT", Outcome.REVIEW, why, cause="heat", **facts)
    if enough and middle is not None:
        excess = temp - middle
        if policy.exceeds(excess, "heat_slot_excess_c"):
            sigma = max(policy.limit("heat_slot_sigma_floor_c"), slots.sigma(one, middle))
            if policy.exceeds(excess / sigma, "heat_slot_robust_z"):
                why = f"{temp:.1f} C steady, {excess:.1f} C over the {count} GPUs in slot {one.part.slot} of other nodes."
                return finding("HEAT_OVER_SLOT_PEERS", Outcome.REVIEW, why, cause="heat", **facts)
    elif margin is None and one.cohort.temp_c is not None and policy.exceeds(temp - one.cohort.temp_c, "heat_cohort_excess_c"):
        why = f"{temp:.1f} C steady, {temp - one.cohort.temp_c:.1f} C over the cohort's median (limit and slot unknown: low confidence)."
        return finding("HEAT_OVER_COHORT", Outcome.REVIEW, why, cause="heat", **facts)
    return finding("HEAT_OK", Outcome.PASS, f"{temp:.1f} C steady.", **facts)
