"""From what the firmware says and what was asked before to what is done: set, wait for a reboot, refuse. Pure.

A setting has three values: default, current and next boot. It is set only where the next boot would not have it, and a reboot is asked for only
where the next boot would bring it, once: firmware that needs its power cut comes back from a warm boot with the old value, for ever (field report B19).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
NAME = re.compile(r"[A-Z][A-Z0-9_]{1,63}(\[[0-9]{1,3}\])?", re.ASCII)
VALUE = re.compile(r"[A-Za-z0-9_]{1,64}", re.ASCII)
HEADER = re.compile(r"Configurations:\s+Default\s+Current\s+Next Boot\s*")
# A star before it says that the next boot differs, RO that it is only read; so columns are counted from the end.
LINE = re.compile(r"\s*(?:(?:\*|RO)\s+)*([A-Z][A-Z0-9_]*(?:\[[0-9]{1,3}\])?)\s+(\S{1,80})\s+(\S{1,80})\s+(\S{1,80})\s*", re.ASCII)
NAMED = re.compile(r"(\w+)\((\w+)\)", re.ASCII)
MOST_LINES, MOST_DEVICES = 5000, 64


class Refusal(Exception):
    """Why it stops. `code` is stable; the sentence names the thing, what was found, what was expected, what to do."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


@dataclass(frozen=True)
class Value:
    """What one setting is now, and what it is after the next boot, as the tool words it: `IB(1)`, `True(1)`, `8`."""

    current: str
    coming: str


@dataclass(frozen=True)
class Step:
    """What one device needs. `put`: what is set now. `waits`: what the next boot brings. Nothing of both: it is as asked."""

    device: str
    put: Mapping[str, str] = field(default_factory=dict)
    waits: Mapping[str, str] = field(default_factory=dict)


def wanted(devices: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Device -> setting -> value, of the description; refuses what is none."""
    if len(devices) > MOST_DEVICES:
        raise Refusal("DESCRIPTION", f"{len(devices)} devices are described; expected at most {MOST_DEVICES}; correct nic_firmware_devices")
    found: dict[str, dict[str, str]] = {}
    for one in devices:
        device, settings = str(one["device"]).lower(), one["set"]
        if not ADDRESS.fullmatch(device):
            raise Refusal("DESCRIPTION", f"device {device!r}: expected a PCI function like 0000:1a:00.0; correct nic_firmware_devices")
        if device in found:
            raise Refusal(
                "DESCRIPTION", f"device {device} is described twice; expected once, with all its settings; correct nic_firmware_devices"
            )
        if not settings:
            raise Refusal(
                "DESCRIPTION", f"device {device} has nothing to set; expected settings like LINK_TYPE_P1: 1; correct nic_firmware_devices"
            )
        found[device] = {_name(device, name): _plain(device, name, value) for name, value in settings.items()}
    return found


def _name(device: str, name: object) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Refusal("DESCRIPTION", f"{device}: setting {name!r}: expected a name like LINK_TYPE_P1; correct nic_firmware_devices")
    return name


def _plain(device: str, name: object, value: object) -> str:
    text = str(int(value)) if isinstance(value, bool) else str(value)
    if not isinstance(value, (bool, int, str)) or not VALUE.fullmatch(text):
        raise Refusal("DESCRIPTION", f"{device}: {name} is {value!r}; expected a number or a word like IB; correct nic_firmware_devices")
    return text


def same(told: str, value: str) -> bool:
    """Whether `IB(1)` is `1` or `IB`. Numbers may be told as hexadecimal."""
    match = NAMED.fullmatch(told)
    names = {piece.lower() for piece in (match.groups() if match else (told,))}
    return value.lower() in names or _number(value) in {_number(name) for name in names} - {None}


def _number(text: str) -> int | None:
    if re.fullmatch(r"[0-9]{1,20}", text):
        return int(text)
    return int(text, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", text) else None


def parse(device: str, output: str) -> dict[str, Value]:
    """What `mlxconfig -e query` says. Refuses a table without current values: with them alone it can be told whether a reboot did it."""
    lines = output.splitlines()[:MOST_LINES]
    start = next((number for number, line in enumerate(lines) if HEADER.fullmatch(line.strip())), None)
    if start is None:
        raise Refusal(
            "ANSWER_UNKNOWN",
            f"{device}: the tool's answer has no columns Default, Current and Next Boot; use a newer mlxconfig or mstconfig",
        )
    found = {}
    for line in lines[start + 1 :]:
        match = LINE.fullmatch(line)
        if match:
            found[match.group(1)] = Value(match.group(3), match.group(4))
    return found


def decide(device: str, values: Mapping[str, Value], asked: Mapping[str, str], before: Mapping[str, Any], boot_id: str) -> Step:
    """What this device needs. `before`: what an earlier call asked of it, {"set": ..., "boot_id": ...}; {} for nothing."""
    lacking = sorted(set(asked) - set(values))
    if lacking:
        raise Refusal("SETTING_UNKNOWN", f"{device}: its firmware knows no {', '.join(lacking)}; see `mlxconfig -d {device} -e query`")
    put = {name: value for name, value in asked.items() if not same(values[name].coming, value)}
    waits = {name: value for name, value in asked.items() if not same(values[name].current, value)}
    rebooted = bool(before) and before.get("boot_id") != boot_id
    earlier = before.get("set") or {}
    again = sorted(name for name in {**put, **waits} if rebooted and earlier.get(name) == asked[name])
    if not again:
        return Step(device, put, waits)
    name = again[0]
    value = values[name]
    told = f"{device}: {name} was set to {asked[name]} before the last boot, and now is {value.current} (next boot: {value.coming})"
    if name in put:
        raise Refusal(
            "SETTING_REVERTED", f"{told}: its firmware took it back; look for a locked card, another agent or the BIOS; it is not set again"
        )
    raise Refusal(
        "POWER_CYCLE_NEEDED",
        f"{told}: a warm boot does not bring it; cut the node's power (BMC), then run again; no second reboot is asked for",
    )


def reason(steps: Iterable[Step]) -> str:
    """Why a reboot is needed; "" where it is not."""
    return "; ".join(
        f"{step.device}: {', '.join(f'{name}={value}' for name, value in sorted(step.waits.items()))}" for step in steps if step.waits
    )
