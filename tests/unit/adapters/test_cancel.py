"""Signals become a question; handlers are as before afterwards."""

from __future__ import annotations

import os
import signal
import threading

from burnin.adapters.cancel import Cancel, catching_signals


def test_a_signal_is_a_question_that_can_be_asked() -> None:
    with catching_signals() as cancel:
        assert not cancel()
        os.kill(os.getpid(), signal.SIGTERM)

        assert cancel.wait(5)
        assert (cancel(), cancel.reason) == (True, "SIGTERM")


def test_the_handlers_are_as_before() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]

    with catching_signals():
        pass

    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]


def test_nohup_is_respected() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with catching_signals() as cancel:
            os.kill(os.getpid(), signal.SIGHUP)

            assert not cancel.wait(0.2)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_off_the_main_thread_nothing_is_installed() -> None:
    found: list[Cancel] = []

    def other() -> None:
        with catching_signals() as cancel:
            found.append(cancel)

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()

    assert before is signal.getsignal(signal.SIGINT)
    assert not found[0]()
