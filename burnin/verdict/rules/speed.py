"""Rules 2 to 4: more than 5 % below the cohort's median, confirmed by windows and starts, in a cohort large enough, with its cause."""

from __future__ import annotations

from collections.abc import Iterator

from burnin.outcome import Outcome
from burnin.verdict.case import Case, Found, Where, finding, speed_facts
from burnin.verdict.measure import Measured, line_ratio
from burnin.verdict.model import Finding
from burnin.verdict.rules.heat import margin_c

# What a test stresses, by the beginning of its name: the cause of a deficit that neither heat nor power explains.
LINK_TESTS = ("pcie_", "nvlink_", "nccl_", "ib_")
MEMORY_TESTS = ("hbm_", "mem_")


def judge(case: Case) -> Iterator[Found]:
    """One finding per GPU and test."""
    for one in case.measured:
        yield Where("gpu", one.part.key), _speed(case, one)


def _speed(case: Case, one: Measured) -> Finding:
    policy, facts, cohort = case.policy, speed_facts(one), one.cohort
    over = one.ratio < line_ratio(policy)
    shared = case.shared.get(one.part.key, {}).get(cohort.test)
    least = policy.count("perf_least_windows")
    slow = f"{abs(one.deviation_pct):.1f} % below the median of {cohort.size} GPUs in {cohort.test}" + (
        " (reference)" if cohort.referenced else ""
    )
    if shared is not None:
        outcome, why = shared
        return finding("UNDER_SHARED_FAULT", outcome, f"{one.deviation_pct:+.1f} % in {cohort.test}. {why}", cause="host", **facts)
    small = _small(case, one)
    if over:
        told = f"{slow}: {one.over} of {one.windows} windows over the line, in {one.over_starts} of {one.starts} starts"
        why, outcome = f"{told}.", Outcome.RMA
        if small:
            why, outcome = f"{told}; {small}, so no peer verdict condemns it.", Outcome.RETEST
        elif one.over < policy.count("perf_windows_over") or one.over_starts < policy.count("perf_starts_over"):
            need = f"{policy.count('perf_windows_over')} windows of {policy.count('perf_starts_over')} starts"
            why, outcome = f"{told}; {need} are needed to condemn it.", Outcome.RETEST
        elif one.part.duplicate_on:
            why, outcome = f"{told}; two parts carry its identity.", Outcome.INCONCLUSIVE
        action = (
            {} if outcome is Outcome.RMA else {"action": "Run again with at least three windows of two starts, in a cohort large enough."}
        )
        made = finding("PERF_BELOW_MEDIAN", outcome, why + _cause_told(case, one), cause=cause(case, one), **facts)
        return made if not action else _with_action(made, action["action"])
    if one.windows < least:
        return finding(
            "TOO_FEW_WINDOWS", Outcome.INCONCLUSIVE, f"{one.windows} steady windows in {cohort.test}; a verdict needs {least}.", **facts
        )
    if small:
        return finding(
            "COHORT_TOO_SMALL", Outcome.INCONCLUSIVE, f"Not over the line, but {small}: there is nothing to hold it against.", **facts
        )
    return finding(
        "PERF_OK", Outcome.PASS, f"{one.deviation_pct:+.1f} % against the median of {cohort.size} GPUs in {cohort.test}.", **facts
    )


def _with_action(made: Finding, action: str) -> Finding:
    from dataclasses import replace

    return replace(made, action=action)


def _small(case: Case, one: Measured) -> str:
    """Why this cohort can condemn nobody, or ''."""
    cohort, policy = one.cohort, case.policy
    if cohort.referenced:
        return ""
    if cohort.size < policy.count("cohort_least_gpus"):
        return f"the cohort has {cohort.size} GPUs of the {policy.count('cohort_least_gpus')} needed"
    if 0 < cohort.nodes < policy.count("cohort_least_nodes"):
        return f"the cohort spans {cohort.nodes} nodes of the {policy.count('cohort_least_nodes')} needed"
    return ""


def cause(case: Case, one: Measured) -> str:
    """Why it is slow (rule 4), in this order: heat, power, link, memory, host, silicon; unknown when nothing was measured that would tell."""
    policy, state, cohort = case.policy, one.state, one.cohort
    margin = margin_c(case, one)
    thermal = max(state["hw_thermal_fraction"] or 0.0, state["sw_thermal_fraction"] or 0.0)
    if (
        one.part.key in case.hot
        or thermal > policy.limit("thermal_fraction_pct") / 100
        or (margin is not None and margin < policy.limit("heat_margin_c"))
    ):
        return "heat"
    power, clock = state["power_w"], state["sm_clock_mhz"]
    if power is not None and cohort.power_w and power < cohort.power_w * (1 - policy.limit("cause_power_low_pct") / 100):
        return "power"
    if cohort.test.startswith(LINK_TESTS):
        return "link"
    if cohort.test.startswith(MEMORY_TESTS):
        return "memory"
    if power is None or clock is None or not cohort.sm_clock_mhz:
        return "unknown"
    return "silicon" if clock < cohort.sm_clock_mhz * (1 - policy.limit("cause_clock_low_pct") / 100) else "host"


def _cause_told(case: Case, one: Measured) -> str:
    """The cause as a sentence with its numbers."""
    state, cohort = one.state, one.cohort
    power = (
        f"{state['power_w']:.0f} W (median {cohort.power_w:.0f})" if state["power_w"] is not None and cohort.power_w else "power unknown"
    )
    clock = (
        f"{state['sm_clock_mhz']:.0f} MHz (median {cohort.sm_clock_mhz:.0f})"
        if state["sm_clock_mhz"] is not None and cohort.sm_clock_mhz
        else "clock unknown"
    )
    temp = f"{state['temp_c']:.0f} C" if state["temp_c"] is not None else "temperature unknown"
    return {
        "heat": f" Heat: {temp}, {clock}, {power}.",
        "power": f" Power: it draws only {power} at {temp}.",
        "link": f" Link: {clock}, {power}.",
        "memory": f" Memory: {clock}, {power}.",
        "host": f" Host: full clock {clock} at {power}, and still slow.",
        "silicon": f" Silicon: {clock} at {power} and {temp}.",
        "unknown": f" Cause not known: {temp}, {power}, {clock}.",
    }[cause(case, one)]
