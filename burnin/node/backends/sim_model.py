"""One simulated GPU: a physical model, and sensors that say what a real one's would.

Power heats through a thermal resistance, from the air of its slot, with one time constant. Silicon quality and leakage set the clock at the
power cap. At the slowdown temperature the hardware drives the clock down, below it lets it come back: a limit cycle that holds the temperature
there. Rate follows the clock (compute) or hardly (memory). The parameters and their sources stand in data/sim_h100.json.
"""

from __future__ import annotations

import hashlib
import json
import pkgutil
import random
import uuid
from typing import Any, Dict, Mapping, Optional, Sequence

from burnin.node.backends.base import BackendProblem, Sample
from burnin.node.backends.sim_options import Fault

BUSES = (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF)
IDLE_CLOCK_MHZ = 345.0


def model() -> Dict[str, Any]:
    """The model's parameters: name -> {value, unit, why, source}."""
    text = pkgutil.get_data("burnin.node", "data/sim_h100.json")
    if text is None:
        raise BackendProblem("backend sim: data/sim_h100.json is missing from the package; build the zipapp again")
    return dict(json.loads(text))


class SimGpu:
    """One simulated GPU and its state."""

    def __init__(self, node: str, slot: int, seed: int, faults: Sequence[Fault], params: Mapping[str, Any]) -> None:
        self.slot, self._key, self._params = slot, f"{seed}/{node}/{slot}", params
        self._p: Dict[str, Any] = {name: entry["value"] for name, entry in params.items() if name != "tests"}
        self.faults = {fault.kind: fault.value for fault in faults}
        rng = random.Random(self._key)
        self.uuid = f"GPU-{uuid.UUID(bytes=hashlib.sha256(self._key.encode()).digest()[:16], version=4)}"
        self.serial = f"00{rng.randrange(10**10, 10**11)}"
        self.pci = f"00000000:{BUSES[slot % 8] + 2 * (slot // 8):02X}:00.0"
        self.silicon = 1 + self._bounded(rng) * self._p["silicon_sigma_pct"] / 100
        if "slow_silicon" in self.faults:
            self.silicon = 1 - self.faults["slow_silicon"] / 100
        self.memory_quality = 1 + self._bounded(rng) * self._p["memory_sigma_pct"] / 100
        self.power_offset = rng.gauss(0, self._p["power_spread_w"])
        offsets = self._p["slot_offset_c"]
        self._ambient = self._p["inlet_c"] + offsets[slot % len(offsets)] + self._bounded(rng) * self._p["temp_spread_c"]
        self._resistance = self._p["resistance_c_per_w"] * self.faults.get("heat", 1.0)
        if "hot" in self.faults:
            self._resistance = (self.faults["hot"] - self._ambient) / self._p["power_limit_w"]
        self.temp_c = self._ambient + self._resistance * self._p["idle_w"]
        self.power_w, self.clock_mhz = self._p["idle_w"], IDLE_CLOCK_MHZ
        self.throttle, self.throttling, self.capped, self.lost = 1.0, False, False, False
        self._noise = 0.0

    def _bounded(self, rng: random.Random) -> float:
        """How many sigmas this part is off; bounded, for a sound part must stay a sound part."""
        most: float = self._p["sound_most_sigma"]
        return max(-most, min(most, rng.gauss(0, 1)))

    def draw_noise(self, test: str, start: int, window: int) -> None:
        """The noise of this window: a part that its start shares, and a part of its own."""
        sigma, rho = self._p["window_noise_pct"] / 100, self._p["window_correlation"]
        shared = random.Random(f"{self._key}/{test}/{start}").gauss(0, sigma * rho**0.5)
        own = random.Random(f"{self._key}/{test}/{start}/{window}").gauss(0, sigma * (1 - rho) ** 0.5)
        self._noise = shared + own

    def tick(self, seconds: float, test: Optional[Mapping[str, Any]]) -> float:
        """Let time pass under that test (None = idle); returns the rate reached, in the test's unit."""
        p = self._p
        idle = p["idle_w"]
        self.throttling = test is not None and self.temp_c >= p["slowdown_c"]
        if self.throttling:
            self.throttle = max(p["throttle_least"], self.throttle - p["throttle_down_pct_s"] / 100 * seconds)
        else:
            self.throttle = min(1.0, self.throttle + p["throttle_up_pct_s"] / 100 * seconds)
        self.capped = test is not None and not self.throttling and test["power_w"] >= p["power_limit_w"]
        self.power_w = idle
        if test is not None:
            self.power_w += (test["power_w"] - idle) * self.throttle ** p["power_exponent"] + self.power_offset
        aim = self._ambient + self._resistance * self.power_w
        self.temp_c += (aim - self.temp_c) * min(1.0, seconds / p["thermal_tau_s"])
        if test is None:
            self.clock_mhz = IDLE_CLOCK_MHZ
            return 0.0
        compute: float = self.silicon * (1 - p["leak_pct_per_c"] / 100 * (self.temp_c - p["leak_reference_c"])) * self.throttle
        if test["bound"] == "clock":
            self.clock_mhz, pace = p["clock_mhz"] * compute, compute
        else:
            self.clock_mhz = p["clock_mhz"] * self.throttle
            pace = self.memory_quality * (1 - p["memory_follows_clock"] * (1 - self.throttle))
        rate: float = test["value"] * pace * (1 + self._noise)
        return rate

    def wrong_results(self, checks: int, rng: random.Random) -> int:
        """How many of so many checks failed."""
        chance = self.faults.get("wrong_result", 0.0)
        return sum(rng.random() < chance for _ in range(checks)) if chance else 0

    def identity(self) -> Dict[str, Any]:
        """What the part says of itself."""
        p = self._p
        return {
            "gpu": self.uuid, "serial": self.serial, "pci": self.pci, "slot": self.slot, "name": p["name"],
            "device_id": p["device_id"], "form_factor": "SXM5", "memory_mib": p["memory_mib"],
            "power_limit_w": p["power_limit_w"], "power_limit_default_w": p["power_limit_w"], "ecc": True, "mig": False,
            "max_operating_c": p["max_operating_c"], "slowdown_c": p["slowdown_c"], "vbios": "96.00.89.00.01",
            "health": {
                "lost": self.lost, "row_remap_failure": "row_remap_failure" in self.faults, "row_remap_pending": False,
                "sram_threshold_exceeded": False, "recovery_action": "reset" if "reset_pending" in self.faults else "none",
            },
        }  # fmt: skip

    def sample(self) -> Sample:
        """What its sensors say now: whole degrees, clocks in steps of 15 MHz."""
        temp = round(self.temp_c)
        return Sample(
            gpu=self.uuid,
            temp_c=float(temp),
            mem_temp_c=temp + self._p["memory_over_core_c"],
            margin_c=self._p["max_operating_c"] - temp,
            power_w=round(self.power_w, 1),
            sm_clock_mhz=round(self.clock_mhz / 15) * 15.0,
            mem_clock_mhz=self._p["mem_clock_mhz"],
            hw_thermal=self.throttling,
            sw_thermal=False,
            hw_power_brake=False,
            sw_power_cap=self.capped,
        )
