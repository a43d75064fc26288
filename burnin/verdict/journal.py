"""What a node's journal says of its run: whether it is this run, whether it is complete, where it ends, whether the node went down."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from burnin.verdict.reading import text

LATEST_S = 1e9
FIELDS = (
    "event", "run_id", "plan", "boot_id", "reason", "complete", "elapsed_s", "attempt", "step", "test", "start", "window", "gpu", "answers",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class JournalFacts:
    """`where` is a phrase that follows 'its journal ends' or 'was stopped'. `foreign`: why this is no evidence of the run that is judged.

    `losses`: GPU -> where it fell off the bus, once for each start. `away`: the GPUs that fell off and gave no work since.
    `windows`: (step, start, window) of each that was ended. `boots_told`: each begin and end of the run names the boot that it was on.
    """

    complete: bool
    stopped: str | None
    failed: str | None
    rebooted: bool
    where: str
    skipped: tuple[tuple[str, str], ...]
    foreign: str | None
    losses: Mapping[str, tuple[str, ...]]
    away: frozenset[str]
    windows: frozenset[tuple[str, str, str]]
    boots_told: bool


def kept(events: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of each event what is read here, and nothing that is no text or number: a journal of anything else must not fill the memory."""
    return [{name: event[name] for name in FIELDS if isinstance(event.get(name), str | int | float)} for event in events]


def read(events: Sequence[Mapping[str, Any]], collected: Mapping[str, Any], run_id: str | None, plan: str | None) -> JournalFacts:
    """The facts of a journal's events, oldest first. `collected` is what the node said when the evidence was packed."""
    last = events[-1] if events else {}
    boots = {_boot(event) for event in [*events, collected]} - {""}
    foreign = _foreign(events, run_id, plan)
    ended = last.get("event") == "run_ended" and last.get("complete") is True and foreign is None
    stopped = (text(last.get("reason"), 200) or "a signal") if last.get("event") == "stopped" else None
    failed = (text(last.get("reason"), 300) or "no reason given") if last.get("event") == "failed" else None
    skipped = {text(event.get("test"), 40): text(event.get("reason"), 300) for event in events if event.get("event") == "start_skipped"}
    losses, away = _losses(events)
    borders = [event for event in events if event.get("event") in ("run_started", "run_ended")]
    return JournalFacts(
        complete=ended,
        stopped=stopped,
        failed=failed,
        rebooted=len(boots) > 1,
        where=where(events),
        skipped=tuple(sorted(skipped.items())),
        foreign=foreign,
        losses=losses,
        away=away,
        windows=frozenset(_window(event) for event in events if event.get("event") == "window"),
        boots_told=all(map(_boot, borders)),
    )


def _boot(said: Mapping[str, Any]) -> str:
    """The boot id that an event or the node itself tells; '' where the kernel would not say."""
    boot = text(said.get("boot_id"))
    return "" if boot == "unknown" else boot


def _losses(events: Sequence[Mapping[str, Any]]) -> tuple[dict[str, tuple[str, ...]], frozenset[str]]:
    """A GPU that gave no work and whose sensors did not answer fell off the bus. It can do so again only after it gave work again."""
    found: dict[str, dict[tuple[str, ...], str]] = defaultdict(dict)
    away: set[str] = set()
    for event in events:
        gpu, name = text(event.get("gpu")), event.get("event")
        if name == "gpu_back":
            away.discard(gpu)
        elif name == "gpu_silent" and event.get("answers") is False and gpu not in away:
            away.add(gpu)
            step, start, test = text(event.get("step"), 80), text(event.get("start"), 20), text(event.get("test"), 40)
            found[gpu].setdefault((text(event.get("attempt"), 20), step, start), f"in start {start} of {step!r} ({test})")
    return {gpu: tuple(places.values()) for gpu, places in found.items()}, frozenset(away)


def _window(event: Mapping[str, Any]) -> tuple[str, str, str]:
    return text(event.get("step")), text(event.get("start"), 20), text(event.get("window"), 20)


def _foreign(events: Sequence[Mapping[str, Any]], run_id: str | None, plan: str | None) -> str | None:
    """A journal must say that it belongs to this run and plan: evidence of another run counts for nothing here."""
    begun = [event for event in events if event.get("event") == "run_started"]
    if not begun:
        return "its journal does not say which run it belongs to"
    for name, mine in (("run_id", run_id), ("plan", plan)):
        theirs = sorted({text(event.get(name), 80) for event in begun} - {mine})
        if mine and theirs:
            return f"its journal is of {name} {theirs[0]!r} and this is {mine!r}"
    return None


def where(events: Sequence[Mapping[str, Any]]) -> str:
    """Where the journal ends, in words: 'after window 2 of start 1 of 'soak' (gemm_bf16), 930 s into the run'."""
    for event in reversed(events):
        name, seconds = event.get("event"), event.get("elapsed_s")
        known = isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds < LATEST_S
        when = f", {seconds:.0f} s into the run" if known else ""
        step = f"start {text(event.get('start'), 20)} of {text(event.get('step'), 80)!r} ({text(event.get('test'), 40)})"
        if name == "window":
            return f"after window {text(event.get('window'), 20)} of {step}{when}"
        if name == "start_begun":
            return f"in the warm-up or first window of {step}{when}"
        if name in ("start_ended", "start_skipped"):
            return f"after {step}{when}"
        if name == "run_started":
            return f"at its beginning{when}"
    return "before it began"
