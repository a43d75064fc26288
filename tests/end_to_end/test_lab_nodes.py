"""The test nodes themselves: what a reboot of one leaves, and pulling its plug in the midst of one."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import nodes as lab_nodes
from lab.nodes import Lab
from lab.rootfs import Unavailable

pytestmark = pytest.mark.slow

PATIENCE_S = 60


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """One node."""
    for left in lab_nodes.STATE.glob("e2e-nodes-*"):
        if not Path(f"/proc/{left.name.removeprefix('e2e-nodes-')}").exists():
            lab_nodes.down(left.name)  # whoever made it was killed
    name = f"e2e-nodes-{os.getpid()}"
    try:
        yield lab_nodes.up(name, 1)
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have test nodes: {why}")
        pytest.skip(str(why))
    finally:
        lab_nodes.down(name)


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def inside(lab: Lab, *argv: str) -> str:
    return lab_nodes.execute(lab.nodes[0], *argv).stdout.strip()


def test_a_node_survives_its_own_reboot_with_another_boot_id_its_address_and_an_empty_run(lab: Lab) -> None:
    node = lab.nodes[0]
    keeper, leader = lab_nodes.keeper(node), lab_nodes.leader(node)
    boot, address = inside(lab, "cat", "/proc/sys/kernel/random/boot_id"), inside(lab, "ip", "-br", "-4", "address", "show", "host0")
    inside(lab, "touch", "/run/mark", "/etc/mark")

    inside(lab, "systemctl", "reboot")
    until(lambda: lab_nodes.leader(node) not in (None, leader))
    lab_nodes.wait_ready(node)

    assert lab_nodes.keeper(node) == keeper
    assert inside(lab, "cat", "/proc/sys/kernel/random/boot_id") not in ("", boot)
    assert inside(lab, "ip", "-br", "-4", "address", "show", "host0").split()[-1] == address.split()[-1] == f"{node.address}/24"
    assert inside(lab, "ls", "/etc/mark", "/run/mark") == "/etc/mark"


def test_a_plug_that_is_pulled_between_two_boots_stays_pulled(lab: Lab) -> None:
    node = lab.nodes[0]
    keeper = lab_nodes.keeper(node)
    assert keeper is not None
    os.kill(keeper, signal.SIGSTOP)  # so that the moment between the boots lasts
    inside(lab, "systemctl", "reboot")
    until(lambda: lab_nodes.leader(node) is None)
    assert lab_nodes.keeper(node) == keeper

    lab_nodes.off(node)

    assert lab_nodes.keeper(node) is None
    time.sleep(1)
    assert lab_nodes.leader(node) is None
    lab_nodes.on(lab, node)
    assert inside(lab, "cat", "/etc/hostname") == node.name
