"""From windows to one value per GPU and test, and to the cohort it is held against. One GPU, one vote."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

import polars as pl

from burnin.node.catalog import TESTS
from burnin.verdict.model import Evidence, Part
from burnin.verdict.policy import Policy

MAD_TO_SIGMA = 1.4826  # makes the median absolute deviation of a normal distribution its sigma
STATES = ("temp_c", "margin_c", "power_w", "sm_clock_mhz", "hw_thermal_fraction", "sw_thermal_fraction", "hw_power_brake_fraction")
TOLD = ("temp_c", "power_w", "sm_clock_mhz", "hw_thermal_fraction")
COHORT_STATES = ("temp_c", "power_w", "sm_clock_mhz")
BY_COHORT = ("kin", "fingerprint", "test")
COUNTS = ("value", "ratio", "windows", "starts", "over", "over_starts", "thermal_windows", "thermal_starts")


def in_step(test: str) -> bool:
    """Whether all GPUs of a node do this test together (scope node): one sets the pace, so a value names no GPU."""
    known = TESTS.get(test)
    return known is not None and known.scope == "node"


@dataclass(frozen=True, slots=True)
class Cohort:
    """The GPUs that may be compared in one test, and their ordinary medians over GPUs.

    `median` is what its GPUs are held against: `own_median`, or a reference's where the cohort is too small to be its own (`referenced`).
    `given`: the reference's median, where there is one.
    """

    name: str
    kin: str
    fingerprint: str
    test: str
    unit: str | None
    better: str
    size: int
    nodes: int
    median: float
    own_median: float
    given: float | None
    sigma_pct: float
    referenced: bool
    temp_c: float | None
    power_w: float | None
    sm_clock_mhz: float | None

    def line(self, below_pct: float) -> float:
        """The value at which a GPU is exactly so many percent slower in rate."""
        share = 1 - below_pct / 100
        return self.median * share if self.better == "higher" else self.median / share

    def rate_ratio(self, value: float, middle: float) -> float:
        """value against middle as a ratio of rates: under 1 is slower, whatever the unit's direction."""
        return value / middle if self.better == "higher" else middle / value


@dataclass(frozen=True, slots=True)
class Measured:
    """One GPU in one test: its median window, held against its cohort. `ratio` is the rate over the cohort's median rate.

    `told`: in how many of its windows each reading was there.
    """

    part: Part
    cohort: Cohort
    value: float
    ratio: float
    windows: int
    starts: int
    over: int
    over_starts: int
    thermal_windows: int
    thermal_starts: int
    state: Mapping[str, float | None]
    told: Mapping[str, int] = field(default_factory=dict)

    @property
    def deviation_pct(self) -> float:
        """Percent in rate; negative is slower."""
        return (self.ratio - 1) * 100


def measure(evidence: Evidence, policy: Policy, mute: Set[str], reference: Mapping[str, float] | None = None) -> list[Measured]:
    """Every GPU x test that has a usable window, sorted. Parts in `mute` are measured but do not vote.

    `reference`: cohort name -> median that stands in for the cohort's own where that is too small (rule 3).
    """
    usable = evidence.windows.filter(pl.col("steady") & pl.col("value").is_not_null())
    single = usable.join(_who(evidence, mute), on="part", how="inner")
    per_gpu = single.group_by("part", *BY_COHORT, "node", "votes").agg(
        pl.col("value").median(),
        pl.len().alias("windows"),
        pl.struct("step", "start").n_unique().alias("starts"),
        pl.col("unit").drop_nulls().sort().first(),
        pl.col("better").sort().first(),
        *(pl.col(name).median() for name in STATES),
        *(pl.col(name).count().alias(f"told_{name}") for name in TOLD),
    )
    cohorts = _cohorts(per_gpu, policy, reference or {})
    middle = cohorts.select(*BY_COHORT, pl.col("median").alias("middle"), pl.col("cohort_better"))
    higher = pl.col("cohort_better") == "higher"
    ratio = pl.when(higher).then(pl.col("value") / pl.col("middle")).otherwise(pl.col("middle") / pl.col("value")).alias("ratio")
    counts = _counts(single.join(middle, on=BY_COHORT).with_columns(ratio), policy)
    rows = per_gpu.join(middle, on=BY_COHORT).with_columns(ratio).join(counts, on=["part", "test"]).sort("part", "test")
    parts = {part.key: part for part in evidence.parts}
    built = {tuple(row[name] for name in BY_COHORT): _cohort(row) for row in cohorts.iter_rows(named=True)}
    return [
        Measured(
            part=parts[row["part"]],
            cohort=built[tuple(row[name] for name in BY_COHORT)],
            state={name: row[name] for name in STATES},
            told={name: row[f"told_{name}"] for name in TOLD},
            **{name: row[name] for name in COUNTS},
        )
        for row in rows.iter_rows(named=True)
    ]


def _who(evidence: Evidence, mute: Set[str]) -> pl.DataFrame:
    """Each part's cohort, and whether it votes: the condemned and those with a doubtful identity do not."""
    rows = [(part.key, part.kin, part.fingerprint, part.node, part.key not in mute and not part.duplicate_on) for part in evidence.parts]
    schema = {"part": pl.String, "kin": pl.String, "fingerprint": pl.String, "node": pl.String, "votes": pl.Boolean}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _counts(single: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Per GPU and test: single windows over the line, windows slowed down by heat, and of how many starts each."""
    begin = pl.struct("step", "start")
    over = pl.col("ratio") < policy.slower_than("perf_below_median_pct")
    tolerance = 1 + policy.limit("perf_boundary_tolerance")
    hot = pl.col("hw_thermal_fraction").fill_null(0.0) > policy.limit("thermal_fraction_pct") / 100 * tolerance
    return single.group_by("part", "test").agg(
        over.sum().alias("over"),
        begin.filter(over).n_unique().alias("over_starts"),
        hot.sum().alias("thermal_windows"),
        begin.filter(hot).n_unique().alias("thermal_starts"),
    )


def _cohorts(per_gpu: pl.DataFrame, policy: Policy, reference: Mapping[str, float]) -> pl.DataFrame:
    """One row per cohort: ordinary medians over the GPUs that vote; a reference's median where the cohort is small and one is given."""
    middle = pl.col("value").median()
    cohorts = (
        per_gpu.filter("votes")
        .group_by(BY_COHORT)
        .agg(
            pl.len().alias("size"),
            pl.col("node").drop_nulls().n_unique().alias("nodes"),
            pl.col("better").sort().first().alias("cohort_better"),
            pl.col("unit").drop_nulls().sort().first(),
            middle.alias("own_median"),
            ((pl.col("value") - middle).abs().median() / middle * 100 * MAD_TO_SIGMA).alias("sigma_pct"),
            *(pl.col(name).median() for name in COHORT_STATES),
        )
    )
    name = pl.concat_str([pl.when(pl.col(column) != "").then(pl.col(column)) for column in BY_COHORT], separator="/", ignore_nulls=True)
    known = pl.DataFrame({"name": list(reference), "given": list(reference.values())}, schema={"name": pl.String, "given": pl.Float64})
    few_nodes = (pl.col("nodes") > 0) & (pl.col("nodes") < policy.count("cohort_least_nodes"))
    small = (pl.col("size") < policy.count("cohort_least_gpus")) | few_nodes
    return (
        cohorts.with_columns(name.alias("name"))
        .join(known, on="name", how="left")
        .with_columns((small & pl.col("given").is_not_null()).alias("referenced"))
        .with_columns(pl.when("referenced").then("given").otherwise("own_median").alias("median"))
        .sort(BY_COHORT)
    )


def _cohort(row: Mapping[str, object]) -> Cohort:
    names = ("name", *BY_COHORT, "unit", "size", "nodes", "median", "own_median", "given", "sigma_pct", "referenced", *COHORT_STATES)
    return Cohort(better=str(row["cohort_better"]), **{name: row[name] for name in names})  # type: ignore[arg-type]
