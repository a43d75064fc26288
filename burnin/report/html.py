"""report.html: one self-contained page for people. No network, no file beside it; works without scripts and in print.

Text from nodes is hostile. Jinja2 escapes every value, `_shown` cleans and bounds every string on its way out, and the page's
Content-Security-Policy allows the one script of ours by its hash and no request at all.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

import jinja2
from markupsafe import Markup

from burnin.outcome import Outcome
from burnin.report import cards as cards_of
from burnin.report import rackmap, text, words
from burnin.report.cardviews import card_views
from burnin.report.document import Document, read
from burnin.report.limits import rows as limit_rows
from burnin.report.overview import distributions, legend, not_shown, plan_line
from burnin.report.parts_table import MAX_TEST_COLUMNS, part_rows
from burnin.report.series import Series

FILE_NAME = "report.html"
MAP_WITH_NUMBERS_GPUS = 512  # above, the map's cells are small and bare
NO_SERIES: Mapping[str, Series] = {}


def render(document: Mapping[str, Any], *, run: Mapping[str, Any] | None = None, series: Mapping[str, Series] = NO_SERIES) -> str:
    """The page. `run` is run.json; `series` is UUID -> Series, of at least wanted_series(document). RunFolderError: another schema."""
    judged = read(document)
    environment = _environment()
    script, style = (_source(environment, name) for name in ("report.js", "report.css"))
    return environment.get_template("report.html.j2").render(
        script=Markup(script),  # noqa: S704 - our own file
        style=Markup(style),  # noqa: S704 - our own file
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        **_context(judged, document.get("policy"), run or {}, series),
    )


def wanted_series(document: Mapping[str, Any]) -> frozenset[str]:
    """The UUIDs whose telemetry the page draws, so that a caller need not hold a whole fleet's. RunFolderError: another schema."""
    return cards_of.wanted_series(read(document))


def _context(document: Document, policy: object, run: Mapping[str, Any], series: Mapping[str, Series]) -> dict[str, Any]:
    cards = cards_of.arrange(document)
    chart_list, charts_left_out = distributions(document, cards)
    groups = card_views(document, cards, series)
    limits = limit_rows(policy) or limit_rows(run.get("policy"))
    created = run.get("created")
    rack_map = rackmap.build(document)
    return {
        "document": document,
        "created": text.utc(created) if isinstance(created, str) else None,
        "plan": plan_line(document, run),
        "headline": words.headline(document),
        "details": words.details(document),
        "outcomes": tuple(Outcome),
        "meaning": {outcome.value: sentence for outcome, sentence in words.MEANING.items()},
        "map": rack_map,
        "numbered": len(document.gpus) <= MAP_WITH_NUMBERS_GPUS,
        "legend": legend(rack_map),
        "anchor_of": cards.anchor_of,
        "node_anchor": {card.part.node: card.anchor for card in cards.cards if card.part.kind == "node"},
        "distributions": chart_list,
        "groups": groups,
        "tests": document.tests[:MAX_TEST_COLUMNS],
        "rows": part_rows(document, cards),
        "limits": limits,
        "not_shown": not_shown(document, cards, series, charts_left_out, bool(limits)),
    }


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("burnin.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters.update(
        number=text.number,
        plain=text.plain,
        percent=text.percent,
        name=words.name,
        place=words.place,
        plural=text.plural,
        unit=text.unit,
        signs=text.signs,
        whole=text.whole,
    )
    return environment


def _source(environment: jinja2.Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _shown(value: Any) -> Any:
    """What Jinja2 does with every value before escaping it: None is a dash, a string is cleaned and bounded."""
    if value is None:
        return text.DASH
    if isinstance(value, str) and not isinstance(value, Markup):
        return text.showable(value.value if isinstance(value, Outcome) else value, text.SENTENCE_CHARACTERS)
    return value
