"""The command `burnin`, and `python -m burnin`."""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType

BROKEN = 12


def _crashed(kind: type[BaseException], problem: BaseException, trace: TracebackType | None) -> None:
    """An exception that nobody expected is our fault: exit 12, never Python's 1, which automation reads as something else."""
    traceback.print_exception(kind, problem, trace)
    sys.stderr.write(f"burnin: this is a fault of burnin itself (exit {BROKEN}); please report it with the lines above\n")
    sys.stderr.flush()
    os._exit(BROKEN)


def main() -> None:
    """Run the command line; exits with the contract's codes."""
    sys.excepthook = _crashed
    from burnin.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
