"""The report stage: a verdict into what people, CI and monitoring read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from burnin.adapters.run_files import read_run_json, write_text
from burnin.errors import RunFolderError
from burnin.report import html, junit, prometheus, table
from burnin.report.series import Series, parse_samples
from burnin.stages.judging import samples_text

FILES = {"html": "report.html", "junit": "junit.xml", "prometheus": "burnin.prom", "csv": "gpus.csv", "jsonl": "gpus.jsonl"}
# Time series are drawn for flagged parts and their slot peers; more nodes than this and the peers' files are not all opened.
MOST_NODES_WITH_SERIES = 64


def write_reports(folder: Path, document: Mapping[str, Any]) -> Path:
    """report.html, junit.xml, burnin.prom and gpus.csv beside the verdict; returns the report's path."""
    for name in ("html", "junit", "prometheus", "csv"):
        write_text(folder / FILES[name], render(folder, document, name))
    return folder / FILES["html"]


def render(folder: Path, document: Mapping[str, Any], name: str) -> str:
    """One format's text. Raises RunFolderError for a format that is none."""
    if name == "html":
        run = read_run_json(folder)
        return html.render(document, run=run, series=_series(folder, document, run))
    if name == "junit":
        return junit.render(document)
    if name == "prometheus":
        return prometheus.render(document)
    if name == "csv":
        return table.render_csv(document)
    if name == "jsonl":
        from burnin.report import jsonl

        return jsonl.render(document)
    raise RunFolderError(f"format {name!r} is unknown; expected one of {', '.join(FILES)}")


def _series(folder: Path, document: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Series]:
    """Telemetry of the nodes with flagged parts first, then of their peers, as many nodes as are drawn."""
    flagged = {gpu["node"] for gpu in document["gpus"] if gpu["verdict"] != "PASS"}
    nodes = sorted(run["inventory"]["nodes"], key=lambda node: (node["node"] not in flagged, node["node"]))[:MOST_NODES_WITH_SERIES]
    wanted = html.wanted_series(document)
    series: dict[str, Series] = {}
    for node in nodes:
        text = samples_text(folder, node["folder"])
        if text:
            series.update(parse_samples(text, wanted))
    return series
