"""A run under way: stopped by Ctrl-C, by `burnin stop`, left by a killed controller, resumed; two controllers; a dead host among the living.

Real Ansible and the real node program on simulated GPUs, local connection. Over SSH with systemd: test_lab_run.py.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.slow

BURNIN = Path(sys.executable).parent / "burnin"
PATIENCE_S = 60
PLAN = {
    "schema": "burnin.plan/1",
    "name": "short",
    "steps": [{"name": "compute", "test": "gemm_bf16", "starts": 3, "idle_s": 10, "warmup_s": 300, "window_s": 60, "windows": 3}],
}


class Rack:
    """Three simulated nodes of eight GPUs in a folder of their own, and the command on them."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.started: list[subprocess.Popen[str]] = []
        (base / "plan.yaml").write_text(yaml.safe_dump(PLAN), encoding="utf-8")
        self.write({f"n{number}": {} for number in (1, 2, 3)})

    def write(self, hosts: dict[str, dict], compress: float = 120.0) -> None:
        shared = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "ansible_remote_tmp": f"{self.base}/rack/{{{{ inventory_hostname }}}}/tmp",
            "burnin_sku": "H100-SXM5-80GB",
            "burnin_run_root": f"{self.base}/rack/{{{{ inventory_hostname }}}}/var",
            "burnin_run_backend": "sim",
            "burnin_run_supervisor": "process",
            "burnin_run_sim_compress": compress,
        }
        (self.base / "hosts.yml").write_text(yaml.safe_dump({"gpu_nodes": {"vars": shared, "hosts": hosts}}), encoding="utf-8")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [str(BURNIN), *arguments], cwd=self.base, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.started.append(process)
        return process

    def run(self) -> subprocess.Popen[str]:
        return self.start("run", "-i", "hosts.yml", "--plan", "plan.yaml", "--json")

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(BURNIN), *arguments], cwd=self.base, capture_output=True, text=True, timeout=200, check=False)

    @property
    def folder(self) -> Path:
        return sorted((self.base / "runs").iterdir())[-1]

    def loads(self) -> list[int]:
        found = subprocess.run(["pgrep", "-f", f"{self.base}/rack/.*burnin-node.pyz run"], capture_output=True, text=True, check=False)
        return [int(line) for line in found.stdout.split()]

    def await_(self, what: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not what():
            assert time.monotonic() < deadline, "it did not come to that in time"
            time.sleep(0.1)

    def await_windows(self) -> None:
        """Until every node has measured something."""
        self.await_(lambda: len([file for file in (self.base / "rack").rglob("measurements.jsonl") if file.stat().st_size > 0]) == 3)


@pytest.fixture
def rack(tmp_path: Path) -> Iterator[Rack]:
    made = Rack(tmp_path)
    yield made
    for process in made.started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    for pid in made.loads():
        os.kill(pid, signal.SIGKILL)


def verdicts(document: dict) -> dict[str, set[str]]:
    return {node["node"]: {gpu["verdict"] for gpu in document["gpus"] if gpu["node"] == node["node"]} for node in document["nodes"]}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_stopped_run_stops_the_load_keeps_what_was_measured_and_can_be_resumed(rack: Rack, number: signal.Signals) -> None:
    controller = rack.run()
    rack.await_windows()
    assert len(rack.loads()) == 3

    os.killpg(controller.pid, number)
    out, err = controller.communicate(timeout=PATIENCE_S)

    assert controller.returncode == 11, err
    assert rack.loads() == []
    stopped = json.loads(out)
    assert {node["verdict"] for node in stopped["nodes"]} == {"INCONCLUSIVE"}
    assert "NODE_STOPPED" in {finding["code"] for node in stopped["nodes"] for finding in node["findings"]}
    assert stopped["summary"]["PASS"] == 0

    resumed = rack.call("resume", "--json")

    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["summary"]["PASS"] == 24
    events = [json.loads(line) for line in (rack.folder / "nodes/n1/journal.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [event["attempt"] for event in events if event["event"] == "run_started"] == [1, 2]
    assert len({(event["step"], event["start"]) for event in events if event["event"] == "start_ended"}) == 3


def test_a_killed_controller_loses_nothing(rack: Rack) -> None:
    controller = rack.run()
    rack.await_windows()

    os.killpg(controller.pid, signal.SIGKILL)
    controller.communicate()
    assert len(rack.loads()) == 3, "the load lives on the node"
    resumed = rack.call("resume", "--json")

    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["summary"]["PASS"] == 24
    assert '"attempt": 2' not in (rack.folder / "nodes/n1/journal.jsonl").read_text(encoding="utf-8"), "nothing was run twice"


def test_a_site_killed_before_its_preflight_was_done_looks_at_the_nodes_when_it_is_resumed(rack: Rack) -> None:
    rack.write({f"n{number}": {} for number in (1, 2, 3)}, compress=0)
    controller = rack.start("site", "-i", "hosts.yml", "--plan", "plan.yaml")
    rack.await_(lambda: (rack.base / "runs").is_dir() and any((rack.base / "runs").glob("*/run.json")))
    os.killpg(controller.pid, signal.SIGKILL)
    controller.communicate()
    assert rack.loads() == []

    resumed = rack.call("resume", "--json")

    assert resumed.returncode == 0, resumed.stderr
    ledger = [json.loads(line) for line in (rack.folder / "controller.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {line["node"] for line in ledger if (line["stage"], line["state"]) == ("preflight", "ok")} == {"n1", "n2", "n3"}


def test_a_host_taken_out_of_the_inventory_is_told_of_and_keeps_nobody_else_from_going_on(rack: Rack) -> None:
    controller = rack.run()
    rack.await_windows()
    os.killpg(controller.pid, signal.SIGKILL)
    controller.communicate()
    rack.write({"n1": {}, "n3": {}})

    resumed = rack.call("resume", "--json")
    stopped = rack.call("stop", "--json")

    assert resumed.returncode == 11, resumed.stderr
    assert "n2: no longer in the inventory, so it was not tried; a load may still run there" in resumed.stderr
    document = json.loads(resumed.stdout)
    found = {node["node"]: {finding["code"]: finding["why"] for finding in node["findings"]} for node in document["nodes"]}
    assert "no longer in the inventory" in found["n2"]["NODE_UNREACHABLE"]
    for name in ("n1", "n3"):
        assert "NODE_UNREACHABLE" not in found[name]
        assert (rack.folder / "nodes" / name / "journal.jsonl").read_text(encoding="utf-8").splitlines()[-1].count('"run_ended"') == 1
    assert stopped.returncode == 11, stopped.stderr
    assert json.loads(stopped.stdout)["nodes"]["n2"]["state"] == "missing"


def test_a_node_that_lost_its_evidence_is_not_begun_anew(rack: Rack) -> None:
    controller = rack.run()
    rack.await_windows()
    os.killpg(controller.pid, signal.SIGINT)
    controller.communicate(timeout=PATIENCE_S)
    shutil.rmtree(rack.base / "rack" / "n2" / "var")

    resumed = rack.call("resume", "--json")

    assert resumed.returncode == 11, resumed.stderr
    assert "n2: the run had begun on this node and its evidence is gone from it" in resumed.stderr
    document = json.loads(resumed.stdout)
    found = {node["node"]: {finding["code"]: finding["why"] for finding in node["findings"]} for node in document["nodes"]}
    assert "evidence is gone" in found["n2"]["RUN_FAILED"]
    assert verdicts(document)["n2"] == {"INCONCLUSIVE"}
    assert not list((rack.base / "rack" / "n2").rglob("journal.jsonl")), "nothing ran there"
    assert (rack.folder / "nodes/n2/journal.jsonl").is_file(), "what was collected stays"


def test_stop_from_another_terminal(rack: Rack) -> None:
    controller = rack.run()
    rack.await_windows()

    stopped = rack.call("stop", "--json")
    _, err = controller.communicate(timeout=PATIENCE_S)

    assert stopped.returncode == 0, stopped.stderr
    assert {state["state"] for state in json.loads(stopped.stdout)["nodes"].values()} == {"stopped"}
    assert controller.returncode == 11, err
    assert rack.loads() == []


def test_broken_ansible_in_mid_run_names_the_nodes_whose_load_goes_on(rack: Rack) -> None:
    rack.write({f"n{number}": {} for number in (1, 2, 3)}, compress=20)
    controller = rack.run()
    rack.await_windows()
    hosts = (rack.base / "hosts.yml").read_text(encoding="utf-8")

    (rack.base / "hosts.yml").write_text("gpu_nodes: [", encoding="utf-8")
    _, err = controller.communicate(timeout=PATIENCE_S)
    running = len(rack.loads())

    assert controller.returncode == 12, err
    assert f"A load may still run on 3 nodes (n1, n2, n3): `burnin resume {rack.folder}`" in err
    assert running == 3, "it is left to the resume"
    (rack.base / "hosts.yml").write_text(hosts, encoding="utf-8")
    stopped = rack.call("stop", str(rack.folder))
    assert stopped.returncode == 0, stopped.stderr
    assert rack.loads() == []


def test_a_full_disk_under_the_run_folder_names_the_nodes_whose_load_goes_on(rack: Rack) -> None:
    rack.write({f"n{number}": {} for number in (1, 2, 3)}, compress=20)
    (rack.base / "runs").mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(rack.base / "runs")], check=False, capture_output=True)
    if done.returncode != 0:
        pytest.skip("a full disk is made with a tmpfs, which only root can mount")
    try:
        controller = rack.run()
        rack.await_(rack.loads)
        with suppress(OSError), (rack.folder / "filler").open("wb", buffering=0) as filler:
            while filler.write(b"x" * 4096):
                pass
        # The last page of the ledger has room of its own: the next line must not find it.
        ledger = rack.folder / "controller.jsonl"
        with ledger.open("ab") as file:
            file.write(b"\n" * (-ledger.stat().st_size % 4096))
        _, err = controller.communicate(timeout=PATIENCE_S)

        assert controller.returncode == 12, err
        assert "No space left on device; what was written so far stays, make room. A load may still run on 3 nodes (n1, n2, n3)" in err
        assert f"`burnin stop {rack.folder}` ends it" in err
        stopped = rack.call("stop", str(rack.folder))
        assert stopped.returncode == 0, stopped.stderr
        assert rack.loads() == []
    finally:
        subprocess.run(["umount", "-l", str(rack.base / "runs")], check=True)


def test_a_second_controller_is_refused(rack: Rack) -> None:
    rack.run()
    rack.await_windows()

    second = rack.call("resume")

    assert second.returncode == 2
    assert "another burnin" in second.stderr
    assert len(rack.loads()) == 3


def test_status_of_a_running_rack(rack: Rack) -> None:
    rack.run()
    rack.await_windows()

    status = rack.call("status", "--json")

    assert status.returncode == 0, status.stderr
    assert {node["state"] for node in json.loads(status.stdout)["nodes"].values()} == {"running"}


def test_a_dead_host_and_one_with_a_bad_interpreter_never_stop_the_others_and_never_pass(rack: Rack) -> None:
    rack.write(
        {
            "n1": {},
            "n2": {},
            "n3": {},
            "dead": {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1},
            "odd": {"ansible_python_interpreter": "/bin/false"},
        },
        compress=0,
    )

    done = rack.call("run", "-i", "hosts.yml", "--plan", "plan.yaml", "--json")
    document = json.loads(done.stdout)

    assert done.returncode == 10, "a node that answers and has no Python is broken, not unknown: " + done.stderr
    found = verdicts(document)
    assert [found[name] for name in ("n1", "n2", "n3")] == [{"PASS"}] * 3
    assert (found["dead"], found["odd"]) == ({"INCONCLUSIVE"}, {"INCONCLUSIVE"})
    assert document["summary"]["gpus"] == 40
    codes = {node["node"]: node["findings"][0]["code"] for node in document["nodes"]}
    assert (codes["dead"], codes["odd"]) == ("NODE_UNREACHABLE", "PREFLIGHT_FAILED")


def test_odd_host_names_each_have_a_folder_of_their_own(rack: Rack) -> None:
    names = ["2001:db8::17", "GPU-01", "gpu-01", "gpu node-01", "Ünï-01", "<b>n", "=1+1"]
    shared = yaml.safe_load((rack.base / "hosts.yml").read_text(encoding="utf-8"))["gpu_nodes"]["vars"]
    shared["burnin_run_sim_gpus"], shared["burnin_expected_gpus"] = 2, 2
    hosts = {
        name: {"burnin_run_root": f"{rack.base}/rack/{number}/var", "ansible_remote_tmp": f"{rack.base}/rack/{number}/tmp"}
        for number, name in enumerate(names)
    }
    shared["burnin_run_sim_compress"] = 0
    (rack.base / "hosts.yml").write_text(
        yaml.safe_dump({"gpu_nodes": {"vars": shared, "hosts": hosts}}, allow_unicode=True), encoding="utf-8"
    )

    done = rack.call("run", "-i", "hosts.yml", "--plan", "plan.yaml", "--json")
    assert done.returncode in (0, 11), done.stderr
    document = json.loads(done.stdout)

    assert sorted(node["node"] for node in document["nodes"]) == sorted(names)
    assert len(list((rack.folder / "nodes").iterdir())) == len(names)
    page = (rack.folder / "report.html").read_text(encoding="utf-8")
    assert "<b>n" not in page
    assert "&lt;b&gt;n" in page
    assert "'=1+1" in (rack.folder / "gpus.csv").read_text(encoding="utf-8")


def test_no_secret_is_kept(rack: Rack) -> None:
    rack.write({"n1": {"ansible_become_password": "PW-canary-2"}, "n2": {}, "n3": {}}, compress=0)

    done = rack.call("run", "-i", "hosts.yml", "--plan", "plan.yaml", "-e", "vendor_token=S3C-canary-1")

    assert done.returncode == 0, done.stderr
    for file in (path for place in ("runs", "rack") for path in (rack.base / place).rglob("*") if path.is_file()):
        content = file.read_bytes()
        assert b"S3C-canary-1" not in content, file
        assert b"PW-canary-2" not in content, file
    assert "canary" not in done.stdout + done.stderr


def test_no_secret_of_the_inventory_that_a_node_echoes_back_is_kept(rack: Rack) -> None:
    """A node says what it likes: here its Python tells all that it was given, and the passwords that it was signed in with."""
    canaries = ["PW-canary-1", "PW-canary-2", "BMC-canary-3", "TOK-canary-4", "VAULT-canary-5", "ENV-canary-6"]
    talker = rack.base / "talker"
    talker.write_text(f"#!/bin/sh\necho 'sudo: {' '.join(canaries)}' >&2\nexit 1\n", encoding="utf-8")
    talker.chmod(0o755)
    (rack.base / "pw").write_text("opens-it", encoding="utf-8")
    vault = [str(BURNIN.with_name("ansible-vault")), "encrypt", "--vault-password-file", str(rack.base / "pw")]
    rack.write(
        {
            "n1": {"ansible_python_interpreter": str(talker), "ansible_become_password": canaries[0], "ansible_ssh_pass": canaries[1]},
            "n2": {"bmc": {"password": canaries[2]}, "vendor_token": canaries[3]},
            "n3": {"ansible_become_pass": "{{ lookup('env', 'SITE_PW') }}"},
        },
        compress=0,
    )
    (rack.base / "host_vars").mkdir()
    (rack.base / "host_vars" / "n2.yml").write_text(f"bmc_password: {canaries[4]}\n", encoding="utf-8")
    subprocess.run([*vault, str(rack.base / "host_vars" / "n2.yml")], capture_output=True, check=True)

    done = subprocess.run(
        [str(BURNIN), "site", "-i", "hosts.yml", "--plan", "plan.yaml", "--", "--vault-password-file", str(rack.base / "pw")],
        cwd=rack.base, env={**os.environ, "SITE_PW": canaries[5]}, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip

    assert done.returncode == 10, done.stderr
    assert "sudo: *** *** *** *** *** ***" in (rack.folder / "controller.jsonl").read_text(encoding="utf-8")
    kept = [path for path in rack.folder.rglob("*") if path.is_file()]
    assert len(kept) > 10
    for file in kept:
        assert b"canary" not in file.read_bytes(), file
    assert "canary" not in done.stdout + done.stderr


def test_check_changes_nothing(rack: Rack) -> None:
    done = rack.call("run", "-i", "hosts.yml", "--plan", "plan.yaml", "--check")

    assert done.returncode == 0, done.stderr
    assert rack.loads() == []
    assert not list((rack.base / "rack").rglob("journal.jsonl"))
