"""burnin.prom: Prometheus text exposition, for the node exporter's textfile collector or a push gateway.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format. Base units; a value that is not known is
no sample, so NaN never appears.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from burnin.outcome import Outcome
from burnin.report.document import Document, Part, read
from burnin.report.text import showable

FILE_NAME = "burnin.prom"
LABEL_CHARACTERS = 200

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Metric:
    """A gauge and its samples."""

    name: str
    help: str
    samples: tuple[tuple[Labels, float], ...]


def render(document: Mapping[str, Any]) -> str:
    """The file's text. RunFolderError: the document is of another schema."""
    return "".join(line + "\n" for metric in _metrics(read(document)) for line in _lines(metric))


def _metrics(document: Document) -> tuple[Metric, ...]:
    run = (
        ("run_id", document.run_id or ""),
        ("plan", document.plan or ""),
        ("policy", document.policy_name or ""),
        ("digest", document.digest or ""),
    )
    gpus = document.gpus
    return (
        Metric("burnin_run_info", "The run that was judged.", ((run, 1),)),
        Metric("burnin_simulated", "1: the rack was simulated and no part in it is real.", (((), int(document.simulated)),)),
        Metric("burnin_gpus", "GPUs by verdict.", _counts(gpus)),
        Metric("burnin_nodes", "Nodes by verdict.", _counts(document.nodes)),
        Metric("burnin_gpu_verdict", "Always 1; the label verdict is the GPU's verdict.", tuple((_verdict(p, _gpu(p)), 1) for p in gpus)),
        Metric(
            "burnin_node_verdict",
            "Always 1; the label verdict is of the node's own findings only, not of its GPUs'; see burnin_node_ready.",
            tuple((_verdict(p, _node(p)), 1) for p in document.nodes),
        ),
        Metric(
            "burnin_node_ready",
            "1: the node and every GPU of it are PASS or REVIEW; 0: it, or a GPU of it, is not, or it shows no GPU.",
            tuple((_node(p), int(ready)) for p, ready in document.readiness),
        ),
        Metric(
            "burnin_rack_verdict",
            "Always 1; the label verdict is the rack's verdict.",
            tuple((_verdict(p, _rack(p)), 1) for p in document.racks),
        ),
        Metric("burnin_fleet_verdict", "Always 1; the label verdict is the fleet's verdict.", ((_verdict(document.fleet, ()), 1),)),
        Metric("burnin_gpu_findings", "Findings of a GPU that are not PASS, by code.", tuple(_findings(gpus))),
        Metric("burnin_gpu_deviation_ratio", "Rate against the cohort's median, minus 1; negative is slower.", tuple(_deviations(gpus))),
        Metric("burnin_gpu_temperature_celsius", "Steady temperature under load.", tuple(_measured(gpus, "temp_c", 1))),
        Metric("burnin_gpu_power_watts", "Steady power under load.", tuple(_measured(gpus, "power_w", 1))),
        Metric("burnin_gpu_sm_clock_hertz", "Steady SM clock under load.", tuple(_measured(gpus, "sm_clock_mhz", 1e6))),
        Metric(
            "burnin_cohort_sigma_ratio",
            "Robust sigma of a cohort's GPUs in one test, relative to the median.",
            tuple(((("cohort", c.cohort), ("test", c.test)), c.sigma_pct / 100) for c in document.cohorts if c.sigma_pct is not None),
        ),
    )


def _gpu(part: Part) -> Labels:
    return (
        ("gpu", part.gpu or ""),
        ("serial", part.serial or ""),
        ("node", part.node or ""),
        ("slot", "" if part.slot is None else str(part.slot)),
        ("rack", part.rack or ""),
    )


def _node(part: Part) -> Labels:
    return (("node", part.node or ""), ("rack", part.rack or ""))


def _rack(part: Part) -> Labels:
    return (("rack", part.rack or ""),)


def _verdict(part: Part, labels: Labels) -> Labels:
    return (*labels, ("verdict", part.verdict.value))


def _counts(parts: tuple[Part, ...]) -> tuple[tuple[Labels, float], ...]:
    """Every verdict, the zeros too: an alert on a series that is not there never fires."""
    return tuple(((("verdict", outcome.value),), sum(1 for part in parts if part.verdict is outcome)) for outcome in Outcome)


def _findings(gpus: tuple[Part, ...]) -> Iterator[tuple[Labels, float]]:
    for part in gpus:
        codes: dict[str, int] = {}
        for finding in part.bad_findings:
            codes[finding.code] = codes.get(finding.code, 0) + 1
        yield from (((*_gpu(part), ("code", code)), count) for code, count in codes.items())


def _deviations(gpus: tuple[Part, ...]) -> Iterator[tuple[Labels, float]]:
    for part in gpus:
        for test, finding in part.performance.items():
            if finding.deviation_pct is not None:
                yield (*_gpu(part), ("test", test)), finding.deviation_pct / 100


def _measured(gpus: tuple[Part, ...], key: str, factor: float) -> Iterator[tuple[Labels, float]]:
    for part in gpus:
        value = part.temp_c if key == "temp_c" else next((f.evidence[key] for f in part.findings if key in f.evidence), None)
        if value is not None:
            yield _gpu(part), value * factor


def _lines(metric: Metric) -> Iterable[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} gauge"
    seen: dict[str, int] = {}
    for labels, value in metric.samples:
        shown = _labels(labels)
        seen[shown] = seen.get(shown, 0) + 1
        if seen[shown] > 1:
            # Two parts that nothing tells apart, like two missing GPUs without a slot: the same series twice would void the file.
            shown = _labels((*labels, ("duplicate", str(seen[shown]))))
        yield f"{metric.name}{shown} {value:.10g}"


def _labels(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}" if labels else ""


def _escaped(text: str) -> str:
    return showable(text, LABEL_CHARACTERS).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
