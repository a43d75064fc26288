"""A backend for tests of the node's runner: time that costs nothing, and GPUs that do as they are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnin.node.backends.base import Backend, Load, LoadProblem, Sample, Work

GPUS = ("GPU-a", "GPU-b")


class FakeLoad(Load):
    def __init__(self, backend: FakeBackend) -> None:
        self._backend, self.closed = backend, False

    def run_for(self, seconds: float) -> dict[str, Work]:
        self._backend.clock_s += seconds
        self._backend.tick()
        return {
            gpu: Work(10.0 * seconds, seconds, 1, self._backend.wrong.pop(gpu, 0))
            for gpu in GPUS
            if gpu not in self._backend.gone | self._backend.idle
        }

    def close(self) -> None:
        self.closed = True


class FakeBackend(Backend):
    """`on_tick(clock_s)` is called at every tick and may change `gone` (GPUs that fell off), `wrong` (wrong results due) or raise."""

    NAME = "fake"

    def __init__(self, on_tick: Callable[[FakeBackend], None] | None = None, clock_s: float = 0.0) -> None:
        self.clock_s, self._on_tick = clock_s, on_tick
        self.gone: set[str] = set()
        self.wrong: dict[str, int] = {}
        self.idle: set[str] = set()  # there, and no work comes from them
        self.lacks: set[str] = set()
        self.temp_c: float | None = 50.0
        self.loads: list[FakeLoad] = []

    def tick(self) -> None:
        if self._on_tick:
            self._on_tick(self)

    def identity(self) -> dict[str, Any]:
        return {"software": {}, "gpus": [{"gpu": gpu, "health": {"lost": gpu in self.gone}} for gpu in GPUS]}

    def boot_id(self) -> str:
        return "boot-1"

    def monotonic(self) -> float:
        return self.clock_s

    def rest(self, seconds: float) -> None:
        self.clock_s += seconds
        self.tick()

    def load(self, test: str, seed: int, start: int) -> Load:
        if test in self.lacks:
            raise LoadProblem(f"no {test} here")
        self.loads.append(FakeLoad(self))
        return self.loads[-1]

    def samples(self) -> list[Sample]:
        return [Sample(gpu, temp_c=self.temp_c, hw_thermal=False) for gpu in GPUS if gpu not in self.gone]
