"""What a backend gives the runner: who the GPUs are, how they feel, and loads to run on them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional


class BackendProblem(RuntimeError):
    """The backend cannot work on this machine; the message says what is missing and what to do."""


class LoadProblem(RuntimeError):
    """One test cannot run here; the others go on. The verdict then lacks that test and says so."""


def host_boot_id() -> str:
    """The kernel's own id of this boot; "unknown" where it will not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip() or "unknown"
    except OSError:
        return "unknown"


@dataclass
class Work:
    """What one GPU did in one tick: units of work (the test's unit x seconds), for how long it was busy with it, and what the checks said.

    `seconds` leaves out the time of the checks: a rate is work per busy second.
    """

    amount: float
    seconds: float
    checked: int
    wrong: int


@dataclass(frozen=True)
class Sample:
    """How one GPU felt at one moment. None = the device would not say."""

    gpu: str
    temp_c: Optional[float] = None
    mem_temp_c: Optional[float] = None
    margin_c: Optional[float] = None
    power_w: Optional[float] = None
    sm_clock_mhz: Optional[float] = None
    mem_clock_mhz: Optional[float] = None
    hw_thermal: Optional[bool] = None
    sw_thermal: Optional[bool] = None
    hw_power_brake: Optional[bool] = None
    sw_power_cap: Optional[bool] = None


class Load:
    """A load that is running on every GPU of the node. `run_for` blocks; a GPU that gave no work is left out."""

    def begin_window(self, window: int) -> None:
        """The next ticks belong to this window (1, 2, ...)."""

    def run_for(self, seconds: float) -> Dict[str, Work]:
        """Work for about so many seconds; what each GPU did, by UUID."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop, free what was taken."""


class Backend:
    """One way to reach GPUs: nvml (real), sim (a physical model), cpu (the host's own processor)."""

    NAME = ""

    def identity(self) -> Dict[str, Any]:
        """What the parts say of themselves: {"software": {...}, "gpus": [{...}]}."""
        raise NotImplementedError

    def disks(self) -> List[Dict[str, Any]]:
        """The NVMe drives with their health, for a plan that tests them. A backend without any of its own has none."""
        return []

    def boot_id(self) -> str:
        """Changes when the node reboots."""
        raise NotImplementedError

    def monotonic(self) -> float:
        """Seconds on the clock that the plan's durations mean (virtual in the simulation)."""
        raise NotImplementedError

    def rest(self, seconds: float) -> None:
        """No load for so many seconds."""
        raise NotImplementedError

    def load(self, test: str, seed: int, start: int) -> Load:
        """Start a load on all GPUs. Raises LoadProblem when this backend has no such test."""
        raise NotImplementedError

    def samples(self) -> List[Sample]:
        """How each GPU feels now."""
        raise NotImplementedError
