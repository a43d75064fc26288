"""The nodes on which a load may be running, so that whoever breaks says so."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from burnin.errors import BrokenError, BurninError
from burnin.status import count

SHOWN = 8


def few(nodes: Iterable[str]) -> str:
    """The first names of many."""
    names = sorted(nodes)
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


class Loads:
    """A context: what breaks in it while a load may be running becomes an error that names the nodes and both ways on.

    The load is left running on purpose. A controller that broke cannot be trusted to stop 1,000 nodes, and need not: the load lives on the
    nodes, bounded in time there, and a resume goes on where it stands without losing an hour of it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.nodes: set[str] = set()

    def begun(self, nodes: Iterable[str]) -> None:
        """From now on these may run."""
        self.nodes |= set(nodes)

    def ended(self, nodes: Iterable[str]) -> None:
        """These are shown not to run any more."""
        self.nodes -= set(nodes)

    def told(self) -> str:
        """One sentence for a person."""
        where = f"on {count(len(self.nodes), 'node')} ({few(self.nodes)})"
        return f"A load may still run {where}: `burnin resume {self._folder}` goes on with it, `burnin stop {self._folder}` ends it"

    def __enter__(self) -> Loads:
        return self

    def __exit__(self, _kind: type[BaseException] | None, problem: BaseException | None, _trace: TracebackType | None) -> None:
        if not self.nodes or not isinstance(problem, Exception) or isinstance(problem, BrokenPipeError):
            return  # a closed pipe: nobody is left to be told
        if isinstance(problem, OSError):
            raise BrokenError(f"{problem}; what was written so far stays, make room. {self.told()}") from problem
        if isinstance(problem, BurninError):
            raise BrokenError(f"{problem}. {self.told()}") from problem
        problem.add_note(self.told())
