"""What one GPU did and how it felt in one window, as one measurement."""

from __future__ import annotations

import math
import statistics
from typing import Any, Dict, List, Optional

from burnin.node.backends.base import Sample, Work

STEADY_DRIFT_C = 2.0  # a window is steady when its two halves differ by less: several times the sensor's 1 C step
STEADY_DRIFT_PCT = 2.0  # ... and the rate by less: four times the noise of the noisiest test of the public data


def median(values: List[Optional[float]]) -> Optional[float]:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return round(statistics.median(known), 3) if known else None


def fraction(values: List[Optional[bool]]) -> Optional[float]:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 6) if known else None


def drifts(values: List[float], limit: float, relative: bool) -> bool:
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

    def add(self, work: Work) -> None:
        self.amount += work.amount
        self.seconds += work.seconds
        self.checked += work.checked
        self.wrong += work.wrong
        if work.seconds > 0:
            self.rates.append(work.amount / work.seconds)

    def steady(self) -> bool:
        temps = [sample.temp_c for sample in self.samples if sample.temp_c is not None]
        return not (drifts(self.rates, STEADY_DRIFT_PCT, relative=True) or drifts(temps, STEADY_DRIFT_C, relative=False))

    def record(self, ticks: int) -> Dict[str, Any]:
        """The window's value and the state of the GPU during it (medians; fractions of its samples).

        `ticks`: how many the window had; a GPU that was not there for all of them was not steady.
        """
        samples = self.samples
        value = self.amount / self.seconds if self.seconds > 0 else math.nan
        return {
            "value": round(value, 6) if math.isfinite(value) else None,
            "duration_s": round(self.seconds, 3),
            "steady": len(self.rates) == ticks and self.steady(),
            "checked": self.checked,
            "wrong": self.wrong,
            "temp_c": median([sample.temp_c for sample in samples]),
            "mem_temp_c": median([sample.mem_temp_c for sample in samples]),
            "margin_c": median([sample.margin_c for sample in samples]),
            "power_w": median([sample.power_w for sample in samples]),
            "sm_clock_mhz": median([sample.sm_clock_mhz for sample in samples]),
            "hw_thermal_fraction": fraction([sample.hw_thermal for sample in samples]),
            "sw_thermal_fraction": fraction([sample.sw_thermal for sample in samples]),
            "hw_power_brake_fraction": fraction([sample.hw_power_brake for sample in samples]),
            "sw_power_cap_fraction": fraction([sample.sw_power_cap for sample in samples]),
        }
