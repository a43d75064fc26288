"""The host's own processor as the part under test: real arithmetic with NumPy, through the same runner, windows, seeds and checking.

Every result is compared bit by bit with the first one of the same seeded input. A rate counts busy time alone: the checks cost about
2 % of the time beside a product, and as much again as the copy beside a copy, and lower no rate.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

from burnin.node import disks
from burnin.node.backends.base import Backend, Load, LoadProblem, Sample, Work, host_boot_id
from burnin.node.disk_load import DiskReadLoad

GEMM_N = 768  # one product takes some 10 ms on one core: a tick of a second holds many, and a check after each
COPY_BYTES = 128 * 1024 * 1024  # larger than any last-level cache in use, small enough for any host
COMPARED_AT_ONCE = 1 << 17  # elements: what a comparison makes beside the data stays in the cache


class _NumpyLoad(Load):
    """Seeded work, its result compared with the first one after every iteration, bit by bit."""

    def __init__(self, gpu: str, seed: int) -> None:
        import numpy as np

        self._np, self._gpu = np, gpu
        self._rng = np.random.default_rng(seed)

    def iterate(self) -> float:
        """Do the work once; returns its amount in the test's unit x seconds."""
        raise NotImplementedError

    def matches(self) -> bool:
        """Whether the newest result equals the expected one, bit by bit."""
        raise NotImplementedError

    def run_for(self, seconds: float) -> Dict[str, Work]:
        work, begun = Work(0.0, 0.0, 0, 0), time.monotonic()
        while True:
            started = time.perf_counter()
            work.amount += self.iterate()
            work.seconds += time.perf_counter() - started
            work.checked += 1
            work.wrong += 0 if self.matches() else 1
            if time.monotonic() - begun >= seconds:
                return {self._gpu: work}

    def _same_bits(self, one: Any, other: Any) -> bool:
        """NaN equals itself, 0.0 differs from -0.0."""
        kind = f"u{one.dtype.itemsize}"
        flat, wanted = one.reshape(-1).view(kind), other.reshape(-1).view(kind)
        return all(
            bool((flat[at : at + COMPARED_AT_ONCE] == wanted[at : at + COMPARED_AT_ONCE]).all())
            for at in range(0, flat.size, COMPARED_AT_ONCE)
        )


class GemmLoad(_NumpyLoad):
    """C = A B in one precision; TFLOPS. The first product, made before any clock runs, is what the others must equal."""

    def __init__(self, gpu: str, seed: int, dtype: str) -> None:
        super().__init__(gpu, seed)
        self._a = self._rng.standard_normal((GEMM_N, GEMM_N)).astype(dtype)
        self._b = self._rng.standard_normal((GEMM_N, GEMM_N)).astype(dtype)
        self._c = self._np.empty_like(self._a)
        self.iterate()
        self._first = self._c.copy()

    def iterate(self) -> float:
        self._np.matmul(self._a, self._b, out=self._c)
        return 2.0 * GEMM_N**3 / 1e12

    def matches(self) -> bool:
        return self._same_bits(self._c, self._first)


class CopyLoad(_NumpyLoad):
    """Copy a block that fits no cache; GB/s, read and write counted."""

    def __init__(self, gpu: str, seed: int) -> None:
        super().__init__(gpu, seed)
        self._source = self._rng.integers(0, 2**63, COPY_BYTES // 8, dtype="int64")
        self._target = self._np.empty_like(self._source)

    def iterate(self) -> float:
        self._np.copyto(self._target, self._source)
        return 2.0 * COPY_BYTES / 1e9

    def matches(self) -> bool:
        return self._same_bits(self._target, self._source)


def _first_line(path: str, prefix: str = "") -> Optional[str]:
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[-1].strip() if prefix else line.strip() for line in lines if line.startswith(prefix)), None)


class CpuBackend(Backend):
    """The host's processor, and its NVMe drives where the plan tests them. Needs NumPy for loads of the processor, fio for those of drives."""

    NAME = "cpu"

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._told: Dict[str, str] = {}
        machine = _first_line("/etc/machine-id") or _first_line("/proc/sys/kernel/hostname") or "unknown"
        self._gpu = f"CPU-{hashlib.sha256(machine.encode()).hexdigest()[:16]}"

    def identity(self) -> Dict[str, Any]:
        model = _first_line("/proc/cpuinfo", "model name") or "unknown"
        part: Dict[str, Any] = {
            "gpu": self._gpu, "serial": None, "pci": None, "slot": 0, "name": model, "kind": "cpu",
            "device_id": f"cpu:{hashlib.sha256(model.encode()).hexdigest()[:8]}", "form_factor": "cpu", "memory_mib": None,
            "power_limit_w": None, "power_limit_default_w": None, "ecc": None, "mig": None, "max_operating_c": None, "slowdown_c": None,
            "vbios": None, "health": {},
        }  # fmt: skip
        return {"software": {"numpy": self._numpy_version()}, "gpus": [part]}

    @staticmethod
    def _numpy_version() -> Optional[str]:
        try:
            import numpy
        except ImportError:
            return None
        return str(numpy.__version__)

    def disks(self) -> List[Dict[str, Any]]:
        return disks.look(self._root, self._told)

    def boot_id(self) -> str:
        return host_boot_id()

    def monotonic(self) -> float:
        return time.monotonic()

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def load(self, test: str, seed: int, start: int) -> Load:
        if test == "nvme_read":
            return DiskReadLoad(self._root, self._told)
        if test not in ("gemm_fp32", "gemm_fp64", "mem_copy"):
            raise LoadProblem(f"backend cpu has no {test}; it has gemm_fp32, gemm_fp64, mem_copy, nvme_read")
        if self._numpy_version() is None:
            raise LoadProblem(f"{test} on the cpu backend needs NumPy; install python3-numpy on the node")
        try:
            if test == "mem_copy":
                return CopyLoad(self._gpu, seed)
            return GemmLoad(self._gpu, seed, "float32" if test == "gemm_fp32" else "float64")
        except MemoryError:
            raise LoadProblem(f"{test} needs {2 * COPY_BYTES // 2**20} MiB of memory; the host has too little free") from None

    def samples(self) -> List[Sample]:
        clock = _first_line("/proc/cpuinfo", "cpu MHz")
        try:
            mhz = float(clock) if clock is not None else None
        except ValueError:
            mhz = None
        return [Sample(gpu=self._gpu, sm_clock_mhz=mhz)]
