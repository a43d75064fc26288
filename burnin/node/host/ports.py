"""The ports of RDMA devices: state, rate, who manages them, and what they have counted. sysfs alone; None = it would not say.

A port has two rates: its own (`rate_gb_s`, with the lanes and the speed of one lane that it came up with), and for Ethernet what its network
device says. Counters are those that tell of the link; they count since the driver took the card, and some stop at a full field.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional

from burnin.node.host import pci
from burnin.node.host.reading import Reader

INFINIBAND = "/sys/class/infiniband"
RATE = re.compile(r"(\d{1,5}(?:\.\d{1,4})?) Gb/sec(?: \((\d{1,2})X(?: ([A-Z][A-Z0-9]{1,7}))?\))?", re.ASCII)
# What is the link's own doing; traffic beside it, so that a count can be held against what went over it (in words of four bytes).
COUNTERS = (
    "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_rcv_remote_physical_errors", "port_rcv_constraint_errors",
    "port_xmit_discards", "port_xmit_constraint_errors", "local_link_integrity_errors", "excessive_buffer_overrun_errors", "VL15_dropped",
    "port_rcv_data", "port_xmit_data",
)  # fmt: skip
HARDWARE = (
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "implied_nak_seq_err",
    "rx_icrc_encapsulated",
    "roce_slow_restart",
)
IFF_UP = 0x1


def port(reader: Reader, name: str, address: str, number: str) -> Dict[str, Any]:
    """One port of one RDMA device."""
    device = "%s/%s" % (INFINIBAND, name)
    at = "%s/ports/%s" % (device, number)
    layer, netdev = reader.line(at + "/link_layer"), netdev_of(reader, address, number)
    return {
        "rdma": name,
        "netdev": netdev,
        "port": pci.number(number),
        "link_layer": layer,
        "state": _word(reader.line(at + "/state")),
        "physical_state": _word(reader.line(at + "/phys_state")),
        **_rate(reader.line(at + "/rate")),
        "lid": _hex(reader.line(at + "/lid")),
        "sm_lid": _hex(reader.line(at + "/sm_lid")),
        "guid": _guid(reader.line(at + "/gids/0"), reader.line(device + "/node_guid")),
        "firmware": reader.line(device + "/fw_ver"),
        "board_id": reader.line(device + "/board_id"),
        "counters": _counters(reader, at),
        **_network(reader, address, netdev if layer == "Ethernet" else None),
    }


def nothing(reader: Reader, address: str) -> Dict[str, Any]:
    """What only the RDMA driver knows, not known; the network's name may be there without it."""
    names = (
        "rdma", "port", "link_layer", "state", "physical_state", "rate_gb_s", "link_width", "link_speed", "lid", "sm_lid", "guid", "firmware",
        "board_id", "counters",
    )  # fmt: skip
    return {**dict.fromkeys(names), "netdev": netdev_of(reader, address, "1"), **_network(reader, address, None)}


def netdev_of(reader: Reader, address: str, number: str) -> Optional[str]:
    """The network device of this port: the one whose dev_port is the port's, else the only one."""
    at = "%s/%s/net" % (pci.DEVICES, address)
    names = reader.listdir(at)
    ours = [name for name in names if (pci.number(reader.line("%s/%s/dev_port" % (at, name))) or 0) + 1 == (pci.number(number) or 1)]
    return next(iter(ours or names), None)


def _word(text: Optional[str]) -> Optional[str]:
    """ACTIVE of `4: ACTIVE`."""
    return text.partition(":")[2].strip() or text if text else None


def _rate(text: Optional[str]) -> Dict[str, Any]:
    """400, 4 and NDR of `400 Gb/sec (4X NDR)`; older kernels leave the speed away, or all in the brackets."""
    match = RATE.fullmatch(text or "")
    rate, lanes, speed = match.groups() if match else (None, None, None)
    return {"rate_gb_s": float(rate) if rate else None, "link_width": int(lanes) if lanes else None, "link_speed": speed}


def _hex(text: Optional[str]) -> Optional[int]:
    """128 of `0x80`."""
    return int(text, 16) if text and re.fullmatch(r"0x[0-9a-fA-F]{1,8}", text) else None


def _guid(gid: Optional[str], node: Optional[str]) -> Optional[str]:
    """The port's own GUID, the last eight bytes of its first GID; else its node's. 16 hex digits."""
    for text in ((gid or "").replace(":", "")[-16:], (node or "").replace(":", "")):
        if len(text) == 16 and set(text) - {"0"}:
            return text.lower()
    return None


def _counters(reader: Reader, at: str) -> Dict[str, Optional[int]]:
    """`N/A (no PMA)`, as some Ethernet ports say, is not told."""
    folders = ((at + "/counters", COUNTERS), (at + "/hw_counters", HARDWARE))
    return {name: _count(reader.line("%s/%s" % (folder, name))) for folder, names in folders for name in names}


def _count(text: Optional[str]) -> Optional[int]:
    return int(text) if text and re.fullmatch(r"[0-9]{1,20}", text) else None


def _network(reader: Reader, address: str, netdev: Optional[str]) -> Dict[str, Any]:
    """Of an Ethernet port's network device. One that is not up does not answer for carrier and speed, and is not asked."""
    told: Dict[str, Any] = dict.fromkeys(("netdev_up", "carrier", "carrier_changes", "netdev_speed_mb_s"))
    if netdev is None:
        return told
    at = "%s/%s/net/%s" % (pci.DEVICES, address, netdev)
    flags = _hex(reader.line(at + "/flags"))
    told["netdev_up"] = None if flags is None else bool(flags & IFF_UP)
    told["carrier_changes"] = _count(reader.line(at + "/carrier_changes"))
    if told["netdev_up"]:
        told["carrier"] = {"0": False, "1": True}.get(reader.line(at + "/carrier") or "")
    if told["carrier"]:
        told["netdev_speed_mb_s"] = pci.number(reader.line(at + "/speed"))
    return told


def names(reader: Reader, device: str) -> List[str]:
    """The ports of an RDMA device; one where it will not say."""
    return reader.listdir("%s/%s/ports" % (INFINIBAND, device)) or ["1"]
