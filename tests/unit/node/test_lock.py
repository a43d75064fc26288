"""Whoever holds the lock is the run: no number in a file is believed without it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from burnin.node.lock import LOCK, STOP_MARK, UNKNOWN, ask_stop, asked_s, hold_lock, running_pid, stop_asked, take_turn


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


def test_a_stop_counts_for_what_was_asked_before_it_in_this_boot(tmp_path: Path) -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert not stop_asked(tmp_path, before)

    ask_stop(tmp_path)

    assert stop_asked(tmp_path, before)
    assert not stop_asked(tmp_path, time.clock_gettime(time.CLOCK_BOOTTIME))
    assert 0 < asked_s() < before
    mark = tmp_path / STOP_MARK
    for other in (mark.read_text().replace('"boot": "', '"boot": "x'), "{", "[]", '{"boot": 1}'):
        mark.write_text(other)
        assert not stop_asked(tmp_path, before)


def test_start_and_stop_take_turns(tmp_path: Path) -> None:
    with take_turn(tmp_path, 0) or pytest.fail("no turn"):
        assert take_turn(tmp_path, 0.05) is None

    (take_turn(tmp_path, 0) or pytest.fail("no turn")).close()
