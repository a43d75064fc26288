"""One description -> the files of netplan, NetworkManager or systemd-networkd. Pure: path -> (text, mode).

Each is bound to the interface's name, which the udev rules give: never to its address, of which netplan and networkd compare all 20 bytes.
Nothing waits for a link: a dead port must not hold up the boot.
"""

from __future__ import annotations

import json
import uuid
from typing import Dict, Iterable, List, Optional, Tuple

from ansible.module_utils.burnin_ib import rules
from ansible.module_utils.burnin_ib.model import (
    HEAD,
    KEYFILE_PREFIX,
    KEYFILES,
    MODULES,
    NETPLAN,
    NETPLAN_DROP_IN,
    NETWORKD,
    NETWORKD_PREFIX,
    RDMA_NAMING,
    RDMA_RULES,
    RULES,
    Asked,
    Child,
    Interface,
)

Files = Dict[str, Tuple[str, int]]
OPEN, PRIVATE = 0o644, 0o600  # netplan and NetworkManager want theirs private
NAMESPACE = uuid.UUID("5c2f6a4e-0f0b-4a7e-9f53-6d1b5f1f7a10")


def files(found: Iterable[Interface], asked: Asked, renderer: str) -> Files:
    """All that shall be on the node."""
    listed = list(found)
    told: Files = {RULES: (rules.interfaces(listed, asked), OPEN), MODULES: (HEAD + "\nib_ipoib\n", OPEN)}
    for path, text in ((RDMA_RULES, rules.rdma(listed)), (RDMA_NAMING, rules.naming(asked))):
        if text:
            told[path] = (text, OPEN)
    told.update({"netplan": _netplan, "networkmanager": _keyfiles, "networkd": _networkd}[renderer](listed))
    return told


def _ini(*sections: Tuple[str, List[Tuple[str, object]]]) -> str:
    parts = [HEAD]
    for name, pairs in sections:
        if pairs:
            parts += ["", "[%s]" % name, *("%s=%s" % pair for pair in pairs)]
    return "\n".join(parts) + "\n"


def _mtu(mtu: Optional[int]) -> List[Tuple[str, object]]:
    return [("MTUBytes", mtu)] if mtu else []


def _network(name: str, addresses: Iterable[str], mtu: Optional[int], mode: str, children: Iterable[str] = ()) -> str:
    return _ini(
        ("Match", [("Name", name)]),
        ("Link", [*_mtu(mtu), ("RequiredForOnline", "no")]),
        (
            "Network",
            [
                ("DHCP", "no"), ("IPv6AcceptRA", "no"),
                *(("Address", one) for one in addresses), *(("IPoIB", child) for child in children),
            ],
        ),
        ("IPoIB", [("Mode", mode)]),
    )  # fmt: skip


def _netdev(name: str, child: Child, mode: str) -> str:
    return _ini(("NetDev", [("Name", name), ("Kind", "ipoib")]), ("IPoIB", [("PartitionKey", "0x%04x" % child.p_key), ("Mode", mode)]))


def _partitions(one: Interface) -> Files:
    """networkd makes the partitions' interfaces; netplan knows none, so they are networkd's there too."""
    told: Files = {}
    for child in one.children:
        name = one.child_name(child)
        told["%s/%s%s.netdev" % (NETWORKD, NETWORKD_PREFIX, name)] = (_netdev(name, child, one.mode), OPEN)
        told["%s/%s%s.network" % (NETWORKD, NETWORKD_PREFIX, name)] = (_network(name, child.addresses, child.mtu, one.mode), OPEN)
    return told


def _networkd(found: Iterable[Interface]) -> Files:
    told: Files = {}
    for one in found:
        names = [one.child_name(child) for child in one.children]
        text = _network(one.name, one.addresses, one.mtu, one.mode, names)
        told["%s/%s%s.network" % (NETWORKD, NETWORKD_PREFIX, one.name)] = (text, OPEN)
        told.update(_partitions(one))
    return told


def _netplan(found: Iterable[Interface]) -> Files:
    lines = [HEAD, "network:", "  version: 2", "  ethernets:"]
    told: Files = {}
    for one in found:
        entry = [
            ("renderer", "networkd"), ("optional", True), ("dhcp4", False), ("dhcp6", False), ("accept-ra", False),
            ("infiniband-mode", one.mode), *([("mtu", one.mtu)] if one.mtu else []),
            *([("addresses", list(one.addresses))] if one.addresses else []),
        ]  # fmt: skip
        lines += ["    %s:" % json.dumps(one.name), *("      %s: %s" % (key, json.dumps(value)) for key, value in entry)]
        if one.children:
            drop_in = _ini(("Network", [("IPoIB", one.child_name(child)) for child in one.children]))
            told["%s/10-netplan-%s.network.d/%s" % (NETWORKD, one.name, NETPLAN_DROP_IN)] = (drop_in, OPEN)
        told.update(_partitions(one))
    told[NETPLAN] = ("\n".join(lines) + "\n", PRIVATE)
    return told


def connection(name: str) -> str:
    """What NetworkManager calls the connection of an interface."""
    return KEYFILE_PREFIX + name


def _keyfiles(found: Iterable[Interface]) -> Files:
    told: Files = {}
    for one in found:
        told[_keyfile_path(one.name)] = (_keyfile(one.name, one.addresses, one.mtu, one.mode), PRIVATE)
        for child in one.children:
            name = one.child_name(child)
            text = _keyfile(name, child.addresses, child.mtu, one.mode, one.name, child.p_key)
            told[_keyfile_path(name)] = (text, PRIVATE)
    return told


def _keyfile_path(name: str) -> str:
    return "%s/%s.nmconnection" % (KEYFILES, connection(name))


def _keyfile(name: str, addresses: Iterable[str], mtu: Optional[int], mode: str, parent: str = "", p_key: int = 0) -> str:
    """With a P_Key NetworkManager makes the name itself, and refuses a connection that has another."""
    listed = list(addresses)
    return _ini(
        (
            "connection",
            [
                ("id", connection(name)), ("uuid", uuid.uuid5(NAMESPACE, name)), ("type", "infiniband"),
                *([] if parent else [("interface-name", name)]),
            ],
        ),
        (
            "infiniband",
            [
                *([("mtu", mtu)] if mtu else []), *([("p-key", p_key), ("parent", parent)] if parent else []),
                ("transport-mode", mode),
            ],
        ),
        ("ipv4", _manual([one for one in listed if ":" not in one], "disabled")),
        ("ipv6", _manual([one for one in listed if ":" in one], "link-local")),
    )  # fmt: skip


def _manual(addresses: List[str], otherwise: str) -> List[Tuple[str, object]]:
    if not addresses:
        return [("method", otherwise)]
    numbered = [("address%d" % place, one) for place, one in enumerate(addresses, start=1)]
    return [("method", "manual"), *numbered, ("never-default", "true")]
