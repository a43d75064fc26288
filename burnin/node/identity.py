"""What this node is: its board, its system, its GPUs, and a fingerprint of the software that decides speed."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import socket
from pathlib import Path
from typing import Any, Dict, List, Optional

from burnin import __version__
from burnin.node.backends.base import Backend
from burnin.node.records import now

SCHEMA = "burnin.identity/1"
LONGEST = 200


def _read(path: str) -> Optional[str]:
    """One short line of a file, or None when it will not say."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    text = "".join(letter for letter in text if letter.isprintable()).strip()
    return text[:LONGEST] or None


def _system_name() -> Optional[str]:
    try:
        lines = Path("/etc/os-release").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((line.split("=", 1)[1].strip('"')[:LONGEST] for line in lines if line.startswith("PRETTY_NAME=")), None)


def _memory_mib() -> Optional[int]:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    except (ValueError, OSError):
        return None


def fingerprint(software: Dict[str, Any]) -> str:
    """12 hex digits over the versions that decide speed; nodes with another one form another cohort."""
    return hashlib.sha256(json.dumps(software, sort_keys=True).encode()).hexdigest()[:12]


def identity(backend: Backend, host: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    """The node's identity as plain data (schema burnin.identity/1). None = it would not say. Serials are text.

    `host`: what burnin.node.host.document read, where it was asked.
    """
    told = backend.identity()
    document = _document(backend.NAME, backend.boot_id(), dict(told["software"]), told["gpus"])
    return document if host is None else {**document, "host": host}


def bare_identity(backend: str, host: Dict[str, Any], why: Optional[str] = None) -> Dict[str, Any]:
    """As identity, of a node whose driver is not asked: its GPUs are those that PCI shows. `why`: what the backend said, if it was asked."""
    boot_id = host["kernel"]["boot_id"] or "unknown"
    # No UUID yet: this keeps two nodes apart that give their cards the same addresses.
    here = hashlib.sha256(repr((_read("/etc/machine-id"), socket.gethostname(), boot_id)).encode()).hexdigest()[:8]
    gpus = [
        {
            "gpu": f"PCI-{here}-{gpu['address']}", "pci": gpu["address"], "device_id": gpu["device"], "serial": None, "slot": None,
            "kind": "pci",
        }
        for gpu in host["gpus"]
    ]  # fmt: skip
    return {**_document(backend, boot_id, {}, gpus), "host": host, "backend_problem": why}


def _document(backend: str, boot_id: str, software: Dict[str, Any], gpus: List[Dict[str, Any]]) -> Dict[str, Any]:
    software.setdefault("kernel", platform.release())
    software["agent"] = __version__
    return {
        "schema": SCHEMA,
        "taken": now(),
        "backend": backend,
        "node": {
            "hostname": socket.gethostname(),
            "machine_id": _read("/etc/machine-id"),
            "boot_id": boot_id,
            "board_serial": _read("/sys/class/dmi/id/board_serial"),
            "product": _read("/sys/class/dmi/id/product_name"),
            "product_serial": _read("/sys/class/dmi/id/product_serial"),
            "system": _system_name(),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "memory_mib": _memory_mib(),
        },
        "software": software,
        "fingerprint": fingerprint(software),
        "gpus": gpus,
    }
