"""ib_interface on two nodes that are taken for others: a B200 by a pattern, whose bridges stay alone; an H100 port by port, with everything changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab import verify

TASK = "Configure | Give each port its interface, and read it back"
ETC = "/srv/machine/etc"


def name_of(host) -> str:
    return host.backend.get_hostname()


def only_on(host, name: str) -> None:
    if name_of(host) != name:
        pytest.skip(f"it is about {name}")


def asked(**variables: Any) -> dict[str, Any]:
    return verify.play("refuse.yml", REFUSE_WITH=json.dumps(variables))


def test_check_mode_writes_nothing_and_the_second_converge_has_nothing_to_do() -> None:
    first_check, first, second_check, second = verify.converges()

    for record in (first_check, first, second_check, second):
        assert verify.sound(record), record["failed"]
        assert sorted(record["hosts"]) == ["node-1", "node-2"]
    for record in (first_check, first):
        assert {(step["host"], step["task"]) for step in record["changed"]} == {("node-1", TASK), ("node-2", TASK)}
    assert (second_check["changed"], second["changed"]) == ([], [])
    written = [path for path in verify.touched(first_check, first)["node-1"] if path.startswith("srv/machine")]
    assert written == [
        "srv/machine/etc/modules-load.d/burnin-ib.conf",
        "srv/machine/etc/netplan/90-burnin-ib.yaml",
        "srv/machine/etc/udev/rules.d/70-burnin-ib.rules",
    ]
    for earlier, later in ((verify.events()[0], first_check), (first, second)):
        assert not [path for paths in verify.touched(earlier, later).values() for path in paths if path.startswith("srv/machine/etc")]


def test_by_a_pattern_every_port_has_a_name_and_no_bridge_has(host) -> None:
    only_on(host, "node-1")
    rules = host.file(f"{ETC}/udev/rules.d/70-burnin-ib.rules").content_string

    assert [f'NAME="mlx5_ib{place}"' in rules for place in range(9)] == [True] * 8 + [False]
    assert "0000:83:00.0" not in rules
    assert '"10.9.0.7/16"' in host.file(f"{ETC}/netplan/90-burnin-ib.yaml").content_string
    assert host.file(f"{ETC}/netplan/90-burnin-ib.yaml").mode == 0o600


def test_port_by_port_with_everything_changed(host) -> None:
    only_on(host, "node-2")
    folder = f"{ETC}/NetworkManager/system-connections"

    assert sorted(host.file(folder).listdir()) == [
        "burnin-ib-fabric1.8001.nmconnection", "burnin-ib-fabric1.nmconnection", "burnin-ib-ib9.800a.nmconnection", "burnin-ib-ib9.nmconnection",
    ]  # fmt: skip
    partition = host.file(f"{folder}/burnin-ib-ib9.800a.nmconnection").content_string
    assert "\np-key=32778\nparent=ib9\ntransport-mode=connected\n" in partition
    assert "\naddress1=10.7.0.8/16\n" in partition
    assert "\nmtu=2044\n" in host.file(f"{folder}/burnin-ib-fabric1.nmconnection").content_string
    assert host.file(f"{ETC}/udev/rules.d/60-rdma-persistent-naming.rules").exists


@pytest.mark.parametrize(
    ("variables", "code", "said"),
    [
        pytest.param({"ports": [{"pci": "0000:83:00.0", "name": "fabric0"}]}, "BRIDGE_REFUSED", "mlx5_8 port 1", id="a bridge by name"),
        pytest.param({"ports": [{"rdma": "mlx5_77", "name": "fabric0"}]}, "HCA_UNKNOWN", "mlx5_77", id="an adapter that is not there"),
        pytest.param(
            {"pattern": "fab{index}", "addresses": {"fab0": ["10.9.0.7"]}}, "ADDRESS_INVALID", "10.9.0.7 is no address", id="no prefix"
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name_and_nothing_changes(host, variables: dict[str, Any], code: str, said: str) -> None:
    only_on(host, "node-1")
    listing = "find /srv/machine/etc /etc -type f -exec sha256sum {} + | sort"
    before = host.check_output(listing)

    refused = asked(**variables)

    assert refused["rc"] == 2
    assert [failed["task"] for failed in refused["failed"]] == [TASK]
    assert refused["failed"][0]["message"].startswith(f"{code}: ")
    assert said in refused["failed"][0]["message"]
    assert host.check_output(listing) == before


def test_a_node_without_a_description_is_left_alone(host) -> None:
    only_on(host, "node-1")
    listing = "find /srv/machine/etc /etc -type f -exec sha256sum {} + | sort"
    before = host.check_output(listing)

    played = asked()

    assert played["rc"] == 0
    assert played["changed"] == []
    assert host.check_output(listing) == before
