"""What a person sees while nodes work: a live table on a terminal, one line a change in a log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from burnin.adapters.clock import monotonic_s, utc_now

PLAIN_EVERY_S = 10.0
BAR = 16
STATE_STYLE = {"running": "cyan", "finished": "green", "died": "bold red", "failed": "bold red", "unreachable": "bold red", "stopped": "yellow"}
STYLES = {"hot": "bold red", "warm": "yellow"}
HOT_C, WARM_C = 87, 80  # colours only; the verdict has its own limits


def _text(value: object, style: str = "") -> Text:
    """Text from a node as it is: never markup, no control characters, bounded."""
    return Text("".join(letter for letter in str(value) if letter.isprintable())[:120], style=style)


def _minutes(seconds: object) -> str:
    return f"{float(seconds) / 60:.0f}" if isinstance(seconds, int | float) else "?"


class LiveShow:
    """A table that is redrawn in place on stderr."""

    def __init__(self, console: Console) -> None:
        self._console, self._nodes, self._title = console, {}, ""  # type: ignore[var-annotated]
        self._live = Live(console=console, refresh_per_second=4, transient=True, get_renderable=self._table)

    def __enter__(self) -> LiveShow:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def stage(self, text: str) -> None:
        if self._title:
            self._console.print(Text("✓ ", style="green").append_text(_text(self._title)))
        self._title = text

    def node(self, node: str, status: Mapping[str, Any]) -> None:
        self._nodes[node] = {**self._nodes.get(node, {}), **status}

    def say(self, text: str) -> None:
        self._console.print(_text(text, "yellow"))

    def _table(self) -> Table:
        title = _text(self._title + " …", "bold")
        table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in ("node", "state", "", "minutes", "hottest", "throttling", "stage"):
            table.add_column(name, no_wrap=True)
        room = max(4, self._console.size.height - 6)
        rows = sorted(self._nodes.items(), key=lambda item: (item[1].get("state") != "running", item[0]))
        for name, status in rows[:room]:
            table.add_row(*self._row(name, status))
        if len(rows) > room:
            table.add_row(_text(f"… and {len(rows) - room} more", "dim"))
        return table

    def _row(self, name: str, status: Mapping[str, Any]) -> tuple[Text, ...]:
        state = str(status.get("state", ""))
        done, planned = status.get("done_s"), status.get("planned_s")
        bar, minutes = "", ""
        if isinstance(done, int | float) and isinstance(planned, int | float) and planned > 0:
            full = round(BAR * min(1.0, done / planned))
            bar, minutes = "━" * full + "╌" * (BAR - full), f"{_minutes(done)} of {_minutes(planned)}"
        hottest, throttling = status.get("hottest_c"), status.get("throttling")
        heat = STYLES["hot"] if isinstance(hottest, int | float) and hottest >= HOT_C else STYLES["warm"] if isinstance(hottest, int | float) and hottest >= WARM_C else ""
        return (
            _text(name),
            _text(state, STATE_STYLE.get(state, "")),
            Text(bar, style="cyan"),
            _text(minutes),
            _text(f"{hottest:.0f} C" if isinstance(hottest, int | float) else "", heat),
            _text(throttling or "", "bold red"),
            _text(status.get("stage") or status.get("why") or "", "dim"),
        )


class PlainShow:
    """A line for each stage and change of state, and one every ten seconds per node while it works."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told: dict[str, tuple[str, float]] = {}

    def stage(self, text: str) -> None:
        self._print(text)

    def say(self, text: str) -> None:
        self._print(text)

    def node(self, node: str, status: Mapping[str, Any]) -> None:
        state, now = str(status.get("state", "")), monotonic_s()
        before, when = self._told.get(node, ("", -PLAIN_EVERY_S))
        if state == before and now - when < PLAIN_EVERY_S:
            return
        self._told[node] = (state, now)
        facts = []
        if status.get("planned_s"):
            facts.append(f"{_minutes(status.get('done_s'))} of {_minutes(status.get('planned_s'))} min")
        if isinstance(status.get("hottest_c"), int | float):
            facts.append(f"hottest {status['hottest_c']:.0f} C")
        if status.get("throttling"):
            facts.append(f"{status['throttling']} throttling")
        facts += [str(status[key]) for key in ("stage", "why", "reason") if status.get(key)]
        self._print(f"{node}: {state}" + (f" ({', '.join(facts)})" if facts else ""))

    def _print(self, text: str) -> None:
        self._console.print(Text(f"{utc_now():%H:%M:%S} ").append_text(_text(text)), soft_wrap=True)


@contextmanager
def showing() -> Iterator[LiveShow | PlainShow]:
    """Live on a terminal, plain elsewhere; always on stderr."""
    console = Console(stderr=True)
    if console.is_terminal and not console.is_dumb_terminal:
        with LiveShow(console) as show:
            yield show
    else:
        yield PlainShow(Console(stderr=True, width=200, no_color=True))
