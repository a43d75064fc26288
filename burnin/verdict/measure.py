"""From windows to one value per GPU and test, and to the cohort it is held against. One GPU, one vote."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

import polars as pl

from burnin.verdict.model import Evidence, Part
from burnin.verdict.policy import Policy

MAD_TO_SIGMA = 1.4826  # makes the median absolute deviation of a normal distribution its sigma
STATES = ("temp_c", "margin_c", "power_w", "sm_clock_mhz", "hw_thermal_fraction", "sw_thermal_fraction", "hw_power_brake_fraction")


@dataclass(frozen=True, slots=True)
class Cohort:
    """The GPUs that may be compared in one test, and their ordinary medians over GPUs."""

    name: str
    kin: str
    fingerprint: str
    test: str
    unit: str | None
    better: str
    size: int
    nodes: int
    median: float
    sigma_pct: float
    referenced: bool
    temp_c: float | None
    power_w: float | None
    sm_clock_mhz: float | None

    def line(self, below_pct: float) -> float:
        """The value at which a GPU is exactly so many percent slower in rate."""
        share = 1 - below_pct / 100
        return self.median * share if self.better == "higher" else self.median / share


@dataclass(frozen=True, slots=True)
class Measured:
    """One GPU in one test: its median window, held against its cohort. `ratio` is the rate over the cohort's median rate."""

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

    @property
    def deviation_pct(self) -> float:
        """Percent in rate; negative is slower."""
        return (self.ratio - 1) * 100


def line_ratio(policy: Policy) -> float:
    """A ratio under this is over the line: exactly the line is not (rule 2)."""
    return (1 - policy.limit("perf_below_median_pct") / 100) * (1 - policy.limit("perf_boundary_tolerance"))


def _cohort_name(part: Part, test: str) -> str:
    return "/".join(piece for piece in (part.kin, part.fingerprint, test) if piece)


def measure(evidence: Evidence, policy: Policy, mute: Set[str], reference: Mapping[str, float] | None = None) -> list[Measured]:
    """Every GPU x test that has a usable window, sorted. Parts in `mute` are measured but do not vote.

    `reference`: cohort name -> median that stands in for the cohort's own (a reference run).
    """
    usable = evidence.windows.filter(pl.col("steady") & pl.col("value").is_not_null())
    if usable.is_empty():
        return []
    parts = {part.key: part for part in evidence.parts}
    who = pl.DataFrame(
        [
            {
                "part": part.key,
                "kin": part.kin,
                "fingerprint": part.fingerprint,
                "node": part.node,
                "votes": part.key not in mute and not part.duplicate_on,
            }
            for part in evidence.parts
        ],
        schema={"part": pl.String, "kin": pl.String, "fingerprint": pl.String, "node": pl.String, "votes": pl.Boolean},
    )
    by_cohort = ["kin", "fingerprint", "test"]
    single = usable.join(who, on="part", how="inner")
    per_gpu = single.group_by("part", *by_cohort, "node", "votes").agg(
        pl.col("value").median(),
        pl.len().alias("windows"),
        pl.struct("step", "start").n_unique().alias("starts"),
        pl.col("unit").drop_nulls().sort().first(),
        pl.col("better").sort().first(),
        *(pl.col(name).median() for name in STATES),
    )
    cohorts = _cohorts(per_gpu, by_cohort, reference or {})
    if cohorts.is_empty():
        return []
    middle = cohorts.select(*by_cohort, pl.col("median").alias("middle"), pl.col("cohort_better"))
    line = line_ratio(policy)
    thermal = policy.limit("thermal_fraction_pct") / 100
    higher = pl.col("cohort_better") == "higher"
    ratio = pl.when(higher).then(pl.col("value") / pl.col("middle")).otherwise(pl.col("middle") / pl.col("value"))
    begin = pl.struct("step", "start")
    hot = pl.col("hw_thermal_fraction") > thermal
    counts = (
        single.join(middle, on=by_cohort)
        .with_columns(ratio.alias("ratio"))
        .group_by("part", "test")
        .agg(
            (pl.col("ratio") < line).sum().alias("over"),
            begin.filter(pl.col("ratio") < line).n_unique().alias("over_starts"),
            hot.sum().alias("thermal_windows"),
            begin.filter(hot).n_unique().alias("thermal_starts"),
        )
    )
    rows = per_gpu.join(middle, on=by_cohort).with_columns(ratio.alias("ratio")).join(counts, on=["part", "test"]).sort("part", "test")
    table = {(row["kin"], row["fingerprint"], row["test"]): row for row in cohorts.iter_rows(named=True)}
    built: dict[tuple[str, str, str], Cohort] = {}
    result = []
    for row in rows.iter_rows(named=True):
        key = (row["kin"], row["fingerprint"], row["test"])
        part = parts[row["part"]]
        if key not in built:
            built[key] = _cohort(_cohort_name(part, row["test"]), table[key])
        state = {name: row[name] for name in STATES}
        numbers = (
            row["value"],
            row["ratio"],
            row["windows"],
            row["starts"],
            row["over"],
            row["over_starts"],
            row["thermal_windows"],
            row["thermal_starts"],
        )
        result.append(Measured(part, built[key], *numbers, state))
    return result


def _cohorts(per_gpu: pl.DataFrame, by_cohort: list[str], reference: Mapping[str, float]) -> pl.DataFrame:
    """One row per cohort: ordinary medians over the GPUs that vote; a reference's median where one is given."""
    voting = per_gpu.filter("votes")
    middle = pl.col("value").median()
    cohorts = voting.group_by(by_cohort).agg(
        pl.len().alias("size"),
        pl.col("node").drop_nulls().n_unique().alias("nodes"),
        pl.col("better").sort().first().alias("cohort_better"),
        pl.col("unit").drop_nulls().sort().first(),
        middle.alias("median"),
        ((pl.col("value") - middle).abs().median() / middle * 100 * MAD_TO_SIGMA).alias("sigma_pct"),
        *(pl.col(name).median() for name in ("temp_c", "power_w", "sm_clock_mhz")),
    )
    name = pl.concat_str([pl.when(pl.col(column) != "").then(pl.col(column)) for column in by_cohort], separator="/", ignore_nulls=True)
    known = pl.DataFrame({"name": list(reference), "given": list(reference.values())}, schema={"name": pl.String, "given": pl.Float64})
    return (
        cohorts.with_columns(name.alias("name"))
        .join(known, on="name", how="left")
        .with_columns(pl.coalesce("given", "median").alias("median"), pl.col("given").is_not_null().alias("referenced"))
        .sort(by_cohort)
    )


def _cohort(name: str, row: Mapping[str, object]) -> Cohort:
    fields = {key: row[key] for key in ("kin", "fingerprint", "test", "unit", "size", "nodes", "median", "sigma_pct", "referenced")}
    states = {key: row[key] for key in ("temp_c", "power_w", "sm_clock_mhz")}
    return Cohort(name=name, better=str(row["cohort_better"]), **fields, **states)  # type: ignore[arg-type]
