"""What the roles' verifiers share: the events of the plays so far, what is on a node's disk, and a play of their own that is expected to fail."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab import nodes

# What any login and any program writes, Ansible's own among them.
NOISE = ("var/log/", "var/tmp/", "tmp/", "run/", "root/.ansible/", "var/lib/systemd/", "var/lib/private/", "etc/.updated", "var/.updated")


def lab_name() -> str:
    """The lab of this scenario: one per scenario and checkout, so that two may run at once. Outside of molecule the name of none."""
    return f"molecule-{hashlib.sha256(os.environ.get('MOLECULE_EPHEMERAL_DIRECTORY', '').encode()).hexdigest()[:8]}"


def disk(node: nodes.Node) -> dict[str, str]:
    """Path -> digest of all that has changed on the node since it was made (the overlay's upper layer): two looks that agree saw no change."""
    upper, found = node.folder / "upper", {}
    for folder, _, files in os.walk(upper):
        for name in files:
            path = Path(folder) / name
            told = path.relative_to(upper).as_posix()
            if not told.startswith(NOISE):
                found[told] = _digest(path)
    return found


def _digest(path: Path) -> str:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        return f"-> {path.readlink()}"
    if not stat.S_ISREG(status.st_mode):
        return "gone" if stat.S_ISCHR(status.st_mode) else "special"  # a whiteout is a character device
    return f"{stat.S_IMODE(status.st_mode):o} {hashlib.sha256(path.read_bytes()).hexdigest()}"


def now() -> dict[str, Any]:
    """What is on every node's disk now, in the shape of a record."""
    lab = nodes.find(lab_name())
    assert lab is not None
    return {"disk": {node.name: disk(node) for node in lab.nodes}}


def touched(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[str]]:
    """Node -> paths that differ between two looks, each a record of a play (its end) or `now`."""
    return {
        name: sorted(path for path in {*disk_before, *after["disk"][name]} if disk_before.get(path) != after["disk"][name].get(path))
        for name, disk_before in before["disk"].items()
    }


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


def converges() -> list[dict[str, Any]]:
    """The records of converge.yml, in check mode and out of it, oldest first."""
    return [record for record in events() if record["playbook"] == "converge.yml"]


def stays_put() -> None:
    """The rules that hold for every package role, from the events of its whole scenario: check, converge, check, converge, publish, converge.

    On a node as it is unpacked, check mode tells that something would change, and changes nothing at all; the second converge changes nothing,
    nor does one after the vendors have published newer builds.
    """
    records = converges()
    assert [record["check"] for record in records] == [True, False, True, False, False]
    for record in records:
        assert sound(record), record["failed"]
        assert sorted(record["hosts"]) == ["node-1", "node-2"]
    virgin = events()[events().index(records[0]) - 1]
    assert {step["host"] for step in records[0]["changed"]} == {"node-1", "node-2"}, "check mode must tell what would change"
    assert touched(virgin, records[0]) == {"node-1": [], "node-2": []}, "check mode changed a node as it was unpacked"
    assert {step["host"] for step in records[1]["changed"]} == {"node-1", "node-2"}
    for earlier, later in itertools.pairwise(records[1:]):
        assert later["changed"] == []
        assert touched(earlier, later) == {"node-1": [], "node-2": []}


def moved_by_dist_upgrade(host: Any) -> list[str]:
    """What `apt-get dist-upgrade` would do on the node, with the vendors' newest indexes: lines of Inst, Remv and Conf."""
    assert host.run("apt-get update -qq").rc == 0
    done = host.run("apt-get -s dist-upgrade")
    assert done.rc == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith(("Inst", "Remv", "Conf"))]


def installed(host: Any) -> dict[str, str]:
    """Package -> version of all that is installed."""
    told = host.check_output("dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\\n'").splitlines()
    return dict(line.split(" ")[1:] for line in told if line.startswith("installed "))


def held(host: Any) -> set[str]:
    """The packages on hold."""
    return set(host.check_output("apt-mark showhold").split())
