"""The files that are ours alone, what is in them, and how they get there. One owner a file: one without our mark is refused."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Optional

from ansible.module_utils.burnin_group import node
from ansible.module_utils.burnin_group.model import Refusal
from ansible.module_utils.burnin_tuning import live
from ansible.module_utils.burnin_tuning.host import Host

MARK = "Written by burnin (role node_tuning)"
STATE = live.CONFIG
SCRIPT = "/usr/local/lib/burnin/node-tuning"
UNIT_NAME = "burnin-node-tuning.service"
UNIT = "/etc/systemd/system/" + UNIT_NAME
WANTED_BY = "/etc/systemd/system/multi-user.target.wants/" + UNIT_NAME
# The last of their folders, so that no other file there has a later word.
SYSCTL = "/etc/sysctl.d/zz-burnin-node-tuning.conf"
LIMITS = "/etc/security/limits.d/zz-burnin-node-tuning.conf"
MANAGERS = ("/etc/systemd/system.conf.d/zz-burnin-node-tuning.conf", "/etc/systemd/user.conf.d/zz-burnin-node-tuning.conf")
OWNED = (STATE, SCRIPT, UNIT, SYSCTL, LIMITS, *MANAGERS)
MODES = {SCRIPT: 0o755}
# What the unit sets at each boot; NUMA balancing is the sysctl file's.
AT_BOOT = (
    "acs_redirect", "max_read_request", "relaxed_ordering", "cpu_governor", "cpu_idle_latency_us", "huge_pages", "transparent_huge_pages",
)  # fmt: skip
UNIT_TEXT = """# %(mark)s: what the kernel forgets at each boot is set again, as /etc/burnin/node-tuning.json says.
[Unit]
Description=Node tuning of burnin: PCI ports and adapters, CPUs, huge pages
Documentation=file:%(state)s
ConditionVirtualization=!container
# After whatever loads the drivers of GPUs and adapters, which may reset their registers; before whatever starts jobs.
After=systemd-modules-load.service openibd.service nvidia-persistenced.service nvidia-fabricmanager.service tuned.service cpufrequtils.service
Before=slurmd.service kubelet.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=%(python)s -I %(script)s
TimeoutStartSec=120
# It writes to /sys and nowhere else. CAP_SYS_ADMIN: without it the kernel shows 64 bytes of a device's configuration space.
CapabilityBoundingSet=CAP_SYS_ADMIN
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=none
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
UMask=0077

[Install]
WantedBy=multi-user.target
"""


def source() -> str:
    """The text of live.py as it runs here, out of Ansible's archive or of a checkout."""
    return str(live.__loader__.get_source(live.__name__))  # type: ignore[union-attr]


def texts(values: Mapping[str, Any], gpus: List[str], nics: List[str], python: str, more: Mapping[str, Any]) -> Dict[str, str]:
    """Path -> content of what shall be there for these settings, all of which this node has. `more`: what is held, for the next look."""
    found: Dict[str, str] = {}
    boot = {name: values[name] for name in AT_BOOT if name in values}
    if values or more:
        state = {"_": MARK, "schema": live.SCHEMA, "gpu_cards": gpus, "nic_cards": nics, "settings": boot, "held": dict(more)}
        found[STATE] = json.dumps(state, indent=1, sort_keys=True) + "\n"
    if boot:
        found[SCRIPT] = source()
        found[UNIT] = UNIT_TEXT % {"mark": MARK, "state": STATE, "python": python, "script": SCRIPT}
    if "numa_balancing" in values:
        found[SYSCTL] = "# %s.\nkernel.numa_balancing = %s\n" % (MARK, values["numa_balancing"])
    limits = [(item, word, str(values[name])) for name, item, word in LIMIT_ITEMS if name in values]
    if limits:
        lines = [
            "%s %s %s %s" % (who, kind, item, value) for item, _, value in limits for who in ("*", "root") for kind in ("soft", "hard")
        ]
        found[LIMITS] = "# %s: logins (PAM); a * is not for root.\n%s\n" % (MARK, "\n".join(lines))
        words = ["DefaultLimit%s=%s" % (word, "infinity" if value == "unlimited" else value) for _, word, value in limits]
        for path in MANAGERS:
            found[path] = "# %s: daemons, which limits.d does not reach.\n[Manager]\n%s\n" % (MARK, "\n".join(words))
    return found


LIMIT_ITEMS = (("memlock", "memlock", "MEMLOCK"), ("open_files", "nofile", "NOFILE"))


def state(host: Host) -> Dict[str, Any]:
    """What was held when the module last ran: setting -> value; {} where it never did, or the file says nothing sensible."""
    try:
        found = json.loads(host.text(STATE))
    except ValueError:
        return {}
    held = found.get("held") if isinstance(found, dict) else None
    return held if isinstance(held, dict) else {}


def foreign(host: Host) -> List[str]:
    """The paths of ours at which a file without our mark lies."""
    return [path for path in OWNED if (text := _text(host, path)) is not None and MARK not in text]


def _text(host: Host, path: str) -> Optional[str]:
    found = node.read(host.at(path))
    return None if found is None else found.decode("utf-8", "replace")


def differing(host: Host, wanted: Mapping[str, str]) -> List[str]:
    """The paths of ours that are not as they shall be, their modes and the unit's link included."""
    found = []
    for path in OWNED:
        place = host.at(path)
        mode = place.stat().st_mode & 0o7777 if place.exists() else None
        if _text(host, path) != wanted.get(path) or (path in wanted and mode != MODES.get(path, 0o644)):
            found.append(path)
    return found + [WANTED_BY] * (_link(host) != (UNIT if UNIT in wanted else ""))


def _link(host: Host) -> str:
    try:
        return os.readlink(str(host.at(WANTED_BY)))
    except OSError:
        return ""


def write(host: Host, wanted: Mapping[str, str], paths: List[str]) -> None:
    """Put these in place, or take them away. Raises Refusal WRITE_FAILED."""
    for path in paths:
        place = host.at(path)
        try:
            if path == WANTED_BY:
                place.parent.mkdir(parents=True, exist_ok=True)
                if os.path.lexists(str(place)):
                    place.unlink()
                if UNIT in wanted:
                    place.symlink_to(UNIT)
            elif path in wanted:
                node.replace(place, wanted[path].encode(), MODES.get(path, 0o644))
            else:
                place.unlink()
        except OSError as problem:
            raise Refusal(
                "WRITE_FAILED", "%s could not be written: %s; expected a place where root may write" % (path, problem)
            ) from problem
