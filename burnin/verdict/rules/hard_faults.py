"""Rule 7: faults that decide alone. A part condemned here does not vote."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

import polars as pl

from burnin.node.catalog import TESTS
from burnin.outcome import Outcome
from burnin.verdict.case import Case, Found, Where, finding
from burnin.verdict.measure import in_step
from burnin.verdict.model import Finding, Part

MOST_NAMED = 4


def judge(case: Case) -> Iterator[Found]:
    """Findings on parts whose hardware said, or whose results show, that they are broken."""
    yield from _wrong_results(case)
    yield from _lost(case)
    for part in case.evidence.parts:
        where, health = Where("gpu", part.key), part.health
        if health.row_remap_failure:
            why = "The row-remap failure flag is set: a memory row could not be replaced."
            yield where, finding("ROW_REMAP_FAILURE", Outcome.RMA, why, cause="memory")
        if health.sram_threshold_exceeded:
            yield where, finding("SRAM_THRESHOLD", Outcome.RMA, "The SRAM error threshold flag is set.", cause="memory")
        if health.row_remap_pending:
            why = "A row remap is pending: its numbers count only after the reset."
            yield where, finding("RESET_PENDING", Outcome.RETEST, why, cause="memory")
        elif health.recovery_action is not None:
            why = f"The driver asks for the recovery action {health.recovery_action!r}: its numbers count only after it."
            yield where, finding("RESET_PENDING", Outcome.RETEST, why, cause="unknown")


def _lost(case: Case) -> Iterator[Found]:
    """Off the bus once is a suspect, again after it came back is the part; unless most of its node's GPUs do the same."""
    nodes: dict[str, list[Part]] = defaultdict(list)
    for part in case.evidence.parts:
        nodes[part.node or part.key].append(part)
    least, share = case.policy.count("node_least_gpus"), case.policy.limit("node_share")
    for name, parts in sorted(nodes.items()):
        lost = [part for part in parts if part.losses or part.health.lost]
        together = len(lost) >= max(least, math.ceil(share * len(parts)))
        if together:
            why = f"{len(lost)} of its {len(parts)} GPUs fell off the bus."
            yield Where("node", name), finding("GPUS_LOST_TOGETHER", Outcome.FAIL, why, cause="host")
        for part in lost:
            yield Where("gpu", part.key), _loss(case, part, together=together)


def _loss(case: Case, part: Part, *, together: bool) -> Finding:
    count, places = len(part.losses), "; ".join(part.losses[:MOST_NAMED])
    if count < case.policy.count("losses"):
        why = f"It fell off the bus during the run{f' ({places})' if places else ''}."
        return finding("GPU_LOST", Outcome.RETEST, why, cause="unknown")
    told = f"It fell off the bus {count} times ({places}) and came back between"
    if together:
        why = f"{told}; so did its neighbours: look at what they share (GPUS_LOST_TOGETHER)."
        return finding("GPU_LOST", Outcome.RETEST, why, cause="host")
    action = "Take nvidia-bug-report and the system event log, then open an RMA with this evidence."
    return finding("GPU_LOST", Outcome.RMA, f"{told}: it does so again.", cause="unknown", action=action)


def _wrong_results(case: Case) -> Iterator[Found]:
    """A wrong result on two seeds is a broken part; on one seed it is a suspect. Steady or not makes no difference.

    The same seed in another step is the same data; in another test it is another computation, and so counts as another seed.
    """
    together = pl.col("test").is_in([name for name in TESTS if in_step(name)])
    yield from _wrong_in_step(case, case.evidence.windows.filter(together))
    windows = case.evidence.windows.filter(~together)
    wrong = (
        windows.filter(pl.col("wrong") > 0)
        .group_by("part", "test")
        .agg(pl.col("wrong").sum(), pl.col("seed").n_unique().alias("seeds"), pl.len().alias("hit"))
        .join(windows.group_by("part", "test").agg(pl.col("checked").sum(), pl.len().alias("windows")), on=["part", "test"])
        .with_columns(pl.col("seeds").sum().over("part").alias("all_seeds"))
        .sort("part", "test")
    )
    for row in wrong.iter_rows(named=True):
        again = row["all_seeds"] >= case.policy.count("wrong_result_seeds")
        told = f"{row['wrong']} of {row['checked']} checked results were wrong, in {row['hit']} of {row['windows']} windows"
        why = f"{told}, on {row['all_seeds']} seeds: it computes wrong." if again else f"{told}, on one seed only: once is a suspect."
        facts = {
            "test": row["test"],
            "value": float(row["wrong"]),
            "unit": "wrong results",
            "windows": row["windows"],
            "evidence": {"wrong": row["wrong"], "checked": row["checked"], "seeds": row["all_seeds"]},
        }
        outcome = Outcome.RMA if again else Outcome.RETEST
        yield Where("gpu", row["part"]), finding("WRONG_RESULT", outcome, why, cause="silicon", **facts)


def _wrong_in_step(case: Case, windows: pl.DataFrame) -> Iterator[Found]:
    """A wrong result of what all GPUs of a node did together: the node's fault until somebody shows whose, and none of them passes."""
    wrong = dict(windows.filter(pl.col("wrong") > 0).group_by("part").agg(pl.col("test").unique().sort().str.join(", ")).iter_rows())
    nodes: dict[str, set[str]] = defaultdict(set)
    for part in case.evidence.parts:
        if part.key in wrong and part.node is not None:
            nodes[part.node].update(wrong[part.key].split(", "))
    for node, tests in sorted(nodes.items()):
        why = f"Results of {', '.join(sorted(tests))} were wrong; its GPUs do it in step, so the value names none of them."
        yield Where("node", node), finding("NODE_WRONG_RESULT", Outcome.FAIL, why, cause="unknown")
    for part in case.evidence.parts:
        if part.key in wrong or part.node in nodes:
            why = f"Its node computed wrong in {wrong.get(part.key) or ', '.join(sorted(nodes[part.node or '']))} (NODE_WRONG_RESULT)."
            yield Where("gpu", part.key), finding("UNDER_SHARED_FAULT", Outcome.RETEST, why, cause="unknown")
