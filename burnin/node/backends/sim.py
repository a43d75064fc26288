"""Simulated GPUs: a physical model with planted faults. The verdict sees only what the model's sensors say.

One GPU: power -> heat through a thermal resistance (which depends on the slot) with one time constant; silicon quality and leakage set the
clock at the power cap; above the slowdown temperature the clock is driven down; rate follows the clock (compute) or not (memory).
The parameters and their sources stand in data/sim_h100.json.
"""

from __future__ import annotations

import hashlib
import json
import os
import pkgutil
import random
import signal
import time
import uuid
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from burnin.node.backends.base import Backend, BackendProblem, Load, LoadProblem, Sample, Work

FAULTS = ("slow_silicon", "heat", "hot", "wrong_result", "missing", "node_dies", "row_remap_failure", "reset_pending")


def model() -> Dict[str, Any]:
    """The model's parameters: name -> {value, unit, why, source}."""
    text = pkgutil.get_data("burnin.node", "data/sim_h100.json")
    if text is None:
        raise BackendProblem("backend sim: data/sim_h100.json is missing from the package; build the zipapp again")
    return dict(json.loads(text))


class SimGpu:
    """One simulated GPU and its state."""

    def __init__(self, node: str, slot: int, seed: int, faults: List[Mapping[str, Any]], params: Mapping[str, Any]) -> None:
        self.slot, self._key, self._p = slot, f"{seed}/{node}/{slot}", params
        rng = random.Random(self._key)
        self.uuid = f"GPU-{uuid.UUID(bytes=hashlib.sha256(self._key.encode()).digest()[:16], version=4)}"
        self.serial = f"00{rng.randrange(10**10, 10**11)}"
        self.pci = f"00000000:{(0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF)[slot % 8] + 2 * (slot // 8):02X}:00.0"
        self.faults = {str(fault["kind"]): fault for fault in faults}
        most = self._value("silicon_most_sigma")
        sigma = max(-most, min(most, rng.gauss(0, 1))) * self._value("silicon_sigma_pct") / 100
        if "slow_silicon" in self.faults:
            sigma = -float(self.faults["slow_silicon"].get("deficit_pct", 8)) / 100
        self.silicon = 1 + sigma
        self.memory_quality = 1 + max(-2.5, min(2.5, rng.gauss(0, 1))) * 0.001
        self.power_offset = rng.gauss(0, self._value("power_spread_w"))
        offsets = params["slot_offset_c"]["value"]
        self._ambient = self._value("inlet_c") + offsets[slot % len(offsets)] + rng.gauss(0, self._value("temp_spread_c"))
        self._resistance = self._value("resistance_c_per_w") * float(self.faults.get("heat", {}).get("resistance_factor", 1))
        if "hot" in self.faults:
            self._resistance = (float(self.faults["hot"].get("temp_c", 84)) - self._ambient) / self._value("power_limit_w")
        self.temp_c = self._ambient + self._resistance * self._value("idle_w")
        self.power_w, self.clock_mhz = self._value("idle_w"), 345.0
        self.throttle, self.throttling, self.capped = 1.0, False, False
        self._noise = 0.0

    def _value(self, name: str) -> float:
        return float(self._p[name]["value"])

    def draw_noise(self, test: str, start: int, window: int) -> None:
        """The noise of this window: a part that its start shares, and a part of its own."""
        sigma, rho = self._value("window_noise_pct") / 100, self._value("window_correlation")
        shared = random.Random(f"{self._key}/{test}/{start}").gauss(0, sigma * rho**0.5)
        own = random.Random(f"{self._key}/{test}/{start}/{window}").gauss(0, sigma * (1 - rho) ** 0.5)
        self._noise = shared + own

    def tick(self, seconds: float, test: Optional[Mapping[str, Any]]) -> float:
        """Let time pass under that test (None = idle); returns the rate reached, in the test's unit."""
        target = self._value("idle_w") if test is None else float(test["power_w"])
        slow = self._value("slowdown_c")
        self.throttling = test is not None and self.temp_c >= slow
        if self.throttling:
            self.throttle = max(0.3, self.throttle - self._value("throttle_down_pct_s") / 100 * seconds)
        else:
            self.throttle = min(1.0, self.throttle + self._value("throttle_up_pct_s") / 100 * seconds)
        idle = self._value("idle_w")
        self.power_w = (
            idle + (target - idle) * self.throttle ** self._value("power_exponent") + (self.power_offset if test is not None else 0.0)
        )
        aim = self._ambient + self._resistance * self.power_w
        self.temp_c += (aim - self.temp_c) * min(1.0, seconds / self._value("thermal_tau_s"))
        self.capped = test is not None and not self.throttling and target >= self._value("power_limit_w")
        if test is None:
            self.clock_mhz = 345.0
            return 0.0
        leak = 1 - self._value("leak_pct_per_c") / 100 * (self.temp_c - 60)
        compute = self.silicon * leak * self.throttle
        self.clock_mhz = self._value("clock_mhz") * (compute if test["bound"] == "clock" else self.throttle)
        pace = compute if test["bound"] == "clock" else self.memory_quality * min(1.0, 0.7 + 0.3 * self.throttle)
        return float(test["value"]) * pace * (1 + self._noise)

    def wrong_results(self, checks: int, rng: random.Random) -> int:
        """How many of so many checks failed."""
        chance = float(self.faults.get("wrong_result", {}).get("chance", 0))
        return sum(rng.random() < chance for _ in range(checks)) if chance else 0

    def identity(self) -> Dict[str, Any]:
        return {
            "gpu": self.uuid, "serial": self.serial, "pci": self.pci, "slot": self.slot, "name": self._p["name"]["value"],
            "device_id": self._p["device_id"]["value"], "form_factor": "SXM5", "memory_mib": self._p["memory_mib"]["value"],
            "power_limit_w": self._value("power_limit_w"), "power_limit_default_w": self._value("power_limit_w"), "ecc": True, "mig": False,
            "max_operating_c": self._value("max_operating_c"), "slowdown_c": self._value("slowdown_c"), "vbios": "96.00.89.00.01",
            "health": {
                "lost": False, "row_remap_failure": "row_remap_failure" in self.faults, "row_remap_pending": False,
                "sram_threshold_exceeded": False, "recovery_action": "reset" if "reset_pending" in self.faults else "none",
            },
        }  # fmt: skip

    def sample(self) -> Sample:
        return Sample(
            gpu=self.uuid,
            temp_c=float(round(self.temp_c)),
            mem_temp_c=float(round(self.temp_c + 7)),
            margin_c=self._value("max_operating_c") - round(self.temp_c),
            power_w=round(self.power_w, 1),
            sm_clock_mhz=round(self.clock_mhz / 15) * 15.0,
            mem_clock_mhz=self._value("mem_clock_mhz"),
            hw_thermal=self.throttling,
            sw_thermal=False,
            hw_power_brake=False,
            sw_power_cap=self.capped,
        )


class SimLoad(Load):
    """A load on all simulated GPUs of a node."""

    def __init__(self, backend: SimBackend, name: str, test: Mapping[str, Any], seed: int, start: int) -> None:
        self._backend, self._name, self._test, self._start = backend, name, test, start
        self._rng = random.Random(f"checks/{seed}/{name}/{start}")
        for gpu in backend.gpus:
            gpu.draw_noise(name, start, 0)

    def begin_window(self, window: int) -> None:
        for gpu in self._backend.gpus:
            gpu.draw_noise(self._name, self._start, window)

    def run_for(self, seconds: float) -> Dict[str, Work]:
        self._backend.pass_time(seconds)
        done = {}
        for gpu in self._backend.gpus:
            rate = gpu.tick(seconds, self._test)
            checks = max(1, round(seconds))
            done[gpu.uuid] = Work(rate * seconds, seconds, checks, gpu.wrong_results(checks, self._rng))
        return done


class SimBackend(Backend):
    """A node of simulated GPUs. `options`: node, gpus, seed, compress (virtual seconds per real second; 0 = as fast as it goes), faults."""

    NAME = "sim"

    def __init__(self, options: Mapping[str, Any], state: Path, attempt: int) -> None:
        self._params, self._state, self._attempt = model(), state, attempt
        node, count, seed = str(options.get("node", "node")), int(options.get("gpus", 8)), int(options.get("seed", 1))
        self._compress = float(options.get("compress", 0))
        faults = list(options.get("faults", []))
        for fault in faults:
            if fault.get("kind") not in FAULTS:
                raise BackendProblem(f"backend sim: fault {fault.get('kind')!r} is unknown; expected one of {', '.join(FAULTS)}")
        gone = {fault.get("slot") for fault in faults if fault["kind"] == "missing"}
        self._dies_at_s = min((float(fault["at_s"]) for fault in faults if fault["kind"] == "node_dies"), default=None)
        self.gpus = [
            SimGpu(node, slot, seed, [fault for fault in faults if fault.get("slot") == slot], self._params)
            for slot in range(count)
            if slot not in gone
        ]
        self._virtual_s, self._owed_s = 0.0, 0.0

    def identity(self) -> Dict[str, Any]:
        software = {"driver": "580.126.09", "cuda": "13.0", "kernel": "6.8.0-simulated"}
        return {"software": software, "gpus": [gpu.identity() for gpu in self.gpus]}

    def boot_id(self) -> str:
        file = self._state / "sim-boot-id"
        if not file.exists():
            file.write_text(str(uuid.uuid4()), encoding="utf-8")
        return file.read_text(encoding="utf-8")

    def monotonic(self) -> float:
        return self._virtual_s

    def pass_time(self, seconds: float) -> None:
        """Let virtual time pass, and as much real time as the compression asks for (in naps of 50 ms and more)."""
        self._virtual_s += seconds
        if self._dies_at_s is not None and self._virtual_s >= self._dies_at_s and self._attempt == 1:
            self._die()
        if self._compress > 0:
            self._owed_s += seconds / self._compress
            if self._owed_s >= 0.05:
                begun = time.monotonic()
                time.sleep(self._owed_s)
                self._owed_s -= time.monotonic() - begun

    def _die(self) -> None:
        """The node goes down: no clean-up, and another boot id when it is back."""
        (self._state / "sim-boot-id").write_text(str(uuid.uuid4()), encoding="utf-8")
        os.kill(os.getpid(), signal.SIGKILL)

    def rest(self, seconds: float) -> None:
        self.pass_time(seconds)
        for gpu in self.gpus:
            gpu.tick(seconds, None)

    def load(self, test: str, seed: int, start: int) -> Load:
        if test not in self._params["tests"]:
            raise LoadProblem(f"backend sim has no {test}; it has {', '.join(sorted(self._params['tests']))}")
        return SimLoad(self, test, self._params["tests"][test], seed, start)

    def samples(self) -> List[Sample]:
        return [gpu.sample() for gpu in self.gpus]
