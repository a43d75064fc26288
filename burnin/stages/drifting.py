"""drift: what every node has, held against what its stack comes to. Reads the nodes, changes nothing on them, leaves no run folder."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burnin.adapters.ansible import HostState, PlayResult
from burnin.adapters.cancel import Cancel
from burnin.adapters.clock import utc_now
from burnin.adapters.names import node_folder
from burnin.errors import InventoryError, StackError
from burnin.stack.bridge import check_plain, resolve_plain
from burnin.stack.distros import arch_of, distro_of
from burnin.stack.drift.accepting import Accepted, accepted_of
from burnin.stack.drift.case import Case, case_of, mapping
from burnin.stack.drift.document import Looked, document
from burnin.stack.drift.finding import Finding
from burnin.stack.drift.fleet import minorities
from burnin.stack.drift.judging import ACCEPT, judge
from burnin.stack.handing import SYSTEMS
from burnin.stack.model import VARIABLE
from burnin.stages.burn_in import PLAY_TIMEOUT_S, Show
from burnin.stages.nodes import Driver, Target, resolve
from burnin.stages.opening import open_run
from burnin.status import count

# One folder on the node for every look: it holds the node program, which is copied only when it changed.
FOLDER = "drift"
KERNEL = "burnin_stack_kernel"
LARGEST_BYTES = 32 * 1024 * 1024
Hosts = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the inventory says of a node. `kernel`: the one that counts as running (burnin_stack_kernel); "" is what the node says."""

    stack: object
    sku: str
    accepted: tuple[Accepted, ...]
    kernel: str = ""


def drift(target: Target, show: Show, cancel: Cancel) -> dict[str, Any]:
    """The document burnin.drift/1. Raises InventoryError and StackError before a node is touched."""
    hosts = resolve(target)
    wanted = wanted_of(hosts)
    show.stage(f"Look at {count(len(hosts), 'node')}")
    result, hosts_told = look(hosts, target, cancel)
    return compare(wanted, result, hosts_told, target.inventory)


def wanted_of(hosts: Hosts) -> dict[str, Wanted]:
    """Every node's stack, checked for its GPUs. Raises InventoryError for a node without one, StackError for one with errors."""
    without = [host for host, variables in hosts.items() if VARIABLE not in variables]
    if without:
        raise InventoryError(
            f"{', '.join(without[:8])}: no {VARIABLE}, so there is nothing to hold the node against; give the site a group_vars/all/stack.yml"
        )
    checked: dict[str, list[str]] = {}
    found = {}
    for host, variables in hosts.items():
        sku = str(variables.get("burnin_sku") or "")
        key = json.dumps([variables[VARIABLE], sku], sort_keys=True, default=str)
        if key not in checked:
            checked[key] = check_plain(variables[VARIABLE], utc_now().date(), [sku] if sku else ())["error_text"]
        if checked[key]:
            raise StackError(f"{host}: {'; '.join(checked[key])}; no node was looked at")
        found[host] = Wanted(variables[VARIABLE], sku, accepted_of(variables.get(ACCEPT)), str(variables.get(KERNEL) or ""))
    return found


def look(hosts: Hosts, target: Target, cancel: Cancel) -> tuple[PlayResult, dict[str, Mapping[str, Any]]]:
    """Read every node at once; node -> its host document, of those that gave one."""
    with tempfile.TemporaryDirectory(prefix="burnin-drift-") as place:
        opened = open_run(hosts, plan="preflight", runs=Path(place), burn_in=False, run_id=FOLDER)
        driver = Driver(opened.folder, target, cancel, hosts=hosts)
        result = driver.play("drift.yml", sorted(hosts), stage="drift", timeout_s=PLAY_TIMEOUT_S)
        told = {host: read_host(opened.folder / "incoming" / node_folder(host) / "preflight.json") for host in hosts}
    return result, {host: document for host, document in told.items() if document is not None}


def read_host(path: Path) -> Mapping[str, Any] | None:
    """The host document in an identity; {} for one that is no JSON of ours, None where there is no file. A node writes what it likes."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            return {}
        read = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        return {}
    return mapping(mapping(read).get("host"))


def compare(
    wanted: Mapping[str, Wanted], result: PlayResult, hosts: Mapping[str, Mapping[str, Any]], inventory: tuple[str, ...]
) -> dict[str, Any]:
    """Judge each node, then the fleet."""
    cases: dict[str, Case] = {}
    looked = []
    for node, want in sorted(wanted.items()):
        seen = result.hosts.get(node)
        # One whose look failed for another reason (a clock that is off) has told what it has all the same; the folder was new.
        if seen is None or seen.state not in (HostState.OK, HostState.FAILED) or node not in hosts:
            looked.append(_gone(node, "" if seen is None else f"{seen.state.value}: {seen.message}" if seen.message else seen.state.value))
            continue
        host = as_running(want, hosts[node])
        try:
            resolution = resolution_of(want, host)
        except StackError as problem:
            looked.append(Looked(node, (Finding("DRIFT_UNREAD", "node", str(problem), "a distribution that the stack knows"),)))
            continue
        cases[node] = case_of(resolution, host)
        stack = f"{resolution['distro']} {resolution['sku'] or 'no SKU'} driver {resolution['driver']['version']}"
        looked.append(Looked(node, judge(resolution, host, want.accepted, utc_now().date()), stack))
    return document(looked, minorities(cases), utc_now().isoformat(timespec="seconds"), inventory)


def as_running(want: Wanted, host: Mapping[str, Any]) -> Mapping[str, Any]:
    """The document with the kernel that the site says counts as the running one."""
    return {**host, "kernel": {**mapping(host.get("kernel")), "running": want.kernel}} if want.kernel else host


def resolution_of(want: Wanted, host: Mapping[str, Any]) -> dict[str, Any]:
    """What this node's stack comes to. Raises StackError for a system that is none of ours."""
    told = mapping(host.get("os"))
    name, version = str(told.get("id") or "no os-release"), str(told.get("version_id") or "")
    distro, arch = distro_of(SYSTEMS.get(name, name), version), arch_of(str(told.get("arch") or "unknown"))
    running = mapping(host.get("kernel")).get("running")
    return resolve_plain(want.stack, distro, arch, want.sku, str(running) if running else None, version)


def _gone(node: str, why: str) -> Looked:
    return Looked(node, (Finding("DRIFT_UNREACHABLE", "node", why or "it took no part", "an answer"),))
