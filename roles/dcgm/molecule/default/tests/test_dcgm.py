"""dcgm on two nodes: one with the defaults, one with everything changed."""

from __future__ import annotations

import pytest

from lab import verify

VERSION = "1:4.5.2-1"
NAMES = {"node-1": {"cuda13"}, "node-2": {"cuda12", "cuda13"}}


def name_of(host) -> str:
    return host.backend.get_hostname()


def test_check_mode_changes_nothing_and_what_is_pinned_stays_when_newer_builds_come() -> None:
    verify.stays_put()


def test_a_dist_upgrade_would_move_nothing(host) -> None:
    assert verify.moved_by_dist_upgrade(host) == []


def test_the_packages_are_those_for_the_drivers_cuda_and_all_held(host) -> None:
    packages = {name: version for name, version in verify.installed(host).items() if name.startswith("datacenter-gpu-manager")}

    assert set(packages.values()) == {VERSION}
    assert {name.rpartition("-")[2] for name in packages if "cuda" in name} == NAMES[name_of(host)]
    assert "datacenter-gpu-manager" not in packages
    assert set(packages) <= verify.held(host)


def test_the_daemon_runs_where_it_is_wanted(host) -> None:
    service = host.service("nvidia-dcgm")

    assert (service.is_enabled, service.is_running) == ((True, True) if name_of(host) == "node-1" else (False, False))


def test_the_old_package_is_replaced_where_it_is_found(host) -> None:
    if name_of(host) != "node-1":
        pytest.skip("once is enough: the play is on both nodes")

    assert host.run("apt-get remove -y -qq --allow-change-held-packages 'datacenter-gpu-manager-4-*'").rc == 0
    assert host.run("rm /etc/apt/preferences.d/burnin-dcgm; apt-get install -y -qq datacenter-gpu-manager=1:3.3.9").rc == 0

    again = verify.play("converge.yml")

    assert again["rc"] == 0, again["failed"]
    packages = {name: version for name, version in verify.installed(host).items() if name.startswith("datacenter-gpu-manager")}
    assert set(packages.values()) == {VERSION}
    assert "datacenter-gpu-manager" not in packages
    assert set(packages) <= verify.held(host)
