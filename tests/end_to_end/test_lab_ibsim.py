"""The simulated fabric: what the real tools say of a healthy one, of one without a subnet manager, of a degraded link, of errors, of a pulled cable."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from lab import ibsim
from lab.ibsim import Fabric, Link, Unavailable

pytestmark = pytest.mark.slow


@contextmanager
def running(links: Sequence[Link], manager: bool = True) -> Iterator[Fabric]:
    try:
        with ibsim.started(links, manager) as fabric:
            yield fabric
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have a simulated fabric: {why}")
        pytest.skip(str(why))


@pytest.fixture  # one for each test: there is only one fabric at a time
def healthy() -> Iterator[Fabric]:
    with running(ibsim.fabric(nodes=3, leaves=2)) as fabric:
        yield fabric


def links(fabric: Fabric) -> list[str]:
    """The lines of iblinkinfo about ports with a cable."""
    return [line for line in fabric.run("iblinkinfo", "-l").stdout.splitlines() if "LinkUp" in line]


def test_a_healthy_fabric_is_active_at_full_width_and_speed_and_has_no_errors(healthy: Fabric) -> None:
    told = links(healthy)

    assert len(told) == 10  # five cables, each seen from both its ends
    assert all(re.search(r"4X +53\.125 Gbps Active/ +LinkUp", line) for line in told), told
    assert healthy.run("ibqueryerrors").returncode == 0
    assert re.search(r"SymbolErrorCounter:\.+0$", healthy.run("perfquery").stdout, re.MULTILINE)


def test_each_hca_is_seen_as_its_own_node_sees_it(healthy: Fabric) -> None:
    seen = {re.search(r"Port GUID: (\S+)", healthy.run("ibstat", hca=f"node{n} mlx5_0").stdout) for n in (1, 2, 3)}

    assert len({found.group(1) for found in seen if found}) == 3


def test_an_error_counter_is_found_at_its_port(healthy: Fabric) -> None:
    healthy.count("leaf1", 1, "SymbolErrorCounter", 1234)

    told = healthy.run("ibqueryerrors")

    assert told.returncode == 1
    assert re.search(r"port 1: \[SymbolErrorCounter == 1234\]", told.stdout), told.stdout
    healthy.count("leaf1", 1, "SymbolErrorCounter", 0)
    assert healthy.run("ibqueryerrors").returncode == 0


def test_a_pulled_cable_is_down_and_polls_at_both_ends(healthy: Fabric) -> None:
    healthy.unlink("leaf1", 1)

    told = healthy.run("ibstat", hca="node1 mlx5_0").stdout
    healthy.relink("leaf1", 1)

    assert re.search(r"State:\s+Down", told)
    assert re.search(r"Physical state:\s+Polling", told)
    assert re.search(r"Physical state:\s+LinkUp", healthy.run("ibstat", hca="node1 mlx5_0").stdout)


def test_a_refused_command_is_told(healthy: Fabric) -> None:
    with pytest.raises(ibsim.FabricProblem, match="leaf9"):
        healthy.unlink("leaf9", 1)


def test_a_degraded_link_shows_at_both_ends_and_no_other_does() -> None:
    good = ibsim.fabric(nodes=2)
    with running([*good[:-1], dataclasses.replace(good[-1], width=1, speed="SDR")]) as fabric:
        told = links(fabric)

    degraded = [line for line in told if re.search(r"1X +2\.5 Gbps Active", line)]
    assert len(told) == 6
    assert len(degraded) == 2
    assert all("node2 mlx5_0" in line for line in degraded)


def test_without_a_subnet_manager_a_port_that_is_linked_stays_in_init() -> None:
    with running(ibsim.fabric(nodes=1), manager=False) as fabric:
        told = fabric.run("ibstat").stdout

    assert re.search(r"State:\s+Initializing", told)
    assert re.search(r"Physical state:\s+LinkUp", told)
    assert re.search(r"SM lid:\s+0$", told, re.MULTILINE)
