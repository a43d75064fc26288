"""Whoever holds the lock is the run: no number in a file is believed without it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from burnin.node.lock import LOCK, UNKNOWN, hold_lock, running_pid


def test_nothing_runs_where_there_is_no_lock_or_nobody_holds_it(tmp_path: Path) -> None:
    assert running_pid(tmp_path) is None

    (tmp_path / LOCK).write_text(str(os.getppid()))

    assert running_pid(tmp_path) is None


def test_the_holder_is_named_and_a_second_one_refused(tmp_path: Path) -> None:
    with hold_lock(tmp_path) or pytest.fail("not locked"):
        assert os.getpid() == running_pid(tmp_path)
        assert hold_lock(tmp_path) is None

    assert running_pid(tmp_path) is None
    (hold_lock(tmp_path) or pytest.fail("not locked")).close()


@pytest.mark.parametrize("content", ["", "junk", "-5", "0", "1", "²", "99999999999999999999999", str(os.getppid())])
def test_a_number_that_is_not_the_holders_is_nobody_to_signal(tmp_path: Path, content: str) -> None:
    with (tmp_path / LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(content)
        file.flush()

        assert running_pid(tmp_path) == UNKNOWN


def test_who_looks_does_not_keep_a_run_from_starting(tmp_path: Path) -> None:
    (tmp_path / LOCK).touch()
    look = (
        "import fcntl, sys, time\nwith open(sys.argv[1]) as f:\n fcntl.flock(f, fcntl.LOCK_SH)\n print(1, flush=True)\n time.sleep(0.3)\n"
    )
    with subprocess.Popen([sys.executable, "-c", look, str(tmp_path / LOCK)], stdout=subprocess.PIPE) as looking:
        assert looking.stdout is not None
        looking.stdout.readline()

        lock = hold_lock(tmp_path)

    assert lock is not None
    lock.close()
