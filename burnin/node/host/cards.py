"""Network adapters and drives: from PCI when no driver is there yet, with what their drivers say when there is one."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Tuple

from burnin.node.host import pci, ports
from burnin.node.host.reading import Reader

NVME = "/sys/class/nvme"
SECTOR_BYTES = 512
MOST_VPD = 4096
# What the bridges to the NVSwitches of HGX B200 and B300 have in their vital product data; the same test as in NVIDIA's driver container.
NVLINK5_MARK = b"SW_MNG"


def bridges(reader: Reader, found: Dict[str, pci.Device]) -> Tuple[List[str], bool]:
    """The adapters that lead to NVSwitches of the fifth generation: InfiniBand devices that are nobody's network. And whether all could be asked.

    Vital product data are root's to read; without them there is no saying.
    """
    bridging, told = [], True
    for device in found.values():
        if device.vendor == pci.MELLANOX and device.kind[:2] == pci.NETWORK_CLASS and not device.virtual:
            place = "%s/%s/vpd" % (pci.DEVICES, device.address)
            content = reader.read_bytes(place, MOST_VPD)
            told = told and (content is not None or not reader.exists(place))
            if NVLINK5_MARK in (content or b""):
                bridging.append(device.address)
    return bridging, told


def nics(reader: Reader, found: Dict[str, pci.Device], bridging: List[str]) -> List[Dict[str, Any]]:
    """One entry a port of each RDMA device; one a function for an adapter that no driver drives. Virtual functions are left out."""
    listed, driven = [], set()
    for name in reader.listdir(ports.INFINIBAND):
        address = _address(reader, name)
        if address is None or address not in found or found[address].virtual:
            continue
        driven.add(address)
        for number in ports.names(reader, name):
            listed.append({**_card(reader, found[address], bridging), **ports.port(reader, name, address, number)})
    for device in found.values():
        if device.address not in driven and device.vendor == pci.MELLANOX and device.kind[:2] == pci.NETWORK_CLASS and not device.virtual:
            listed.append({**_card(reader, device, bridging), **ports.nothing(reader, device.address)})
    return sorted(listed, key=lambda one: (one["address"], str(one["port"])))


def _address(reader: Reader, name: str) -> Optional[str]:
    """The PCI function behind an RDMA device; it may be reached over its parent's folder or over the link `device`."""
    path = reader.realpath("%s/%s" % (ports.INFINIBAND, name)) or ""
    return next((part for part in reversed(path.split("/")) if pci.ADDRESS.fullmatch(part)), None)


def _card(reader: Reader, device: pci.Device, bridging: List[str]) -> Dict[str, Any]:
    return {**pci.placed(reader, device), "kind": device.kind, "nvlink5_bridge": device.address in bridging}


def nvme(reader: Reader, found: Dict[str, pci.Device]) -> List[Dict[str, Any]]:
    """The drives, in the order of their addresses: names are given anew at each boot."""
    known = dict(_drives(reader))
    listed = []
    for device in found.values():
        if device.kind == pci.NVME_CLASS and not device.virtual:
            nothing = dict.fromkeys(("name", "model", "serial", "firmware", "size_bytes"))
            listed.append({**pci.placed(reader, device), **known.get(device.address, nothing)})
    return listed


def _drives(reader: Reader) -> Iterator[Tuple[str, Dict[str, Any]]]:
    for name in reader.listdir(NVME):
        at = NVME + "/" + name
        address = reader.line(at + "/address")
        sizes = [pci.number(reader.line(path)) for path in reader.glob("%s/%sn*/size" % (at, name))]
        sectors = sum(size for size in sizes if size)
        if address:
            yield (
                address.lower(),
                {
                    "name": name,
                    "model": reader.line(at + "/model"),
                    "serial": reader.line(at + "/serial"),
                    "firmware": reader.line(at + "/firmware_rev"),
                    "size_bytes": sectors * SECTOR_BYTES if sectors else None,
                },
            )
