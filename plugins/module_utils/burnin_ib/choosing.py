"""Which port becomes which interface: the description, the adapters and what was named before -> interfaces. Pure."""

from __future__ import annotations

import re
from typing import Dict, Iterable, List, Mapping, Optional, Tuple

from ansible.module_utils.burnin_ib import asking
from ansible.module_utils.burnin_ib.model import INFINIBAND_TYPE, Asked, Hardware, Interface, LeftOut, Netdev, Port, Refusal, Wish, World

# Adapters that have a connected mode: ConnectX-3 and older (mlx4), Connect-IB. Newer ones have enhanced IPoIB, datagram only (RHEL 9, chapter 6).
CONNECTED_DEVICES = ("15b3:1011", "15b3:1012")
CONNECTED_DRIVERS = ("mlx4_core", "ib_mthca", "ib_qib", "hfi1")
# In front of each rule in our rules file, so that a name once given is known again.
GIVEN = re.compile(r"# pci=(?P<pci>[0-9a-f:.]+) port=(?P<port>[0-9]+) name=(?P<name>[A-Za-z0-9_-]+)")
PLACING = re.compile(r"# order=(?P<order>[a-z]+) pattern=(?P<pattern>[A-Za-z0-9_{}-]+)")

Key = Tuple[str, int]


def netdev_of(port: Port, netdevs: Iterable[Netdev]) -> Optional[Netdev]:
    """The port's own network device, by the last eight bytes of its address, else by PCI function and port; whatever it is called."""
    links = [one for one in netdevs if one.kind == INFINIBAND_TYPE and not one.is_child]
    for one in links:
        if port.guid and one.address.replace(":", "").lower()[-16:] == port.guid and len(one.address.replace(":", "")) > 16:
            return one
    return next((one for one in links if one.pci == port.pci and (one.port or 1) == port.number), None)


def unfit(port: Port, exclude: Tuple[str, ...]) -> Optional[LeftOut]:
    """Why a port is never configured; None: it may be."""
    if port.bridge:
        return LeftOut(
            port.called,
            "BRIDGE_REFUSED",
            "it leads to the node's own NVSwitches (its vital product data say SW_MNG): it is nobody's network, and the fabric manager needs it",
        )
    if port.link_layer == "Ethernet":
        line = "mlxconfig -d %s set LINK_TYPE_P%d=1" % (port.pci, port.number)
        return LeftOut(
            port.called,
            "LINK_LAYER",
            "its link layer is Ethernet, and IPoIB needs InfiniBand; if it should be, `%s` and a cold start make it so" % line,
        )
    if port.link_layer != "InfiniBand":
        told = "its link layer is %s" % port.link_layer if port.link_layer else "no driver tells of its link layer"
        return LeftOut(port.called, "LINK_LAYER", told + "; is mlx5_ib loaded (lsmod), and is there no OFED half installed?")
    if port.pci in exclude:
        return LeftOut(port.called, "EXCLUDED", "ib_interface_exclude names it")
    return None


def _listed(hardware: Hardware) -> str:
    said = [
        "%s%s" % (port.called, "" if port.link_layer == "InfiniBand" else " (%s)" % (port.link_layer or "no driver"))
        for port in hardware.ports
    ]
    return "; ".join(said[:40]) or "none"


def picked(wish: Wish, hardware: Hardware, world: World) -> Port:
    """The port that an entry of the inventory means. Raises Refusal, naming those that are there (field report B16)."""
    fitting = [port for port in hardware.ports if _means(wish, port, world)]
    if wish.port is not None and not wish.guid:
        fitting = [port for port in fitting if port.number == wish.port]
    what = next(("%s %s" % pair for pair in (("GUID", wish.guid), ("PCI address", wish.pci), ("RDMA device", wish.rdma)) if pair[1]), "")
    what = what or "the name %s" % wish.name
    if wish.port is not None:
        what += " port %d" % wish.port
    if not fitting and wish.pci in world.virtual:
        raise Refusal(
            "VIRTUAL_FUNCTION", "%s: %s is a virtual function; it is for a guest, which configures it itself" % (wish.where, wish.pci)
        )
    if not fitting:
        links = ", ".join(one.name for one in world.netdevs if one.kind == INFINIBAND_TYPE) or "none"
        raise Refusal(
            "HCA_UNKNOWN",
            "%s: this node has no port with %s. It has: %s. Its InfiniBand interfaces: %s. Was a card swapped, or is its driver not loaded?"
            % (wish.where, what, _listed(hardware), links),
        )
    if len(fitting) > 1:
        code = "GUID_TWICE" if wish.guid else "PORT_AMBIGUOUS"
        said = "; ".join(port.called for port in fitting)
        raise Refusal(code, "%s: %s is more than one port: %s. Say which by pci and port" % (wish.where, what, said))
    why = unfit(fitting[0], ())
    if why is not None:
        raise Refusal(why.code, "%s: %s cannot have an interface: %s" % (wish.where, why.port, why.why))
    return fitting[0]


def _means(wish: Wish, port: Port, world: World) -> bool:
    if wish.guid:
        return port.guid == wish.guid
    if wish.pci:
        return port.pci == wish.pci
    if wish.rdma:
        return port.rdma == wish.rdma
    device = netdev_of(port, world.netdevs)
    return device is not None and device.name == wish.name


def _same_guid(hardware: Hardware) -> None:
    seen: Dict[str, Port] = {}
    for port in hardware.ports:
        if port.guid and not port.bridge and seen.setdefault(port.guid, port) is not port:
            raise Refusal(
                "GUID_TWICE",
                "%s and %s have the same GUID; the fabric cannot tell them apart. Is one a clone by a wrong firmware image?"
                % (seen[port.guid].called, port.called),
            )


def ordered(ports: Iterable[Port], order: str, gpus: Tuple[str, ...]) -> List[Port]:
    """By PCI address; or as the GPUs stand, each GPU's own adapters first, then those of no GPU."""
    listed = sorted(ports, key=lambda port: (port.pci, port.number))
    if order == "pci":
        return listed
    places = {switch: place for place, switch in reversed(list(enumerate(gpus))) if switch}
    return sorted(listed, key=lambda port: places.get(port.switch, len(gpus)))


def given_before(rules: str, asked: Asked) -> Dict[Key, str]:
    """(PCI address, port) -> the name it had, where it was given by the same order and pattern; else nothing."""
    head = PLACING.search(rules)
    if head is None or (head["order"], head["pattern"]) != (asked.order, asked.pattern):
        return {}
    return {(found["pci"], int(found["port"])): found["name"] for found in GIVEN.finditer(rules)}


def numbered(ports: List[Port], asked: Asked, before: Mapping[Key, str]) -> Dict[Key, str]:
    """A name for each. One that had a name keeps it, and a name whose card is away is not given to another: a dead card moves no address."""
    names: Dict[Key, str] = {}
    taken = set(before.values())
    free = (name for name in (asked.pattern.replace("{index}", str(place)) for place in range(1000)) if name not in taken)
    for port in ports:
        key = (port.pci, port.number)
        name = before.get(key) or next(free)
        names[key] = asking.name(name, "ib_interface_pattern", bool(asked.children), asked.allow_kernel_names)
    return names


def can_connect(port: Port) -> bool:
    """Whether the adapter has a connected mode."""
    return port.driver in CONNECTED_DRIVERS or port.device in CONNECTED_DEVICES


def chosen(asked: Asked, hardware: Hardware, world: World, rules: str = "") -> Tuple[Tuple[Interface, ...], Tuple[LeftOut, ...]]:
    """Every interface that shall be, and every port that gets none, each with its reason. `rules`: our rules file as it is. Raises Refusal."""
    _same_guid(hardware)
    picks = [(wish, picked(wish, hardware, world)) for wish in asked.wishes]
    for place, (wish, port) in enumerate(picks):
        twin = next((other for other, same in picks[:place] if same == port), None)
        if twin is not None:
            raise Refusal("PORT_TWICE", "%s and %s are the same port: %s" % (twin.where, wish.where, port.called))
    left = [why for why in (unfit(port, asked.exclude) for port in hardware.ports) if why is not None]
    fit = [port for port in hardware.ports if unfit(port, asked.exclude) is None]
    named = numbered(ordered(fit, asked.order, hardware.gpus), asked, given_before(rules, asked)) if asked.pattern else {}
    if asked.pattern and not hardware.bridges_told and not asked.wishes:
        raise Refusal(
            "BRIDGES_UNKNOWN",
            "not every adapter could be asked whether it leads to NVSwitches (its vpd in sysfs cannot be read), and such a one must get no "
            "interface; run as root, or name the ports in ib_interface_ports",
        )
    found = [_wished(wish, port, asked, named, world) for wish, port in picks]
    if asked.pattern and not asked.wishes:
        found = [_automatic(port, named[(port.pci, port.number)], asked, world) for port in ordered(fit, "pci", ())]
    else:
        wanted = {(one.port.pci, one.port.number) for one in found}
        left += [
            LeftOut(port.called, "NOT_ASKED", "ib_interface_ports does not name it")
            for port in fit
            if (port.pci, port.number) not in wanted
        ]
    _counted(found, asked, hardware)
    _checked(found, asked, world)
    return tuple(found), tuple(left)


def _wished(wish: Wish, port: Port, asked: Asked, named: Mapping[Key, str], world: World) -> Interface:
    device = netdev_of(port, world.netdevs)
    now = device.name if device else ""
    name = wish.name or named.get((port.pci, port.number), "") or now
    if not name:
        raise Refusal(
            "NAME_INVALID",
            "%s: %s has no interface yet and is given no name; set name, or ib_interface_pattern" % (wish.where, port.called),
        )
    return Interface(
        name=name,
        port=port,
        pinned="guid" if wish.guid else "pci",
        addresses=wish.addresses or asked.addresses.get(name, ()),
        mtu=wish.mtu,
        mode=wish.mode,
        children=wish.children,
        rdma_name=wish.rdma_name,
        now=now,
    )


def _automatic(port: Port, name: str, asked: Asked, world: World) -> Interface:
    device = netdev_of(port, world.netdevs)
    return Interface(
        name, port, "pci", asked.addresses.get(name, ()), asked.mtu, asked.mode, asked.children, "", device.name if device else ""
    )


def _counted(found: List[Interface], asked: Asked, hardware: Hardware) -> None:
    if asked.expected and len(found) < asked.expected:
        raise Refusal(
            "PORTS_TOO_FEW",
            "ib_interface_expected says %d ports, and %d can have an interface: %s. The node has: %s"
            % (asked.expected, len(found), ", ".join(one.name for one in found) or "none", _listed(hardware)),
        )
    if not found:
        raise Refusal("HCA_UNKNOWN", "no port of this node can have an interface. It has: %s" % _listed(hardware))


def _checked(found: List[Interface], asked: Asked, world: World) -> None:
    """What needs the ports known: names that are others', modes that the card lacks, addresses for names that are none."""
    mine = {one.now for one in found if one.now}
    names = [one.name for one in found]
    for place, one in enumerate(found):
        held = next((device for device in world.netdevs if device.name == one.name and device.name not in mine), None)
        if one.name in names[:place] or held is not None:
            who = "another port of the description" if held is None else "a device of this node already (type %d)" % held.kind
            raise Refusal("NAME_TAKEN", "%s cannot be called %s: that is %s; choose another name" % (one.port.called, one.name, who))
        device = next((device for device in world.netdevs if device.name == one.now), None) if one.now else None
        if not asked.allow_kernel_names:
            asking.not_the_kernels(one.name, one.port.called)
        if one.mode == "connected" and not asked.allow_connected and not can_connect(one.port):
            raise Refusal(
                "MODE_UNSUPPORTED",
                "%s: %s (%s) has no connected mode: ConnectX-4 and newer do enhanced IPoIB, datagram only. Ask for datagram with mtu 4092, or, "
                "where you know better, set ib_interface_allow_connected"
                % (one.name, one.port.called, one.port.device or "unknown device"),
            )
        if one.mode == "connected" and device is not None and device.mode is None:
            raise Refusal(
                "MODE_UNSUPPORTED", "%s: the kernel has no connected mode for %s (no file mode in its sysfs folder)" % (one.name, one.now)
            )
    unknown = sorted(set(asked.addresses) - set(names))
    if unknown:
        raise Refusal(
            "NAME_UNKNOWN",
            "ib_interface_addresses has addresses for %s, and no port gets that name; there will be %s. Interfaces now: %s"
            % (", ".join(map(asking.shown, unknown[:5])), ", ".join(names), ", ".join(one.name for one in world.netdevs) or "none"),
        )
    _addresses_once(found)


def _addresses_once(found: List[Interface]) -> None:
    seen: Dict[str, str] = {}
    for one in found:
        for name, given in [(one.name, one.addresses), *((one.child_name(child), child.addresses) for child in one.children)]:
            for text in given:
                ip = text.partition("/")[0]
                if seen.setdefault(ip, name) != name or given.count(text) > 1:
                    raise Refusal("ADDRESS_TWICE", "%s: %s is %s's already" % (name, ip, seen[ip]))
