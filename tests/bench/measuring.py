"""What a playbook costs: module executions on each node, task results, seconds.

Module executions are counted on the node itself: its Python interpreter is a script of ours that adds a line to a file and becomes Python. Each
run of AnsiballZ is one start of that interpreter, so a copy (which runs stat and copy) counts twice, and what an action plugin does by itself
counts too. Plain commands (cat, mkdir) are none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.nodes import Lab

ROOT = Path(__file__).resolve().parents[2]
COUNTED, COUNT = "usr/local/bin/counted-python", "var/tmp/counted-modules"
SCRIPT = f'#!/bin/sh\necho >>/{COUNT}\nexec /usr/bin/python3 "$@"\n'
LONGEST_S = 900
# Twenty plain tasks, as any playbook has them, converged.
REFERENCE = """
- hosts: gpu_nodes
  gather_facts: false
  tasks:
{tasks}
"""
KINDS = (
    "ansible.builtin.file: {{path: /srv/reference-{n}, state: directory, mode: '0755'}}",
    "ansible.builtin.copy: {{content: 'line {n}', dest: /srv/reference-{n}.txt, mode: '0644'}}",
    "ansible.builtin.lineinfile: {{path: /srv/reference.conf, line: 'key{n} = value', create: true, mode: '0644'}}",
    "ansible.builtin.command: {{argv: [/bin/true]}}\n      changed_when: false",
    "ansible.builtin.stat: {{path: /etc/passwd}}",
)
TASKS = 20


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one play. `modules` and `results`: node -> how many; `changed`: node -> tasks that changed something."""

    seconds: float
    modules: dict[str, int]
    results: dict[str, int]
    changed: dict[str, int]


def prepare(lab: Lab, inventory: dict[str, Any], folder: Path) -> Path:
    """Make the nodes count, and write the inventory; its path."""
    for node in lab.nodes:
        script = node.root / COUNTED
        script.write_text(SCRIPT)
        script.chmod(0o755)
        _counter(node.root).write_text("")
    inventory["gpu_nodes"]["vars"] |= {"ansible_python_interpreter": f"/{COUNTED}", "burnin_run_folders": str(folder / "runs")}
    place = folder / "hosts.json"
    place.write_text(json.dumps(inventory))
    return place


def _counter(root: Path) -> Path:
    return root / COUNT


def reference(folder: Path) -> Path:
    """The play to compare with; its path."""
    tasks = "".join(f"    - name: Reference {n}\n      {KINDS[n % len(KINDS)].format(n=n)}\n" for n in range(TASKS))
    place = folder / "reference.yml"
    place.write_text(REFERENCE.format(tasks=tasks))
    return place


def play(lab: Lab, inventory: Path, playbook: Path, *arguments: str) -> Cost:
    """Run it with the project's own settings. Raises RuntimeError with what Ansible printed when it did not go well."""
    before = {node.name: _count(node.root) for node in lab.nodes}
    events = inventory.parent / "events.jsonl"
    settings = {
        "PYTHONPATH": str(ROOT / "tests"), "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_HOME": str(inventory.parent / "ansible"),
        "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests/lab/callbacks"), "ANSIBLE_CALLBACKS_ENABLED": "events", "BURNIN_LAB_EVENTS": str(events),
    }  # fmt: skip
    argv = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(inventory), str(playbook), *arguments]
    begun = time.monotonic()
    done = subprocess.run(argv, env={**os.environ, **settings}, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    seconds = time.monotonic() - begun
    if done.returncode:
        raise RuntimeError(f"{playbook.name} ended with {done.returncode}:\n{done.stdout[-6000:]}{done.stderr[-2000:]}")
    hosts = json.loads(events.read_text().splitlines()[-1])["hosts"]
    names = [node.name for node in lab.nodes]
    return Cost(
        seconds,
        {node.name: _count(node.root) - before[node.name] for node in lab.nodes},
        {name: sum(hosts[name][kind] for kind in ("ok", "skipped", "failures", "unreachable")) for name in names},
        {name: hosts[name]["changed"] for name in names},
    )


def _count(root: Path) -> int:
    return len(_counter(root).read_text().splitlines())
