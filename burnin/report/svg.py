"""The few pieces of SVG that the charts are made of. Everything is escaped here; colours and fonts are the style sheet's.

Why no chart library: docs/decisions/0003-charts-as-svg.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from burnin.report.text import showable

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Scale:
    """Linear, from the data's interval to pixels. An interval without width maps to the middle."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        if self.high == self.low:
            return (self.start + self.end) / 2
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def clamped(self, value: float) -> float:
        """As the call, but never outside the drawing."""
        return self(min(self.high, max(self.low, value)))


def step_of(span: float, count: int) -> float:
    """The step 1, 2 or 5 times a power of ten that cuts the span into about `count` pieces."""
    if not span > 0 or count < 1:
        return 1.0
    raw = span / count
    power: float = 10.0 ** math.floor(math.log10(raw))
    return next((factor * power for factor in (1.0, 2.0, 5.0) if raw <= factor * power * 1.0001), 10.0 * power)


def ticks(low: float, high: float, count: int = 4) -> tuple[float, ...]:
    """Round values from low to high, both included where round."""
    step = step_of(high - low, count)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(index * step for index in range(first, min(last, first + 50) + 1))


def nice(low: float, high: float, count: int = 4) -> tuple[float, float]:
    """The interval widened to round ends."""
    step = step_of(max(high - low, abs(high) * 1e-3, 1e-9), count)
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step


def coordinate(value: float) -> str:
    """A pixel position with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def element(tag: str, *children: str, **attributes: object) -> Markup:
    """One element. Children are markup (see `text`); attribute names lose a last '_', and other '_' become '-'. None is left out."""
    shown = "".join(
        f' {name.rstrip("_").replace("_", "-") if name != "viewBox" else name}="{_attribute(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    inside = "".join(str(escape(child)) for child in children)
    return Markup(f"<{tag}{shown}>{inside}</{tag}>" if inside else f"<{tag}{shown}/>")  # noqa: S704 - escaped above


def text(content: str, x: float, y: float, *, class_: str | None = None, anchor: str | None = None) -> Markup:
    """A line of text."""
    return element("text", showable(content, 80), x=x, y=y, class_=class_, text_anchor=anchor)


def line(start: Point, end: Point, class_: str) -> Markup:
    """A straight line."""
    return element("line", x1=start[0], y1=start[1], x2=end[0], y2=end[1], class_=class_)


def rectangle(x: float, y: float, width: float, height: float, class_: str) -> Markup:
    """A box."""
    return element("rect", x=x, y=y, width=max(0.0, width), height=max(0.0, height), class_=class_)


def polyline(pieces: Iterable[Sequence[Point]], class_: str) -> Markup:
    """One path through each piece; a gap lies between two pieces. A piece of one point is a dot."""
    drawn = "".join(
        "M" + "L".join(f"{coordinate(x)} {coordinate(y)}" for x, y in (piece if len(piece) > 1 else (piece[0], piece[0])))
        for piece in pieces
        if piece
    )
    return element("path", d=Markup(drawn), class_=class_) if drawn else Markup()  # noqa: S704 - numbers alone


def band(pieces: Iterable[Sequence[tuple[float, float, float]]], class_: str) -> Markup:
    """Filled areas through (x, low, high)."""
    drawn = ""
    for piece in pieces:
        outline = [(x, high) for x, _low, high in piece] + [(x, low) for x, low, _high in reversed(piece)]
        drawn += "M" + "L".join(f"{coordinate(x)} {coordinate(y)}" for x, y in outline) + "Z"
    return element("path", d=Markup(drawn), class_=class_) if drawn else Markup()  # noqa: S704 - numbers alone


def drawing(width: float, height: float, label: str, *children: str) -> Markup:
    """The outer element, scaling with its box; `label` is what a screen reader says."""
    return element("svg", *children, viewBox=f"0 0 {coordinate(width)} {coordinate(height)}", role="img", aria_label=label)


def _attribute(value: object) -> str:
    if isinstance(value, float):
        return coordinate(value)
    if isinstance(value, Markup):
        return value  # a path of ours, made of numbers
    return str(escape(showable(str(value), 400)))
