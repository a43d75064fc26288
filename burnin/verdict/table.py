"""A table of measurements (CSV text) as evidence: each row is one start of one GPU."""

from __future__ import annotations

import io
from collections.abc import Mapping
from difflib import get_close_matches

import polars as pl

from burnin.errors import TableError
from burnin.verdict.model import WINDOW_COLUMNS, Evidence, Part
from burnin.verdict.policy import Policy

TEXTS = ("gpu", "serial", "node", "rack", "slot", "test", "start", "sku", "pci")
NUMBERS = ("value", "temp_c", "margin_c", "power_w", "sm_clock_mhz", "hw_thermal_fraction")
UNKNOWN = ("", "-1", "nan", "none", "null", "n/a", "na", "unknown")
MOST_NAMED = 3


def parse_columns(text: str | None, where: str) -> dict[str, str]:
    """'gpu=uuid,value=perf' as {ours: theirs}. Raises TableError for a name that is none of ours."""
    if text is None:
        return {}
    mapping: dict[str, str] = {}
    for piece in text.replace("\n", " ").split(","):
        ours, equals, theirs = (part.strip() for part in piece.partition("="))
        if not equals or not theirs:
            raise TableError(f"--columns: {piece.strip()!r} is not OURS=THEIRS; for example gpu=uuid,value=perf")
        if ours not in TEXTS + NUMBERS:
            near = get_close_matches(ours, TEXTS + NUMBERS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise TableError(f"--columns: {ours!r} is no name of ours{hint} Known: {', '.join(TEXTS + NUMBERS)} ({where})")
        if ours in mapping:
            raise TableError(f"--columns: {ours!r} stands twice; name each once")
        mapping[ours] = theirs
    return mapping


def _frame(content: bytes, where: str) -> pl.DataFrame:
    """Every cell as text: a serial such as 00123456 or 1234e567 is no number."""
    try:
        frame = pl.read_csv(io.BytesIO(content), infer_schema=False, encoding="utf8")
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as problem:
        raise TableError(
            f"{where}: cannot be read as CSV ({str(problem).splitlines()[0][:160]}); expected a header line and rows of equal length"
        ) from None
    if frame.is_empty():
        raise TableError(f"{where}: has a header and no rows; nothing to judge")
    return frame


def _chosen(frame: pl.DataFrame, columns: Mapping[str, str], where: str) -> dict[str, str]:
    chosen = dict(columns) or {name: name for name in TEXTS + NUMBERS if name in frame.columns}
    for needed in ("gpu", "value"):
        if needed not in chosen:
            hint = "name it with --columns, for example gpu=uuid,value=perf"
            raise TableError(f"{where}: no column for {needed!r}; {hint} (columns: {', '.join(frame.columns)[:300]})")
    for ours, theirs in chosen.items():
        if theirs not in frame.columns:
            near = get_close_matches(theirs, frame.columns, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise TableError(f"{where}: no column {theirs!r} (wanted for {ours!r}){hint} Columns: {', '.join(frame.columns)[:300]}")
    return chosen


def _clean(frame: pl.DataFrame, chosen: Mapping[str, str], test: str, where: str) -> pl.DataFrame:
    """Our columns, trimmed, unknown marks turned to null, numbers parsed; `row` is the row's number in the file, the header being 1."""
    texts = [_text(name, chosen[name]) if name in chosen else pl.lit(None, dtype=pl.String).alias(name) for name in TEXTS]
    numbers = [_number(name, chosen[name]) if name in chosen else pl.lit(None, dtype=pl.Float64).alias(name) for name in NUMBERS]
    told = pl.col(chosen["value"]).fill_null("").str.strip_chars().alias("told")
    clean = frame.with_row_index("row", offset=2).select("row", told, *texts, *numbers)
    nameless = clean.filter(pl.col("gpu").is_null())
    if not nameless.is_empty():
        raise TableError(f"{where}: row {nameless['row'][0]}: column {chosen['gpu']!r} is empty; every row needs the GPU's UUID or serial")
    if clean["value"].is_null().all():
        raise TableError(
            f"{where}: column {chosen['value']!r} holds no positive number in {len(clean)} rows; is it the right column for 'value'?"
        )
    return clean.with_columns(pl.col("test").fill_null(test))


def _text(ours: str, theirs: str) -> pl.Expr:
    value = pl.col(theirs).str.strip_chars()
    if ours == "gpu":
        return pl.when(value != "").then(value).alias(ours)
    return pl.when(~value.str.to_lowercase().is_in(list(UNKNOWN))).then(value).alias(ours)


def _number(ours: str, theirs: str) -> pl.Expr:
    value = pl.col(theirs).str.strip_chars().cast(pl.Float64, strict=False)
    good = value.is_finite() & ((value > 0) if ours == "value" else pl.lit(value=True))
    return pl.when(good).then(value).alias(ours)


def read_table(
    content: bytes, *, columns: Mapping[str, str], test: str, unit: str | None, better: str, sku: str | None, policy: Policy, where: str
) -> Evidence:
    """The evidence in a CSV file. `better` is higher or lower; `sku` names what all GPUs are, where no column does.

    Raises TableError for a file, a column or a GPU name that cannot be used. A single value that is no positive number is evidence: it makes
    its GPU INCONCLUSIVE.
    """
    policy.know_sku(sku)
    frame = _frame(content, where)
    chosen = _chosen(frame, columns, where)
    clean = _clean(frame, chosen, test, where).sort(pl.exclude("row"), nulls_last=True)
    clean = _named_nodes(clean)
    start = pl.col("start").fill_null(pl.int_range(pl.len()).cast(pl.String))
    windows = clean.with_columns(
        start.alias("start"),
        pl.col("gpu").alias("part"),
        pl.lit(unit, dtype=pl.String).alias("unit"),
        pl.lit(better).alias("better"),
        pl.lit("").alias("step"),
        pl.int_range(pl.len()).cast(pl.String).alias("window"),
        pl.lit(0).alias("seed"),
        pl.lit(value=True).alias("steady"),
        pl.lit(0).alias("checked"),
        pl.lit(0).alias("wrong"),
        pl.lit(None, dtype=pl.Float64).alias("sw_thermal_fraction"),
        pl.lit(None, dtype=pl.Float64).alias("hw_power_brake_fraction"),
    ).select(WINDOW_COLUMNS)
    return Evidence(parts=_parts(clean, sku, policy, chosen["value"]), windows=windows, from_table=True)


def _named_nodes(clean: pl.DataFrame) -> pl.DataFrame:
    """A bare number, or a label that stands in several racks, names no node by itself: rack/node does."""
    labels = clean.filter(pl.col("node").is_not_null()).group_by("node").agg(pl.col("rack").n_unique().alias("racks"))
    both = pl.concat_str("rack", pl.lit("/"), "node")
    bare = pl.col("node").str.contains(r"^\d+$")
    return (
        clean.join(labels, on="node", how="left", maintain_order="left")
        .with_columns(
            pl.when(((pl.col("racks") > 1) | bare) & pl.col("rack").is_not_null()).then(both).otherwise(pl.col("node")).alias("node")
        )
        .drop("racks")
    )


def _parts(clean: pl.DataFrame, sku: str | None, policy: Policy, value_column: str) -> tuple[Part, ...]:
    bad = clean.filter(pl.col("value").is_null()).sort("row").group_by("gpu", maintain_order=True).agg("row", "told")
    invalid = {row["gpu"]: _invalid(row["told"], row["row"], value_column) for row in bad.iter_rows(named=True)}
    each = clean.group_by("gpu").agg(pl.col("node", "rack", "slot", "serial", "sku", "pci").drop_nulls().unique().sort()).sort("gpu")
    parts = []
    for row in each.iter_rows(named=True):
        nodes, slots = row["node"], row["slot"]
        mine = row["sku"][0] if len(row["sku"]) == 1 else sku
        policy.know_sku(mine)
        parts.append(
            Part(
                key=row["gpu"],
                gpu=row["gpu"],
                serial=row["serial"][0] if len(row["serial"]) == 1 else None,
                node=nodes[0] if len(nodes) == 1 else None,
                slot=int(slots[0]) if len(slots) == 1 and slots[0].isascii() and slots[0].isdigit() else None,
                rack=row["rack"][0] if len(row["rack"]) == 1 else None,
                pci=row["pci"][0] if len(row["pci"]) == 1 else None,
                sku=mine,
                kin=mine or "",
                duplicate_on=tuple(nodes) if len(nodes) > 1 else (),
                invalid=invalid.get(row["gpu"], ()),
            )
        )
    return tuple(parts)


def _invalid(told: list[str], rows: list[int], column: str) -> tuple[str, ...]:
    """One sentence on the values that are no measurements. Row numbers depend on the file's order, so they are counted, not named."""
    shown = ", ".join(repr(value[:20]) for value in sorted(set(told))[:MOST_NAMED])
    return (f"{len(rows)} of its values in column {column!r} are no positive number ({shown}).",)
