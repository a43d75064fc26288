"""Rule 9 for readings: a fault that nobody would have seen is not an absence of faults. Of tables nothing is asked here: they show what they show."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from burnin.outcome import Outcome
from burnin.verdict.case import Case, Found, Where, finding
from burnin.verdict.measure import Measured
from burnin.verdict.model import HEALTH_FLAGS, Part


def judge(case: Case) -> Iterator[Found]:
    """One finding per part on its temperature, one on its other sensors, one on its health, where they were hardly ever told."""
    if case.evidence.from_table:
        return
    cold: dict[str, list[str]] = defaultdict(list)
    silent: dict[str, list[str]] = defaultdict(list)
    for one in case.measured:
        if not one.part.has_sensors:
            continue
        if not _told(case, one, "temp_c"):
            cold[one.part.key].append(f"{one.cohort.test} in {one.told['temp_c']} of {one.windows} windows")
        if not _told(case, one, "hw_thermal_fraction"):
            silent[one.part.key].append(f"whether heat slowed it down in {one.cohort.test}")
        known = one.cohort.power_w is not None or one.cohort.sm_clock_mhz is not None  # where nobody tells, only the cause stays unknown
        if known and not _told(case, one, "power_w") and not _told(case, one, "sm_clock_mhz"):
            silent[one.part.key].append(f"its power and its clock in {one.cohort.test}")
    for key, tests in sorted(cold.items()):
        why = f"Its temperature under load was hardly ever read: {', '.join(tests)}."
        yield Where("gpu", key), finding("HEAT_UNKNOWN", Outcome.INCONCLUSIVE, why)
    for key, what in sorted(silent.items()):
        why = f"Hardly ever told: {', '.join(what)}. What is not told cannot be good."
        yield Where("gpu", key), finding("SENSORS_SILENT", Outcome.INCONCLUSIVE, why)
    yield from _health(case)


def _told(case: Case, one: Measured, name: str) -> bool:
    """Whether the reading was there in enough of its windows for a median of it. Too few windows at all are another finding."""
    least = max(case.policy.count("perf_least_windows"), math.ceil(case.policy.limit("told_share") * one.windows))
    return one.told[name] >= min(least, one.windows)


def _health(case: Case) -> Iterator[Found]:
    """A part that tells no health flag, or not one that most of its like tell. What a kind of GPU does not have, none of them tells."""
    alike: dict[tuple[str, str], list[Part]] = defaultdict(list)
    for part in case.evidence.parts:
        if part.has_sensors:
            alike[(part.kin, part.fingerprint)].append(part)
    for parts in alike.values():
        telling = {flag: sum(getattr(part.health, flag) is not None for part in parts) for flag in HEALTH_FLAGS}
        usual = [flag for flag in HEALTH_FLAGS if 2 * telling[flag] > len(parts)]
        for part in parts:
            missing = [flag for flag in usual if getattr(part.health, flag) is None]
            if all(getattr(part.health, flag) is None for flag in HEALTH_FLAGS):
                why = "It told none of its health flags: a hard fault would not have been seen."
            elif missing:
                why = f"It did not tell {', '.join(missing)}, which others of its kind do: such a fault would not have been seen."
            else:
                continue
            yield Where("gpu", part.key), finding("HEALTH_UNKNOWN", Outcome.INCONCLUSIVE, why)
