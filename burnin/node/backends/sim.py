"""A node of simulated GPUs with planted faults, on a virtual clock. The verdict sees only what the model's sensors say."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import time
import uuid
from pathlib import Path
from typing import Any, Dict, List, Mapping

from burnin.node.backends.base import Backend, Load, LoadProblem, Sample, Work
from burnin.node.backends.sim_model import SimGpu, model
from burnin.node.backends.sim_options import read

NAP_S = 0.05
BOOT_FILE = "sim-boot-id"


class SimLoad(Load):
    """A load on all simulated GPUs of a node."""

    def __init__(self, backend: SimBackend, name: str, test: Mapping[str, Any], seed: int, start: int) -> None:
        self._backend, self._name, self._test, self._start = backend, name, test, start
        self._rng = random.Random(f"checks/{seed}/{name}/{start}")
        self.begin_window(0)

    def begin_window(self, window: int) -> None:
        for gpu in self._backend.gpus:
            gpu.draw_noise(self._name, self._start, window)

    def run_for(self, seconds: float) -> Dict[str, Work]:
        self._backend.pass_time(seconds)
        done = {}
        for gpu in self._backend.present():
            rate = gpu.tick(seconds, self._test)
            checks = max(1, round(seconds))
            done[gpu.uuid] = Work(rate * seconds, seconds, checks, gpu.wrong_results(checks, self._rng))
        return done


class SimBackend(Backend):
    """Simulated GPUs. The virtual clock begins at 0 in every attempt; a node that dies does so in the first attempt only."""

    NAME = "sim"

    def __init__(self, options: Mapping[str, Any], state: Path, attempt: int) -> None:
        asked = read(options)
        self._params, self._state, self._compress = model(), state, asked.compress
        self._first_boot = str(uuid.UUID(bytes=hashlib.sha256(f"boot/{asked.seed}/{asked.node}".encode()).digest()[:16], version=4))
        dies = [fault.value for fault in asked.faults if fault.kind == "node_dies"]
        self._dies_at_s = min(dies) if dies and attempt == 1 else None
        gone = {fault.slot for fault in asked.faults if fault.kind == "missing"}
        self.gpus = [
            SimGpu(asked.node, slot, asked.seed, [fault for fault in asked.faults if fault.slot == slot], self._params)
            for slot in range(asked.gpus)
            if slot not in gone
        ]
        self._virtual_s, self._owed_s = 0.0, 0.0

    def identity(self) -> Dict[str, Any]:
        software = {"driver": "580.126.09", "cuda": "13.0", "kernel": "6.8.0-simulated"}
        return {"software": software, "gpus": [gpu.identity() for gpu in self.gpus]}

    def boot_id(self) -> str:
        """The same until the node dies. Looking writes nothing."""
        file = self._state / BOOT_FILE
        return file.read_text(encoding="utf-8").strip() if file.exists() else self._first_boot

    def monotonic(self) -> float:
        return self._virtual_s

    def present(self) -> List[SimGpu]:
        """The GPUs that have not fallen off the bus."""
        return [gpu for gpu in self.gpus if not gpu.lost]

    def pass_time(self, seconds: float) -> None:
        """Let virtual time pass, and as much real time as the compression asks for (in naps of 50 ms and more)."""
        self._virtual_s += seconds
        if self._dies_at_s is not None and self._virtual_s >= self._dies_at_s:
            self._die()
        for gpu in self.gpus:
            if "lost" in gpu.faults and self._virtual_s >= gpu.faults["lost"]:
                gpu.lost = True
        if self._compress > 0:
            self._owed_s += seconds / self._compress
            if self._owed_s >= NAP_S:
                begun = time.monotonic()
                time.sleep(self._owed_s)
                self._owed_s -= time.monotonic() - begun

    def _die(self) -> None:
        """The node goes down: no clean-up, and another boot id when it is back."""
        partial = self._state / f"{BOOT_FILE}.partial"
        partial.write_text(str(uuid.uuid4()), encoding="utf-8")
        partial.replace(self._state / BOOT_FILE)
        os.kill(os.getpid(), signal.SIGKILL)

    def rest(self, seconds: float) -> None:
        self.pass_time(seconds)
        for gpu in self.present():
            gpu.tick(seconds, None)

    def load(self, test: str, seed: int, start: int) -> Load:
        if test not in self._params["tests"]:
            raise LoadProblem(f"backend sim has no {test}; it has {', '.join(sorted(self._params['tests']))}")
        return SimLoad(self, test, self._params["tests"][test], seed, start)

    def samples(self) -> List[Sample]:
        return [gpu.sample() for gpu in self.present()]
