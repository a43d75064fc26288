"""What the roles' verifiers share: the events of the plays so far, and a play of their own that is expected to fail."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def events() -> list[dict[str, Any]]:
    """One record per playbook that has run in this scenario, oldest first (tests/lab/callbacks/events.py)."""
    return [json.loads(line) for line in Path(os.environ["BURNIN_LAB_EVENTS"]).read_text().splitlines()]


def sound(record: Mapping[str, Any]) -> bool:
    """Whether the play ran on the nodes, and well."""
    hosts = record["hosts"]
    return len(hosts) > 0 and not any(host["failures"] or host["unreachable"] for host in hosts.values()) and not record["failed"]


def play(name: str, **environment: str) -> dict[str, Any]:
    """Play the scenario's playbook `name` and give the record of it, with its exit code under `rc`."""
    scenario, before = Path(os.environ["MOLECULE_SCENARIO_DIRECTORY"]), len(events())
    argv = ["ansible-playbook", "-i", f"{os.environ['MOLECULE_EPHEMERAL_DIRECTORY']}/inventory", str(scenario / name)]
    done = subprocess.run(argv, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300, check=False)
    after = events()
    assert len(after) == before + 1, done.stdout + done.stderr
    return {**after[-1], "rc": done.returncode}
