"""Text and numbers made fit to show. Names come from nodes and are hostile: bounded, no control characters, no text direction tricks."""

from __future__ import annotations

import math
import re

MINUS = "\N{MINUS SIGN}"
DASH = "\N{EN DASH}"  # what stands where a value is unknown
NAME_CHARACTERS = 120
SENTENCE_CHARACTERS = 600

# C0/C1 controls; lone surrogates (cannot be written as UTF-8); the marks that turn or hide text; non-characters.
_UNSHOWABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufffe\uffff]")
_SIGNED = re.compile(r"(?<![^\s(\[])-([0-9]+(?:\.[0-9]+)?)")
_XML_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def showable(text: str, limit: int | None = None) -> str:
    """The text with what cannot or must not be shown as U+FFFD, cut with an ellipsis at `limit` characters."""
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return _UNSHOWABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def xml_text(text: str) -> str:
    """The text without the characters that XML 1.0 forbids even escaped (https://www.w3.org/TR/xml/#charsets)."""
    return _XML_FORBIDDEN.sub("", text)


def number(value: float | None) -> str:
    """About four significant digits, thousands apart; a dash for unknown. Never 'nan'."""
    if value is None or not math.isfinite(value):
        return DASH
    if value == 0:
        return "0"
    digits = 3 - math.floor(math.log10(abs(value)))
    if not -9 <= digits <= 9:
        return f"{value:.3g}"
    shown = f"{abs(value):,.{max(0, digits)}f}"
    return MINUS + shown if value < 0 else shown


def plain(value: float | None) -> str:
    """As `number`, without zeros that say nothing: '7', '0.9', '68.4'."""
    shown = number(value)
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def whole(value: float | None) -> str:
    """Without decimals, thousands apart: '1,335', '0', never '-0'; a dash for unknown."""
    if value is None or not math.isfinite(value):
        return DASH
    rounded = round(value)
    return (MINUS if rounded < 0 else "") + f"{abs(rounded):,}"


def unit(text: str | None) -> str:
    """A unit as the page writes it: the verdict's plain 'C' with its sign of degree."""
    return "\N{DEGREE SIGN}C" if text == "C" else text or ""


def signs(sentence: str) -> str:
    """A sentence with the page's minus before its numbers, and none before a zero; else as it is."""
    return _SIGNED.sub(lambda found: (MINUS if found[1].strip("0.") else "") + found[1], sentence)


def percent(value: float | None, places: int = 2) -> str:
    """A signed percentage without its sign '%': '-8.06', '+0.31'; a dash for unknown."""
    if value is None or not math.isfinite(value):
        return DASH
    shown = f"{abs(value):.{places}f}"
    if not shown.strip("0."):
        return shown
    return (MINUS if value < 0 else "+") + shown


def utc(moment: str) -> str:
    """'2026-12-01T10:15:00Z' -> '2026-12-01 10:15 UTC'; anything else as it is, bounded."""
    known = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d(\.\d+)?)?(Z|\+00:00)", moment)
    return f"{known[1]} {known[2]} UTC" if known else showable(moment, 40)


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts node-2 before node-10."""
    pieces = re.findall(r"[0-9]{1,18}|[^0-9]+", name[:NAME_CHARACTERS])
    return tuple((0, int(piece), piece) if piece[0] in "0123456789" else (1, 0, piece) for piece in pieces)


def plural(count: int, one: str, many: str | None = None) -> str:
    """'1 GPU', '2 GPUs', '1,024 nodes'."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
