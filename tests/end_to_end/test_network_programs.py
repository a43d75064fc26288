"""Debian's own netplan and NetworkManager take what ib_interface writes, and read from it what was asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_links import Node
from lab import network_tree

pytestmark = pytest.mark.slow

PORT = {"pci": "0000:3c:00.0", "name": "fab1", "mtu": 2044, "addresses": ["10.9.0.7/16", "fd00:9::7/64"]}
P_KEYS = [{"p_key": 0x000A, "addresses": ["10.8.0.7/16"]}]


@pytest.fixture(scope="module")
def programs() -> Path:
    return network_tree.needed()


def test_netplan_generates_a_link_of_that_mode_mtu_and_addresses(programs: Path, tmp_path: Path) -> None:
    node = Node(tmp_path / "node", system="netplan")
    node.give(ports=[{**PORT, "p_keys": P_KEYS}])
    script = "netplan generate && cat /run/systemd/network/10-netplan-fab1.network"

    done = network_tree.inside(programs, "sh", "-c", script, binds={node.root / "etc/netplan": "/etc/netplan"})

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert {"Name=fab1", "MTUBytes=2044", "Address=10.9.0.7/16", "Address=fd00:9::7/64", "[IPoIB]", "Mode=datagram"} <= set(lines)


@pytest.mark.parametrize("name", ["fab1", "fab1.800a"])
def test_nmcli_reads_the_keyfile_and_what_it_writes_anew_is_no_change(programs: Path, tmp_path: Path, name: str) -> None:
    node = Node(tmp_path, system="networkmanager")
    asked = {"ports": [{**PORT, "p_keys": P_KEYS}]}
    node.give(**asked)
    path = f"/etc/NetworkManager/system-connections/burnin-ib-{name}.nmconnection"
    argv = ("nmcli", "--offline", "connection", "modify", "connection.autoconnect", "yes")

    done = network_tree.inside(programs, *argv, stdin=node.text(path))

    assert done.returncode == 0, done.stderr
    assert "type=infiniband" in done.stdout
    node.put(path, done.stdout, 0o600)
    assert node.plan(**asked).differs == ()
