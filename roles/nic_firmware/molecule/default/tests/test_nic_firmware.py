"""nic_firmware on two nodes: one whose adapter is to speak InfiniBand, one with nothing asked; then a boot that does not bring it."""

from __future__ import annotations

import pytest

from lab import verify

TASK = "Set | Have each setting for the next boot, and ask for one reboot"
FLAG = "/srv/machine/run/burnin/reboot-required.d/nic_firmware"


def only_on(host, name: str) -> None:
    if host.backend.get_hostname() != name:
        pytest.skip(f"it is about {name}")


def test_check_mode_writes_nothing_and_the_second_converge_has_nothing_to_do() -> None:
    records = verify.converges()

    changed = [[(step["host"], step["task"]) for step in record["changed"]] for record in records]
    assert all(verify.sound(record) for record in records)
    assert changed == [[("node-1", TASK)], [("node-1", TASK)], [], []]


def test_it_was_set_once_and_a_reboot_is_flagged(host) -> None:
    only_on(host, "node-1")

    calls = host.file("/srv/lab/calls").content_string.splitlines()
    assert [line for line in calls if " set " in line] == ["-d 0000:1a:00.0 -y set LINK_TYPE_P1=1"]
    assert "0000:1a:00.0: LINK_TYPE_P1=1" in host.file(FLAG).content_string


def test_a_node_with_nothing_asked_was_not_asked(host) -> None:
    only_on(host, "node-2")

    assert not host.file("/srv/lab/calls").exists
    assert not host.file(FLAG).exists


def test_after_a_boot_that_did_not_bring_it_the_role_refuses_and_asks_for_no_second(host) -> None:
    only_on(host, "node-1")
    host.check_output("echo boot-2 > /srv/machine/proc/sys/kernel/random/boot_id")

    record = verify.play("refuse.yml")

    assert "POWER_CYCLE_NEEDED" in str(record["failed"])
    assert not host.file(FLAG).exists
    assert host.file("/srv/lab/calls").content_string.count(" set ") == 1
