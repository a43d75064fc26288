"""The one runner: steps -> starts -> windows, on any backend. Every border is on the disk before the next step begins."""

from __future__ import annotations

import json
import os
import statistics
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from burnin import __version__
from burnin.node.backends.base import Backend, Load, LoadProblem, Sample
from burnin.node.catalog import TESTS
from burnin.node.identity import identity
from burnin.node.plan import Plan, Step
from burnin.node.records import SAMPLE_FIELDS, Journal, Lines, now, read_journal, write_whole

TICK_S = 1.0
STEADY_DRIFT_C = 2.0  # a window is steady when its two halves differ by less: several times the sensor's 1 C step
STEADY_DRIFT_PCT = 2.0  # ... and the rate by less: four times the noise of the noisiest test of the public data
PROGRESS_EVERY_S = 0.5


class Stopped(Exception):
    """A person or the system asked the run to stop."""


def done_starts(events: List[Dict[str, Any]]) -> set[Tuple[str, int]]:
    """(step, start) of every start that the journal says has ended or was skipped."""
    return {(event["step"], event["start"]) for event in events if event["event"] in ("start_ended", "start_skipped")}


def _median(values: List[Optional[float]]) -> Optional[float]:
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 3) if known else None


def _fraction(values: List[Optional[bool]]) -> Optional[float]:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 6) if known else None


def _drifts(values: List[float], limit: float, relative: bool) -> bool:
    """Whether the medians of the two halves differ by more than the limit (in percent when relative)."""
    half = len(values) // 2
    if half < 2:
        return False
    early, late = statistics.median(values[:half]), statistics.median(values[half:])
    return abs(late - early) > (limit / 100 * abs(early) if relative else limit)


class Window:
    """What was gathered of one GPU in one window."""

    def __init__(self) -> None:
        self.amount = self.seconds = 0.0
        self.checked = self.wrong = 0
        self.rates: List[float] = []
        self.samples: List[Sample] = []

    def steady(self) -> bool:
        temps = [sample.temp_c for sample in self.samples if sample.temp_c is not None]
        return not (_drifts(self.rates, STEADY_DRIFT_PCT, relative=True) or _drifts(temps, STEADY_DRIFT_C, relative=False))

    def record(self) -> Dict[str, Any]:
        """The window's value and the state of the GPU during it (medians; fractions of its samples)."""
        samples = self.samples
        return {
            "value": round(self.amount / self.seconds, 6),
            "duration_s": round(self.seconds, 3),
            "steady": self.steady(),
            "checked": self.checked,
            "wrong": self.wrong,
            "temp_c": _median([sample.temp_c for sample in samples]),
            "mem_temp_c": _median([sample.mem_temp_c for sample in samples]),
            "margin_c": _median([sample.margin_c for sample in samples]),
            "power_w": _median([sample.power_w for sample in samples]),
            "sm_clock_mhz": _median([sample.sm_clock_mhz for sample in samples]),
            "hw_thermal_fraction": _fraction([sample.hw_thermal for sample in samples]),
            "sw_thermal_fraction": _fraction([sample.sw_thermal for sample in samples]),
            "hw_power_brake_fraction": _fraction([sample.hw_power_brake for sample in samples]),
            "sw_power_cap_fraction": _fraction([sample.sw_power_cap for sample in samples]),
        }


class Runner:
    """Runs a plan into a folder. `stop` is asked at every tick: a signal's name ends the run in good order."""

    def __init__(self, plan: Plan, out: Path, backend: Backend, attempt: int, stop: Callable[[], Optional[str]]) -> None:
        self._plan, self._out, self._backend, self._attempt, self._stop = plan, out, backend, attempt, stop
        earlier = read_journal(out / "journal.jsonl")
        self._done = done_starts(earlier)
        self._before_s = max((float(event.get("elapsed_s", 0)) for event in earlier), default=0.0)
        self._begun_s = backend.monotonic()
        self._journal = Journal(out / "journal.jsonl")
        self._measurements = Lines(out / "measurements.jsonl")
        new = not (out / "samples.csv").exists()
        self._samples = Lines(out / "samples.csv")
        if new:
            self._samples.write(",".join(SAMPLE_FIELDS))
        self._told = -PROGRESS_EVERY_S
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
            "run_started", run_id=self._plan.run_id, plan=self._plan.name, planned_s=self._plan.planned_s, boot_id=self._backend.boot_id(),
            backend=self._backend.NAME, agent=__version__, pid=os.getpid(), torn_bytes_dropped=dropped,
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
        self._event("run_ended", complete=True, boot_id=self._backend.boot_id())
        self._progress("finished", "", force=True)
        return True

    def close(self) -> None:
        for file in (self._samples, self._measurements, self._journal):
            file.close()

    def _event(self, name: str, **fields: Any) -> None:
        self._journal.event(name, attempt=self._attempt, elapsed_s=self.elapsed_s(), **fields)

    def _identity(self, moment: str) -> None:
        path = self._out / "identity.json"
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if moment == "before" and known.get("before"):
            return  # the first look is the evidence; a resumed run does not replace it
        known[moment] = identity(self._backend)
        write_whole(path, known)

    def _one_start(self, step: Step, start: int) -> None:
        seed = self._plan.seed * 1000 + start
        self._event("start_begun", step=step.name, test=step.test, start=start, seed=seed)
        self._tick_through(step, start, "idle", step.idle_s, None, {})
        try:
            load = self._backend.load(step.test, seed, start)
        except LoadProblem as problem:
            self._event("start_skipped", step=step.name, test=step.test, start=start, reason=str(problem)[:500])
            return
        try:
            self._tick_through(step, start, "warmup", step.warmup_s, load, {})
            for number in range(1, step.windows + 1):
                load.begin_window(number)
                gathered: Dict[str, Window] = {}
                began, elapsed = now(), self.elapsed_s()
                self._tick_through(step, start, "window", step.window_s, load, gathered)
                self._write_window(step, start, number, seed, began, elapsed, gathered)
        finally:
            load.close()
        self._samples.sync()
        self._measurements.sync()
        self._event("start_ended", step=step.name, test=step.test, start=start)
        self._planned_done_s += step.start_s

    def _tick_through(self, step: Step, start: int, phase: str, seconds: float, load: Optional[Load], gathered: Dict[str, Window]) -> None:
        left = seconds
        while left > 1e-9:
            reason = self._stop()
            if reason:
                raise Stopped(reason)
            tick = min(TICK_S, left)
            left -= tick
            done = {}
            if load is None:
                self._backend.rest(tick)
            else:
                done = load.run_for(tick)
            for gpu, work in done.items():
                window = gathered.setdefault(gpu, Window())
                window.amount += work.amount
                window.seconds += work.seconds
                window.checked += work.checked
                window.wrong += work.wrong
                if work.seconds > 0:
                    window.rates.append(work.amount / work.seconds)
            samples = self._backend.samples()
            self._write_samples(step, start, phase, samples)
            for sample in samples:
                if sample.gpu in gathered:
                    gathered[sample.gpu].samples.append(sample)
            self._progress(
                "running", f"{step.name}, start {start}, {phase}", samples, in_start_s=self._phase_offset(step, phase) + seconds - left
            )

    @staticmethod
    def _phase_offset(step: Step, phase: str) -> float:
        return {"idle": 0.0, "warmup": step.idle_s}.get(phase, step.idle_s + step.warmup_s)

    def _write_window(
        self, step: Step, start: int, number: int, seed: int, began: str, elapsed: float, gathered: Dict[str, Window]
    ) -> None:
        test = TESTS[step.test]
        for gpu in sorted(gathered):
            window = gathered[gpu]
            if window.seconds <= 0:
                continue
            record = {
                "gpu": gpu, "test": step.test, "step": step.name, "start": start, "window": number, "attempt": self._attempt,
                "unit": test.unit, "better": test.better, "scope": test.scope, "elapsed_s": elapsed, "began": began, "seed": seed,
            }  # fmt: skip
            record.update(window.record())
            self._measurements.write(json.dumps(record, allow_nan=False))
        self._measurements.sync()
        self._event("window", step=step.name, test=step.test, start=start, window=number, gpus=len(gathered))

    def _write_samples(self, step: Step, start: int, phase: str, samples: List[Sample]) -> None:
        elapsed = self.elapsed_s()
        for sample in samples:
            cells = [f"{elapsed:.1f}", step.name, str(start), phase, sample.gpu]
            for name in SAMPLE_FIELDS[5:]:
                value = getattr(sample, name)
                cells.append("" if value is None else str(int(value)) if isinstance(value, bool) else f"{value:g}")
            self._samples.write(",".join(cells))

    def _progress(
        self, state: str, stage: str, samples: Optional[List[Sample]] = None, in_start_s: float = 0.0, force: bool = False
    ) -> None:
        """A small file for who looks in: replaced whole, at most twice a second of real time."""
        real = time.monotonic()
        if not force and real - self._told < PROGRESS_EVERY_S:
            return
        self._told = real
        self._samples.flush()
        hottest = max(
            (sample for sample in samples or [] if sample.temp_c is not None), key=lambda sample: sample.temp_c or 0.0, default=None
        )
        write_whole(
            self._out / "progress.json",
            {
                "state": state,
                "stage": stage,
                "done_s": round(self._planned_done_s + in_start_s, 1),
                "planned_s": self._plan.planned_s,
                "elapsed_s": self.elapsed_s(),
                "gpus": len(samples or []),
                "hottest_c": hottest.temp_c if hottest else None,
                "hottest_gpu": hottest.gpu if hottest else None,
                "throttling": sum(bool(sample.hw_thermal or sample.sw_thermal or sample.hw_power_brake) for sample in samples or []),
                "attempt": self._attempt,
                "updated": now(),
            },
            durable=False,
        )
