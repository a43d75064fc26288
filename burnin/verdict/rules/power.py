"""Rule 6: a power limit below the cohort's. It makes another cohort (identity), and here a finding on the node. A cap at the limit is normal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from burnin.outcome import Outcome
from burnin.verdict.case import Case, Found, Where, finding
from burnin.verdict.model import Part

Told = tuple[Outcome, str, str]  # outcome, what the limit is, what it is held against


def judge(case: Case) -> Iterator[Found]:
    """One finding per node and limit that is lower than that of the same GPUs elsewhere, or than the GPU's own default."""
    limits: dict[tuple[str, str | None], list[float]] = defaultdict(list)
    for part in case.evidence.parts:
        if part.power_limit_w is not None:
            limits[(part.model, part.sku)].append(part.power_limit_w)
    usual = {kind: median(found) for kind, found in limits.items()}
    low: dict[tuple[str, Told], list[Part]] = defaultdict(list)
    for part in case.evidence.parts:
        told = _low(case, part, usual.get((part.model, part.sku)))
        if told is not None and part.node is not None:
            low[(part.node, told)].append(part)
    for (node, (outcome, limit, against)), parts in sorted(low.items(), key=lambda item: (item[0][0], item[0][1][1:])):
        slots = [str(slot) for slot in sorted(part.slot for part in parts if part.slot is not None)]
        where = f" (slot {', '.join(slots)})" if slots else ""
        why = f"The power limit of {len(parts)} of its GPUs{where} is {limit}; {against}."
        facts = {"value": parts[0].power_limit_w, "unit": "W", "cause": "power"}
        yield Where("node", node), finding("POWER_LIMIT_LOW", outcome, why, **facts)


def _low(case: Case, part: Part, usual: float | None) -> Told | None:
    """FAIL: somebody set it lower than the others'. REVIEW: its own firmware says so, or the whole fleet is set low."""
    limit, default = part.power_limit_w, part.power_limit_default_w
    if limit is None or usual is None:
        return None
    tolerance = case.policy.limit("power_limit_tolerance_w")
    lowered = default is not None and limit < default - tolerance
    if limit < usual - tolerance:
        outcome = Outcome.FAIL if lowered or default is None else Outcome.REVIEW
        return outcome, f"{limit:g} W", f"others of their kind have {usual:g} W"
    return (Outcome.REVIEW, f"{limit:g} W", f"by default {default:g} W, here as in the whole fleet") if lowered else None
