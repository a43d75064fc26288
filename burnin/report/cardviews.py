"""A card ready for the template: who it is, the sentence why, what to do, the charts, the findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from burnin.outcome import Outcome
from burnin.report import charts
from burnin.report.cards import MAX_MEMBERS, Card, Cards, causes, first_finding, lost_evidence, slot_index, slot_peers
from burnin.report.document import Document, Finding, Part
from burnin.report.series import Series
from burnin.report.text import DASH, plain, plural, whole
from burnin.report.words import MEANING, breakdown, kinds, name, place

FINE_BUCKETS, COARSE_BUCKETS = 100, 60  # of two points each
COARSE_FROM_CARDS = 24
QUANTITIES = (("Temperature", "\N{DEGREE SIGN}C", "temp_c"), ("Power", "W", "power_w"), ("SM clock", "MHz", "sm_clock_mhz"))
THROTTLES = (
    ("hw_thermal", "hw", "hardware thermal slowdown"),
    ("sw_thermal", "sw", "software thermal slowdown"),
    ("hw_power_brake", "brake", "power brake"),
)

EVIDENCE_UNITS = {
    "temp_c": "\N{DEGREE SIGN}C",
    "margin_c": "\N{DEGREE SIGN}C margin",
    "slot_median_c": "\N{DEGREE SIGN}C median of its slot peers",
    "power_w": "W",
    "sm_clock_mhz": "MHz",
    "windows_over": "windows over the line",
    "starts_over": "starts over the line",
    "starts": "starts",
    "slot_peers": "slot peers",
}


Sentences = tuple[tuple[tuple[tuple[str | None, str], ...], str], ...]  # of each action: (test to name, why) of its findings, action


@dataclass(frozen=True, slots=True)
class CardView:
    """What the template prints of one flagged part."""

    anchor: str
    part: Part
    title: str
    codes: tuple[str, ...]
    causes: tuple[str, ...]
    sentences: Sentences
    facts: tuple[tuple[str, str], ...]
    charts: tuple[tuple[str, str, Markup], ...]  # label, unit, drawing
    keys: tuple[tuple[str, str], ...]  # class, words
    members: tuple[Part, ...]
    members_line: str
    further_members: int
    notes: tuple[str, ...]
    findings: tuple[tuple[Finding, str], ...]  # worst first, with why and evidence as one text


@dataclass(frozen=True, slots=True)
class Group:
    """The cards of one verdict."""

    outcome: Outcome
    meaning: str
    kinds: str
    cards: tuple[CardView, ...]


def card_views(document: Document, cards: Cards, series: Mapping[str, Series]) -> tuple[Group, ...]:
    """All cards by verdict, worst first."""
    by_slot = slot_index(document)
    buckets = FINE_BUCKETS if len(cards.cards) <= COARSE_FROM_CARDS else COARSE_BUCKETS
    groups = []
    for outcome in Outcome:
        members = [card for card in cards.cards if card.part.verdict is outcome]
        if members:
            views = tuple(_view(card, by_slot, series, buckets) for card in members)
            groups.append(Group(outcome, MEANING[outcome], kinds([card.part for card in members]), views))
    return tuple(groups)


def _view(card: Card, by_slot: dict[int, list[Part]], series: Mapping[str, Series], buckets: int) -> CardView:
    part = card.part
    own = series.get(part.gpu) if card.has_series and part.gpu else None
    drawn, keys, notes = (), (), ()  # type: tuple[tuple[str, str, Markup], ...], tuple[tuple[str, str], ...], tuple[str, ...]
    if own is not None and own.elapsed_s:
        peers = [known for peer in slot_peers(part, by_slot) if peer.gpu and (known := series.get(peer.gpu)) and known.elapsed_s]
        drawn, keys, notes = _gpu_charts(part, own, peers, buckets), _keys(part, own, len(peers)), own.notes
    elif lost_evidence(part):
        drawn, keys, notes = _node_charts(card, series, buckets)
    sentences = _sentences(part)
    codes = tuple(dict.fromkeys(f.code for f in part.bad_findings)) or tuple(dict.fromkeys(f.code for f in part.findings))
    return CardView(
        anchor=card.anchor,
        part=part,
        title=place(part),
        codes=codes,
        causes=tuple("cause unknown" if cause == "unknown" else f"cause: {cause}" for cause in causes(part)),
        sentences=sentences,
        facts=_facts(part),
        charts=drawn,
        keys=keys,
        members=card.members[:MAX_MEMBERS],
        members_line=f"{plural(len(card.members), 'GPU')} explained by this: {breakdown(list(card.members))}",
        further_members=max(0, len(card.members) - MAX_MEMBERS),
        notes=notes,
        findings=_findings(part, sentences),
    )


def _sentences(part: Part) -> Sentences:
    """Why and what to do, of each finding as bad as the verdict; of the worst alone where none is. One action is said once."""
    worst = [f for f in part.bad_findings if f.outcome is part.verdict] or [f for f in (first_finding(part),) if f]
    if not worst:
        return ((((None, "No finding says why."),), "Judge the run again; if it stays so, this is a fault of burnin."),)
    codes = Counter(finding.code for finding in worst)
    by_action: dict[str, dict[tuple[str | None, str], None]] = {}
    for finding in worst:
        # The same finding in two tests: sentences alike, which do not all name their test.
        is_named = finding.test is None or codes[finding.code] == 1 or finding.test in finding.why
        said = (None if is_named else finding.test, finding.why or "No sentence says why.")
        by_action.setdefault(finding.action, {})[said] = None
    return tuple((tuple(whys), action) for action, whys in by_action.items())


def _facts(part: Part) -> tuple[tuple[str, str], ...]:
    if part.kind == "gpu":
        slot = DASH if part.slot is None else str(part.slot)
        pairs = [
            ("Serial", name(part.serial)),
            ("UUID", name(part.gpu)),
            ("Node", name(part.node)),
            ("Slot", slot),
            ("Rack", name(part.rack)),
            ("PCI", name(part.pci)),
        ]
        return tuple([*pairs, ("SKU", name(part.sku))] if part.sku else pairs)
    known = (
        ("Node", part.node),
        ("Rack", part.rack),
        ("Position", None if part.position is None else str(part.position)),
        ("Serial", part.serial),
        ("PCI", part.pci),
    )
    return tuple((label, name(value)) for label, value in known if value)


def _findings(part: Part, sentences: Sentences) -> tuple[tuple[Finding, str], ...]:
    said = {why for whys, _action in sentences for _test, why in whys}
    ordered = sorted(part.findings, key=lambda f: -f.outcome.badness)
    return tuple((f, " ".join(text for text in ("" if f.why in said else f.why, _evidence(f.evidence)) if text)) for f in ordered)


def _evidence(evidence: Mapping[str, float]) -> str:
    keys = [key for key in EVIDENCE_UNITS if key in evidence] + [key for key in evidence if key not in EVIDENCE_UNITS]
    return ", ".join(f"{plain(evidence[key])} {EVIDENCE_UNITS.get(key, key.replace('_', ' '))}" for key in keys[:12])


def _gpu_charts(part: Part, own: Series, peers: Sequence[Series], buckets: int) -> tuple[tuple[str, str, Markup], ...]:
    found = []
    throttled = tuple((own.elapsed_s, getattr(own, flag), f"t-{class_}") for flag, class_, _words in THROTTLES)
    for label, unit, quantity in QUANTITIES:
        chart = charts.track(
            charts.Track(
                label=f"{label} of {place(part)} over time, in {unit}",
                elapsed_s=own.elapsed_s,
                values=getattr(own, quantity),
                peers=tuple((peer.elapsed_s, getattr(peer, quantity)) for peer in peers),
                steps=own.steps,
                throttled=throttled,
                limit=_limit(part) if quantity == "temp_c" else None,
                end_s=max(s.elapsed_s[-1] for s in (own, *peers)),
            ),
            buckets,
        )
        if chart is not None:
            found.append((label, unit, chart))
    return tuple(found)


def _limit(part: Part) -> float | None:
    """The device's maximum operating temperature in C, where a finding's evidence gives temperature and margin."""
    for finding in part.findings:
        temp_c, margin_c = finding.temp_c, finding.evidence.get("margin_c")
        if temp_c is not None and margin_c is not None and 40 < temp_c + margin_c < 150:
            return temp_c + margin_c
    return None


def _keys(part: Part, own: Series, peers: int) -> tuple[tuple[str, str], ...]:
    found = [("own", "this GPU")]
    if peers:
        found.append(("peers", f"lowest to highest of slot {part.slot} in {plural(peers, 'other node')}"))
    found += [(f"t-{class_}", words) for flag, class_, words in THROTTLES if any(getattr(own, flag))]
    if (limit := _limit(part)) is not None and any(value is not None for value in own.temp_c):
        found.append(("limit", f"max operating {whole(limit)} \N{DEGREE SIGN}C"))
    if own.steps[1:]:
        found.append(("border", "a step or a start begins"))
    return tuple(found)


def _node_charts(
    card: Card, series: Mapping[str, Series], buckets: int
) -> tuple[tuple[tuple[str, str, Markup], ...], tuple[tuple[str, str], ...], tuple[str, ...]]:
    members = [known for gpu in card.members if gpu.gpu and (known := series.get(gpu.gpu)) and known.elapsed_s]
    if not members:
        return (), (), ()
    longest_s = max((s.elapsed_s[-1] for s in series.values() if s.elapsed_s), default=0.0)
    steps = max(members, key=lambda s: s.elapsed_s[-1]).steps
    found = []
    for label, unit, quantity in QUANTITIES:
        lines = [(s.elapsed_s, getattr(s, quantity)) for s in members]
        chart = charts.tracks_over(
            f"{label} of the GPUs of {place(card.part)}, in {unit}", lines, steps, longest_s, min(buckets, COARSE_BUCKETS)
        )
        if chart is not None:
            found.append((label, unit, chart))
    notes = tuple(dict.fromkeys(note for s in members for note in s.notes))
    last_s = max(s.elapsed_s[-1] for s in members)
    keys = [("member", plural(len(members), "GPU") + " of this node")] + (
        [("silence", f"no samples after {last_s / 60:.1f} min")] if last_s < 0.98 * longest_s else []
    )
    return tuple(found), tuple(keys), notes
