"""Drives: held against like drives by the rule that GPUs are held to (2 and 3), and judged by what their own health log says."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

import polars as pl

from burnin.outcome import Outcome
from burnin.verdict.case import Case, Found, Where, finding, speed_facts
from burnin.verdict.measure import Measured, measure
from burnin.verdict.model import Disk, Evidence, Finding


def judge(case: Case) -> Iterator[Found]:
    """Every finding on a drive; of each test that the plan asks of drives, and of its health."""
    evidence = case.evidence
    windows = evidence.windows.clear() if evidence.disk_windows is None else evidence.disk_windows
    counts = {(part, test): count for part, test, count in windows.group_by("part", "test").len().iter_rows()}
    measured: dict[str, list[Measured]] = defaultdict(list)
    for one in _measured(case, windows):
        measured[one.part.key].append(one)
    usual, nameless = _usual_firmware(evidence), _nameless(evidence)
    together = Counter((one.part.node, one.cohort.test) for ones in measured.values() for one in ones if _slow(case, one))
    damaged = {node.node for node in evidence.nodes if node.damaged}
    for disk in evidence.disks:
        where = Where("disk", disk.part.key)
        speed = _speed(case, disk, measured[disk.part.key], counts, damaged, together)
        for what in (*speed, *_health(case, disk), *_firmware(disk, usual)):
            yield where, _capped(what, nameless.get(disk.part.key, ""))


def _nameless(evidence: Evidence) -> dict[str, str]:
    """Drive -> why its serial names no one drive: the vendor could not be told which part is meant."""
    nodes: dict[str, set[str | None]] = defaultdict(set)
    for disk in evidence.disks:
        if disk.part.serial:
            nodes[disk.part.serial].add(disk.part.node)
    found = {disk.part.key: "it tells no serial" for disk in evidence.disks if not disk.part.serial}
    return found | {
        disk.part.key: "its serial stands on several nodes"
        for disk in evidence.disks
        if disk.part.serial and len(nodes[disk.part.serial]) > 1
    }


def _capped(what: Finding, why: str) -> Finding:
    """No RMA of a part that has no name of its own."""
    if not why or what.outcome is not Outcome.RMA:
        return what
    return replace(what, outcome=Outcome.RETEST, why=f"{what.why} No RMA: {why}.")


def _slow(case: Case, one: Measured) -> bool:
    return one.ratio < case.policy.slower_than("perf_below_median_pct")


def _measured(case: Case, windows: pl.DataFrame) -> list[Measured]:
    """The drives as parts of their own; those that fell away do not vote."""
    evidence = case.evidence
    gone = {disk.part.key for disk in evidence.disks if disk.gone}
    return measure(Evidence(tuple(disk.part for disk in evidence.disks), windows), case.policy, gone)


def _speed(
    case: Case,
    disk: Disk,
    measured: list[Measured],
    counts: Mapping[tuple[str, str], int],
    damaged: set[str],
    together: Mapping[tuple[str | None, str], int],
) -> Iterator[Finding]:
    if disk.gone:
        yield finding("DISK_LOST", Outcome.FAIL, "It was there before the load and not after it.")
        return
    shown = {one.cohort.test: one for one in measured}
    for test, owed in sorted(case.evidence.disks_planned.items()):
        got = counts.get((disk.part.key, test), 0)
        if got < owed or test not in shown:
            told = f" ({disk.read_problem})" if disk.read_problem else ""
            why = f"{got} of {owed} planned windows of {test} were measured{told}."
            yield finding("DISK_NOT_MEASURED", Outcome.INCONCLUSIVE, why, test=test)
        if test in shown:
            yield _against_peers(case, shown[test], disk.part.node in damaged, together[disk.part.node, test])


def _against_peers(case: Case, one: Measured, damaged: bool, slow: int) -> Finding:
    """Rules 2 and 3 for a drive. `slow`: how many drives of its node are over the line; several have a fault in common until it is ruled out."""
    policy, cohort, small = case.policy, one.cohort, _why_small(case, one)
    facts = speed_facts(one)
    told = f"{round(one.deviation_pct, 1) + 0.0:+.1f} % against the median of {cohort.size} like drives in {cohort.test}"
    if _slow(case, one):
        shared = slow >= policy.count("disk_shared_least")
        confirmed = one.over >= policy.count("perf_windows_over") and one.over_starts >= policy.count("perf_starts_over")
        outcome = Outcome.RMA if confirmed and not small and not damaged and not shared else Outcome.RETEST
        doubt = f"; {small}, so no peer verdict condemns it" if small else "; its node's files are damaged" if damaged else ""
        doubt += (
            f"; {slow} drives of its node are slow together, so look first at what they share (PCIe switch, backplane)" if shared else ""
        )
        why = f"{told}: {one.over} of {one.windows} windows over the line, in {one.over_starts} of {one.starts} starts{doubt}."
        return finding("DISK_BELOW_MEDIAN", outcome, why, **facts)
    if one.windows < policy.count("perf_least_windows"):
        why = f"{one.windows} steady windows in {cohort.test}; a verdict needs {policy.count('perf_least_windows')}."
        return finding("DISK_TOO_FEW_WINDOWS", Outcome.INCONCLUSIVE, why, **facts)
    if small:
        why = f"Not over the line, but {small}: there is nothing to hold it against."
        return finding("DISK_COHORT_TOO_SMALL", Outcome.INCONCLUSIVE, why, **facts)
    return finding("DISK_OK", Outcome.PASS, f"{told}.", **facts)


def _why_small(case: Case, one: Measured) -> str:
    cohort, drives, nodes = one.cohort, case.policy.count("cohort_least_gpus"), case.policy.count("cohort_least_nodes")
    if cohort.size < drives:
        return f"the cohort has {cohort.size} drives of the {drives} needed"
    return f"the cohort spans {cohort.nodes} nodes of the {nodes} needed" if cohort.nodes < nodes else ""


def _health(case: Case, disk: Disk) -> Iterator[Finding]:
    """What the health log says; the worse of two looks. A log that is not there is no clean log."""
    policy = case.policy
    counts = {name: getattr(disk, name) for name in ("critical_warning", "media_errors", "percentage_used", "temp_c")}
    if disk.untold:
        why = f"Its health log does not tell {', '.join(sorted(disk.untold))}, before or after the load" + (
            f" ({disk.smart_problem})." if disk.smart_problem else "."
        )
        yield finding("DISK_HEALTH_UNKNOWN", Outcome.INCONCLUSIVE, why)
    if disk.critical_warning:
        why = f"Its health log raises critical warning 0x{disk.critical_warning:02x}."
        own = disk.critical_warning & policy.count("disk_warning_own_bits")
        yield finding("DISK_CRITICAL_WARNING", Outcome.RMA if own else Outcome.RETEST, why, value=float(disk.critical_warning))
    errors = policy.limit("disk_media_errors")
    if disk.media_errors is not None and policy.exceeds(disk.media_errors, "disk_media_errors"):
        outcome = Outcome.RMA if disk.new_media_errors else Outcome.REVIEW
        why = f"{disk.media_errors} media errors, {disk.new_media_errors} of them during this run; the limit is {errors:g}."
        yield finding("DISK_MEDIA_ERRORS", outcome, why, value=float(disk.media_errors), unit="errors")
    for name, limit, code, unit in (
        ("percentage_used", "disk_wear_pct", "DISK_WORN", "% of rated life"),
        ("temp_c", "disk_temp_c", "DISK_HOT", "C"),
    ):
        value = counts[name]
        if value is not None and policy.exceeds(value, limit):
            why = f"{value} {unit}; more than {policy.limit(limit):g} is over the limit."
            yield finding(code, Outcome.REVIEW, why, value=float(value), unit=unit)


def _usual_firmware(evidence: Evidence) -> Mapping[str, str | None]:
    """Model and size -> the firmware of more than half of the drives of that kind."""
    kinds: dict[str, Counter[str | None]] = defaultdict(Counter)
    for disk in evidence.disks:
        kinds[disk.part.kin][disk.firmware] += 1
    most = {kin: counts.most_common(1)[0] for kin, counts in kinds.items()}
    return {kin: firmware for kin, (firmware, count) in most.items() if 2 * count > kinds[kin].total()}


def _firmware(disk: Disk, usual: Mapping[str, str | None]) -> Iterator[Finding]:
    expected = usual.get(disk.part.kin)
    if expected is not None and disk.firmware != expected:
        yield finding(
            "DISK_FIRMWARE_DIFFERS", Outcome.REVIEW, f"Its firmware is {disk.firmware or 'unknown'}; most like it have {expected}."
        )
