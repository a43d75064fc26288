"""What is asked for, what is there, what is to be done. Records only; every decision is elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Optional, Tuple

HEAD = "# Written by burnin (ib_interface) from the inventory: changes made here are undone by the next run."
INFINIBAND_TYPE = 32  # ARPHRD_INFINIBAND
LONGEST_NAME = 15  # IFNAMSIZ less its closing zero

RULES = "/etc/udev/rules.d/70-burnin-ib.rules"
RDMA_RULES = "/etc/udev/rules.d/59-burnin-rdma.rules"
RDMA_NAMING = "/etc/udev/rules.d/60-rdma-persistent-naming.rules"
MODULES = "/etc/modules-load.d/burnin-ib.conf"
NETPLAN = "/etc/netplan/90-burnin-ib.yaml"
NETWORKD = "/etc/systemd/network"
NETWORKD_PREFIX = "60-burnin-ib-"
NETPLAN_DROP_IN = "burnin-ib.conf"
KEYFILES = "/etc/NetworkManager/system-connections"
KEYFILE_PREFIX = "burnin-ib-"
RENDERERS = ("netplan", "networkmanager", "networkd")


class Refusal(Exception):
    """Nothing was written. `code` is stable; the message says what was found, what was expected and what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Trouble(Refusal):
    """The same, but something may have been written before."""


@dataclass(frozen=True)
class Child:
    """An interface for one partition. `p_key` has its full-member bit unless it was asked for without."""

    p_key: int
    addresses: Tuple[str, ...] = ()
    mtu: Optional[int] = None


@dataclass(frozen=True)
class Wish:
    """One port as asked for. Empty: not said. `where`: how the inventory calls it, for messages."""

    where: str
    guid: str = ""
    pci: str = ""
    rdma: str = ""
    port: Optional[int] = None
    name: str = ""
    addresses: Tuple[str, ...] = ()
    mtu: Optional[int] = None
    mode: str = "datagram"
    children: Tuple[Child, ...] = ()
    rdma_name: str = ""


@dataclass(frozen=True)
class Asked:
    """The whole description of one node."""

    wishes: Tuple[Wish, ...] = ()
    pattern: str = ""
    order: str = "pci"
    addresses: Dict[str, Tuple[str, ...]] = field(default_factory=dict)
    mtu: Optional[int] = None
    mode: str = "datagram"
    children: Tuple[Child, ...] = ()
    expected: int = 0
    exclude: Tuple[str, ...] = ()
    renderer: str = "auto"
    rdma_naming: str = "keep"
    allow_connected: bool = False
    allow_kernel_names: bool = False


@dataclass(frozen=True)
class Port:
    """One port of an adapter, as the node program told of it. `number` counts from 1; `switch` is the upstream port it stands behind."""

    pci: str
    device: str = ""
    driver: str = ""
    rdma: str = ""
    number: int = 1
    link_layer: str = ""
    guid: str = ""
    bridge: bool = False
    switch: str = ""
    state: str = ""

    @property
    def called(self) -> str:
        """How it is named to a person."""
        return "%s port %d (%s%s)" % (self.rdma or "no RDMA device", self.number, self.pci, ", GUID " + self.guid if self.guid else "")


@dataclass(frozen=True)
class Hardware:
    """`bridges_told`: whether every adapter could be asked if it leads to NVSwitches. `gpus`: the switches they stand behind, in PCI order."""

    ports: Tuple[Port, ...] = ()
    gpus: Tuple[str, ...] = ()
    bridges_told: bool = True


@dataclass(frozen=True)
class Netdev:
    """A network device now. `pci` and `port` (from 1) are empty for one that no PCI function stands behind; `mode` None: it has none."""

    name: str
    kind: int = 1
    address: str = ""
    pci: str = ""
    port: Optional[int] = None
    up: bool = False
    carrier: Optional[bool] = None
    mtu: Optional[int] = None
    mode: Optional[str] = None
    p_key: Optional[int] = None
    addresses: Optional[Tuple[str, ...]] = None

    @property
    def is_child(self) -> bool:
        """A partition's interface has its parent's address and its parent's PCI function; only the name tells."""
        return "." in self.name


@dataclass(frozen=True)
class World:
    """The node as it is. `ours`: path -> text of files with our names; `others`: path -> text of all that could name or configure a link."""

    system: str = ""
    like: Tuple[str, ...] = ()
    programs: Tuple[str, ...] = ()
    active: Tuple[str, ...] = ()
    enabled: Tuple[str, ...] = ()
    netdevs: Tuple[Netdev, ...] = ()
    virtual: Tuple[str, ...] = ()
    ours: Dict[str, str] = field(default_factory=dict)
    others: Dict[str, str] = field(default_factory=dict)
    modes: Dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Interface:
    """One interface as it shall be. `pinned`: guid or pci. `now`: what its device is called now, "" where there is none yet."""

    name: str
    port: Port
    pinned: str
    addresses: Tuple[str, ...] = ()
    mtu: Optional[int] = None
    mode: str = "datagram"
    children: Tuple[Child, ...] = ()
    rdma_name: str = ""
    now: str = ""

    def child_name(self, child: Child) -> str:
        """As the kernel, NetworkManager and our networkd files call it."""
        return "%s.%04x" % (self.name, child.p_key)


@dataclass(frozen=True)
class LeftOut:
    """A port that is nobody's interface, with the reason."""

    port: str
    code: str
    why: str


@dataclass(frozen=True)
class Step:
    """One thing to do. `kind`: write, remove, run, rename. `argv` for run and rename."""

    kind: str
    path: str = ""
    text: str = ""
    mode: int = 0o644
    argv: Tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Plan:
    """`differs`: path or path: field, for a person. `reboot`: why the node must boot before all is as asked."""

    renderer: str
    interfaces: Tuple[Interface, ...] = ()
    left_out: Tuple[LeftOut, ...] = ()
    steps: Tuple[Step, ...] = ()
    differs: Tuple[str, ...] = ()
    reboot: Tuple[str, ...] = ()
    notes: Tuple[str, ...] = ()
    start: bool = False
