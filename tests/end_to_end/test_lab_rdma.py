"""Soft-RoCE between two virtual machines: real verbs, real perftest. How fast it is says nothing, so nothing here asks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from lab import vms
from lab.vms import Machine, Unavailable, Vm

pytestmark = pytest.mark.slow

DEVICE = "rxe0"
SIZE, TIMES = 4096, 20
# The server is left to itself by systemd, so that the ssh that starts it comes back.
SERVER = ("systemd-run", "--quiet", "--unit=lab-perftest", "--property=RuntimeMaxSec=120", "ib_write_bw")
WORDS = ("-d", DEVICE, "-x", "1", "-n", str(TIMES), "-s", str(SIZE), "-F")
LISTENS = "for i in $(seq 60); do ss -Hltn 'sport = :18515' | grep -q . && exit 0; sleep 0.25; done; exit 1"


@pytest.fixture(scope="module")
def pair() -> Iterator[list[Vm]]:
    """Two machines with a device on their common network."""
    name = f"e2e-rdma-{os.getpid()}"
    try:
        machines = list(vms.up(name, [Machine("one"), Machine("two")]).values())
        for vm in machines:
            vm.run("modprobe", "rdma_rxe")
            vm.run("rdma", "link", "add", DEVICE, "type", "rxe", "netdev", "lab1")
        yield machines
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have virtual machines: {why}")
        pytest.skip(str(why))
    finally:
        vms.down(name)


def test_the_device_is_there_for_verbs_and_for_ibstat(pair: list[Vm]) -> None:
    for vm in pair:
        assert DEVICE in vm.run("ibv_devices").stdout
        told = vm.run("ibstat", DEVICE).stdout
        assert "State: Active" in told
        assert "Link layer: Ethernet" in told


def test_ib_write_bw_runs_from_one_machine_to_the_other(pair: list[Vm]) -> None:
    server, client = pair
    server.run(*SERVER, *WORDS)
    server.run("sh", "-c", LISTENS)

    told = client.run("ib_write_bw", *WORDS, "192.0.2.1", timeout=120).stdout

    assert re.search(rf"^ *{SIZE} +{TIMES} +[\d.]+ +[\d.]+", told, re.MULTILINE), told
