"""Debian's own netplan, NetworkManager and systemd-networkd take what ib_interface writes, and read from it what was asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    asked: dict[str, Any] = {"ports": [{**PORT, "p_keys": P_KEYS}]}
    node.give(**asked)
    path = f"/etc/NetworkManager/system-connections/burnin-ib-{name}.nmconnection"
    argv = ("nmcli", "--offline", "connection", "modify", "connection.autoconnect", "yes")

    done = network_tree.inside(programs, *argv, stdin=node.text(path))

    assert done.returncode == 0, done.stderr
    assert "type=infiniband" in done.stdout
    node.put(path, done.stdout, 0o600)
    assert node.plan(**asked).differs == ()


# A tap whose link type is set to InfiniBand's; no carrier, no mode, no partition. Without udev's word networkd waits, unless /sys is read-only.
NETWORKD = """\
set -e
[ -e /dev/net/tun ] || { mkdir -p /dev/net; mknod /dev/net/tun c 10 200; }
python3 -c "import fcntl, os, struct
tap = os.open('/dev/net/tun', os.O_RDWR)
fcntl.ioctl(tap, 0x400454CA, struct.pack('16sH', b'fab1', 0x1002))
fcntl.ioctl(tap, 0x400454CB, 1)
fcntl.ioctl(tap, 0x400454CD, 32)"
mount -o remount,ro,bind /sys || mount -o remount,ro /sys
mkdir -p /run/systemd/netif/links /run/systemd/netif/leases
chown -R systemd-network /run/systemd/netif
SYSTEMD_LOG_LEVEL=debug timeout 5 /usr/lib/systemd/systemd-networkd 2>&1 || true
echo "type $(cat /sys/class/net/fab1/type) mtu $(cat /sys/class/net/fab1/mtu)"
"""


def test_networkd_sets_the_mtu_and_the_address_of_an_infiniband_link(programs: Path, tmp_path: Path) -> None:
    node = Node(tmp_path, system="networkd")
    node.give(ports=[{**PORT, "mtu": 1400}])

    done = network_tree.inside(programs, "sh", "-c", NETWORKD, binds={node.root / "etc/systemd/network": "/etc/systemd/network"})

    assert "type 32 mtu 1400" in done.stdout, done.stdout + done.stderr
    assert "fab1: Requesting static address (n/a): 10.9.0.7/16" in done.stdout
    ignored = [line for line in done.stdout.splitlines() if line.startswith("/etc/systemd/network/")]
    # systemd 252 does not know this section there, newer ones do; the mode is read back.
    assert all("Unknown section 'IPoIB'. Ignoring." in line for line in ignored), ignored
