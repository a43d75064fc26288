"""Network adapters and drives: from PCI when no driver is there yet, with what their drivers say when there is one."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Tuple

from burnin.node.host import pci
from burnin.node.host.reading import Reader

INFINIBAND, NVME = "/sys/class/infiniband", "/sys/class/nvme"
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
    for name in reader.listdir(INFINIBAND):
        address = _address(reader, name)
        if address is None or address not in found or found[address].virtual:
            continue
        driven.add(address)
        for port in reader.listdir("%s/%s/ports" % (INFINIBAND, name)) or ["1"]:
            listed.append({**_card(reader, found[address], bridging), **_port(reader, name, address, port)})
    for device in found.values():
        if device.address not in driven and device.vendor == pci.MELLANOX and device.kind[:2] == pci.NETWORK_CLASS and not device.virtual:
            listed.append({**_card(reader, device, bridging), **_nothing(reader, device.address)})
    return sorted(listed, key=lambda one: (one["address"], str(one["port"])))


def _address(reader: Reader, name: str) -> Optional[str]:
    """The PCI function behind an RDMA device; it may be reached over its parent's folder or over the link `device`."""
    path = reader.realpath("%s/%s" % (INFINIBAND, name)) or ""
    return next((part for part in reversed(path.split("/")) if pci.ADDRESS.fullmatch(part)), None)


def _card(reader: Reader, device: pci.Device, bridging: List[str]) -> Dict[str, Any]:
    return {**pci.placed(reader, device), "kind": device.kind, "nvlink5_bridge": device.address in bridging}


def _nothing(reader: Reader, address: str) -> Dict[str, Any]:
    """What only the RDMA driver knows, not known; the network's name may be there without it."""
    names = ("rdma", "port", "link_layer", "state", "physical_state", "rate_gb_s", "guid", "firmware", "board_id")
    return {**dict.fromkeys(names), "netdev": _netdev(reader, address, "1")}


def _port(reader: Reader, name: str, address: str, port: str) -> Dict[str, Any]:
    at = "%s/%s" % (INFINIBAND, name)
    rate = (reader.line("%s/ports/%s/rate" % (at, port)) or "").split(" ")[0]
    return {
        "rdma": name,
        "netdev": _netdev(reader, address, port),
        "port": pci.number(port),
        "link_layer": reader.line("%s/ports/%s/link_layer" % (at, port)),
        "state": _word(reader.line("%s/ports/%s/state" % (at, port))),
        "physical_state": _word(reader.line("%s/ports/%s/phys_state" % (at, port))),
        "rate_gb_s": float(rate) if rate.replace(".", "", 1).isdigit() else None,
        "guid": _guid(reader.line("%s/ports/%s/gids/0" % (at, port)), reader.line(at + "/node_guid")),
        "firmware": reader.line(at + "/fw_ver"),
        "board_id": reader.line(at + "/board_id"),
    }


def _word(text: Optional[str]) -> Optional[str]:
    """ACTIVE of `4: ACTIVE`."""
    return text.partition(":")[2].strip() or text if text else None


def _guid(gid: Optional[str], node: Optional[str]) -> Optional[str]:
    """The port's own GUID, the last eight bytes of its first GID; else its node's. 16 hex digits."""
    for text in ((gid or "").replace(":", "")[-16:], (node or "").replace(":", "")):
        if len(text) == 16 and set(text) - {"0"}:
            return text.lower()
    return None


def _netdev(reader: Reader, address: str, port: str) -> Optional[str]:
    """The network device of this port: the one whose dev_port is the port's, else the only one."""
    at = "%s/%s/net" % (pci.DEVICES, address)
    names = reader.listdir(at)
    ours = [name for name in names if (pci.number(reader.line("%s/%s/dev_port" % (at, name))) or 0) + 1 == (pci.number(port) or 1)]
    return next(iter(ours or names), None)


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
