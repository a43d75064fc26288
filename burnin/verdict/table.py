"""A table of measurements (CSV text) as evidence: each row is one start of one GPU."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping
from difflib import get_close_matches

import polars as pl

from burnin.errors import TableError
from burnin.verdict.identity import mark_duplicates, serial_text
from burnin.verdict.model import WINDOW_COLUMNS, Evidence, Part
from burnin.verdict.policy import Policy
from burnin.verdict.reading import IN_REACH

TEXTS = ("gpu", "serial", "node", "rack", "slot", "test", "start", "sku", "pci")
NUMBERS = ("value", "temp_c", "margin_c", "power_w", "sm_clock_mhz", "hw_thermal_fraction")
UNKNOWN = ("", "-1", "nan", "none", "null", "n/a", "[n/a]", "na", "unknown")
ROW = "\0row"  # a column of ours beside the file's, under a name that no file has
DIRECTIONS = ("higher", "lower")
OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
MOST_NAMED, MOST_SHOWN, LONGEST_NAME = 3, 300, 200


def parse_columns(text: str | None, where: str) -> dict[str, str]:
    """'gpu=uuid,value=perf' as {ours: theirs}. Raises TableError for a name that is none of ours."""
    if text is None:
        return {}
    mapping: dict[str, str] = {}
    for piece in text.replace("\n", " ").split(","):
        ours, equals, theirs = (part.strip() for part in piece.partition("="))
        if not equals or not theirs:
            raise TableError(f"--columns: {piece.strip()[:80]!r} is not OURS=THEIRS; for example gpu=uuid,value=perf")
        if ours not in TEXTS + NUMBERS:
            raise TableError(
                f"--columns: {ours[:80]!r} is no name of ours{_near(ours, TEXTS + NUMBERS)} Known: {', '.join(TEXTS + NUMBERS)} ({where})"
            )
        if ours in mapping:
            raise TableError(f"--columns: {ours!r} stands twice; name each once")
        mapping[ours] = theirs
    return mapping


def _near(name: str, known: tuple[str, ...] | list[str]) -> str:
    near = get_close_matches(name[:LONGEST_NAME], [one[:LONGEST_NAME] for one in known], 1)
    return f"; did you mean {near[0]!r}?" if near else "."


def _frame(content: bytes, where: str) -> pl.DataFrame:
    """Every cell as text: a serial such as 00123456 or 1234e567 is no number."""
    _check_header(content, where)
    try:
        frame = pl.read_csv(io.BytesIO(content), infer_schema=False, encoding="utf8")
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as problem:
        raise TableError(
            f"{where}: cannot be read as CSV ({str(problem).splitlines()[0][:160]}); expected UTF-8, a header line and rows of equal length"
        ) from None
    frame = frame.with_row_index(ROW, offset=2)
    frame = frame.filter(~pl.all_horizontal(pl.exclude(ROW).is_null())) if frame.width > 2 else frame
    if frame.is_empty():
        raise TableError(f"{where}: has a header and no rows; nothing to judge")
    if frame[frame.columns[-1]].null_count():
        _check_lengths(content, where)
    return frame


def _check_header(content: bytes, where: str) -> None:
    """One line of text with a name for each column, each once."""
    line = content.partition(b"\n")[0]
    if not content.strip():
        raise TableError(f"{where}: is empty; expected a header line and rows")
    try:
        header = next(csv.reader([line.decode("utf-8-sig").strip("\r")]), [])
    except (UnicodeDecodeError, csv.Error) as problem:
        raise TableError(
            f"{where}: the header line cannot be read as UTF-8 text ({str(problem)[:80]}); save the table as CSV in UTF-8"
        ) from None
    if "\x00" in line.decode("utf-8", "replace"):
        raise TableError(f"{where}: holds zero bytes, as UTF-16 does; save the table as CSV in UTF-8")
    twice = [name for name, count in Counter(header).items() if count > 1]
    if twice:
        raise TableError(f"{where}: column {twice[0][:80]!r} stands twice in the header; rename or remove one")
    used = [name for mark, name in OTHER_SEPARATORS.items() if len(header) == 1 and mark in header[0]]
    if used:
        raise TableError(f"{where}: the header is separated by {used[0]}; expected commas (columns: {header[0][:MOST_SHOWN]})")


def _check_lengths(content: bytes, where: str) -> None:
    """A row that is short was cut off: polars fills it up, we do not."""
    try:
        rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        width = len(next(rows, []))
        for row in rows:
            if row and len(row) != width:
                raise TableError(f"{where}: line {rows.line_num} has {len(row)} fields where the header has {width}; the row is cut off")
    except (csv.Error, UnicodeDecodeError) as problem:
        raise TableError(f"{where}: cannot be read as CSV ({str(problem)[:160]}); expected rows of equal length") from None


def _chosen(frame: pl.DataFrame, columns: Mapping[str, str], where: str) -> dict[str, str]:
    known = [name for name in frame.columns if name != ROW]
    listed = ", ".join(known)[:MOST_SHOWN]
    chosen = dict(columns) or {name: name for name in TEXTS + NUMBERS if name in known}
    for needed in ("gpu", "value"):
        if needed not in chosen:
            hint = "name it with --columns, for example gpu=uuid,value=perf"
            raise TableError(f"{where}: no column for {needed!r}; {hint} (columns: {listed})")
    for ours, theirs in chosen.items():
        if theirs not in known:
            raise TableError(f"{where}: no column {theirs[:80]!r} (wanted for {ours!r}){_near(theirs, known)} Columns: {listed}")
    return chosen


def _clean(frame: pl.DataFrame, chosen: Mapping[str, str], test: str, where: str) -> pl.DataFrame:
    """Our columns, trimmed, unknown marks turned to null, numbers parsed; `row` is the row's number in the file, the header being 1."""
    texts = [_text(name, chosen[name]) if name in chosen else pl.lit(None, dtype=pl.String).alias(name) for name in TEXTS]
    numbers = [_number(name, chosen[name]) if name in chosen else pl.lit(None, dtype=pl.Float64).alias(name) for name in NUMBERS]
    told = pl.col(chosen["value"]).fill_null("").str.strip_chars().str.slice(0, 40).alias("told")
    clean = frame.select(pl.col(ROW).alias("row"), told, *texts, *numbers)
    nameless = clean.filter(pl.col("gpu").is_null())
    if not nameless.is_empty():
        raise TableError(f"{where}: row {nameless['row'][0]}: column {chosen['gpu']!r} names no GPU; every row needs its UUID or serial")
    long = clean.filter(pl.any_horizontal(pl.col(TEXTS).str.len_chars() > LONGEST_NAME))
    if not long.is_empty():
        raise TableError(f"{where}: row {long['row'][0]}: a name has more than {LONGEST_NAME} characters; is a quote not closed?")
    if clean["value"].is_null().all():
        raise TableError(
            f"{where}: column {chosen['value']!r} holds no positive number in {len(clean)} rows; is it the right column for 'value'?"
        )
    return clean.with_columns(pl.col("test").fill_null(test))


def _text(ours: str, theirs: str) -> pl.Expr:
    value = pl.col(theirs).str.strip_chars()
    return pl.when(~value.str.to_lowercase().is_in(list(UNKNOWN))).then(value).alias(ours)


def _number(ours: str, theirs: str) -> pl.Expr:
    value = pl.col(theirs).str.strip_chars().cast(pl.Float64, strict=False)
    low, high = IN_REACH[ours]
    return pl.when((value > low) & (value < high)).then(value).alias(ours)


def read_table(
    content: bytes, *, columns: Mapping[str, str], test: str, unit: str | None, better: str, sku: str | None, policy: Policy, where: str
) -> Evidence:
    """The evidence in a CSV file. `better` is higher or lower; `sku` names what all GPUs are, where no column does.

    Raises TableError for a file, a column or a GPU name that cannot be used, PolicyError for an unknown SKU. A single value that is no
    positive number is evidence: it makes its GPU INCONCLUSIVE.
    """
    policy.know_sku(sku)
    if better not in DIRECTIONS:
        raise TableError(f"--better: {better!r} is unknown; expected higher or lower")
    frame = _frame(content, where)
    chosen = _chosen(frame, columns, where)
    clean = _named_nodes(_clean(frame, chosen, test, where).sort(pl.exclude("row"), nulls_last=True))
    number = pl.int_range(pl.len()).cast(pl.String)
    none = pl.lit(None, dtype=pl.Float64)
    windows = clean.with_columns(
        pl.col("start").fill_null(pl.lit("row ") + number),
        pl.col("gpu").alias("part"),
        pl.lit(unit, dtype=pl.String).alias("unit"),
        pl.lit(better).alias("better"),
        pl.lit("").alias("step"),
        number.alias("window"),
        pl.lit(value=True).alias("steady"),
        *(pl.lit(0).alias(name) for name in ("seed", "checked", "wrong")),
        *(none.alias(name) for name in ("sw_thermal_fraction", "hw_power_brake_fraction")),
    ).select(WINDOW_COLUMNS)
    return Evidence(parts=_parts(clean, sku, policy, chosen["value"]), windows=windows, from_table=True, notes=_notes(frame))


def _notes(frame: pl.DataFrame) -> tuple[str, ...]:
    """What a person should know of the table beside the findings: whether a row stands twice cannot be told from two equal measurements."""
    copies = len(frame) - frame.drop(ROW).n_unique()
    told = f"{copies} of {len(frame)} rows are exact copies of others. Each row counts as a start; if they were copied, remove them and judge again."
    return (told,) if copies else ()


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
    bad = clean.filter(pl.col("value").is_null()).group_by("gpu").agg("told")
    invalid = {row["gpu"]: _invalid(row["told"], value_column) for row in bad.iter_rows(named=True)}
    each = clean.group_by("gpu").agg(pl.col("node", "rack", "slot", "serial", "sku", "pci").drop_nulls().unique().sort()).sort("gpu")
    parts = []
    for row in each.iter_rows(named=True):
        nodes, slot = row["node"], _only(row["slot"]) or ""
        mine = _only(row["sku"]) or sku
        policy.know_sku(mine)
        parts.append(
            Part(
                key=row["gpu"],
                gpu=row["gpu"],
                serial=serial_text(_only(row["serial"])),
                node=_only(nodes),
                slot=int(slot) if slot.isascii() and slot.isdigit() and len(slot) <= MOST_NAMED else None,
                rack=_only(row["rack"]),
                pci=_only(row["pci"]),
                sku=mine,
                kin=mine or "",
                duplicate_on=tuple(nodes[:MOST_NAMED]) if len(nodes) > 1 else (),
                invalid=invalid.get(row["gpu"], ()),
            )
        )
    return mark_duplicates(parts)


def _only(values: list[str]) -> str | None:
    """The one value that all rows of a GPU agree on."""
    return values[0] if len(values) == 1 else None


def _invalid(told: list[str], column: str) -> tuple[str, ...]:
    """One sentence on the values that are no measurements. Row numbers depend on the file's order, so they are counted, not named."""
    shown = ", ".join(repr(value[:20]) for value in sorted(set(told))[:MOST_NAMED])
    return (f"{len(told)} of its values in column {column!r} are no positive number ({shown}).",)
