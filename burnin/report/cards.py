"""Which parts get a card, which are listed under a wider part's card, and whose time series are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burnin.outcome import Outcome
from burnin.report.document import Document, Finding, Part
from burnin.report.words import place

MAX_CARDS = 500
MAX_SERIES_CARDS = 100  # a card with charts is about 10 kB
MAX_PEERS = 16
MAX_MEMBERS = 48  # GPUs named on a node's, rack's or fleet's card

# A node with one of these lost its GPUs' evidence; PARTS_MISSING is the node's side of GPU_MISSING.
LOST_EVIDENCE = frozenset(
    {"NODE_UNREACHABLE", "NODE_STOPPED", "PLAN_ENDED_EARLY", "NODE_REBOOTED", "PREFLIGHT_FAILED", "RUN_FAILED", "EVIDENCE_UNREADABLE"}
)


@dataclass(frozen=True, slots=True)
class Card:
    """One flagged part. `members` are the GPUs that have no card of their own because this part explains them."""

    anchor: str
    part: Part
    members: tuple[Part, ...]
    has_series: bool


@dataclass(frozen=True, slots=True)
class Cards:
    """All cards, worst first; what they leave out; where each GPU of the document (by its index) is told about."""

    cards: tuple[Card, ...]
    left_out: tuple[Part, ...]
    without_series: int
    anchor_of: dict[int, str]


def arrange(document: Document) -> Cards:
    """The cards of a document."""
    hosts: dict[int, list[Part]] = {}
    host_of: dict[int, Part] = {}
    nodes = {part.node: part for part in document.nodes if part.verdict is not Outcome.PASS and part.node}
    racks = {part.rack: part for part in document.racks if part.verdict is not Outcome.PASS and part.rack}
    for gpu in document.gpus:
        host = _host(gpu, nodes, racks, document.fleet)
        if host is not None:
            host_of[id(gpu)] = host
            hosts.setdefault(id(host), []).append(gpu)
    own = [part for part in document.parts if part.verdict is not Outcome.PASS and id(part) not in host_of]
    own.sort(key=lambda part: -part.verdict.badness)  # stable: the widest part first within a verdict
    cards, anchors, with_series = [], {}, 0
    for index, part in enumerate(own[:MAX_CARDS]):
        has_series = part.kind == "gpu" and part.gpu is not None and with_series < MAX_SERIES_CARDS
        with_series += has_series
        cards.append(Card(f"c{index}", part, tuple(hosts.get(id(part), ())), has_series))
        anchors[id(part)] = f"c{index}"
    anchor_of = {index: anchor for index, gpu in enumerate(document.gpus) if (anchor := anchors.get(id(host_of.get(id(gpu), gpu))))}
    charted = sum(1 for part in own if part.kind == "gpu" and part.gpu is not None)
    return Cards(tuple(cards), tuple(own[MAX_CARDS:]), charted - with_series, anchor_of)


def wanted_series(document: Document) -> frozenset[str]:
    """The UUIDs whose telemetry the report draws: the flagged GPUs, the GPUs of nodes that lost evidence, and some slot peers of each."""
    wanted: set[str] = set()
    by_slot = slot_index(document)
    for card in arrange(document).cards:
        if card.has_series and card.part.gpu:
            wanted.add(card.part.gpu)
            wanted.update(peer.gpu for peer in slot_peers(card.part, by_slot) if peer.gpu)
        if lost_evidence(card.part):
            wanted.update(member.gpu for member in card.members[:MAX_MEMBERS] if member.gpu)
    return frozenset(wanted)


def slot_index(document: Document) -> dict[int, list[Part]]:
    """Slot -> its GPUs, the good ones first, so that peers are good where they can be."""
    index: dict[int, list[Part]] = {}
    for gpu in sorted(document.gpus, key=lambda gpu: gpu.verdict is not Outcome.PASS):
        if gpu.slot is not None and gpu.gpu is not None:
            index.setdefault(gpu.slot, []).append(gpu)
    return index


def slot_peers(gpu: Part, by_slot: dict[int, list[Part]]) -> Sequence[Part]:
    """GPUs in the same slot of other nodes, the same rack's first, at most MAX_PEERS; condemned GPUs are nobody's measure."""
    if gpu.slot is None:
        return ()
    peers = [peer for peer in by_slot.get(gpu.slot, ()) if peer.node != gpu.node and peer.verdict in (Outcome.PASS, Outcome.REVIEW)]
    return sorted(peers, key=lambda peer: peer.rack != gpu.rack)[:MAX_PEERS]


def lost_evidence(part: Part) -> bool:
    """A node whose GPUs could not be judged because of it."""
    return part.kind == "node" and any(f.code in LOST_EVIDENCE for f in part.bad_findings)


def _host(gpu: Part, nodes: dict[str, Part], racks: dict[str, Part], fleet: Part) -> Part | None:
    """The wider flagged part that explains all that is wrong with this GPU; None: it needs a card of its own."""
    bad = gpu.bad_findings
    if gpu.verdict is Outcome.PASS or gpu.verdict is Outcome.RMA or not bad:
        return None
    node = nodes.get(gpu.node or "")
    if node is not None and lost_evidence(node) and gpu.verdict is Outcome.INCONCLUSIVE:
        return node
    if node is not None and all(f.code == "GPU_MISSING" for f in bad) and _has(node, "PARTS_MISSING"):
        return node
    if all(f.code == "UNDER_SHARED_FAULT" for f in bad):
        rack = racks.get(gpu.rack or "")
        return node or rack or (fleet if fleet.verdict is not Outcome.PASS else None)
    return None


def _has(part: Part, code: str) -> bool:
    return any(f.code == code for f in part.bad_findings)


def causes(part: Part) -> tuple[str, ...]:
    """The causes of what is wrong, worst finding first, each once; 'unknown' only alone."""
    named = dict.fromkeys(f.cause for f in part.bad_findings if f.cause)
    return tuple(cause for cause in named if cause != "unknown") or tuple(named)


def first_finding(part: Part) -> Finding | None:
    """The worst finding: its sentence is the card's."""
    return next(iter(part.bad_findings), None)


def title(part: Part) -> str:
    """A card's heading."""
    return place(part)
