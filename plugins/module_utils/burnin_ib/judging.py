"""Whether the node came out as it was asked, from what it says afterwards. Pure. Nothing read back is not a pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, List, Optional, Sequence, Tuple

from ansible.module_utils.burnin_ib.model import Interface, Netdev

# Enumeration of the path and partition MTU as a subnet manager's partition file counts it (IBTA 15.2.5.4); IPoIB has 4 bytes less.
CODES = {252: 1, 508: 2, 1020: 3, 2044: 4, 4092: 5}


@dataclass(frozen=True)
class Told:
    """One interface afterwards. `state`: ok, waiting (for a boot, a driver or a carrier), failed. `code`: why it failed."""

    name: str
    state: str
    code: str = ""
    why: str = ""


def judge(interfaces: Sequence[Interface], netdevs: Sequence[Netdev]) -> List[Told]:
    """One a wanted interface, partitions included."""
    told = []
    for one in interfaces:
        told.append(_one(one.name, one.mode, one.mtu, one.addresses, netdevs, one))
        carried = told[-1].state == "ok"
        for child in one.children:
            kid = _one(one.child_name(child), one.mode, child.mtu, child.addresses, netdevs, one)
            if carried and kid.code == "NOT_THERE":
                kid = Told(
                    kid.name,
                    "failed",
                    "PKEY_NOT_REACHED",
                    "%s is as asked, and its partition's interface %s was not made" % (one.name, kid.name),
                )
            told.append(kid)
    return told


def _one(name: str, mode: str, mtu: Optional[int], addresses: Tuple[str, ...], netdevs: Sequence[Netdev], one: Interface) -> Told:
    device = next((device for device in netdevs if device.name == name), None)
    if device is None:
        still = next((device.name for device in netdevs if device.name == one.now), "")
        why = "it is called %s until the next boot" % still if still and still != one.name else "the node has no such interface yet"
        return Told(name, "waiting", "NOT_THERE", why)
    if device.mode is not None and device.mode != mode:
        return Told(
            name, "failed", "MODE_NOT_REACHED",
            "%s was asked for and %s is what the kernel says (/sys/class/net/%s/mode); the adapter or the kernel has no %s mode"
            % (mode, device.mode, name, mode),
        )  # fmt: skip
    if not device.carrier:
        return Told(
            name, "waiting", "NO_CARRIER", "it has no carrier (%s): MTU and addresses can be read back when the port is active" % _port(one)
        )
    return next(_short(name, mode, mtu, addresses, device), Told(name, "ok"))


def _port(one: Interface) -> str:
    return "%s is %s" % (one.port.rdma or one.port.pci, one.port.state or "in no known state")


def _short(name: str, mode: str, mtu: Optional[int], addresses: Tuple[str, ...], device: Netdev) -> Iterator[Told]:
    if mtu and device.mtu != mtu:
        yield Told(name, "failed", "MTU_NOT_REACHED", _cause(name, mode, mtu, device.mtu))
    lacking = [] if device.addresses is None else [one for one in addresses if one not in device.addresses]
    if lacking:
        has = ", ".join(device.addresses or ()) or "none"
        yield Told(
            name,
            "failed",
            "ADDRESS_NOT_REACHED",
            "%s lacks %s and has %s; does another program take it away?" % (name, ", ".join(lacking), has),
        )


def _cause(name: str, mode: str, asked: int, found: Optional[int]) -> str:
    text = "%s was asked for mtu %d and has %s" % (name, asked, found)
    if mode == "datagram" and found is not None and found < asked:
        wanted = CODES.get(asked, 5)
        return (
            text
            + ": what counts is the lesser of that and the multicast group's, which the subnet manager's partition sets; give the partition "
            "mtu=%d there (OpenSM: partitions.conf) on a fabric that can, or ask for %d" % (wanted, found)
        )
    return text + "; something else sets it, or the adapter has less"
