"""Rules 2 to 4: more than 5 % below the cohort's median, confirmed by windows and starts, in a cohort large enough, with its cause."""

from __future__ import annotations

from collections.abc import Iterator

from burnin.outcome import Outcome
from burnin.verdict.case import Case, Found, Where, finding, speed_facts
from burnin.verdict.measure import Measured, in_step
from burnin.verdict.model import Finding
from burnin.verdict.rules.heat import margin_c

# What a test stresses, by the beginning of its name: the cause of a deficit that neither heat nor power explains.
LINK_TESTS = ("pcie_", "nvlink_", "nccl_", "ib_")
MEMORY_TESTS = ("hbm_", "mem_")


def judge(case: Case) -> Iterator[Found]:
    """One finding per GPU and test that it does by itself."""
    for one in case.measured:
        if not in_step(one.cohort.test):
            yield Where("gpu", one.part.key), _speed(case, one)


def _speed(case: Case, one: Measured) -> Finding:
    shared = case.shared.get(one.part.key, {}).get(one.cohort.test)
    mine = _over_the_line(case, one) if one.ratio < case.policy.slower_than("perf_below_median_pct") else _not_over(case, one)
    if shared is None:
        return mine
    outcome, why, cause_of_it = shared
    if mine.outcome is Outcome.INCONCLUSIVE and outcome is Outcome.REVIEW:
        return mine  # too little was shown for a mere review
    told = f"{round(one.deviation_pct, 1) + 0.0:+.1f} % in {one.cohort.test}. {why}"
    return finding("UNDER_SHARED_FAULT", outcome, told, cause=cause_of_it, **speed_facts(one))


def _over_the_line(case: Case, one: Measured) -> Finding:
    """Rule 2 for a GPU whose value is over the line: RMA when confirmed in a cohort that is large enough, else RETEST."""
    policy, cohort, small = case.policy, one.cohort, why_small(case, one)
    of = " (reference)" if cohort.referenced else f" of {cohort.size} GPUs"
    told = (
        f"{abs(one.deviation_pct):.1f} % below the median{of} in {cohort.test}: {one.over} of {one.windows} windows over the line, "
        f"in {one.over_starts} of {one.starts} starts"
    )
    windows, starts = policy.count("perf_windows_over"), policy.count("perf_starts_over")
    facts = speed_facts(one) | {"cause": cause(case, one)}
    if not small and one.over >= windows and one.over_starts >= starts:
        return finding("PERF_BELOW_MEDIAN", Outcome.RMA, f"{told}.{_cause_told(case, one)}", **facts)
    doubt = f"{small}, so no peer verdict condemns it" if small else f"{windows} windows of {starts} starts are needed to condemn it"
    action = f"Run again, with {windows} windows of {starts} starts and more, in a cohort large enough."
    return finding("PERF_BELOW_MEDIAN", Outcome.RETEST, f"{told}; {doubt}.{_cause_told(case, one)}", action=action, **facts)


def _not_over(case: Case, one: Measured) -> Finding:
    cohort, least, small, facts = one.cohort, case.policy.count("perf_least_windows"), why_small(case, one), speed_facts(one)
    if one.windows < least:
        why = f"{one.windows} steady windows in {cohort.test}; a verdict needs {least}."
        return finding("TOO_FEW_WINDOWS", Outcome.INCONCLUSIVE, why, **facts)
    if small:
        why = f"Not over the line, but {small}: there is nothing to hold it against."
        return finding("COHORT_TOO_SMALL", Outcome.INCONCLUSIVE, why, **facts)
    of = "the reference's median" if cohort.referenced else f"the median of {cohort.size} GPUs"
    return finding("PERF_OK", Outcome.PASS, f"{round(one.deviation_pct, 1) + 0.0:+.1f} % against {of} in {cohort.test}.", **facts)


def why_small(case: Case, one: Measured) -> str:
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
        (one.part.key, cohort.test) in case.hot
        or thermal > policy.limit("thermal_fraction_pct") / 100
        or (margin is not None and policy.falls_short(margin, "heat_margin_c"))
    ):
        return "heat"
    power, clock = state["power_w"], state["sm_clock_mhz"]
    if power is not None and cohort.power_w and power < cohort.power_w * policy.slower_than("cause_power_low_pct"):
        return "power"
    if cohort.test.startswith(LINK_TESTS):
        return "link"
    if cohort.test.startswith(MEMORY_TESTS):
        return "memory"
    if power is None or clock is None or not cohort.sm_clock_mhz:
        return "unknown"
    return "silicon" if clock < cohort.sm_clock_mhz * policy.slower_than("cause_clock_low_pct") else "host"


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
