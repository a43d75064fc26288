"""The node's side: the tool, what was asked before, and the flag for the role reboot. Below `root`, for tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.burnin_nic.settings import Refusal

TOOLS = ("mlxconfig", "mstconfig")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MARKER = "var/lib/burnin/nic_firmware.json"
FLAG = "run/burnin/reboot-required.d/nic_firmware"
BOOT_ID = "proc/sys/kernel/random/boot_id"
PCI = "sys/bus/pci/devices"
MELLANOX = "0x15b3"
TOOL_S = 120
SAID_MOST, LARGEST = 400, 1 << 20
LOCKED = ("secure host", "secure-host", "locked", "key is set", "not allowed in")


def tool(name: str) -> str:
    """The program that is asked: the one named, else the first that is there."""
    found = next((place for one in ([name] if name else TOOLS) for place in [shutil.which(one, path=PATH)] if place), None)
    if found is None:
        raise Refusal(
            "TOOLS_MISSING", f"no {name or ' and no '.join(TOOLS)} is on this node; install mstflint, or the OFED's own tools (mft)"
        )
    return found


def check_there(root: Path, device: str) -> None:
    """Refuses a function that is not there, or of another maker."""
    vendor = _line(root / PCI / device / "vendor")
    if vendor == MELLANOX:
        return
    folder = root / PCI
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    here = [name for name in names if _line(folder / name / "vendor") == MELLANOX]
    found = "is not there" if vendor is None else f"is of vendor {vendor}"
    raise Refusal("DEVICE_MISSING", f"device {device} {found}; expected one of {', '.join(here[:16]) or 'none: no such adapter is here'}")


def run(argv: Sequence[str], device: str, what: str) -> str:
    """What the tool says. Refuses where it fails: by name where the card is locked."""
    try:
        done = subprocess.run(
            argv,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TOOL_S,
            stdin=subprocess.DEVNULL,
            env={"PATH": PATH, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        raise Refusal(
            "TOOL_SILENT", f"{device}: {argv[0]} gave no answer in {TOOL_S} s ({what}); look at the kernel's log, power-cycle the node"
        ) from None
    if done.returncode == 0:
        return done.stdout[:LARGEST]
    said = " ".join((done.stderr + " " + done.stdout).split())[-SAID_MOST:]
    if any(word in said.lower() for word in LOCKED):
        raise Refusal("DEVICE_LOCKED", f"{device}: the card is locked ({said}); its owner unlocks it with the key that it was locked with")
    raise Refusal("TOOL_FAILED", f"{device}: {argv[0]} ended with {done.returncode} ({what}): {said or 'it said nothing'}")


def boot_id(root: Path) -> str:
    found = _line(root / BOOT_ID)
    if not found:
        raise Refusal("BOOT_UNKNOWN", f"/{BOOT_ID} cannot be read: whether a reboot came since cannot be told, so nothing was set")
    return found


def asked_before(root: Path) -> dict[str, Any]:
    """Device -> what was asked of it and on which boot. A damaged record may hide a reboot that did not help: refused."""
    path = root / MARKER
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8")[:LARGEST])
    except (OSError, ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and all(isinstance(one, dict) and isinstance(one.get("set", {}), dict) for one in found.values()):
        return found
    raise Refusal("RECORD_DAMAGED", f"{path}: is not what this role wrote; see by hand what the cards are set to, then delete it")


def remember(root: Path, asked: Mapping[str, Any]) -> None:
    """On the disk before the firmware is touched; none where nothing is outstanding."""
    path = root / MARKER
    if not asked:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".new")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(asked, file, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def flag(root: Path, reason: str) -> None:
    """Who asks for a reboot, for the role reboot; taken back where nothing asks any more."""
    path = root / FLAG
    if reason:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"adapter firmware settings: {reason}"[:2000] + "\n", encoding="utf-8")
    else:
        path.unlink(missing_ok=True)


def _line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None
