"""The node as it is, below a root: network devices from sysfs, files that name or configure links, programs and services. Reads only."""

from __future__ import annotations

import glob
import json
import os
import re
import stat
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from ansible.module_utils.burnin_ib import making, model
from ansible.module_utils.burnin_ib.model import Hardware, Netdev, Port, Refusal, World

PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
WORD = re.compile(r"[A-Za-z0-9_.:+-]{0,64}")
MOST_DEVICES, MOST_FILES, MOST_BYTES, MOST_PORTS = 4096, 2000, 200_000, 256
OURS = (
    model.RULES,
    model.RDMA_RULES,
    model.MODULES,
    model.NETPLAN,
    "%s/%s*" % (model.NETWORKD, model.NETWORKD_PREFIX),
    "%s/10-netplan-*.network.d/%s" % (model.NETWORKD, model.NETPLAN_DROP_IN),
    "%s/%s*" % (model.KEYFILES, model.KEYFILE_PREFIX),
)
OTHERS = (
    "/etc/udev/rules.d/*.rules", "/run/udev/rules.d/*.rules",
    "/etc/systemd/network/*.network", "/etc/systemd/network/*.link", "/run/systemd/network/*.network", "/run/systemd/network/*.link",
    "/usr/lib/systemd/network/*.network",
    "/etc/netplan/*.yaml", "/run/netplan/*.yaml", "/usr/lib/netplan/*.yaml", "/lib/netplan/*.yaml",
    "/etc/NetworkManager/system-connections/*", "/run/NetworkManager/system-connections/*", "/usr/lib/NetworkManager/system-connections/*",
    "/etc/sysconfig/network-scripts/ifcfg-*", "/etc/network/interfaces", "/etc/network/interfaces.d/*",
)  # fmt: skip
PROGRAMS = ("netplan", "nmcli", "networkctl", "udevadm", "modprobe", "ip")
SERVICES = ("systemd-networkd", "NetworkManager")
FLAG_UP = 0x1


def hardware(told: Mapping[str, Any]) -> Hardware:
    """The node program's own answer, as preflight hands it on. What another wrote is checked, field by field."""
    nics = told.get("nics")
    if not isinstance(nics, list):
        raise Refusal(
            "HARDWARE_UNKNOWN", "nobody has told what adapters this node has; run the role preflight before (it hands on what it saw)"
        )
    ports = tuple(_port(one) for one in nics[:MOST_PORTS] if isinstance(one, Mapping) and PCI.fullmatch(str(one.get("address"))))
    gpus = tuple(_word(one) for one in (told.get("gpu_switches") or ())[:MOST_PORTS])
    return Hardware(ports, gpus, told.get("nvlink5") is not None)


def _port(one: Mapping[str, Any]) -> Port:
    number = one.get("port")
    guid = str(one.get("guid") or "").lower()
    return Port(
        pci=str(one["address"]),
        device=_word(one.get("device")),
        driver=_word(one.get("driver")),
        rdma=_word(one.get("rdma")),
        number=number if isinstance(number, int) and 1 <= number <= 255 else 1,
        link_layer=_word(one.get("link_layer")),
        guid=guid if re.fullmatch(r"[0-9a-f]{16}", guid) else "",
        bridge=bool(one.get("nvlink5_bridge")),
        switch=_word(one.get("switch")),
        state=_word(one.get("state")),
    )


def _word(value: Any) -> str:
    text = str(value or "")
    return text if WORD.fullmatch(text) else ""


def world(root: str, sysfs: str, kernel_names: bool) -> World:
    """`root`: of files and programs; `sysfs`: where /sys is read. Below another root than / nothing runs, and everything counts as there; but for
    ip, since no link of that tree can be renamed: names come with its next boot.
    """
    real = root == "/"
    release = _release(root)
    return World(
        system=release.get("ID", ""),
        like=tuple(release.get("ID_LIKE", "").split()),
        programs=tuple(name for name in PROGRAMS if (making.program(name) if real else name != "ip")),
        active=_active(sysfs, real),
        enabled=_enabled() if real else (),
        netdevs=tuple(netdevs(sysfs, real)),
        virtual=tuple(_virtual(sysfs)),
        ours=_texts(root, (*OURS, model.RDMA_NAMING) if kernel_names or _is_ours(root) else OURS),
        others=_others(root),
        modes=_modes(root),
    )


def _is_ours(root: str) -> bool:
    """The file in the distribution's name is looked at where we want it, or where it is ours; another's stays nobody's business."""
    return model.HEAD in (_text(_at(root, model.RDMA_NAMING)) or "")


def _at(root: str, path: str) -> str:
    return os.path.join(root, path.lstrip("/"))


def _text(path: str, most: int = MOST_BYTES) -> Optional[str]:
    """None where it cannot be read; only plain files."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            return file.read(most).decode("utf-8", "replace")
    except OSError:
        return None


def _line(path: str) -> str:
    return (_text(path, 4096) or "").strip()


def _number(text: str) -> Optional[int]:
    try:
        return int(text, 0)
    except ValueError:
        return None


def _release(root: str) -> Dict[str, str]:
    found = {}
    for line in (_text(_at(root, "/etc/os-release")) or _text(_at(root, "/usr/lib/os-release")) or "").splitlines():
        key, _, value = line.partition("=")
        found[key.strip()] = value.strip().strip("\"'").lower()
    return found


def _found(root: str, patterns: Iterable[str]) -> List[str]:
    """Paths of the node, the root left away."""
    base = root.rstrip("/")
    paths = {path[len(base) :] for pattern in patterns for path in glob.glob(glob.escape(base) + pattern)}
    return sorted(path for path in paths if os.path.isfile(base + path))[:MOST_FILES]


def _texts(root: str, patterns: Iterable[str]) -> Dict[str, str]:
    return {path: _text(_at(root, path)) or "" for path in _found(root, patterns)}


def _others(root: str) -> Dict[str, str]:
    own = set(_found(root, (*OURS, model.RDMA_NAMING)))
    # What netplan makes of its YAML is not a second word.
    paths = [path for path in _found(root, OTHERS) if path not in own and "/run/systemd/network/10-netplan-" not in path]
    return {path: _text(_at(root, path)) or "" for path in paths}


def _modes(root: str) -> Dict[str, int]:
    return {path: stat.S_IMODE(os.stat(_at(root, path)).st_mode) for path in _found(root, (*OURS, model.RDMA_NAMING))}


def _active(sysfs: str, real: bool) -> Tuple[str, ...]:
    module = ("ib_ipoib",) if os.path.isdir(_at(sysfs, "/sys/module/ib_ipoib")) else ()
    if not real:
        return (*SERVICES, *module)
    running = [name for name in SERVICES if making.run(["systemctl", "is-active", "--quiet", name + ".service"]).returncode == 0]
    udev = ("udev",) if os.path.exists("/run/udev/control") else ()
    return (*running, *udev, *module)


def _enabled() -> Tuple[str, ...]:
    name = "systemd-networkd-wait-online"
    said = making.run(["systemctl", "is-enabled", name + ".service"]).stdout.strip()
    return (name,) if said in ("enabled", "enabled-runtime") else ()


def _virtual(sysfs: str) -> List[str]:
    base = _at(sysfs, "/sys/bus/pci/devices")
    return [name for name in _names(base) if os.path.exists(os.path.join(base, name, "physfn"))]


def _names(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))[:MOST_DEVICES]
    except OSError:
        return []


def netdevs(sysfs: str, real: bool) -> List[Netdev]:
    """Every network device that there is."""
    given = _addresses() if real else None
    return [_netdev(sysfs, name, given) for name in _names(_at(sysfs, "/sys/class/net")) if WORD.fullmatch(name)]


def _netdev(sysfs: str, name: str, given: Optional[Dict[str, Tuple[str, ...]]]) -> Netdev:
    at = _at(sysfs, "/sys/class/net/" + name)
    parts = os.path.realpath(at).split("/")
    number = _number(_line(at + "/dev_port"))
    flags = _number(_line(at + "/flags")) or 0
    carrier = {"0": False, "1": True}.get(_line(at + "/carrier"))
    return Netdev(
        name=name,
        kind=_number(_line(at + "/type")) or 0,
        address=_line(at + "/address"),
        pci=next((part for part in reversed(parts) if PCI.fullmatch(part)), ""),
        port=None if number is None else number + 1,
        up=bool(flags & FLAG_UP),
        carrier=carrier,
        mtu=_number(_line(at + "/mtu")),
        mode=_line(at + "/mode") or None,
        p_key=_number(_line(at + "/pkey")),
        addresses=None if given is None else given.get(name, ()),
    )


def _addresses() -> Dict[str, Tuple[str, ...]]:
    """Name -> addresses with their prefixes."""
    done = making.run(["ip", "-json", "address", "show"])
    try:
        links = json.loads(done.stdout) if done.returncode == 0 else []
    except ValueError:
        links = []
    return {
        str(link.get("ifname")): tuple("%s/%s" % (one.get("local"), one.get("prefixlen")) for one in link.get("addr_info") or ())
        for link in links
        if isinstance(link, dict)
    }
