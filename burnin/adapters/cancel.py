"""Ctrl-C and SIGTERM as a question that can be asked, instead of an exception anywhere."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Cancel:
    """Call it to ask whether a person wants to stop; `wait` naps, and wakes at once when they do."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.reason: str | None = None

    def __call__(self) -> bool:
        return self._event.is_set()

    def set(self, reason: str) -> None:
        self.reason = self.reason or reason
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Nap for so many seconds; True when cancelled."""
        return self._event.wait(seconds)


@contextmanager
def catching_signals() -> Iterator[Cancel]:
    """The signals set the Cancel while this lasts; the handlers are as before afterwards. Off the main thread nothing is installed."""
    cancel = Cancel()
    if threading.current_thread() is not threading.main_thread():
        yield cancel
        return

    def asked(number: int, _frame: FrameType | None) -> None:
        cancel.set(signal.Signals(number).name)

    # A signal that is ignored stays so: that is what nohup asks for.
    before = {number: signal.signal(number, asked) for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN}
    try:
        yield cancel
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
