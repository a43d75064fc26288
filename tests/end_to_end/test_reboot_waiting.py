"""A reboot is proved by another boot id, not by an answer (field report B04). The fake host is this machine behind a connection that can be gone.

B04's times, a hundredth of them: AAAA answered for 90 s after the command, nothing for 600 s, then BBBB; patience 1200 s.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
ANSIBLE = Path(sys.executable).parent / "ansible-playbook"
SCALE = 100
OLD, NEW = "AAAA", "BBBB"
K1, K2 = "6.1.0-40-amd64", "6.1.0-41-amd64"
SLOW_SHUTDOWN = f"sleep {90 / SCALE}; touch gone; sleep {600 / SCALE}; "
COMES_BACK = f"echo {NEW} > proc/sys/kernel/random/boot_id; rm -f gone run/burnin/reboot-required.d/*; "
PLAY = """
- hosts: gpu_nodes
  gather_facts: false
  tasks:
    - name: Reboot it
      burnin_reboot: "{{ arguments }}"
      timeout: 0
      register: first
    - name: Show it
      ansible.builtin.copy:
        content: "{{ first | to_json }}"
        dest: "{{ scripted_root }}/told.json"
        mode: "0600"
      delegate_to: localhost
      vars: {ansible_connection: local}
"""


class Host:
    """One fake host below a folder. `script`: what its reboot command does, run in its root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.put("proc/sys/kernel/random/boot_id", OLD)
        self.put("proc/sys/kernel/osrelease", K1)
        self.arguments: dict[str, Any] = {"root": str(root), "timeout_s": 1200 // SCALE, "least_timeout_s": 900 // SCALE, "look_s": 0.2}
        self.connection = "scripted"

    def put(self, path: str, text: str) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text + "\n")

    def flag(self, text: str = "driver 570 to 580") -> None:
        self.put("run/burnin/reboot-required.d/driver", text)

    def play(self, script: str, *ansible_args: str, **arguments: Any) -> dict[str, Any]:
        """What the task said, with ansible's exit code under `rc`, and how long it took under `took_s`."""
        self.put("reboot.sh", f"cd {self.root}; echo called >> calls; {script}")
        given = {**self.arguments, "command": ["/bin/sh", str(self.root / "reboot.sh")], **arguments}
        variables = {
            "ansible_connection": self.connection, "ansible_python_interpreter": sys.executable, "scripted_root": str(self.root),
            "ansible_remote_tmp": str(self.root / "tmp"), "arguments": given,
        }  # fmt: skip
        self.put("hosts.json", json.dumps({"gpu_nodes": {"hosts": {"n1": variables}}}))
        self.put("play.yml", PLAY)
        env = {
            **os.environ, "PYTHONPATH": str(ROOT / "tests"), "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_CONNECTION_PLUGINS": str(ROOT / "tests/lab/connections"),
            "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests/lab/callbacks"), "ANSIBLE_CALLBACKS_ENABLED": "events",
            "BURNIN_LAB_EVENTS": str(self.root / "events.jsonl"),
        }  # fmt: skip
        begun = time.monotonic()
        argv = [str(ANSIBLE), "-i", str(self.root / "hosts.json"), str(self.root / "play.yml"), *ansible_args]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
        events = json.loads((self.root / "events.jsonl").read_text().splitlines()[-1])
        told = json.loads((self.root / "told.json").read_text()) if (self.root / "told.json").exists() else {}
        failed = [one["message"] for one in events["failed"]]
        return {**told, "rc": done.returncode, "took_s": time.monotonic() - begun, "failures": failed, "out": done.stdout + done.stderr}

    @property
    def calls(self) -> int:
        file = self.root / "calls"
        return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_slow_shutdown_is_waited_for_until_the_boot_id_is_another(host: Host) -> None:
    host.flag()

    told = host.play(SLOW_SHUTDOWN + COMES_BACK)

    assert told["rc"] == 0, told["out"]
    assert (told["changed"], told["rebooted"], told["burnin"]["state"]) == (True, True, "rebooted")
    assert (told["burnin"]["found_before"]["boot_id"], told["burnin"]["found"]["boot_id"]) == (OLD, NEW)
    assert told["burnin"]["seconds"] > (90 + 600) / SCALE
    assert host.calls == 1


def test_a_host_that_answers_for_ever_with_the_same_boot_did_not_reboot(host: Host) -> None:
    host.flag()

    told = host.play("true")

    assert told["rc"] == 2
    assert len(told["failures"]) == 1
    assert told["failures"][0].startswith("did not reboot: after 12 s it still answers with boot id AAAA")
    assert told["took_s"] > 12
    assert host.calls == 1


def test_a_host_that_never_comes_back_is_told_apart_from_one_that_never_went(host: Host) -> None:
    host.flag()

    told = host.play("touch gone")

    assert told["rc"] == 2
    assert "has not come back within 12 s" in told["failures"][0]
    assert "No route to host" in told["failures"][0]
    assert host.calls == 1


def test_it_came_back_and_the_reason_stayed_so_it_is_not_rebooted_again(host: Host) -> None:
    host.flag("firmware: LINK_TYPE is IB on the next boot")

    told = host.play(f"touch gone; echo {NEW} > proc/sys/kernel/random/boot_id; sleep 0.5; rm gone")

    assert told["rc"] == 2
    assert "still required after one reboot: driver: firmware: LINK_TYPE" in told["failures"][0]
    assert "cut the node's power" in told["failures"][0]
    assert host.calls == 1


def test_another_kernel_than_the_pinned_one_came_up(host: Host) -> None:
    host.put(f"boot/vmlinuz-{K2}", "")

    told = host.play(COMES_BACK, kernel=K2)

    assert told["rc"] == 2
    assert f"still required after one reboot: kernel {K1} is running, expected kernel {K2}" in told["failures"][0]


def test_the_pinned_kernel_came_up(host: Host) -> None:
    host.put(f"boot/vmlinuz-{K2}", "")

    told = host.play(f"echo {K2} > proc/sys/kernel/osrelease; {COMES_BACK}", kernel=K2)

    assert told["rc"] == 0, told["out"]
    assert told["burnin"]["found"]["kernel"] == K2


def test_a_reboot_that_was_done_in_this_run_is_not_repeated(host: Host) -> None:
    host.flag()

    told = host.play(COMES_BACK, rebooted_before=True)

    assert told["rc"] == 2
    assert told["failures"][0].startswith("still required after one reboot: driver: driver 570 to 580")
    assert host.calls == 0


@pytest.mark.parametrize("how", ["local", "not allowed"])
def test_what_cannot_or_may_not_be_rebooted_says_so_and_fails_nothing(host: Host, how: str) -> None:
    host.flag()
    host.connection = "local" if how == "local" else "scripted"

    told = host.play(COMES_BACK, **({"allowed": False} if how == "not allowed" else {}))

    assert told["rc"] == 0, told["out"]
    assert (told["changed"], told["rebooted"], told["burnin"]["state"]) == (False, False, "required")
    assert told["msg"].startswith("reboot required, and not done")
    assert "driver 570 to 580" in told["msg"]
    assert host.calls == 0


def test_nothing_asks_for_a_reboot(host: Host) -> None:
    told = host.play(COMES_BACK)

    assert told["rc"] == 0, told["out"]
    assert (told["changed"], told["burnin"]["state"], host.calls) == (False, "not_needed", 0)


def test_check_mode_says_that_it_would_be_rebooted(host: Host) -> None:
    host.flag()

    told = host.play(COMES_BACK, "--check", "--diff")

    assert told["rc"] == 0, told["out"]
    assert host.calls == 0
    assert "n1                         : ok=2    changed=2" in told["out"], "the reboot, and the file of this test"


@pytest.mark.parametrize("told_so", [False, True])
def test_a_node_at_work_is_left_alone_unless_told(host: Host, told_so: bool) -> None:
    host.flag()
    host.put("proc/77/comm", "train.py")
    (host.root / "proc/77/fd").mkdir()
    (host.root / "proc/77/fd/3").symlink_to("/dev/nvidia2")

    told = host.play(COMES_BACK, busy_ok=told_so)

    assert host.calls == int(told_so)
    assert told["rc"] == (0 if told_so else 2)
    if not told_so:
        assert "process 77 (train.py) on /dev/nvidia2" in told["failures"][0]
        assert "reboot_busy_ok" in told["failures"][0]


def test_patience_shorter_than_the_machines_own_test_is_refused(host: Host) -> None:
    host.flag()

    told = host.play(COMES_BACK, timeout_s=8)

    assert told["rc"] == 2
    assert "reboot_timeout_s is 8; expected 9 (reboot_least_timeout_s) or more" in told["failures"][0]
    assert host.calls == 0


def test_a_reboot_command_that_is_not_there_fails_at_once(host: Host) -> None:
    host.flag()

    told = host.play("", command=["/usr/sbin/no-such-reboot"])

    assert told["rc"] == 2
    assert "no such program" in told["failures"][0]
    assert told["took_s"] < 10
