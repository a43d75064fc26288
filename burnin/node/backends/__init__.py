"""The backends, by the name that --backend takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping

from burnin.node.backends.base import Backend, BackendProblem

NAMES = ("nvml", "sim", "cpu")


def open_backend(name: str, options: Mapping[str, Any], state: Path, attempt: int) -> Backend:
    """The backend of that name. Raises BackendProblem when it cannot work on this machine."""
    if name == "sim":
        from burnin.node.backends.sim import SimBackend

        return SimBackend(options, state, attempt)
    if name == "cpu":
        from burnin.node.backends.cpu import CpuBackend

        return CpuBackend()
    if name == "nvml":
        raise BackendProblem("backend nvml: not in this version yet; use --backend cpu (real arithmetic on the host) or --backend sim")
    raise BackendProblem(f"backend {name!r} is unknown; expected one of {', '.join(NAMES)}")
