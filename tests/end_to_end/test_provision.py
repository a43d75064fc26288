"""burnin provision and burnin site on lab nodes: the vendors' stub repositories, real apt, a real reboot; everything but the GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench import measuring, provision_speed
from lab import nodes as lab_nodes
from lab import vendors
from lab.nodes import Lab, Node
from lab.rootfs import Unavailable

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
BURNIN = Path(sys.executable).parent / "burnin"
PLAN = {
    "schema": "burnin.plan/1",
    "name": "lab",
    "steps": [{"name": "compute", "test": "gemm_bf16", "starts": 2, "warmup_s": 60, "window_s": 60, "windows": 3}],
}
PATIENCE_S = 400


class Site:
    """Two nodes as they are unpacked, and an inventory that pins a stack for them."""

    def __init__(self, base: Path, lab: Lab) -> None:
        self.base, self.lab = base, lab
        self.document: dict[str, Any] = vendors.up(lab)
        self.variables: dict[str, Any] = self.document["gpu_nodes"]["vars"]
        self.variables |= provision_speed.variables(self.variables.pop("lab_stack"))
        self.write()

    def write(self, **variables: Any) -> None:
        self.variables |= variables
        (self.base / "hosts.yml").write_text(yaml.safe_dump(self.document))

    def call(self, verb: str, *arguments: str) -> tuple[int, dict[str, Any], str]:
        """Exit code, the JSON that it printed, and its talk."""
        argv = [str(BURNIN), verb, "-i", "hosts.yml", "--json", *arguments]
        done = subprocess.run(argv, cwd=self.base, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        return done.returncode, json.loads(done.stdout) if done.stdout.startswith("{") else {}, done.stderr

    def boots(self) -> list[str]:
        return [lab_nodes.execute(node, "cat", "/proc/sys/kernel/random/boot_id").stdout.strip() for node in self.lab.nodes]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The tests go on from one another: unpacked, provisioned, changed."""
    for left in lab_nodes.STATE.glob("e2e-provision-*"):
        if not Path(f"/proc/{left.name.removeprefix('e2e-provision-')}").exists():
            lab_nodes.down(left.name)  # whoever made it was killed
    name = f"e2e-provision-{os.getpid()}"
    lab = None
    try:
        lab = lab_nodes.up(name, 2)
        yield Site(tmp_path_factory.mktemp("site"), lab)
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have test nodes: {why}")
        pytest.skip(str(why))
    finally:
        if lab is not None:
            vendors.down(lab)
        lab_nodes.down(name)


def states(document: dict[str, Any]) -> dict[str, str]:
    return {node["node"]: node["state"] for node in document["nodes"]}


def packages(node: Node) -> dict[str, str]:
    told = lab_nodes.execute(node, "dpkg-query", "-W", "-f", "${Package} ${Version}\\n").stdout
    return dict(line.split(" ") for line in told.splitlines())


def test_check_says_what_would_be_done_and_keeps_no_run(site: Site) -> None:
    before, boots = [packages(node) for node in site.lab.nodes], site.boots()

    code, document, talk = site.call("provision", "--check")

    assert code == 0, talk
    assert document["check"] is True
    assert set(states(document).values()) == {"would_change"}
    groups = {change["group"]: change for change in document["nodes"][0]["changes"]}
    assert {"kernel", "ofed", "driver", "cuda", "nccl", "dcgm"} <= set(groups)
    assert groups["driver"]["installed"]["nvidia-open"] == "580.126.09-1"
    assert document["nodes"][0]["reboot"]["state"] == "would_reboot"
    assert ([packages(node) for node in site.lab.nodes], site.boots()) == (before, boots)
    assert list((site.base / "runs").iterdir()) == []


def test_both_nodes_get_the_stack_and_each_is_rebooted_once(site: Site) -> None:
    before = site.boots()

    code, document, talk = site.call("provision")

    assert code == 0, talk
    assert set(states(document).values()) == {"changed"}
    assert document["summary"]["rebooted"] == 2
    for node, told, old, new in zip(site.lab.nodes, document["nodes"], before, site.boots(), strict=True):
        assert told["reboot"]["boot_id"] == [old, new], "one boot between the two, and it is the one that runs"
        assert any("driver" in reason for reason in told["reboot"]["reasons"])
        assert packages(node)["nvidia-open"] == "580.126.09-1"
        assert lab_nodes.execute(node, "ls", "/run/burnin/reboot-required.d").stdout == ""


def test_the_second_time_there_is_nothing_to_do_and_it_costs_little(site: Site, tmp_path: Path) -> None:
    boots = site.boots()

    inventory = measuring.prepare(site.lab, json.loads(json.dumps(site.document)), tmp_path)
    cost = measuring.play(site.lab, inventory, ROOT / "playbooks/provision.yml")

    assert set(cost.changed.values()) == {0}
    assert site.boots() == boots
    assert max(cost.modules.values()) <= provision_speed.MOST_MODULES
    assert max(cost.results.values()) <= provision_speed.MOST_RESULTS
    assert min(cost.modules.values()) >= 8, "each role looked at the node: a count of nothing would hold any limit"


def test_site_provisions_what_is_not_yet_done_then_burns_in_and_a_resume_does_not_go_over_it_again(site: Site) -> None:
    (site.base / "plan.yaml").write_text(yaml.safe_dump(PLAN))

    code, document, talk = site.call("site", "--plan", "plan.yaml")

    folder = max((site.base / "runs").iterdir())
    ledger = [json.loads(line) for line in (folder / "controller.jsonl").read_text().splitlines()]
    assert code == 11, talk  # two nodes are a small cohort, and nothing else is amiss
    assert {gpu["findings"][0]["code"] for gpu in document["gpus"]} == {"COHORT_TOO_SMALL"}
    assert {finding["code"] for node in document["nodes"] for finding in node["findings"]} == {"NODE_OK"}
    stages = [line["stage"] for line in ledger if line["node"] == site.lab.nodes[0].name]
    assert stages[:3] == ["provision", "preflight", "start"]
    assert stages.count("preflight") == 1, "it was looked at, at level ready, at the end of provisioning"
    assert states(json.loads((folder / "provision.json").read_text())) == {node.name: "ok" for node in site.lab.nodes}

    again = subprocess.run([str(BURNIN), "resume"], cwd=site.base, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    assert again.returncode == 11, again.stderr
    assert "Provision" not in again.stderr


def test_a_node_that_fails_is_a_fail_with_its_remedy_and_the_other_goes_on(site: Site) -> None:
    victim, other = site.lab.nodes
    lab_nodes.execute(victim, "apt-mark", "unhold", "libnccl2", "libnccl-dev")
    lab_nodes.execute(victim, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "remove", "-qq", "-y", "libnccl-dev")
    held = subprocess.Popen(lock_argv(victim), stdout=subprocess.PIPE)
    try:
        assert held.stdout is not None
        holder = held.stdout.readline().decode().strip()
        assert holder.isdigit()
        code, document, talk = site.call("provision", "-e", "burnin_stack_lock_timeout_s=2")
    finally:
        lab_nodes.execute(victim, "kill", holder)  # nsenter's child: it would outlive nsenter
        held.wait(timeout=20)

    assert code == 10, talk
    assert states(document) == {victim.name: "failed", other.name: "ok"}
    failure = document["nodes"][0]["failure"]
    assert failure["code"] == "LOCKED"
    assert failure["task"].startswith("Install | ")
    assert failure["changed"] == {}


def lock_argv(node: Node) -> list[str]:
    """A program in the node that holds dpkg's lock, as apt does, and says when it has it."""
    script = "import fcntl,os,time; f=open('/var/lib/dpkg/lock-frontend','w'); fcntl.lockf(f,fcntl.LOCK_EX); print(os.getpid(),flush=True); time.sleep(600)"
    return ["nsenter", "-t", str(lab_nodes.leader(node)), "-a", "--", "python3", "-c", script]


def test_a_reboot_that_is_not_allowed_is_told_as_required_and_exits_11(site: Site) -> None:
    victim, other = site.lab.nodes
    boots = site.boots()
    flag = "mkdir -p /run/burnin/reboot-required.d && echo 'firmware: LINK_TYPE' > /run/burnin/reboot-required.d/firmware"
    lab_nodes.execute(victim, "sh", "-c", flag)

    code, document, talk = site.call("provision", "-e", "reboot_allowed=false")

    assert code == 11, talk
    told = document["nodes"][0]
    assert (told["state"], told["verdict"]) == ("reboot_required", "RETEST")
    assert told["reboot"]["reasons"] == ["firmware: firmware: LINK_TYPE"]
    assert states(document)[other.name] == "ok"
    assert site.boots() == boots
