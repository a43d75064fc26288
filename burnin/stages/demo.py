"""The demo: a simulated rack with planted faults, through the real playbooks, and the check that exactly those were found."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from burnin.adapters.cancel import Cancel
from burnin.adapters.project import project
from burnin.adapters.run_files import new_run_id
from burnin.errors import UsageError
from burnin.stages.burn_in import Show, burn_in
from burnin.stages.nodes import Target, resolve
from burnin.stages.opening import open_run

POLL_S = 1.0
NODES_PER_RACK = 2
PLAN = "acceptance"
SHELL_LETTERS = "'\"`$\\%{}\n"
LEAST_TO_VERIFY = 4  # the nodes of inventory/demo: fewer lack planted parts, and a cohort that can condemn

Hosts = Mapping[str, Mapping[str, Any]]


def run(*, nodes: int, gpus: int, seed: int, out: Path, show: Show, cancel: Cancel) -> tuple[Path, dict[str, Any], Hosts]:
    """Run the demo in a new folder below `out` and touch nothing else; returns the folder, the verdict's document and the hosts as resolved."""
    run_id = new_run_id()
    folder = out.resolve() / run_id
    odd = sorted(set(str(folder)) & set(SHELL_LETTERS))
    if odd:
        raise UsageError(
            f"--out {out}: holds {' '.join(odd)}, which the shells and templates that Ansible calls would read; give a plainer path"
        )
    place = folder.parent / f".{run_id}.inventory"
    try:
        inventory = _inventory(place, nodes)
        variables = {"burnin_demo_root": str(folder), "burnin_demo_gpus": gpus, "burnin_demo_seed": seed}
        target = Target((str(inventory),), variables=variables, work_base=folder)
        hosts = resolve(Target((str(inventory),), variables=variables, work_base=place))
        _possible(hosts, gpus)
        open_run(
            hosts, plan=PLAN, runs=folder.parent, run_id=run_id, preflight=True,
            source=Target((str(folder / "inventory"),), variables=variables).source(),
        )  # fmt: skip
        shutil.move(inventory, folder / "inventory")
    except OSError as problem:
        raise UsageError(
            f"--out {out}: the demo's folder cannot be made there ({problem.strerror}); give a folder that can be written"
        ) from None
    finally:
        shutil.rmtree(place, ignore_errors=True)
    target = Target((str(folder / "inventory"),), variables=variables, work_base=folder)
    show.say(f"A simulated rack of {len(hosts)} nodes x {gpus} GPUs; everything is in {folder}")
    return folder, burn_in(folder, target, show, cancel, preflight=True, hosts=hosts, interval_s=POLL_S), hosts


def _inventory(place: Path, nodes: int) -> Path:
    """A copy of inventory/demo with as many nodes as asked for: the first ones, or some more without faults."""
    target = place / "inventory"
    shutil.copytree(project() / "inventory" / "demo", target)
    document = yaml.safe_load((target / "hosts.yml").read_text(encoding="utf-8"))
    hosts = document["gpu_nodes"]["children"]["h100_nodes"]["hosts"]
    for name in list(hosts)[nodes:]:
        del hosts[name]
    for number in range(len(hosts) + 1, nodes + 1):
        rack, position = divmod(number - 1, NODES_PER_RACK)
        hosts[f"gpu-n{number:02d}"] = {"burnin_rack": f"A{rack + 1}", "burnin_position": position + 1}
    (target / "hosts.yml").write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return target


def _faults(variables: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(variables.get("burnin_run_sim_faults") or [])


def _possible(hosts: Hosts, gpus: int) -> None:
    slots = [int(fault["slot"]) for variables in hosts.values() for fault in _faults(variables) if "slot" in fault]
    if slots and max(slots) >= gpus:
        raise UsageError(f"--gpus {gpus}: faults are planted in slots up to {max(slots)}; give --gpus {max(slots) + 1} or more")


def differences(hosts: Hosts, document: Mapping[str, Any]) -> list[str]:
    """What was found and not planted, and planted and not found, in words. Empty: exactly the planted parts, with verdict and cause."""
    expected: dict[tuple[str, Any], Mapping[str, Any]] = {}
    nodes: dict[str, str] = {}
    whole: dict[str, str] = {}
    for host, variables in hosts.items():
        for fault in _faults(variables):
            expect = fault.get("expect", {})
            if "verdict" in expect:
                expected[(host, fault["slot"])] = expect
            nodes |= {host: expect["node"]} if "node" in expect else {}
            whole |= {host: expect["gpus"]} if "gpus" in expect else {}
    found = []
    for gpu in document["gpus"]:
        expect = expected.get((gpu["node"], gpu["slot"]), {"verdict": whole.get(gpu["node"], "PASS")})
        found += _compare(f"{gpu['node']} slot {gpu['slot']}", gpu, expect)
    for node in document["nodes"]:
        found += _compare(f"node {node['node']}", node, {"verdict": nodes.get(node["node"], "PASS")})
    for rack in document["racks"]:
        found += _compare(f"rack {rack['rack']}", rack, {"verdict": "PASS"})
    found += _compare("the fleet", document["fleet"], {"verdict": "PASS"})
    missing = set(expected) - {(gpu["node"], gpu["slot"]) for gpu in document["gpus"]}
    return found + [f"{node} slot {slot}: planted, and not in the verdict at all" for node, slot in sorted(missing)]


def _compare(what: str, judged: Mapping[str, Any], expect: Mapping[str, Any]) -> list[str]:
    if judged["verdict"] != expect["verdict"]:
        codes = ", ".join(finding["code"] for finding in judged["findings"] if finding["outcome"] == judged["verdict"])
        return [f"{what}: {judged['verdict']} ({codes}) where {expect['verdict']} was planted"]
    causes = {finding["cause"] for finding in judged["findings"] if finding["outcome"] == judged["verdict"]}
    if "cause" in expect and causes != {expect["cause"]}:
        return [f"{what}: cause {', '.join(sorted(map(str, causes)))} where {expect['cause']} was planted"]
    return []
