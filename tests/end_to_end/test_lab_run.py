"""The real way: SSH, root or sudo, a transient systemd unit, nodes that lose power or network. The nodes are containers (tests/lab).

What they prove: everything but the GPUs is real here, each boot of a node has a boot id of its own (systemd-nspawn), and pulling the plug
leaves no process a last word. What they cannot: a kernel that hangs, a disk that loses what was not yet written.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import nodes as lab_nodes
from lab.nodes import Lab, Node
from lab.rootfs import OPERATOR, Unavailable

pytestmark = pytest.mark.slow

BURNIN = Path(sys.executable).parent / "burnin"
PATIENCE_S = 120
NODES = 3
# 15 s of real time at this compression: time enough to look at, stop, kill and unplug it.
PLAN = {
    "schema": "burnin.plan/1",
    "name": "lab",
    "steps": [{"name": "compute", "test": "gemm_bf16", "starts": 3, "idle_s": 10, "warmup_s": 300, "window_s": 60, "windows": 3}],
}
COMPRESS = 100
# Real arithmetic, for what the simulation would only pretend: its boot id is the simulation's, not the node's.
CPU_PLAN = {
    "schema": "burnin.plan/1",
    "name": "lab-cpu",
    "steps": [{"name": "single", "test": "gemm_fp32", "starts": 3, "warmup_s": 1, "window_s": 1.5, "windows": 3}],
}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Three nodes; the tests share them, each with a run of its own."""
    for left in lab_nodes.STATE.glob("e2e-*"):
        if not Path(f"/proc/{left.name.removeprefix('e2e-')}").exists():
            lab_nodes.down(left.name)  # whoever made it was killed
    name = f"e2e-{os.getpid()}"
    try:
        yield lab_nodes.up(name, NODES)
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have test nodes: {why}")
        pytest.skip(str(why))
    finally:
        lab_nodes.down(name)


class Rack:
    """The lab as one test sees it: an inventory, a plan, a folder for the runs, and the command."""

    def __init__(self, base: Path, lab: Lab) -> None:
        self.base, self.lab = base, lab
        self.started: list[subprocess.Popen[str]] = []
        self.document: dict[str, Any] = lab_nodes.inventory(lab)
        self.hosts: dict[str, dict[str, Any]] = self.document["gpu_nodes"]["hosts"]
        self.write(burnin_sku="H100-SXM5-80GB", burnin_run_backend="sim", burnin_run_sim_compress=COMPRESS)
        self.plan(PLAN)

    def write(self, **variables: object) -> None:
        self.document["gpu_nodes"]["vars"] |= variables
        (self.base / "hosts.yml").write_text(yaml.safe_dump(self.document))

    def plan(self, plan: dict[str, Any]) -> None:
        (self.base / "plan.yaml").write_text(yaml.safe_dump(plan))

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        with (self.base / "talk.txt").open("w") as talk:
            process = subprocess.Popen(
                [str(BURNIN), *arguments], cwd=self.base, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=talk,
                text=True, start_new_session=True,
            )  # fmt: skip
        self.started.append(process)
        return process

    def site(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return self.start("site", "-i", "hosts.yml", "--plan", "plan.yaml", "--json", *arguments, **environment)

    def talk(self) -> str:
        """What the command that was started has said on stderr so far."""
        return (self.base / "talk.txt").read_text()

    def ended(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """The verdict that a --json command printed, with its exit code under `rc` and its talk under `err`."""
        out, _ = process.communicate(timeout=PATIENCE_S)
        assert out, self.talk()
        return {**json.loads(out), "rc": process.returncode, "err": self.talk()}

    def call(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(BURNIN), *arguments], cwd=self.base, env={**os.environ, **environment}, capture_output=True, text=True,
            timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    @property
    def folder(self) -> Path:
        return sorted((self.base / "runs").iterdir())[-1]

    def unit(self, node: Node) -> str:
        """What systemd on the node says of the run's unit."""
        return lab_nodes.execute(node, "systemctl", "is-active", f"burnin-{self.folder.name}").stdout.strip()

    def units(self) -> list[str]:
        return [self.unit(node) for node in self.lab.nodes if lab_nodes.keeper(node)]

    def evidence(self, node: Node, name: str) -> str:
        """A file of the run as it now is on the node's disk."""
        file = node.root / "var/lib/burnin" / self.folder.name / "evidence" / name
        return file.read_text() if file.exists() else ""

    def await_(self, what: Callable[[], object], why: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not what():
            for process in self.started:
                assert process.poll() is None, f"{why}: the command ended first: {self.talk()}"
            assert time.monotonic() < deadline, why
            time.sleep(0.1)

    def await_windows(self) -> None:
        """Until each node has measured something."""
        self.await_(lambda: (self.base / "runs").is_dir() and any((self.base / "runs").iterdir()), "a run is opened")
        self.await_(lambda: all(self.evidence(node, "measurements.jsonl") for node in self.lab.nodes), "each node measures")

    def events(self, node: Node) -> list[dict[str, Any]]:
        """The node's journal as it was collected."""
        lines = (self.folder / "nodes" / node.name / "journal.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture
def rack(tmp_path: Path, lab: Lab) -> Iterator[Rack]:
    made = Rack(tmp_path, lab)
    yield made
    for process in made.started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    for node in lab.nodes:
        if lab_nodes.keeper(node) is None:
            lab_nodes.on(lab, node)
        lab_nodes.unplug(node, again=True)
        lab_nodes.execute(node, "systemctl", "stop", "burnin-*.service")


def codes(document: dict[str, Any], node: str) -> set[str]:
    return {finding["code"] for one in document["nodes"] if one["node"] == node for finding in one["findings"]}


def verdicts(document: dict[str, Any], node: str) -> set[str]:
    return {gpu["verdict"] for gpu in document["gpus"] if gpu["node"] == node}


def test_a_rack_over_ssh_with_sudo_is_burned_in_and_keeps_no_secret(rack: Rack) -> None:
    password_file = str(rack.lab.folder / "ssh" / "sudo_password")
    password = Path(password_file).read_text().strip()
    rack.write(ansible_user=OPERATOR, ansible_become=True)
    canaries = [password, "S3C-canary-1"]

    running = rack.site("-e", f"vendor_token={canaries[1]}", ANSIBLE_BECOME_PASSWORD_FILE=password_file)
    rack.await_windows()
    units = rack.units()
    document = rack.ended(running)

    assert units == ["active"] * NODES
    assert document["rc"] == 0, document["err"]
    assert document["summary"]["PASS"] == document["summary"]["gpus"] == 8 * NODES
    for node in rack.lab.nodes:
        assert rack.events(node)[-1]["event"] == "run_ended"
        assert json.loads((rack.folder / "nodes" / node.name / "manifest.json").read_text())["files"]
        assert rack.unit(node) in ("inactive", "unknown")
    places = [rack.base / "runs", *(node.root / "var/lib/burnin" for node in rack.lab.nodes)]
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    assert len(files) > 10 * NODES
    for file in files:
        content = file.read_bytes()
        assert not [canary for canary in canaries if canary.encode() in content], file

    # It is complete: to resume it has nothing to do.
    before = (rack.folder / "verdict.json").read_bytes()
    again = rack.call("resume", "--json", ANSIBLE_BECOME_PASSWORD_FILE=password_file)

    assert again.returncode == 0, again.stderr
    assert (rack.folder / "verdict.json").read_bytes() == before
    assert all('"attempt": 2' not in rack.evidence(node, "journal.jsonl") for node in rack.lab.nodes)


def test_ctrl_c_ends_the_units_and_a_resume_completes_the_run(rack: Rack) -> None:
    running = rack.site()
    rack.await_windows()
    assert rack.units() == ["active"] * NODES

    os.killpg(running.pid, signal.SIGINT)
    stopped = rack.ended(running)

    assert stopped["rc"] == 11, stopped["err"]
    assert not {"active", "deactivating"} & set(rack.units())
    for node in rack.lab.nodes:
        assert "NODE_STOPPED" in codes(stopped, node.name)
        assert verdicts(stopped, node.name) == {"INCONCLUSIVE"}

    resumed = rack.call("resume", "--json")

    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["summary"]["PASS"] == 8 * NODES
    for node in rack.lab.nodes:
        events = rack.events(node)
        assert [event["attempt"] for event in events if event["event"] == "run_started"] == [1, 2]
        assert len({event["start"] for event in events if event["event"] == "start_ended"}) == 3


def test_a_killed_controller_loses_nothing_and_a_second_one_waits_its_turn(rack: Rack) -> None:
    running = rack.site()
    rack.await_windows()

    second = rack.call("resume")
    assert second.returncode == 2
    assert "another burnin" in second.stderr

    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    rack.started.clear()
    assert rack.units() == ["active"] * NODES
    resumed = rack.call("resume", "--json")

    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["summary"]["PASS"] == 8 * NODES
    assert all('"attempt": 2' not in rack.evidence(node, "journal.jsonl") for node in rack.lab.nodes), "nothing was run twice"


def test_stop_from_another_terminal(rack: Rack) -> None:
    running = rack.site()
    rack.await_windows()

    stopped = rack.call("stop", "--json")
    document = rack.ended(running)

    assert stopped.returncode == 0, stopped.stderr
    assert {state["state"] for state in json.loads(stopped.stdout)["nodes"].values()} == {"stopped"}
    assert not {"active", "deactivating"} & set(rack.units())
    assert document["rc"] == 11, document["err"]
    assert all("NODE_STOPPED" in codes(document, node.name) for node in rack.lab.nodes)


def test_a_node_that_lost_power_is_told_as_rebooted_when_it_comes_back(rack: Rack) -> None:
    rack.plan(CPU_PLAN)
    rack.write(burnin_run_backend="cpu", burnin_run_give_up_s=10, burnin_expected_gpus=1)
    victim, others = rack.lab.nodes[-1], rack.lab.nodes[:-1]
    running = rack.site()
    rack.await_windows()

    lab_nodes.off(victim)
    document = rack.ended(running)

    assert document["rc"] == 11, document["err"]
    assert "NODE_UNREACHABLE" in codes(document, victim.name)
    assert verdicts(document, victim.name) == {"INCONCLUSIVE"}
    for node in others:
        assert rack.events(node)[-1]["event"] == "run_ended"
        assert "NODE_UNREACHABLE" not in codes(document, node.name)

    lab_nodes.on(rack.lab, victim)
    resumed = rack.call("resume", "--json")
    document = json.loads(resumed.stdout)

    assert resumed.returncode == 10, resumed.stderr
    assert "NODE_REBOOTED" in codes(document, victim.name)
    assert [event["attempt"] for event in rack.events(victim) if event["event"] == "run_started"] == [1, 2]
    assert rack.events(victim)[-1]["event"] == "run_ended"
    assert all("NODE_REBOOTED" not in codes(document, node.name) for node in others)


def test_a_node_whose_cable_was_pulled_for_a_while_misses_nothing(rack: Rack) -> None:
    running = rack.site()
    rack.await_windows()

    lab_nodes.unplug(rack.lab.nodes[0])
    rack.await_(lambda: f"{rack.lab.nodes[0].name}: unreachable" in rack.talk(), "a look finds it gone")
    lab_nodes.unplug(rack.lab.nodes[0], again=True)
    document = rack.ended(running)

    assert document["rc"] == 0, document["err"]
    assert "going on without it" not in document["err"], "it was gone for less than burnin_run_give_up_s"
    assert document["summary"]["PASS"] == 8 * NODES


@pytest.mark.parametrize("silent", [False, True], ids=["nobody has its address", "packets to it are lost"])
def test_a_host_that_is_not_there_costs_one_timeout_and_stops_nobody(rack: Rack, silent: bool) -> None:
    address = f"198.18.{rack.lab.network}.250"
    rack.hosts["gone"] = {"ansible_host": address, "burnin_rack": "L1", "burnin_position": NODES + 1}
    rack.write(burnin_run_sim_compress=0)
    if silent:  # packets arrive and no answer leaves: an ssh without a time limit of its own waits for minutes
        for argv in (["address", "replace", f"{address}/32", "dev", "host0"], ["rule", "add", "from", address, "blackhole"]):
            assert lab_nodes.execute(rack.lab.nodes[-1], "ip", *argv).returncode == 0
    begun = time.monotonic()

    document = rack.ended(rack.site())
    took_s = time.monotonic() - begun

    assert document["rc"] == 11, document["err"]
    assert "NODE_UNREACHABLE" in codes(document, "gone")
    assert verdicts(document, "gone") == {"INCONCLUSIVE"}
    assert [verdicts(document, node.name) for node in rack.lab.nodes] == [{"PASS"}] * NODES
    told = [json.loads(line) for line in (rack.folder / "controller.jsonl").read_text().splitlines()]
    assert [entry["stage"] for entry in told if entry["node"] == "gone"] == ["preflight"], "it is not asked again"
    assert took_s < 90, "three tries of 15 s at most (ansible.cfg), and the run itself"
