"""Results on stdout, also when nobody reads them to the end (`| head`) or the disk behind it is full: the exit code stays the verdict's."""

from __future__ import annotations

import os
import sys

from rich.console import Console

LOG_WIDTH = 160


def _drop_stdout() -> None:
    """Nobody reads on: what is still to come goes nowhere, and the interpreter's own flush at exit is quiet."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


class ResultConsole(Console):
    """A console on stdout; rich's own would exit 1 on a closed pipe, which is no code of ours."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        _drop_stdout()


def console() -> Console:
    """Where a person reads results: as wide as the terminal, or wide enough for a log."""
    return ResultConsole() if sys.stdout is not None and sys.stdout.isatty() else ResultConsole(width=LOG_WIDTH)


def write(text: str) -> None:
    """Text for machines. A closed pipe is the reader's choice; a full disk raises OSError."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_stdout()
