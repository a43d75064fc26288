"""What a person sees while nodes work: a live table on a terminal, one line a change in a log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from burnin.adapters.clock import monotonic_s, utc_now
from burnin.status import NodeStatus, clean

PLAIN_EVERY_S = 10.0
BAR = 16
STATE_STYLE = {
    "running": "cyan",
    "finished": "green",
    "died": "bold red",
    "failed": "bold red",
    "unreachable": "bold red",
    "stopped": "yellow",
}
HEAT_STYLES = ((87.0, "bold red"), (80.0, "yellow"))  # colours only; the verdict has its own limits


def heat_style(temp_c: float | None) -> str:
    """The colour of a temperature."""
    return next((style for limit, style in HEAT_STYLES if temp_c is not None and temp_c >= limit), "")


class LiveShow:
    """A table that is redrawn in place on stderr."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._nodes: dict[str, NodeStatus] = {}
        self._title = ""
        self._live = Live(console=console, refresh_per_second=4, transient=True, get_renderable=self._table)

    def __enter__(self) -> LiveShow:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def stage(self, text: str) -> None:
        if self._title:
            self._console.print(Text("✓ ", style="green").append(self._title))
        self._title = clean(text)

    def node(self, node: str, status: NodeStatus) -> None:
        self._nodes[node] = status

    def say(self, text: str) -> None:
        self._console.print(Text(text, style="yellow"), soft_wrap=True)

    def _table(self) -> Table:
        table = Table(title=Text(self._title + " …", style="bold"), title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in ("node", "state", "", "minutes", "hottest", "throttling", "stage"):
            table.add_column(name, no_wrap=True, header_style="dim")
        room = max(4, self._console.size.height - 6)
        rows = sorted(self._nodes.items(), key=lambda item: (item[1].state != "running", item[0]))
        for name, status in rows[:room]:
            table.add_row(*_row(name, status))
        if len(rows) > room:
            table.add_row(Text(f"… and {len(rows) - room} more", style="dim"))
        return table


def _row(name: str, status: NodeStatus) -> tuple[Text, ...]:
    full = round(BAR * (status.share or 0.0))
    return (
        Text(clean(name)),
        Text(status.state, style=STATE_STYLE.get(status.state, "")),
        Text("━" * full + "╌" * (BAR - full) if status.share is not None else "", style="cyan"),
        Text(status.minutes),
        Text(status.hottest, style=heat_style(status.hottest_c)),
        Text(str(status.throttling or ""), style="bold red"),
        Text(status.stage or status.why, style="dim"),
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

    def node(self, node: str, status: NodeStatus) -> None:
        now = monotonic_s()
        before, when = self._told.get(node, ("", -PLAIN_EVERY_S))
        if status.state == before and now - when < PLAIN_EVERY_S:
            return
        self._told[node] = (status.state, now)
        facts = [
            f"{status.minutes} min" if status.minutes else "",
            f"hottest {status.hottest}" if status.hottest else "",
            f"{status.throttling} throttling" if status.throttling else "",
            status.stage,
            status.why,
        ]
        told = ", ".join(fact for fact in facts if fact)
        self._print(f"{clean(node)}: {status.state}" + (f" ({told})" if told else ""))

    def _print(self, text: str) -> None:
        self._console.print(Text(f"{utc_now():%H:%M:%S} ").append(text), soft_wrap=True)


@contextmanager
def showing() -> Iterator[LiveShow | PlainShow]:
    """Live on a terminal, plain elsewhere; always on stderr."""
    console = Console(stderr=True)
    if console.is_terminal and not console.is_dumb_terminal:
        with LiveShow(console) as show:
            yield show
    else:
        yield PlainShow(Console(stderr=True, width=200, no_color=True))
