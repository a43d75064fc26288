"""The command answers at once: nothing heavy is imported before a verb runs."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

BURNIN = Path(sys.executable).parent / "burnin"
HEAVY = ("polars", "ansible_runner", "jinja2", "yaml", "numpy", "pexpect")
BUDGET_S = 0.4


def test_help_imports_nothing_heavy() -> None:
    code = f"import sys; from burnin.cli import run; run(['--help']); print([name for name in {HEAVY!r} if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


def test_help_answers_within_its_budget() -> None:
    def once() -> float:
        begun = time.monotonic()
        subprocess.run([str(BURNIN), "--help"], capture_output=True, check=True)
        return time.monotonic() - begun

    assert min(once() for _ in range(5)) <= BUDGET_S


@pytest.mark.parametrize("verb", ["demo", "preflight", "provision", "run", "site", "status", "resume", "stop", "verdict", "report", "node"])
def test_every_verb_shows_an_example_or_its_own_usage(verb: str) -> None:
    done = subprocess.run([str(BURNIN), verb, "--help"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "Example: burnin" in done.stdout or verb == "node"
