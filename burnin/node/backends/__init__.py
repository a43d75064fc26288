"""The backends, by the name that --backend takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

from burnin.node.backends.base import Backend, BackendProblem, host_boot_id
from burnin.node.backends.cpu import CpuBackend
from burnin.node.backends.sim import SimBackend

NAMES = ("nvml", "sim", "cpu")


def read_options(path: Optional[Path]) -> Dict[str, Any]:
    """The backend's options in a JSON file; none without a path. Raises BackendProblem for a file that holds none."""
    if path is None:
        return {}
    try:
        found = json.loads(path.read_bytes())
    except OSError as problem:
        raise BackendProblem(f"options: cannot read {path} ({problem.strerror}); give a JSON file, or leave --options out") from None
    except (ValueError, RecursionError) as problem:
        raise BackendProblem(f"options: {path} is not JSON ({problem}); expected one mapping") from None
    if not isinstance(found, dict):
        raise BackendProblem(f"options: {path} holds {type(found).__name__}; expected one mapping")
    return found


def open_backend(name: str, options: Mapping[str, Any], state: Path, attempt: int) -> Backend:
    """The backend of that name. Raises BackendProblem when it cannot work on this machine, or not with these options."""
    if name == "sim":
        return SimBackend(options, state, attempt)
    if name == "cpu":
        if options:
            raise BackendProblem(f"options: {str(next(iter(options)))[:60]!r} is unknown; backend cpu takes none")
        return CpuBackend()
    if name == "nvml":
        raise BackendProblem("backend nvml: not in this version yet; use --backend cpu (real arithmetic on the host) or --backend sim")
    raise BackendProblem(f"backend {name!r} is unknown; expected one of {', '.join(NAMES)}")


def boot_id(name: str, options: Mapping[str, Any], state: Path) -> str:
    """The node's boot id, also when its GPUs cannot be opened any more. Raises BackendProblem for a simulation without valid options."""
    return SimBackend(options, state, 0).boot_id() if name == "sim" else host_boot_id()
