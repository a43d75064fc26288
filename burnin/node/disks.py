"""The NVMe drives of this node: who they are (sysfs) and what they say of their health (nvme-cli or smartctl). Nothing here writes to a drive."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

SECTOR = 512  # /sys/block/*/size counts these, whatever the drive's own block is
PATIENCE_S = 15.0
LONGEST = 120
MOST_DIGITS = 39  # of a 128-bit count
NAMESPACE = re.compile(r"(nvme\d+)n(\d+)")
KELVIN = 273
COUNTS = ("critical_warning", "media_errors", "percentage_used", "available_spare", "available_spare_threshold", "unsafe_shutdowns")
NVME_CLI_NAMES = {"percentage_used": ("percent_used", "percentage_used"), "available_spare": ("avail_spare", "available_spare"),
                  "available_spare_threshold": ("spare_thresh", "available_spare_threshold")}  # fmt: skip


@dataclass(frozen=True)
class Disk:
    """One NVMe namespace. `disk`: the drive's serial; `<serial>_n<number>` from the second namespace on."""

    disk: str
    serial: Optional[str]
    model: Optional[str]
    firmware: Optional[str]
    pci: Optional[str]
    size_bytes: Optional[int]
    name: str
    controller: str


def _line(path: Path) -> Optional[str]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return "".join(letter for letter in text if letter.isprintable()).strip()[:LONGEST] or None


def _number(text: Optional[str]) -> Optional[int]:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def disks(root: Path) -> List[Disk]:
    """The NVMe namespaces below this root, in the order of their names. A drive without a serial is called by its kernel name."""
    try:
        names = sorted(entry.name for entry in (root / "sys/block").iterdir())
    except OSError:
        return []
    found = []
    for name in names:
        match = NAMESPACE.fullmatch(name)
        if match is None:
            continue
        device, size = root / "sys/block" / name / "device", _number(_line(root / "sys/block" / name / "size"))
        serial, number = _line(device / "serial"), match.group(2)
        who = serial or name
        found.append(
            Disk(
                disk=who if number == "1" or serial is None else f"{who}_n{number}",
                serial=serial,
                model=_line(device / "model"),
                firmware=_line(device / "firmware_rev"),
                pci=_line(device / "address"),
                size_bytes=None if size is None else size * SECTOR,
                name=name,
                controller=match.group(1),
            )
        )
    return found


def _count(value: Any) -> Optional[int]:
    """A count of the log; None for what is none. nvme-cli writes critical_warning as a mapping with `value` in some versions, 128-bit counts as text."""
    if isinstance(value, dict):
        value = value.get("value")
    if isinstance(value, str) and len(value) <= MOST_DIGITS:
        value = _number(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def read_nvme_cli(text: str) -> Dict[str, Optional[int]]:
    """What `nvme smart-log -o json` printed. Raises ValueError for anything else."""
    log = _mapping(json.loads(text))
    if "critical_warning" not in log:
        raise ValueError("no critical_warning in it")
    found = {name: next((_count(log[key]) for key in NVME_CLI_NAMES.get(name, (name,)) if key in log), None) for name in COUNTS}
    kelvin = _count(log.get("temperature"))
    return {**found, "temp_c": None if kelvin is None else kelvin - KELVIN}


def read_smartctl(text: str) -> Dict[str, Optional[int]]:
    """What `smartctl -j -A` printed for an NVMe drive. Raises ValueError for anything else."""
    log = _mapping(_mapping(json.loads(text)).get("nvme_smart_health_information_log"))
    if "critical_warning" not in log:
        raise ValueError("no nvme_smart_health_information_log in it")
    return {**{name: _count(log.get(name)) for name in COUNTS}, "temp_c": _count(log.get("temperature"))}


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"holds {type(value).__name__}; expected a mapping")  # noqa: TRY004 - what json.loads raises too
    return value


READERS = (("nvme", ("smart-log", "-o", "json"), read_nvme_cli), ("smartctl", ("-j", "-A"), read_smartctl))


def smart(controller: str) -> Dict[str, Any]:
    """The drive's health log. `problem` says why there is none: no tool, a tool that failed, or an answer that is no log."""
    problem = "neither nvme (nvme-cli) nor smartctl (smartmontools) is on this node"
    for program, words, read in READERS:
        path = shutil.which(program)
        if path is None:
            continue
        argv = [path, *words, f"/dev/{controller}"]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=PATIENCE_S, check=False)
            return {**read(done.stdout), "problem": None}
        except (OSError, subprocess.TimeoutExpired) as trouble:
            problem = f"{program}: {type(trouble).__name__}"
        except ValueError as trouble:
            problem = f"{program} exited {done.returncode}: {(done.stderr or str(trouble)).strip()[:LONGEST]}"
    return {"problem": problem}


def look(root: Path, told: Mapping[str, str]) -> List[Dict[str, Any]]:
    """Each drive as identity.json holds it. `told`: what went wrong while a drive was read, by disk."""
    return [
        {
            "disk": one.disk, "serial": one.serial, "model": one.model, "firmware": one.firmware, "pci": one.pci, "name": one.name,
            "size_bytes": one.size_bytes, "smart": smart(one.controller), "read_problem": told.get(one.disk),
        }
        for one in disks(root)
    ]  # fmt: skip
