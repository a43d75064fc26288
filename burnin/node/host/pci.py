"""PCI devices from sysfs: what stands where, how its link came up, and what the port above it could do.

A link has two ends. `speed_gts` and `width` are what both agreed on; the `max_` of the device and of the port above it say whose limit it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from burnin.node.host.reading import Reader

DEVICES = "/sys/bus/pci/devices"
ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
NVIDIA, MELLANOX = "10de", "15b3"
GPU_CLASSES = ("0300", "0302")  # VGA and 3D controllers
NVSWITCH_CLASS, NETWORK_CLASS, NVME_CLASS, BRIDGE_CLASS = "0680", "02", "010802", "0604"


@dataclass(frozen=True)
class Device:
    """One function. `kind`: its class, six hex digits. `above`: the ports between it and the root, the nearest last."""

    address: str
    vendor: str
    device: str
    kind: str
    above: Tuple[str, ...]
    virtual: bool

    @property
    def port(self) -> Optional[str]:
        """The port that its link ends in; None when it stands in the root complex itself."""
        return self.above[-1] if self.above else None

    @property
    def switch(self) -> Optional[str]:
        """The upstream port of the switch it stands behind; None when its port is a root port."""
        return self.above[-2] if len(self.above) > 1 else None


def devices(reader: Reader) -> Dict[str, Device]:
    """address -> function, of all that the kernel found; in the order of their addresses."""
    found = {}
    for address in reader.listdir(DEVICES):
        at = DEVICES + "/" + address
        vendor, device, kind = (_hex(reader.line(at + "/" + name)) for name in ("vendor", "device", "class"))
        if not ADDRESS.fullmatch(address) or not vendor or not device or not kind:
            continue
        above = [part for part in (reader.realpath(at) or "").split("/")[:-1] if ADDRESS.fullmatch(part)]
        found[address] = Device(address, vendor, device, kind.zfill(6), tuple(above), reader.exists(at + "/physfn"))
    return found


def _hex(text: Optional[str]) -> str:
    return (text or "").lower().replace("0x", "", 1)


def number(text: Optional[str]) -> Optional[int]:
    """A whole number that a file says; None for -1, which the kernel says when it does not know."""
    try:
        value = int(text or "")
    except ValueError:
        return None
    return value if value >= 0 else None


def _speed(text: Optional[str]) -> Optional[float]:
    """GT/s of `32.0 GT/s PCIe`; None for `Unknown`."""
    match = re.match(r"(\d+(?:\.\d+)?) GT/s", text or "")
    return float(match.group(1)) if match else None


def _width(text: Optional[str]) -> Optional[int]:
    """Lanes; 0 and 255 mean that there is no link."""
    lanes = number(text)
    return lanes if lanes and lanes < 255 else None


def link(reader: Reader, address: Optional[str], prefix: str = "") -> Dict[str, Any]:
    """How the link of a function came up, and what this end of it could."""

    def told(name: str) -> Optional[str]:
        return reader.line("%s/%s/%s" % (DEVICES, address, name)) if address else None

    return {
        prefix + "speed_gts": _speed(told("current_link_speed")),
        prefix + "width": _width(told("current_link_width")),
        prefix + "max_speed_gts": _speed(told("max_link_speed")),
        prefix + "max_width": _width(told("max_link_width")),
    }


def placed(reader: Reader, device: Device) -> Dict[str, Any]:
    """What every card is asked: its ids, its link with both ends, its place."""
    at = DEVICES + "/" + device.address
    driver = reader.readlink(at + "/driver")
    return {
        "address": device.address,
        "device": device.vendor + ":" + device.device,
        "driver": driver.rpartition("/")[2] if driver else None,
        "numa_node": number(reader.line(at + "/numa_node")),
        **link(reader, device.address),
        "port_address": device.port,
        **link(reader, device.port, "port_"),
        "switch": device.switch,
        **link(reader, device.switch, "switch_"),
    }


def _slots(reader: Reader) -> Dict[str, str]:
    """address without its function -> what the board's maker calls the slot."""
    found = {}
    for name in reader.listdir("/sys/bus/pci/slots"):
        address = reader.line("/sys/bus/pci/slots/%s/address" % name)
        if address:
            found[address] = name[:40]
    return found


def gpus(reader: Reader, found: Dict[str, Device]) -> List[Dict[str, Any]]:
    """NVIDIA's VGA and 3D controllers, virtual functions apart."""
    slots = _slots(reader)
    listed = []
    for device in found.values():
        if device.vendor != NVIDIA or device.kind[:4] not in GPU_CLASSES or device.virtual:
            continue
        at = DEVICES + "/" + device.address
        subsystem = [_hex(reader.line(at + "/" + name)) for name in ("subsystem_vendor", "subsystem_device")]
        places = [address.rpartition(".")[0] for address in (device.address, *reversed(device.above))]
        listed.append({
            **placed(reader, device),
            "subsystem": ":".join(subsystem) if all(subsystem) else None,
            "slot": next((slots[place] for place in places if place in slots), None),
        })  # fmt: skip
    return listed


def nvswitches(found: Dict[str, Device]) -> int:
    """NVSwitches that stand on the PCI bus (NVLink 4 and older): NVIDIA's bridges that are no PCI bridges."""
    return sum(device.vendor == NVIDIA and device.kind[:4] == NVSWITCH_CLASS for device in found.values())


def acs(reader: Reader, found: Dict[str, Device], cards: List[str]) -> List[Dict[str, Any]]:
    """Of every port above these cards that has Access Control Services: does it send peer-to-peer traffic up to the root?

    `redirect` None: its configuration space would not be read (it takes root). A port without the capability is not listed.
    """
    ports = sorted({port for card in cards if card in found for port in found[card].above})
    listed = []
    for port in ports:
        space = reader.read_bytes("%s/%s/config" % (DEVICES, port), 4096)
        told = _redirect(space)
        if told != ():
            listed.append({"address": port, "redirect": told[0] if told else None})
    return listed


REQUEST_REDIRECT, COMPLETION_REDIRECT = 0x04, 0x08
ACS_CAPABILITY = 0x000D


def _redirect(space: Optional[bytes]) -> Optional[Tuple[bool, ...]]:
    """(yes or no,); () for a port without ACS; None when the extended capabilities were not shown."""
    if space is None or len(space) <= 0x100 or space[:4] == b"\xff\xff\xff\xff":
        return None
    place, steps = 0x100, 0
    while 0x100 <= place <= len(space) - 8 and steps < 96:
        head = int.from_bytes(space[place : place + 4], "little")
        if head & 0xFFFF == ACS_CAPABILITY:
            control = int.from_bytes(space[place + 6 : place + 8], "little")
            return (bool(control & (REQUEST_REDIRECT | COMPLETION_REDIRECT)),)
        place, steps = head >> 20, steps + 1
    return ()
