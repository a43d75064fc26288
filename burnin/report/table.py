"""gpus.csv: one row per GPU, those that did not show up too.

Text is quoted, numbers are not, so that a spreadsheet that honours quotes (LibreOffice: "quoted field as text") keeps serials as they
are. One that does not turns the serial 00123456 into 123456 and 1234e567 into infinity; for it the column `serial_label` holds
'S/N 00123456', which nothing turns into a number.

A cell of text that begins with = + - @ TAB or CR would run as a formula (field report X8), so it gets an apostrophe before it. A
program that reads the file takes one leading apostrophe away where one of these follows it. `deviation_pct` and the like are numbers.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from burnin.report.document import Document, Part, read

FILE_NAME = "gpus.csv"
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

Cell = str | int | float | None


def render(document: Mapping[str, Any]) -> str:
    """The file's text; see render_csv."""
    return render_csv(document)


def render_csv(document: Mapping[str, Any]) -> str:
    """The file's text, with a header, rows in the document's order, CRLF (RFC 4180). RunFolderError: another schema."""
    judged = read(document)
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\r\n")
    tests = judged.tests
    writer.writerow([safe(name) for name in _header(tests)])
    for row in _rows(judged, tests):
        writer.writerow([safe(cell) if isinstance(cell, str) else "" if cell is None else cell for cell in row])
    return out.getvalue()


def safe(text: str) -> str:
    """The text as a cell that no spreadsheet runs; what cannot be written as UTF-8, or would end a file, replaced."""
    text = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    return "'" + text if text.startswith(FORMULA_STARTS) else text


def _header(tests: tuple[str, ...]) -> list[str]:
    fixed = ["verdict", "code", "cause", "rack", "node", "slot", "serial", "serial_label", "gpu", "pci", "sku", "temp_c"]
    return (
        fixed
        + [f"{test} {column}" for test in tests for column in ("value", "unit", "deviation_pct", "windows")]
        + ["why", "action", "simulated"]
    )


def _rows(document: Document, tests: tuple[str, ...]) -> Iterator[list[Cell]]:
    for gpu in document.gpus:
        worst = gpu.bad_findings[0] if gpu.bad_findings else None
        row: list[Cell] = [gpu.verdict.value, worst.code if worst else None, worst.cause if worst else None]
        row += [
            gpu.rack,
            gpu.node,
            gpu.slot,
            gpu.serial,
            f"S/N {gpu.serial}" if gpu.serial else None,
            gpu.gpu,
            gpu.pci,
            gpu.sku,
            gpu.temp_c,
        ]
        row += _results(gpu, tests)
        row += [worst.why if worst else None, worst.action if worst else None, "yes" if document.simulated else "no"]
        yield row


def _results(gpu: Part, tests: tuple[str, ...]) -> Iterator[Cell]:
    performance = gpu.performance
    for test in tests:
        finding = performance.get(test)
        yield from (finding.value, finding.unit, finding.deviation_pct, finding.windows) if finding else (None,) * 4
