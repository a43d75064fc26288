"""What a node's journal says of its run: whether it is complete, where it ends, whether the node went down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class JournalFacts:
    """`where` is a phrase that follows 'its journal ends' or 'was stopped'."""

    complete: bool
    stopped: str | None
    failed: str | None
    rebooted: bool
    where: str
    skipped: tuple[tuple[str, str], ...]


def read(events: Sequence[Mapping[str, Any]], collected: Mapping[str, Any]) -> JournalFacts:
    """The facts of a journal's events, oldest first. `collected` is what the node said when the evidence was packed."""
    last = events[-1] if events else {}
    boots = {str(event["boot_id"]) for event in [*events, collected] if event.get("boot_id")}
    ended = last.get("event") == "run_ended" and last.get("complete") is True
    stopped = str(last.get("reason", "a signal"))[:200] if last.get("event") == "stopped" else None
    failed = str(last.get("reason", ""))[:300] if last.get("event") == "failed" else None
    skipped = {str(event.get("test")): str(event.get("reason", ""))[:300] for event in events if event.get("event") == "start_skipped"}
    return JournalFacts(ended, stopped, failed, len(boots) > 1, where(events), tuple(sorted(skipped.items())))


def where(events: Sequence[Mapping[str, Any]]) -> str:
    """Where the journal ends, in words: 'after window 2 of start 1 of 'soak' (gemm_bf16), 930 s into the run'."""
    for event in reversed(events):
        name, seconds = event.get("event"), event.get("elapsed_s")
        when = f", {seconds:.0f} s into the run" if isinstance(seconds, int | float) else ""
        step = f"start {event.get('start')} of {str(event.get('step'))[:80]!r} ({str(event.get('test'))[:40]})"
        if name == "window":
            return f"after window {event.get('window')} of {step}{when}"
        if name == "start_begun":
            return f"in the warm-up or first window of {step}{when}"
        if name in ("start_ended", "start_skipped"):
            return f"after {step}{when}"
        if name == "run_started":
            return f"at its beginning{when}"
    return "before it began"
