"""The pace of provision.yml comes from the inventory: the playbook itself, with roles of two lines in place of the real ones.

Each stub role writes `node role` to a log; a node that is named in FAILS fails in the role nvidia_driver.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
ORDER = [
    "preflight bare",
    "kernel",
    "ofed",
    "nvidia_driver",
    "cuda_toolkit",
    "nccl",
    "dcgm",
    "nvme_raid0",
    "node_tuning",
    "nic_firmware",
    "ib_interface",
    "reboot",
    "preflight ready",
]
STEP = """
- name: Step
  ansible.builtin.shell: echo "{{{{ inventory_hostname }}}} {role}{level}" >> "{{{{ roll_log }}}}"
  changed_when: false
"""
FAIL = """
- name: Fail here
  ansible.builtin.fail: {msg: "no room"}
  when: inventory_hostname in roll_fails
"""
VERB = """
import sys
from burnin.adapters import project
from pathlib import Path
root = Path({root!r})
import burnin.stages.nodes
burnin.stages.nodes.project = lambda: root
from burnin.cli import run
sys.exit(run(sys.argv[1:]))
"""


class Site:
    """A project with stub roles, an inventory of local nodes, and their log."""

    def __init__(self, base: Path) -> None:
        self.base, self.log = base, base / "log.txt"
        self.project = base / "project"
        for name in ("playbooks", "plugins"):
            shutil.copytree(ROOT / name, self.project / name)
        shutil.copy(ROOT / "ansible.cfg", self.project)
        shutil.copytree(ROOT / "roles/burnin_run", self.project / "roles/burnin_run")
        for role in {name.partition(" ")[0] for name in ORDER}:
            tasks = STEP.format(role=role, level=" {{ preflight_level }}" if role == "preflight" else "")
            self._write(f"roles/{role}/tasks/main.yml", tasks + (FAIL if role == "nvidia_driver" else ""))
            shutil.copytree(ROOT / f"roles/{role}/meta", self.project / f"roles/{role}/meta", ignore=shutil.ignore_patterns("main.yml"))
            shutil.copytree(ROOT / f"roles/{role}/defaults", self.project / f"roles/{role}/defaults")
        self._write("roles/burnin_stack/meta/argument_specs.yml", (ROOT / "roles/burnin_stack/meta/argument_specs.yml").read_text())

    def _write(self, path: str, text: str) -> None:
        (self.project / path).parent.mkdir(parents=True, exist_ok=True)
        (self.project / path).write_text(text)

    def inventory(self, count: int, fails: tuple[str, ...] = (), **variables: Any) -> Path:
        stack = yaml.safe_load((ROOT / "inventory/example/group_vars/all/stack.yml").read_text())["burnin_stack"]
        common = {
            "ansible_connection": "local", "ansible_python_interpreter": sys.executable, "roll_log": str(self.log), "roll_fails": list(fails),
            "burnin_stack": stack, "burnin_sku": "H100-SXM5-80GB", "burnin_run_folders": str(self.base / "runs"), **variables,
        }  # fmt: skip
        hosts = {f"n{number}": {} for number in range(1, count + 1)}
        place = self.base / "hosts.yml"
        place.write_text(yaml.safe_dump({"gpu_nodes": {"hosts": hosts, "vars": common}}))
        return place

    def playbook(self, inventory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [str(BIN / "ansible-playbook"), "-i", str(inventory), str(self.project / "playbooks/provision.yml"), *arguments]
        env = {**os.environ, "ANSIBLE_CONFIG": str(self.project / "ansible.cfg")}
        return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=240, check=False)

    def verb(self, inventory: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
        argv = [sys.executable, "-c", VERB.format(root=str(self.project)), "provision", "-i", str(inventory), "--json", *arguments]
        done = subprocess.run(argv, cwd=self.base, capture_output=True, text=True, timeout=240, check=False)
        return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr

    def steps(self) -> list[list[str]]:
        return [line.split(" ", 1) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def nodes_in_turn(self) -> list[str]:
        """The nodes in the order in which the log has them, runs of one node as one."""
        names = [node for node, _ in self.steps()]
        return [name for number, name in enumerate(names) if number == 0 or names[number - 1] != name]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def states(document: dict[str, Any]) -> dict[str, str]:
    return {node["node"]: node["state"] for node in document["nodes"]}


def test_serial_1_goes_through_the_whole_order_with_one_node_before_the_next(site: Site) -> None:
    done = site.playbook(site.inventory(3, burnin_serial=1))

    assert done.returncode == 0, done.stdout
    assert site.nodes_in_turn() == ["n1", "n2", "n3"]
    assert [step for node, step in site.steps() if node == "n2"] == ORDER


def test_without_serial_all_nodes_go_together(site: Site) -> None:
    done = site.playbook(site.inventory(3))

    assert done.returncode == 0, done.stdout
    assert [sorted(node for node, step in site.steps() if step == one) for one in ORDER] == [["n1", "n2", "n3"]] * len(ORDER)
    assert {node for node, _ in site.steps()[:3]} == {"n1", "n2", "n3"}


def test_one_failing_node_stops_no_other_and_what_was_done_is_kept(site: Site) -> None:
    # Half of the batch is not more than half.
    code, document, talk = site.verb(site.inventory(4, fails=("n2",), burnin_serial=2, burnin_max_fail_percentage=50))

    folder = site.base / "runs" / document["run_id"]
    ledger = [json.loads(line) for line in (folder / "controller.jsonl").read_text().splitlines()]
    assert code == 10, talk
    assert json.loads((folder / "provision.json").read_text()) == document
    assert [(line["stage"], line["node"], line["state"]) for line in ledger] == [
        ("provision", name, "failed" if name == "n2" else "ok") for name in ("n1", "n2", "n3", "n4")
    ]
    assert ledger[1]["why"].startswith("Fail here: no room")
    assert states(document) == {"n1": "ok", "n2": "failed", "n3": "ok", "n4": "ok"}
    assert [step for node, step in site.steps() if node == "n2"] == ORDER[:4]
    assert [step for node, step in site.steps() if node == "n4"] == ORDER
    assert document["nodes"][1]["failure"]["message"] == "no room"


def test_max_fail_percentage_ends_the_roll(site: Site) -> None:
    code, document, talk = site.verb(site.inventory(6, fails=("n2",), burnin_serial=2, burnin_max_fail_percentage=40))

    assert code == 10, talk
    assert states(document) | {"n1": "given_up"} == {
        "n1": "given_up", "n2": "failed", "n3": "not_reached", "n4": "not_reached", "n5": "not_reached", "n6": "not_reached",
    }  # fmt: skip
    assert {node for node, _ in site.steps()} == {"n1", "n2"}
    assert "more than 40 % of a batch failed" in talk


def test_a_batch_that_failed_as_a_whole_is_passed_over_where_no_limit_is_set(site: Site) -> None:
    code, document, talk = site.verb(site.inventory(3, fails=("n1",), burnin_serial=1))

    assert code == 10
    assert states(document) == {"n1": "failed", "n2": "ok", "n3": "ok"}
    assert "A whole batch failed; going on with 2 nodes" in talk


def test_a_limit_keeps_the_pace_of_the_nodes_it_leaves(site: Site) -> None:
    inventory = site.inventory(4, burnin_serial=1)
    told = yaml.safe_load(inventory.read_text())
    told["gpu_nodes"]["hosts"]["n1"] = {"burnin_serial": 4}  # the group's first, whom the playbook asks; it is left out
    inventory.write_text(yaml.safe_dump(told))

    code, document, talk = site.verb(inventory, "--limit", "n3,n4")

    assert code == 0, talk
    assert states(document) == {"n3": "ok", "n4": "ok"}
    assert site.nodes_in_turn() == ["n3", "n4"]


def test_a_stack_that_does_not_fit_touches_nothing(site: Site) -> None:
    inventory = site.inventory(2)
    told = yaml.safe_load(inventory.read_text())
    told["gpu_nodes"]["vars"]["burnin_stack"]["nccl"] = {"version": "2.28.9", "cuda": "13.0"}
    told["gpu_nodes"]["vars"]["burnin_stack"]["dcgm"] = {"version": "3.3.9"}
    inventory.write_text(yaml.safe_dump(told))

    code, document, talk = site.verb(inventory)

    assert (code, document, site.steps()) == (2, {}, [])
    assert "nothing was touched" in talk
    assert "NCCL_OTHER_CUDA" in talk
    assert "DCGM_TOO_OLD" in talk
    assert "n1, n2:" in talk
    assert not (site.base / "runs").exists()
