"""reboot on two nodes that really do: one whose kernel and driver are another than the stack's, one that a role has flagged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab import verify

TASK = "Reboot | Reboot where the node's state says so"


def name_of(host) -> str:
    return host.backend.get_hostname()


def only_on(host, name: str) -> None:
    if name_of(host) != name:
        pytest.skip(f"it is about {name}")


def boots(host) -> list[str]:
    file = host.file("/srv/boots")
    return file.content_string.splitlines() if file.exists else []


def refuse(node: str, **variables: Any) -> dict[str, Any]:
    return verify.play("refuse.yml", REFUSE_NODE=node, REFUSE_WITH=json.dumps(variables))


def test_check_mode_says_so_and_the_second_converge_has_nothing_to_do() -> None:
    first_check, first, second_check, second = verify.converges()

    for record in (first_check, first, second_check, second):
        assert verify.sound(record), record["failed"]
        assert sorted(record["hosts"]) == ["node-1", "node-2"]
    for record in (first_check, first):
        assert {(step["host"], step["task"]) for step in record["changed"]} == {("node-1", TASK), ("node-2", TASK)}
    assert (second_check["changed"], second["changed"]) == ([], [])
    told = {step["host"]: step["message"] for step in first_check["changed"]}
    assert "kernel 6.1.0-39-amd64 is running" in told["node-1"]
    assert "nouveau is loaded" in told["node-1"]
    assert "the module nvidia 570.86.15 is loaded" in told["node-1"]
    assert told["node-2"] == "would be rebooted: driver: driver 570.86.15 to 580.126.09"


def test_each_was_rebooted_once_and_it_was_a_real_boot(host) -> None:
    assert boots(host) == [host.check_output("cat /proc/sys/kernel/random/boot_id")]


def test_the_flag_is_gone_with_the_boot(host) -> None:
    assert not host.file("/run/burnin/reboot-required.d").exists


def test_what_the_reboot_did_not_mend_fails_after_one_reboot(host) -> None:
    only_on(host, "node-1")
    before = boots(host)
    host.check_output("touch /srv/stuck; echo 570.86.15 >/srv/stand-in/sys/module/nvidia/version")

    refused = refuse("node-1")
    after = boots(host)
    host.check_output("rm /srv/stuck; echo 580.126.09 >/srv/stand-in/sys/module/nvidia/version")

    assert refused["rc"] == 2
    assert [failed["task"] for failed in refused["failed"]] == [TASK]
    message = refused["failed"][0]["message"]
    assert message.startswith("still required after one reboot: the module nvidia 570.86.15 is loaded, expected version 580.126.09")
    assert len(after) == len(before) + 1, "once, and not again"


def test_a_module_that_is_not_built_is_no_reason_to_reboot(host) -> None:
    only_on(host, "node-1")
    before, module = boots(host), "/srv/stand-in/lib/modules/6.1.0-40-amd64/updates/dkms/nvidia.ko"
    host.check_output(f"mv {module} /srv/; echo 570.86.15 >/srv/stand-in/sys/module/nvidia/version")

    refused = refuse("node-1")
    host.check_output(f"mv /srv/nvidia.ko {module}; echo 580.126.09 >/srv/stand-in/sys/module/nvidia/version")

    assert refused["rc"] == 2
    assert (
        "the module nvidia is on disk for no kernel, expected the module nvidia on disk for kernel 6.1.0-40-amd64"
        in refused["failed"][0]["message"]
    )
    assert "it was not rebooted" in refused["failed"][0]["message"]
    assert boots(host) == before


def test_a_node_at_work_is_not_rebooted(host) -> None:
    only_on(host, "node-1")
    before = boots(host)
    host.check_output("mkdir -p /srv/stand-in/proc/4242/fd; echo python3 >/srv/stand-in/proc/4242/comm")
    host.check_output("ln -sf /dev/nvidia3 /srv/stand-in/proc/4242/fd/7; echo 570.86.15 >/srv/stand-in/sys/module/nvidia/version")

    refused = refuse("node-1", busy_ok=False)
    host.check_output("rm -r /srv/stand-in/proc/4242; echo 580.126.09 >/srv/stand-in/sys/module/nvidia/version")

    assert refused["rc"] == 2
    assert "process 4242 (python3) on /dev/nvidia3" in refused["failed"][0]["message"]
    assert boots(host) == before


def test_one_that_may_not_be_rebooted_is_left_without_a_failure(host) -> None:
    only_on(host, "node-2")
    before = boots(host)
    host.check_output("mkdir -p /run/burnin/reboot-required.d; echo other >/run/burnin/reboot-required.d/driver")

    left = refuse("node-2", allowed=False)

    assert left["rc"] == 0
    assert verify.sound(left)
    assert left["changed"] == [], "nothing after the role was played on it"
    assert not host.file("/srv/went-on").exists
    assert boots(host) == before
