"""verdict.json as typed records. Reading is forgiving of what is missing (None) and strict about the schema's name."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from burnin.errors import RunFolderError
from burnin.outcome import Outcome

SCHEMA = "burnin.verdict/1"
TEXT_CHARACTERS = 2000  # of any one text; a sentence of ours has less than 600, so more is not ours

FIT = frozenset({Outcome.PASS, Outcome.REVIEW})

# A test's value was judged, whatever came of it.
PERFORMANCE_CODES = frozenset({"PERF_OK", "PERF_BELOW_MEDIAN", "TOO_FEW_WINDOWS", "COHORT_TOO_SMALL", "TEST_MISSING", "VALUE_INVALID"})


@dataclass(frozen=True, slots=True)
class Finding:
    """One judged fact."""

    code: str
    outcome: Outcome
    test: str | None = None
    value: float | None = None
    unit: str | None = None
    median: float | None = None
    deviation_pct: float | None = None
    cohort: str | None = None
    cohort_size: int | None = None
    windows: int | None = None
    cause: str | None = None
    why: str = ""
    action: str = ""
    evidence: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_performance(self) -> bool:
        """Whether value and deviation are a test's result."""
        return self.test is not None and self.code in PERFORMANCE_CODES

    @property
    def temp_c(self) -> float | None:
        """The temperature that it judged or saw."""
        if self.code.startswith("HEAT_") and self.value is not None and self.unit in ("C", "\N{DEGREE SIGN}C"):
            return self.value
        return self.evidence.get("temp_c")


@dataclass(frozen=True, slots=True)
class Part:
    """A GPU, node, rack, link, disk or the fleet, with its verdict. `gpu` is the UUID; None on a GPU that did not show up."""

    kind: str
    verdict: Outcome
    findings: tuple[Finding, ...]
    gpu: str | None = None
    serial: str | None = None
    node: str | None = None
    rack: str | None = None
    slot: int | None = None
    position: int | None = None
    pci: str | None = None
    sku: str | None = None
    name: str | None = None

    @property
    def bad_findings(self) -> tuple[Finding, ...]:
        """Everything but PASS, worst first; the order within an outcome is the document's."""
        return tuple(sorted((f for f in self.findings if f.outcome is not Outcome.PASS), key=lambda f: -f.outcome.badness))

    @property
    def is_missing(self) -> bool:
        """A GPU that was bought and did not show up."""
        return self.kind == "gpu" and any(f.code == "GPU_MISSING" for f in self.findings)

    @property
    def performance(self) -> dict[str, Finding]:
        """Test -> its finding; the worst where there are several."""
        found: dict[str, Finding] = {}
        for finding in self.findings:
            if finding.is_performance and finding.test is not None:
                known = found.get(finding.test)
                if known is None or (known.value is None, -known.outcome.badness) > (finding.value is None, -finding.outcome.badness):
                    found[finding.test] = finding
        return found

    @property
    def deviation_pct(self) -> float | None:
        """The lowest deviation over the tests."""
        return min((f.deviation_pct for f in self.performance.values() if f.deviation_pct is not None), default=None)

    @property
    def temp_c(self) -> float | None:
        """The steady temperature, the highest that a finding names."""
        return max((known for finding in self.findings if (known := finding.temp_c) is not None), default=None)


@dataclass(frozen=True, slots=True)
class Cohort:
    """The GPUs that were compared in one test. `line` is the value at the 5 % line."""

    cohort: str
    test: str
    unit: str
    better: str
    size: int | None
    nodes: int | None
    median: float | None
    sigma_pct: float | None
    line: float | None
    referenced: bool = False  # the median is a reference run's, not this cohort's own

    @property
    def line_pct(self) -> float | None:
        """The line as a deviation in rate: -5.0."""
        if not self.median or not self.line:
            return None
        return 100 * ((self.median / self.line if self.better == "lower" else self.line / self.median) - 1)


@dataclass(frozen=True, slots=True)
class Document:
    """A whole verdict.json."""

    run_id: str | None
    digest: str | None
    plan: str | None
    policy_name: str | None
    policy_digest: str | None
    gpus: tuple[Part, ...]
    nodes: tuple[Part, ...]
    racks: tuple[Part, ...]
    links: tuple[Part, ...]
    disks: tuple[Part, ...]
    fleet: Part
    cohorts: tuple[Cohort, ...]
    summary: Mapping[str, int]
    simulated: bool = False
    notes: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """Everything that has a verdict, the widest first."""
        return (self.fleet, *self.racks, *self.nodes, *self.gpus, *self.disks, *self.links)

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests that GPUs were judged by, sorted."""
        return tuple(sorted({f.test for gpu in self.gpus for f in gpu.findings if f.is_performance and f.test is not None}))

    @property
    def readiness(self) -> tuple[tuple[Part, bool], ...]:
        """Each node, and whether it and every GPU of it are PASS or REVIEW. A node that shows no GPU has shown nothing."""
        fit: dict[str | None, bool] = {}
        for gpu in self.gpus:
            fit[gpu.node] = fit.get(gpu.node, True) and gpu.verdict in FIT
        return tuple((node, node.verdict in FIT and fit.get(node.node, False)) for node in self.nodes)

    def count(self, outcome: Outcome) -> int:
        """How many GPUs have this verdict, counted from the list itself."""
        return sum(1 for gpu in self.gpus if gpu.verdict is outcome)


def read(document: Mapping[str, Any]) -> Document:
    """The records of a verdict.json. RunFolderError: it is of another schema."""
    if document.get("schema") != SCHEMA:
        raise RunFolderError(
            f"verdict.json has schema {str(document.get('schema'))[:80]!r}; this burnin reads {SCHEMA!r}: judge the run again with it"
        )
    policy = _mapping(document.get("policy"))
    return Document(
        run_id=_text(document.get("run_id")),
        digest=_text(document.get("digest")),
        plan=_text(document.get("plan")),
        policy_name=_text(policy.get("name")),
        policy_digest=_text(policy.get("digest")),
        gpus=_parts(document, "gpus", "gpu"),
        nodes=_parts(document, "nodes", "node"),
        racks=_parts(document, "racks", "rack"),
        links=_parts(document, "links", "link"),
        disks=_parts(document, "disks", "disk"),
        fleet=_part("fleet", _mapping(document.get("fleet"))),
        cohorts=tuple(_cohort(entry) for entry in _mappings(document.get("cohorts"))),
        summary={str(key): count for key, value in _mapping(document.get("summary")).items() if (count := _integer(value)) is not None},
        simulated=document.get("simulated") is True,
        notes=_texts(document.get("notes")),
    )


def _parts(document: Mapping[str, Any], key: str, kind: str) -> tuple[Part, ...]:
    return tuple(_part(kind, entry) for entry in _mappings(document.get(key)))


def _part(kind: str, entry: Mapping[str, Any]) -> Part:
    findings = tuple(_finding(finding) for finding in _mappings(entry.get("findings")))
    return Part(
        kind=kind,
        verdict=_outcome(entry.get("verdict")),
        findings=findings,
        gpu=_text(entry.get("gpu")),
        serial=_text(entry.get("serial")),
        node=_text(entry.get("node")),
        rack=_text(entry.get("rack")),
        slot=_integer(entry.get("slot")),
        position=_integer(entry.get("position")),
        pci=_text(entry.get("pci")),
        sku=_text(entry.get("sku")),
        name=_text(entry.get(kind) or entry.get("name")),
    )


def _finding(entry: Mapping[str, Any]) -> Finding:
    return Finding(
        code=_text(entry.get("code")) or "UNKNOWN",
        outcome=_outcome(entry.get("outcome")),
        test=_text(entry.get("test")),
        value=finite(entry.get("value")),
        unit=_text(entry.get("unit")),
        median=finite(entry.get("median")),
        deviation_pct=finite(entry.get("deviation_pct")),
        cohort=_text(entry.get("cohort")),
        cohort_size=_integer(entry.get("cohort_size")),
        windows=_integer(entry.get("windows")),
        cause=_text(entry.get("cause")),
        why=_text(entry.get("why")) or "",
        action=_text(entry.get("action")) or "",
        evidence={str(key): known for key, value in _mapping(entry.get("evidence")).items() if (known := finite(value)) is not None},
    )


def _cohort(entry: Mapping[str, Any]) -> Cohort:
    return Cohort(
        cohort=_text(entry.get("cohort")) or "",
        test=_text(entry.get("test")) or "",
        unit=_text(entry.get("unit")) or "",
        better="lower" if entry.get("better") == "lower" else "higher",
        size=_integer(entry.get("size")),
        nodes=_integer(entry.get("nodes")),
        median=finite(entry.get("median")),
        sigma_pct=finite(entry.get("sigma_pct")),
        line=finite(entry.get("line")),
        referenced=entry.get("referenced") is True,
    )


def finite(value: object) -> float | None:
    """A number that is one; None for text, NaN, infinities and truth values."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        known = float(value)
    except OverflowError:
        return None
    return known if math.isfinite(known) else None


def _outcome(value: object) -> Outcome:
    # A word that is none of ours was not shown to be good.
    return Outcome(value) if isinstance(value, str) and value in Outcome.__members__ else Outcome.INCONCLUSIVE


def _text(value: object) -> str | None:
    return value[:TEXT_CHARACTERS] if isinstance(value, str) and value else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(known for entry in value if (known := _text(entry))) if isinstance(value, list | tuple) else ()


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**9 else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> Iterable[Mapping[str, Any]]:
    return (entry for entry in value if isinstance(entry, Mapping)) if isinstance(value, list | tuple) else ()
