"""The one runner: steps -> starts -> windows, on any backend. Every border is on the disk before the next step begins."""

from __future__ import annotations

import json
import math
import os
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from burnin import __version__
from burnin.node.backends.base import Backend, Load, LoadProblem, Sample
from burnin.node.catalog import TESTS
from burnin.node.identity import identity
from burnin.node.plan import Plan, Step
from burnin.node.records import SAMPLE_FIELDS, Journal, Lines, last_line, now, read_journal, write_whole
from burnin.node.window import Window

TICK_S = 1.0
PROGRESS_EVERY_S = 0.5


class Stopped(Exception):
    """A person or the system asked the run to stop."""


@dataclass
class Phase:
    """A stretch of one start: idle, warmup or window. `offset_s`: where in the start it begins."""

    step: Step
    start: int
    name: str
    offset_s: float
    seconds: float
    gathered: Dict[str, Window] = field(default_factory=dict)
    ticks: int = 0
    answering: Set[str] = field(default_factory=set)  # whose sensors told something at the last tick


def done_starts(events: List[Dict[str, Any]]) -> Set[Tuple[str, int]]:
    """(step, start) of every start that the journal says has ended or was skipped."""
    return {
        (event["step"], event["start"])
        for event in events
        if event["event"] in ("start_ended", "start_skipped") and isinstance(event.get("step"), str) and isinstance(event.get("start"), int)
    }


def away_before(events: List[Dict[str, Any]]) -> Set[str]:
    """The GPUs that gave no work any more when earlier attempts ended."""
    away: Set[str] = set()
    for event in events:
        if event["event"] == "gpu_silent":
            away.add(str(event.get("gpu")))
        elif event["event"] == "gpu_back":
            away.discard(str(event.get("gpu")))
    return away


def elapsed_before(events: List[Dict[str, Any]], last_sample: str) -> float:
    """Where the clock of earlier attempts stood, in seconds: in the journal or, after a kill, in the newest sample."""
    told = [event.get("elapsed_s") for event in events]
    with suppress(ValueError):  # the header, or nothing
        told.append(float(last_sample.split(",", 1)[0]))
    return max((value for value in told if isinstance(value, (int, float)) and math.isfinite(value)), default=0.0)


def cell(value: Any) -> str:
    """A reading as the samples hold it: empty = the device would not say, flags 0 or 1."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return str(int(value)) if isinstance(value, bool) else f"{value:g}"


class Runner:
    """Runs a plan into a folder. `stop` is asked at every tick: a signal's name ends the run in good order."""

    def __init__(self, plan: Plan, out: Path, backend: Backend, attempt: int, stop: Callable[[], Optional[str]]) -> None:
        self._plan, self._out, self._backend, self._attempt, self._stop = plan, out, backend, attempt, stop
        earlier = read_journal(out / "journal.jsonl")
        self._done = done_starts(earlier)
        self._journal = Journal(out / "journal.jsonl")
        self._measurements = Lines(out / "measurements.jsonl")
        self._samples = Lines(out / "samples.csv")
        if self._samples.empty:
            self._samples.write(",".join(SAMPLE_FIELDS))
        self._before_s = elapsed_before(earlier, last_line(out / "samples.csv"))
        self._begun_s = backend.monotonic()
        self._told = -PROGRESS_EVERY_S
        self._known: Set[str] = set()
        self._lost = away_before(earlier)
        self._planned_done_s = sum(
            step.start_s for step in plan.steps for start in range(1, step.starts + 1) if (step.name, start) in self._done
        )

    def elapsed_s(self) -> float:
        """Seconds since the run first began on this node, earlier attempts included; never goes back."""
        return round(self._before_s + self._backend.monotonic() - self._begun_s, 3)

    def run(self) -> bool:
        """Do what is left of the plan. True when it is complete; False when it was stopped."""
        dropped = self._journal.dropped + self._measurements.dropped + self._samples.dropped
        self._event(
            "run_started", run_id=self._plan.run_id, plan=self._plan.name, plan_digest=self._plan.digest, planned_s=self._plan.planned_s,
            boot_id=self._backend.boot_id(), backend=self._backend.NAME, agent=__version__, pid=os.getpid(), torn_bytes_dropped=dropped,
        )  # fmt: skip
        try:
            self._identity("before")
            for step in self._plan.steps:
                for start in range(1, step.starts + 1):
                    if (step.name, start) not in self._done:
                        self._one_start(step, start)
            self._identity("after")
        except Stopped as reason:
            self._event("stopped", reason=str(reason))
            self._progress("stopped", "", force=True)
            return False
        self._samples.sync()
        self._event("run_ended", complete=True, boot_id=self._backend.boot_id())
        self._progress("finished", "", force=True)
        return True

    def close(self) -> None:
        """Close every file, also when one of them cannot be written any more."""
        with ExitStack() as stack:
            for file in (self._journal, self._measurements, self._samples):
                stack.callback(file.close)

    def _event(self, name: str, **fields: Any) -> None:
        self._journal.event(name, attempt=self._attempt, elapsed_s=self.elapsed_s(), **fields)

    def _identity(self, moment: str) -> None:
        """Who is here, before and after. The first look is evidence: a resumed run does not replace it."""
        path = self._out / "identity.json"
        known = self._known_identity(path)
        if moment == "after" or not known.get("before"):
            known[moment] = identity(self._backend)
            if any(TESTS[step.test].scope == "disk" for step in self._plan.steps):
                known[moment]["disks"] = self._backend.disks()
            write_whole(path, known)
        self._known = {str(gpu.get("gpu")) for gpu in known["before"]["gpus"]}

    def _known_identity(self, path: Path) -> Dict[str, Any]:
        if not path.exists():
            return {}
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
            if all(isinstance(look.get("gpus"), list) for look in known.values()):
                return dict(known)
        except (ValueError, AttributeError):
            pass  # said in the journal below
        path.replace(path.with_name("identity.json.damaged"))
        self._event("identity_damaged", kept_as="identity.json.damaged")
        return {}

    def _one_start(self, step: Step, start: int) -> None:
        seed = self._plan.seed_of(start)
        self._event("start_begun", step=step.name, test=step.test, start=start, seed=seed)
        self._tick_through(Phase(step, start, "idle", 0.0, step.idle_s), None)
        try:
            load = self._backend.load(step.test, seed, start)
            try:
                self._windows(step, start, seed, load)
            finally:
                load.close()
            self._samples.sync()
            self._event("start_ended", step=step.name, test=step.test, start=start)
        except LoadProblem as problem:
            self._event("start_skipped", step=step.name, test=step.test, start=start, reason=str(problem)[:500])
        self._planned_done_s += step.start_s

    def _windows(self, step: Step, start: int, seed: int, load: Load) -> None:
        """Warm up, then one window after the other. A wrong result during warm-up counts in the first window: none is forgotten."""
        warmup = Phase(step, start, "warmup", step.idle_s, step.warmup_s)
        self._tick_through(warmup, load)
        for number in range(1, step.windows + 1):
            load.begin_window(number)
            window = Phase(step, start, "window", step.idle_s + step.warmup_s + step.window_s * (number - 1), step.window_s)
            began, elapsed = now(), self.elapsed_s()
            self._tick_through(window, load)
            if number == 1:
                for gpu, early in warmup.gathered.items():
                    first = window.gathered.setdefault(gpu, Window())
                    first.checked, first.wrong = first.checked + early.checked, first.wrong + early.wrong
            self._write_window(window, number, {"seed": seed, "began": began, "elapsed_s": elapsed})

    def _tick_through(self, phase: Phase, load: Optional[Load]) -> None:
        left = phase.seconds
        while left > 1e-9:
            reason = self._stop()
            if reason:
                raise Stopped(reason)
            tick = min(TICK_S, left)
            left -= tick
            if load is None:
                self._backend.rest(tick)
            else:
                for gpu, work in load.run_for(tick).items():
                    phase.gathered.setdefault(gpu, Window()).add(work)
            phase.ticks += 1
            samples = self._backend.samples()
            phase.answering = {sample.gpu for sample in samples}
            self._write_samples(phase, samples)
            for sample in samples:
                if sample.gpu in phase.gathered:
                    phase.gathered[sample.gpu].samples.append(sample)
            done_s = self._planned_done_s + phase.offset_s + phase.seconds - left
            self._progress("running", f"{phase.step.name}, start {phase.start}, {phase.name}", samples, done_s)

    def _write_window(self, phase: Phase, number: int, facts: Dict[str, Any]) -> None:
        step, test = phase.step, TESTS[phase.step.test]
        named = "disk" if test.scope == "disk" else "gpu"
        for gpu in sorted(phase.gathered):
            record = {
                named: gpu, "test": step.test, "step": step.name, "start": phase.start, "window": number, "attempt": self._attempt,
                "unit": test.unit, "better": test.better, "scope": test.scope, **facts, **phase.gathered[gpu].record(phase.ticks),
            }  # fmt: skip
            self._measurements.write(json.dumps(record, allow_nan=False))
        self._measurements.sync()
        self._samples.flush()
        where = {"step": step.name, "test": step.test, "start": phase.start, "window": number}
        worked = {gpu for gpu, window in phase.gathered.items() if window.seconds > 0}
        for gpu in sorted(self._lost & worked):
            self._lost.remove(gpu)
            self._event("gpu_back", gpu=gpu, **where)
        for gpu in sorted(self._known - worked - self._lost if named == "gpu" else ()):  # a test of drives asks no GPU for work
            self._lost.add(gpu)
            self._event("gpu_silent", gpu=gpu, answers=gpu in phase.answering, **where)
        self._event("window", **{f"{named}s": len(phase.gathered)}, **where)

    def _write_samples(self, phase: Phase, samples: List[Sample]) -> None:
        head = f"{self.elapsed_s():.1f},{phase.step.name},{phase.start},{phase.name},"
        for sample in samples:
            self._samples.write(head + sample.gpu + "," + ",".join([cell(getattr(sample, name)) for name in SAMPLE_FIELDS[5:]]))

    def _progress(
        self, state: str, stage: str, samples: Optional[List[Sample]] = None, done_s: Optional[float] = None, force: bool = False
    ) -> None:
        """A small file for who looks in: replaced whole, at most twice a second of real time."""
        real = time.monotonic()
        if not force and real - self._told < PROGRESS_EVERY_S:
            return
        self._told = real
        self._samples.flush()
        warm = [sample for sample in samples or [] if sample.temp_c is not None]
        hottest = max(warm, key=lambda sample: sample.temp_c or 0.0, default=None)
        document = {
            "state": state,
            "stage": stage,
            "done_s": round(self._planned_done_s if done_s is None else done_s, 1),
            "planned_s": self._plan.planned_s,
            "elapsed_s": self.elapsed_s(),
            "gpus": len(samples or []),
            "hottest_c": hottest.temp_c if hottest else None,
            "hottest_gpu": hottest.gpu if hottest else None,
            "throttling": sum(bool(sample.hw_thermal or sample.sw_thermal or sample.hw_power_brake) for sample in samples or []),
            "attempt": self._attempt,
            "updated": now(),
        }
        write_whole(self._out / "progress.json", document, durable=False)
