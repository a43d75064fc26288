"""What the inventory says -> Asked. Everything that can be refused without looking at the node is refused here."""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from ansible.module_utils.burnin_ib.model import LONGEST_NAME, RENDERERS, Asked, Child, Refusal, Wish

# IPoIB datagram: the largest InfiniBand MTU, 4096, less its 4 bytes; connected: 64 KiB less what IP and IPoIB need (kernel, ipoib.h).
LARGEST = {"datagram": 4092, "connected": 65520}
LEAST_MTU, LEAST_MTU_IPV6 = 68, 1280  # RFC 791, RFC 8200
MODES, ORDERS, NAMINGS = ("datagram", "connected"), ("pci", "gpu"), ("keep", "kernel")
FULL_MEMBER = 0x8000
GUID = re.compile(r"[0-9a-f]{16}")
PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
SHORT_PCI = re.compile(r"[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,14}")
RDMA = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
# What the kernel itself calls them, in the order in which they answered: a name that is another port's at the next boot.
KERNEL_NAMES, KERNEL_RDMA = re.compile(r"ib[0-9]+"), re.compile(r"(mlx|mthca|qib|hfi1)[0-9]*_[0-9]+")
PATTERN = re.compile(r"[A-Za-z0-9_-]*\{index\}[A-Za-z0-9_-]*")
SHOWN = 60


def shown(value: Any) -> str:
    """A value of the inventory or of the node in a message: short, on one line."""
    text = "".join(letter if letter.isprintable() else "?" for letter in str(value))
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def guid(value: Any, where: str) -> str:
    """16 hex digits of a port GUID, however it is written (0x..., with colons of 2 or 4 digits); "" of nothing."""
    text = re.sub(r"^0x", "", str(value or "").strip().lower()).replace(":", "").replace("-", "")
    if not text:
        return ""
    if isinstance(value, int) or not GUID.fullmatch(text) or not set(text) - {"0"}:
        raise Refusal(
            "GUID_INVALID",
            "%s: %s is no port GUID; expected 16 hex digits in quotes, as `ibstat` says under Port GUID (0xa088c20300567800)"
            % (where, shown(value)),
        )
    return text


def pci(value: Any, where: str) -> str:
    """A PCI function in the kernel's form; the domain may be left out."""
    text = str(value or "").strip().lower()
    if not text:
        return ""
    text = "0000:" + text if SHORT_PCI.fullmatch(text) else text
    if not PCI.fullmatch(text):
        raise Refusal("PCI_INVALID", "%s: %s is no PCI address; expected one as lspci -D says it (0000:1a:00.0)" % (where, shown(value)))
    return text


def name(value: Any, where: str, children: bool, kernel_ok: bool) -> str:
    """An interface's name; "" of nothing. With children it must leave room for `.8001`."""
    text = str(value or "")
    if not text:
        return ""
    most = LONGEST_NAME - (5 if children else 0)
    if not NAME.fullmatch(text) or len(text) > most or text in ("lo", "all", "default"):
        raise Refusal(
            "NAME_INVALID",
            "%s: %s is no name for an interface; expected a letter, then letters, digits, - and _, at most %d in all%s"
            % (where, shown(value), most, " (its P_Keys' interfaces add .8001)" if children else ""),
        )
    if not kernel_ok:
        not_the_kernels(text, where)
    return text


def not_the_kernels(text: str, where: str) -> None:
    """Refuses ib0 and its like."""
    if KERNEL_NAMES.fullmatch(text):
        raise Refusal(
            "NAME_KERNELS",
            "%s: the kernel gives names like %s itself, in the order in which the ports answer, and two ports that hold each other's name at boot "
            "cannot both be renamed; choose another (ib_interface_pattern: mlx5_ib{index}), or set ib_interface_allow_kernel_names: true"
            % (where, text),
        )


def rdma_name(value: Any, where: str) -> str:
    """A name that an RDMA device shall have; "" of nothing."""
    text = str(value or "")
    if text and (not RDMA.fullmatch(text) or KERNEL_RDMA.fullmatch(text)):
        raise Refusal(
            "RDMA_NAME_INVALID",
            "%s: rdma_name %s cannot be given; expected a letter, then letters, digits, - and _, and none of the kernel's own (mlx5_0): at boot "
            "another device may hold it. To keep the kernel's names: ib_interface_rdma_naming: kernel" % (where, shown(value)),
        )
    return text


def addresses(values: Any, where: str) -> Tuple[str, ...]:
    """Each as ADDRESS/PREFIX in its usual form, in the order given."""
    if values in (None, ""):
        return ()
    found: List[str] = []
    for value in [values] if isinstance(values, str) else _list(values, where + ".addresses"):
        text = address(value, where)
        if text.partition("/")[0] in [one.partition("/")[0] for one in found]:
            raise Refusal("ADDRESS_TWICE", "%s: %s is given twice" % (where, text))
        found.append(text)
    return tuple(found)


def address(value: Any, where: str) -> str:
    """One address that a host can have, with its prefix."""
    try:
        whole = isinstance(value, str) and "/" in value and "%" not in value
        one = ipaddress.ip_interface(value.strip() if whole else "it has no prefix")
    except ValueError as problem:
        raise Refusal(
            "ADDRESS_INVALID", "%s: %s is no address: %s; write it as 10.9.0.7/16" % (where, shown(value), shown(problem))
        ) from None
    ip, network = one.ip, one.network
    wrong = ""
    if ip.is_multicast or ip.is_loopback or ip.is_unspecified or (ip.version == 4 and ip.is_reserved):
        wrong = "no address of a host"
    elif network.prefixlen == 0:
        wrong = "an address of the whole world: its prefix is 0"
    elif ip.version == 4 and network.prefixlen < 31 and ip in (network.network_address, network.broadcast_address):
        wrong = "the network's own or its broadcast address"
    if wrong:
        raise Refusal("ADDRESS_INVALID", "%s: %s is %s; give one that this node alone shall have" % (where, shown(value), wrong))
    return str(one)


def mtu(value: Any, mode: str, where: str, given: Iterable[str] = ()) -> Optional[int]:
    """None of nothing: as the fabric gives."""
    if value in (None, "", 0, "0"):
        return None
    try:
        number = int(str(value))
    except ValueError:
        raise Refusal("MTU_INVALID", "%s: mtu %s is no number" % (where, shown(value))) from None
    if number > LARGEST[mode]:
        hint = "" if mode == "connected" else "; a datagram's is the fabric's MTU less 4: 2044 or 4092"
        raise Refusal("MTU_TOO_LARGE", "%s: mtu %d is over what %s mode can carry, %d%s" % (where, number, mode, LARGEST[mode], hint))
    least = LEAST_MTU_IPV6 if any(":" in one for one in given) else LEAST_MTU
    if number < least:
        raise Refusal("MTU_INVALID", "%s: mtu %d is under the least that its addresses allow, %d" % (where, number, least))
    return number


def p_key(value: Any, limited: bool, where: str) -> int:
    """The 16 bits, with the full-member bit unless limited. A text must be hexadecimal with 0x: 8001 alone could be either."""
    number = value if isinstance(value, int) and not isinstance(value, bool) else -1
    if isinstance(value, str) and re.fullmatch(r"0[xX][0-9a-fA-F]{1,4}", value.strip()):
        number = int(value.strip(), 16)
    if not 0 <= number <= 0xFFFF:
        raise Refusal("PKEY_INVALID", "%s: %s is no P_Key; write it as 0x8001" % (where, shown(value)))
    if number & 0x7FFF == 0:
        raise Refusal("PKEY_INVALID", "%s: 0x%04x names no partition (0x0000 and 0x8000 are none)" % (where, number))
    if number & 0x7FFF == 0x7FFF:
        raise Refusal(
            "PKEY_INVALID", "%s: 0x%04x is the default partition, which is the port's own interface; leave it out" % (where, number)
        )
    return number & 0x7FFF if limited else number | FULL_MEMBER


def children(values: Any, mode: str, where: str) -> Tuple[Child, ...]:
    """One a partition: 0x000a and 0x800a are the same one, so their addresses are joined."""
    found: Dict[int, Child] = {}
    for place, one in enumerate(_list(values or [], where + ".p_keys")):
        at = "%s.p_keys[%d]" % (where, place)
        entry = one if isinstance(one, Mapping) else {"p_key": one}
        _known(entry, ("p_key", "addresses", "mtu", "limited"), at)
        key = p_key(entry.get("p_key"), _true(entry.get("limited", False), at), at)
        given = addresses(entry.get("addresses"), at)
        child = Child(key, given, mtu(entry.get("mtu"), mode, at, given))
        same = found.get(key & 0x7FFF)
        if same is None:
            found[key & 0x7FFF] = child
        elif same.p_key != key or (child.mtu or same.mtu) != (same.mtu or child.mtu):
            raise Refusal("PKEY_INVALID", "%s: partition 0x%04x is asked for twice, and not alike" % (at, key & 0x7FFF))
        else:
            found[key & 0x7FFF] = Child(key, same.addresses + given, same.mtu or child.mtu)
    return tuple(found[key] for key in sorted(found))


def _list(values: Any, where: str) -> List[Any]:
    if not isinstance(values, (list, tuple)):
        raise Refusal("DESCRIPTION_INVALID", "%s: expected a list, found %s" % (where, shown(values)))
    return list(values)


def _true(value: Any, where: str) -> bool:
    if isinstance(value, bool):
        return value
    raise Refusal("DESCRIPTION_INVALID", "%s: limited is true or false, found %s" % (where, shown(value)))


def _known(entry: Mapping[Any, Any], names: Tuple[str, ...], where: str) -> None:
    for key in entry:
        if key not in names:
            raise Refusal("DESCRIPTION_INVALID", "%s: %s is not known; known are %s" % (where, shown(key), ", ".join(names)))


def _one_of(value: Any, known: Tuple[str, ...], where: str, code: str = "DESCRIPTION_INVALID") -> str:
    if value not in known:
        raise Refusal(code, "%s: %s is not known; known are %s" % (where, shown(value), ", ".join(known)))
    return str(value)


def wish(entry: Any, place: int, base: Asked) -> Wish:
    """One entry of ib_interface_ports; what it leaves out is the site's."""
    where = "ib_interface_ports[%d]" % place
    if not isinstance(entry, Mapping):
        raise Refusal("DESCRIPTION_INVALID", "%s: expected a mapping, found %s" % (where, shown(entry)))
    _known(entry, ("guid", "pci", "rdma", "port", "name", "addresses", "mtu", "mode", "p_keys", "rdma_name"), where)
    selectors = [key for key in ("guid", "pci", "rdma") if entry.get(key)]
    if len(selectors) > 1 or not (selectors or entry.get("name")):
        raise Refusal(
            "DESCRIPTION_INVALID", "%s: say which port by one of guid, pci and rdma; found %s" % (where, " and ".join(selectors) or "none")
        )
    mode = _one_of(entry.get("mode") or base.mode, MODES, where + ".mode")
    kids = children(entry["p_keys"], mode, where) if entry.get("p_keys") is not None else base.children
    given = addresses(entry.get("addresses"), where)
    number = entry.get("port")
    if number is not None and not (str(number).isdigit() and 1 <= int(number) <= 255):
        raise Refusal("DESCRIPTION_INVALID", "%s: port %s is no port; they count from 1" % (where, shown(number)))
    rdma = str(entry.get("rdma") or "")
    if rdma and not RDMA.fullmatch(rdma):
        raise Refusal("DESCRIPTION_INVALID", "%s: %s is no RDMA device; expected one as `ibstat -l` says (mlx5_0)" % (where, shown(rdma)))
    return Wish(
        where=where,
        guid=guid(entry.get("guid"), where),
        pci=pci(entry.get("pci"), where),
        rdma=rdma,
        port=int(number) if number is not None else None,
        name=name(entry.get("name"), where, bool(kids), base.allow_kernel_names or not selectors),
        addresses=given,
        mtu=mtu(entry.get("mtu") if entry.get("mtu") is not None else base.mtu, mode, where, given),
        mode=mode,
        children=kids,
        rdma_name=rdma_name(entry.get("rdma_name"), where),
    )


def asked(given: Mapping[str, Any]) -> Asked:
    """The module's parameters. Raises Refusal."""
    mode = _one_of(given.get("mode") or "datagram", MODES, "ib_interface_mode")
    pattern = str(given.get("pattern") or "")
    if pattern and not PATTERN.fullmatch(pattern):
        raise Refusal("NAME_INVALID", "ib_interface_pattern: %s is no pattern; expected one {index} in it: mlx5_ib{index}" % shown(pattern))
    by_name = given.get("addresses") or {}
    if not isinstance(by_name, Mapping):
        raise Refusal("DESCRIPTION_INVALID", "ib_interface_addresses: expected names with their addresses, found %s" % shown(by_name))
    base = Asked(
        pattern=pattern,
        order=_one_of(given.get("order") or "pci", ORDERS, "ib_interface_order"),
        addresses={str(key): addresses(value, "ib_interface_addresses.%s" % shown(key)) for key, value in by_name.items()},
        mtu=mtu(given.get("mtu"), mode, "ib_interface_mtu"),
        mode=mode,
        children=children(given.get("p_keys"), mode, "ib_interface"),
        expected=int(given.get("expected") or 0),
        exclude=tuple(pci(one, "ib_interface_exclude") for one in given.get("exclude") or ()),
        renderer=_one_of(given.get("renderer") or "auto", ("auto", *RENDERERS), "ib_interface_renderer", "SYSTEM_UNKNOWN"),
        rdma_naming=_one_of(given.get("rdma_naming") or "keep", NAMINGS, "ib_interface_rdma_naming"),
        allow_connected=bool(given.get("allow_connected")),
        allow_kernel_names=bool(given.get("allow_kernel_names")),
    )
    if pattern:
        name(pattern.replace("{index}", "0"), "ib_interface_pattern", bool(base.children), base.allow_kernel_names)
    wishes = tuple(wish(entry, place, base) for place, entry in enumerate(_list(given.get("ports") or [], "ib_interface_ports")))
    _nothing_twice(wishes, base)
    return Asked(**{**base.__dict__, "wishes": wishes})


def _nothing_twice(wishes: Tuple[Wish, ...], base: Asked) -> None:
    """GUIDs, PCI functions, names and addresses, over all ports and their partitions."""
    seen: Dict[Tuple[str, str], str] = {}

    def once(kind: str, value: str, where: str, code: str) -> None:
        if value and seen.setdefault((kind, value), where) != where:
            raise Refusal(code, "%s: %s %s is %s's already; each is for one port alone" % (where, kind, value, seen[(kind, value)]))

    for one in wishes:
        once("GUID", one.guid, one.where, "GUID_TWICE")
        once("PCI address", "%s port %d" % (one.pci, one.port or 1) if one.pci else "", one.where, "PORT_TWICE")
        once("name", one.name, one.where, "NAME_TAKEN")
        once("RDMA name", one.rdma_name, one.where, "NAME_TAKEN")
    sides = [(one.where, one.addresses, one.children) for one in wishes]
    sides += [("ib_interface_addresses.%s" % key, value, ()) for key, value in base.addresses.items()]
    for where, own, kids in sides:
        for place, given in enumerate((own, *(child.addresses for child in kids))):
            at = where if place == 0 else "%s's P_Key 0x%04x" % (where, kids[place - 1].p_key)
            for text in given:
                once("address", text.partition("/")[0], at, "ADDRESS_TWICE")
