"""The sentences over the report: what goes back, what is to be fixed, what was not shown."""

from __future__ import annotations

from collections import Counter

from burnin.outcome import Outcome
from burnin.report.document import Document, Part
from burnin.report.text import DASH, plural, showable

MEANING = {
    Outcome.RMA: "the part itself is bad: confirmed, send it back",
    Outcome.FAIL: "broken, and not yet this part's fault: fix it here",
    Outcome.RETEST: "suspect, or in need of a reset or a fix first: run it again",
    Outcome.INCONCLUSIVE: "evidence is missing: nothing was shown",
    Outcome.REVIEW: "within limits, worth a person's look",
    Outcome.PASS: "shown to be good",
}


def headline(document: Document) -> str:
    """What a person must know, in one sentence."""
    total, back = len(document.gpus), document.count(Outcome.RMA)
    if not total:
        return "No GPU was judged: nothing was shown."
    ready = [is_ready for _node, is_ready in document.readiness]
    if document.count(Outcome.PASS) == total and document.fleet.verdict is Outcome.PASS and all(ready):
        return f"All {plural(total, 'GPU')} are shown to be good." if total > 1 else "The GPU is shown to be good."
    start = (
        f"{back:,} of {plural(total, 'GPU')} {'goes' if back == 1 else 'go'} back" if back else f"None of {plural(total, 'GPU')} goes back"
    )
    return f"{start}; {_readiness(sum(ready), len(ready))}." if ready else start + "."


def details(document: Document) -> str:
    """The rest of the counts, in one sentence."""
    missing = sum(1 for gpu in document.gpus if gpu.is_missing)
    failed = sum(1 for gpu in document.gpus if gpu.verdict is Outcome.FAIL and not gpu.is_missing)
    clauses = [
        _clause(missing, "is missing", "are missing"),
        _clause(failed, "must be fixed here", "must be fixed here"),
        _clause(document.count(Outcome.RETEST), "must be tested again", "must be tested again"),
        _clause(document.count(Outcome.INCONCLUSIVE), "could not be judged", "could not be judged"),
        _clause(document.count(Outcome.REVIEW), "deserves a look", "deserve a look"),
        _clause(document.count(Outcome.PASS), "is shown to be good", "are shown to be good"),
    ]
    known = [clause for clause in clauses if clause]
    if not known or document.count(Outcome.PASS) == len(document.gpus):
        return ""
    return (known[0] if len(known) == 1 else ", ".join(known[:-1]) + " and " + known[-1]) + "."


def place(part: Part) -> str:
    """Where a part is, as a heading: 'node-02 · slot 3'."""
    if part.kind == "gpu":
        if part.node is None and part.slot is None:
            return "GPU " + name(part.serial or part.gpu, 40)
        return f"{name(part.node, 48)} \N{MIDDLE DOT} slot {DASH if part.slot is None else part.slot}"
    if part.kind == "fleet":
        return "The whole fleet"
    title = {"node": "Node", "rack": "Rack"}.get(part.kind, part.kind.capitalize())
    return f"{title} {name({'node': part.node, 'rack': part.rack}.get(part.kind) or part.name, 48)}"


def name(text: str | None, limit: int = 120) -> str:
    """A name from a node, fit to show; a dash for unknown."""
    return showable(text, limit) if text else DASH


def breakdown(parts: list[Part]) -> str:
    """'2 RMA, 6 INCONCLUSIVE', worst first."""
    counts = Counter(part.verdict for part in parts)
    return ", ".join(f"{counts[outcome]:,} {outcome.value}" for outcome in Outcome if counts[outcome])


def kinds(parts: list[Part]) -> str:
    """'1 node, 3 GPUs'."""
    counts = Counter(part.kind for part in parts)
    words = {"fleet": ("fleet", "fleets"), "gpu": ("GPU", "GPUs")}
    return ", ".join(plural(count, *words.get(kind, (kind, kind + "s"))) for kind, count in counts.items())


def _readiness(ready: int, nodes: int) -> str:
    """'1 of 4 nodes is ready for work'."""
    if nodes == 1:
        return f"the node is {'' if ready else 'not '}ready for work"
    if ready in (0, nodes):
        return f"all {nodes:,} nodes are ready for work" if ready else "no node is ready for work"
    return f"{ready:,} of {nodes:,} nodes {'is' if ready == 1 else 'are'} ready for work"


def _clause(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}" if count else ""
