"""Write the /sys, /proc and /etc of a GPU node that we do not have: a whole HGX H100, an HGX B200, or a box of PCIe cards.

    python fake_root.py --kind hgx-h100 --out /srv/fake-root --driver 580.126.09 --fault nic_missing=3

Made by hand after the form of real ones (lspci and sysfs of public H100 nodes): switches with an upstream port, downstream ports, and a GPU,
an HCA and a drive behind them. It also runs on a test node: standard library only, Python 3.9. A fault changes one thing, told in FAULTS.
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

NVIDIA, MELLANOX, SWITCH, INTEL, MICRON = "10de", "15b3", "1000", "8086", "1344"
GPU_CLASS, NVSWITCH_CLASS, BRIDGE_CLASS, IB_CLASS, ETHERNET_CLASS, NVME_CLASS = "030200", "068000", "060400", "020700", "020000", "010802"
SPEED = {1: "2.5 GT/s PCIe", 2: "5.0 GT/s PCIe", 3: "8.0 GT/s PCIe", 4: "16.0 GT/s PCIe", 5: "32.0 GT/s PCIe"}
SECURE_BOOT = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
ACS_ALL, ACS_NONE = 0x1D, 0x01
COUNTERS = (
    "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_rcv_remote_physical_errors", "port_rcv_constraint_errors",
    "port_xmit_discards", "port_xmit_constraint_errors", "local_link_integrity_errors", "excessive_buffer_overrun_errors", "VL15_dropped",
    "port_rcv_data", "port_xmit_data", "port_xmit_wait",
)  # fmt: skip
HW_COUNTERS = ("out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "implied_nak_seq_err", "roce_slow_restart", "lifespan")
# The buses of the eight switches of a real node.
BUSES = (0x15, 0x37, 0x48, 0x59, 0x97, 0xB7, 0xC7, 0xD7)


@dataclass
class Device:
    """One PCI function. `gen` and `width`: what the link came up with; `most_*`: what this end could."""

    address: str
    above: str  # the address of the port above it, or pciDDDD:BB for a root bus
    vendor: str
    device: str
    kind: str
    gen: int = 5
    width: int = 16
    most_gen: int = 5
    most_width: int = 16
    driver: str = ""
    numa: int = 0
    acs: int | None = None
    vpd: str = ""
    slot: str = ""


@dataclass
class Hca:
    """One RDMA device of one port."""

    name: str
    address: str
    netdev: str
    layer: str = "InfiniBand"
    state: str = "4: ACTIVE"
    physical: str = "5: LinkUp"
    rate: str = "400 Gb/sec (4X NDR)"
    firmware: str = "28.41.1000"
    board: str = "MT_0000000838"
    guid: str = ""
    lid: str = "0x80"
    sm_lid: str = "0x1"
    mtu: int = 4092
    up: bool = False
    counters: dict[str, str] = field(default_factory=dict)  # those that are not 0


@dataclass
class FakeRoot:
    """The tree before it is written. `files`: path -> text or bytes, `links`: path -> target; both may be changed by a test."""

    kind: str = "hgx-h100"
    devices: dict[str, Device] = field(default_factory=dict)
    hcas: list[Hca] = field(default_factory=list)
    drives: dict[str, str] = field(default_factory=dict)  # nvme0 -> address
    files: dict[str, str | bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    driver: str = ""
    iommu: str = "identity"

    def gpus(self) -> list[Device]:
        return sorted((one for one in self.devices.values() if one.kind == GPU_CLASS), key=lambda one: one.address)

    def nics(self) -> list[Device]:
        """The HCAs beside the GPUs, in order."""
        return [
            self.devices[hca.address] for hca in self.hcas if hca.name.startswith("mlx5_") and "SW_MNG" not in self.devices[hca.address].vpd
        ]

    def remove(self, address: str) -> None:
        """Take a device out, and whatever the kernel made of it."""
        del self.devices[address]
        self.hcas = [hca for hca in self.hcas if hca.address != address]
        self.drives = {name: place for name, place in self.drives.items() if place != address}

    def path(self, device: Device) -> str:
        """Where a device lies below /sys/devices."""
        if device.above.startswith("pci"):
            return f"/sys/devices/{device.above}/{device.address}"
        return f"{self.path(self.devices[device.above])}/{device.address}"

    def write(self, root: Path) -> Path:
        """Write it all below `root`, which need not be there."""
        for number, device in enumerate(sorted(self.devices.values(), key=lambda one: one.address)):
            self._device(device, number)
        for hca in self.hcas:
            self._hca(hca)
        for name, address in self.drives.items():
            self._drive(name, address)
        if self.driver:
            self.files["/sys/module/nvidia/version"] = self.driver + "\n"
            for gpu in self.gpus():
                if gpu.driver == "nvidia":
                    self.files[f"/proc/driver/nvidia/gpus/{gpu.address}/information"] = "Model: NVIDIA\n"
        for folder in self.folders:
            (root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
        for path, content in self.files.items():
            place = root / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content if isinstance(content, bytes) else content.encode())
        for path, target in self.links.items():
            place = root / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.is_symlink():
                place.unlink()
            place.symlink_to(target)
        return root

    def _device(self, device: Device, number: int) -> None:
        at = self.path(device)
        facts = {
            "vendor": "0x" + device.vendor, "device": "0x" + device.device, "class": "0x" + device.kind,
            "subsystem_vendor": "0x" + device.vendor, "subsystem_device": "0x16c1", "numa_node": str(device.numa),
            "current_link_speed": SPEED[device.gen], "current_link_width": str(device.width),
            "max_link_speed": SPEED[device.most_gen], "max_link_width": str(device.most_width),
        }  # fmt: skip
        for name, value in facts.items():
            self.files[f"{at}/{name}"] = value + "\n"
        self.files[at + "/config"] = config_space(device)
        if device.vpd:
            self.files[at + "/vpd"] = vpd(device.vpd)
        self.links["/sys/bus/pci/devices/" + device.address] = relative("/sys/bus/pci/devices", at)
        if device.driver:
            self.folders.append("/sys/bus/pci/drivers/" + device.driver)
            self.links[at + "/driver"] = relative(at, "/sys/bus/pci/drivers/" + device.driver)
        if device.slot:
            self.files[f"/sys/bus/pci/slots/{device.slot}/address"] = device.address.rpartition(".")[0] + "\n"
        if self.iommu:
            self.files[f"/sys/kernel/iommu_groups/{number}/type"] = self.iommu + "\n"
            self.links[at + "/iommu_group"] = relative(at, f"/sys/kernel/iommu_groups/{number}")

    def _hca(self, hca: Hca) -> None:
        device = self.path(self.devices[hca.address])
        at = f"{device}/infiniband/{hca.name}"
        facts = {
            "fw_ver": hca.firmware, "board_id": hca.board, "hca_type": "MT4129", "node_guid": hca.guid,
            "ports/1/link_layer": hca.layer, "ports/1/state": hca.state, "ports/1/phys_state": hca.physical, "ports/1/rate": hca.rate,
            "ports/1/gids/0": "fe80:0000:0000:0000:" + hca.guid,
            "ports/1/lid": hca.lid if hca.layer == "InfiniBand" else "0x0",
            "ports/1/sm_lid": hca.sm_lid if hca.layer == "InfiniBand" else "0x0",
            **{f"ports/1/counters/{name}": hca.counters.get(name, "0") for name in COUNTERS},
            **{f"ports/1/hw_counters/{name}": hca.counters.get(name, "0") for name in HW_COUNTERS},
        }  # fmt: skip
        for name, value in facts.items():
            self.files[f"{at}/{name}"] = value + "\n"
        self.links[at + "/device"] = "../../../" + hca.address
        self.links["/sys/class/infiniband/" + hca.name] = relative("/sys/class/infiniband", at)
        if hca.netdev:
            self._netdev(f"{device}/net/{hca.netdev}", hca)

    def _netdev(self, at: str, hca: Hca) -> None:
        """An IPoIB device has 20 bytes of address: flags and queue pair, the fabric's prefix, the port's GUID."""
        facts = {
            "type": "1",
            "address": "b8:ce:f6:a1:00:01",
            "dev_port": "0",
            "mtu": "1500",
            "flags": "0x1003",
            "carrier": "1",
            "carrier_changes": "2",
        }
        if hca.layer == "InfiniBand":
            guid = hca.guid.replace(":", "")
            tail = ":".join(guid[place : place + 2] for place in range(0, 16, 2))
            active = hca.state == "4: ACTIVE"
            facts |= {
                "type": "32", "address": f"00:00:10:71:fe:80:00:00:00:00:00:00:{tail}", "mtu": str(hca.mtu), "mode": "datagram", "pkey": "0xffff",
                "flags": "0x1003" if hca.up else "0x1002", "carrier": "1" if active else "0",
            }  # fmt: skip
        else:
            facts["speed"] = hca.rate.split(" ")[0] + "000"
        self.files.update({f"{at}/{name}": value + "\n" for name, value in facts.items()})
        self.links[f"/sys/class/net/{hca.netdev}"] = relative("/sys/class/net", at)

    def _drive(self, name: str, address: str) -> None:
        device = self.path(self.devices[address])
        at = f"{device}/nvme/{name}"
        facts = {
            "model": "SAMSUNG MZQL23T8HCLS-00A07", "serial": "S64HNE0T" + name[4:].zfill(6), "firmware_rev": "GDC5602Q", "address": address,
            name + "n1/size": "7501476528",
        }  # fmt: skip
        for fact, value in facts.items():
            self.files[f"{at}/{fact}"] = value + "\n"
        self.links["/sys/class/nvme/" + name] = relative("/sys/class/nvme", at)


def relative(folder: str, target: str) -> str:
    """What a link in `folder` says to reach `target`."""
    ours, theirs = folder.strip("/").split("/"), target.strip("/").split("/")
    shared = 0
    while shared < min(len(ours), len(theirs)) and ours[shared] == theirs[shared]:
        shared += 1
    return "/".join([".."] * (len(ours) - shared) + theirs[shared:])


def config_space(device: Device) -> bytes:
    """4 KiB of configuration space: ids, the PCI Express capability (512-byte reads, relaxed ordering on, two errors in the status register,
    which a write would clear), and for a bridge with ACS a chain of two extended capabilities."""
    space = bytearray(4096)
    struct.pack_into("<HHHH", space, 0, int(device.vendor, 16), int(device.device, 16), 0x0006, 0x0010)
    space[0x34] = 0x40
    struct.pack_into("<BBHIHH", space, 0x40, 0x10, 0, 0x0002, 0, 0x2810, 0x0009)
    struct.pack_into("<I", space, 0x100, 0x0001 | (1 << 16) | ((0x170 if device.acs is not None else 0) << 20))  # AER
    if device.acs is not None:
        struct.pack_into("<IHH", space, 0x170, 0x000D | (1 << 16), 0x001D, device.acs)
    return bytes(space)


def vpd(name: str) -> bytes:
    """Vital product data: the identifier string, a short read-only part and the end tag."""
    text, fields = name.encode(), b"PN\x0bMCX75310AAS"
    return b"\x82" + struct.pack("<H", len(text)) + text + b"\x90" + struct.pack("<H", len(fields)) + fields + b"\x78"


def machine(tree: FakeRoot, product: str, memory_mib: int) -> FakeRoot:
    """What does not depend on the cards."""
    tree.files.update({
        "/etc/os-release": 'ID=ubuntu\nVERSION_ID="24.04"\nID_LIKE=debian\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n',
        "/proc/sys/kernel/osrelease": "6.8.0-88-generic\n",
        "/proc/sys/kernel/arch": "x86_64\n",
        "/proc/uptime": "36000.42 8000000.11\n",
        "/proc/sys/kernel/random/boot_id": "5d1c2f7e-7a3d-4b0e-9d59-0d5d1cf0b001\n",
        "/proc/cmdline": "BOOT_IMAGE=/vmlinuz-6.8.0-88-generic root=UUID=1 ro iommu=pt intel_iommu=on\n",
        "/proc/meminfo": f"MemTotal:       {memory_mib * 1024} kB\nMemFree:        1024 kB\n",
        "/sys/devices/system/cpu/online": "0-223\n",
        "/sys/class/dmi/id/bios_vendor": "Dell Inc.\n",
        "/sys/class/dmi/id/bios_version": "2.6.3\n",
        "/sys/class/dmi/id/bios_date": "03/12/2026\n",
        "/sys/class/dmi/id/product_name": product + "\n",
        "/sys/class/dmi/id/board_name": "0ABCDE\n",
        "/sys/class/dmi/id/product_serial": "7XK2R04\n",
        "/sys/firmware/efi/efivars/" + SECURE_BOOT: b"\x06\x00\x00\x00\x00",
        "/boot/vmlinuz-6.8.0-88-generic": "",
        "/usr/lib/modules/6.8.0-88-generic/modules.dep": "",
        "/usr/src/linux-headers-6.8.0-88-generic/Makefile": "",
        "/sys/module/mlx5_core/version": "25.10-1.7.1\n",
        "/run/systemd/timesync/synchronized": "",
        "/sys/class/iommu/dmar0/intel-iommu/version": "6:0\n",
    })  # fmt: skip
    tree.links["/lib"] = "usr/lib"
    tree.links["/usr/lib/modules/6.8.0-88-generic/build"] = "/usr/src/linux-headers-6.8.0-88-generic"
    return tree


def branch(tree: FakeRoot, number: int, gpu: str, nic: tuple[str, str], gen: int) -> None:
    """One root port with a switch, and behind it a drive, a GPU and an HCA."""
    bus, numa = BUSES[number], 0 if number < 4 else 1
    root, up = f"0000:{bus:02x}:01.0", f"0000:{bus + 1:02x}:00.0"
    ports = [f"0000:{bus + 2:02x}:{place:02x}.0" for place in range(3)]
    drive, card, hca = (f"0000:{bus + 3 + place:02x}:00.0" for place in range(3))
    link = {"gen": gen, "most_gen": gen, "numa": numa}
    acs = ACS_NONE
    for device in (
        Device(root, f"pci0000:{bus:02x}", INTEL, "352a", BRIDGE_CLASS, driver="pcieport", acs=acs, **link),
        Device(up, root, SWITCH, "c030", BRIDGE_CLASS, driver="pcieport", **link),
        Device(
            ports[0], up, SWITCH, "c030", BRIDGE_CLASS, driver="pcieport", acs=acs, numa=numa, gen=4, width=4, most_gen=gen, most_width=4
        ),
        Device(ports[1], up, SWITCH, "c030", BRIDGE_CLASS, driver="pcieport", acs=acs, **link),
        Device(ports[2], up, SWITCH, "c030", BRIDGE_CLASS, driver="pcieport", acs=acs, **link),
        Device(drive, ports[0], MICRON, "51c3", NVME_CLASS, driver="nvme", numa=numa, gen=4, width=4, most_gen=4, most_width=4),
        Device(card, ports[1], NVIDIA, gpu, GPU_CLASS, slot=str(21 + number), **link),
        Device(hca, ports[2], MELLANOX, nic[0], nic[1], driver="mlx5_core", **link),
    ):
        tree.devices[device.address] = device
    tree.drives[f"nvme{number}"] = drive
    name = f"mlx5_{number}"
    tree.hcas.append(Hca(name, hca, f"ibp{bus + 5}s0", guid=f"a088:c203:0056:{0x7800 + number:04x}"))


def hgx_h100() -> FakeRoot:
    """8 H100 SXM5, 8 ConnectX-7, 8 drives, 4 NVSwitches, and a two-port card for storage that is nobody's HCA."""
    tree = machine(FakeRoot("hgx-h100"), "PowerEdge XE9680", 2 * 1024 * 1024 * 98 // 100)
    for number in range(8):
        branch(tree, number, "2330", ("1021", IB_CLASS), 5)
    for number in range(4):
        port = Device(f"0000:7d:{number + 1:02x}.0", "pci0000:7d", INTEL, "352a", BRIDGE_CLASS, gen=4, width=2, most_width=2, numa=1)
        tree.devices[port.address] = port
        switch = Device(f"0000:{0x83 + number:02x}:00.0", port.address, NVIDIA, "22a3", NVSWITCH_CLASS, 4, 2, 4, 2, numa=1)
        tree.devices[switch.address] = switch
    storage(tree)
    return tree


def storage(tree: FakeRoot) -> None:
    """A ConnectX-6 Dx with two Ethernet ports on a root port of its own."""
    port = Device("0000:00:0e.0", "pci0000:00", INTEL, "1bbe", BRIDGE_CLASS, gen=4, most_gen=4, acs=ACS_NONE)
    tree.devices[port.address] = port
    for function in range(2):
        card = Device(f"0000:01:00.{function}", port.address, MELLANOX, "101d", ETHERNET_CLASS, gen=4, most_gen=4, driver="mlx5_core")
        tree.devices[card.address] = card
        tree.hcas.append(Hca(
            f"rocep1s0f{function}", card.address, f"ens1f{function}np{function}", layer="Ethernet", rate="100 Gb/sec (2X HDR)",
            firmware="22.41.1000", board="MT_0000000436", guid=f"b8ce:f603:00a1:{function:04x}",
        ))  # fmt: skip


def hgx_b200() -> FakeRoot:
    """8 B200, 8 ConnectX-7, 8 drives; its NVSwitches stand behind four bridges that look like InfiniBand adapters."""
    tree = machine(FakeRoot("hgx-b200"), "PowerEdge XE9780", 2 * 1024 * 1024 * 98 // 100)
    for number in range(8):
        branch(tree, number, "2901", ("1021", IB_CLASS), 5)
    for number in range(4):
        port = Device(f"0000:7d:{number + 1:02x}.0", "pci0000:7d", INTEL, "352a", BRIDGE_CLASS, gen=4, width=2, most_width=2, numa=1)
        tree.devices[port.address] = port
        bridge = Device(f"0000:{0x83 + number:02x}:00.0", port.address, MELLANOX, "1021", IB_CLASS, 4, 2, 4, 2, driver="mlx5_core", numa=1)
        bridge.vpd = "Nvidia ConnectX-7 mezz SW_MNG for HGX B200"
        tree.devices[bridge.address] = bridge
        tree.hcas.append(Hca(f"mlx5_{8 + number}", bridge.address, "", guid=f"b0cf:0e03:00d0:{number:04x}", board="MT_0000001234"))
    return tree


def pcie_l40s() -> FakeRoot:
    """8 L40S on Gen4 switches, one two-port Ethernet card, 8 drives, no NVSwitch."""
    tree = machine(FakeRoot("pcie-l40s"), "SYS-421GE-TNRT", 1024 * 1024 * 98 // 100)
    for number in range(8):
        branch(tree, number, "26b9", ("1021", IB_CLASS), 4)
        tree.remove(tree.hcas[-1].address)
    storage(tree)
    return tree


KINDS: dict[str, Callable[[], FakeRoot]] = {"hgx-h100": hgx_h100, "hgx-b200": hgx_b200, "pcie-l40s": pcie_l40s}


def with_driver(tree: FakeRoot, version: str) -> FakeRoot:
    """After provisioning: every GPU bound to the driver, peer memory there."""
    tree.driver = version
    for device in tree.devices.values():
        if device.vendor == NVIDIA:
            device.driver = "nvidia" if device.kind == GPU_CLASS else "nvidia-nvswitch"
    tree.files["/sys/module/nvidia_uvm/initstate"] = "live\n"
    tree.files["/sys/module/nvidia_peermem/version"] = version + "\n"
    return tree


def _gpu(tree: FakeRoot, place: int) -> Device:
    return tree.gpus()[place]


def _nic(tree: FakeRoot, place: int) -> Hca:
    return tree.hcas[place]


def _port(tree: FakeRoot, device: Device) -> Device:
    return tree.devices[device.above]


def _moved(tree: FakeRoot, place: int) -> None:
    """The HCA of one GPU stands on a root port of its own."""
    hca = tree.hcas[place]
    port = Device("0000:f0:01.0", "pci0000:f0", INTEL, "352a", BRIDGE_CLASS, numa=1)
    tree.devices[port.address] = port
    moved = tree.devices.pop(hca.address)
    moved.address, moved.above = "0000:f1:00.0", port.address
    tree.devices[moved.address] = moved
    hca.address = moved.address


def _narrow(tree: FakeRoot, device: Device) -> None:
    device.width = 8
    _port(tree, device).width = 8


def _slow(tree: FakeRoot, device: Device) -> None:
    device.gen = 3
    _port(tree, device).gen = 3


def _switch_narrow(tree: FakeRoot, place: int) -> None:
    tree.devices[_port(tree, _gpu(tree, place)).above].width = 8


def _port_limit(tree: FakeRoot, device: Device) -> None:
    _port(tree, device).most_gen = 4
    _port(tree, device).gen = device.gen = 4


def _process(tree: FakeRoot, place: int) -> None:
    tree.files["/proc/4242/comm"] = "python3\n"
    tree.files["/proc/4242/fd/.keep"] = ""
    tree.links["/proc/4242/fd/7"] = f"/dev/nvidia{place}"
    tree.files[f"/dev/nvidia{place}"] = ""


def _acs(tree: FakeRoot, place: int) -> None:
    _port(tree, _gpu(tree, place)).acs = ACS_ALL


def _set(name: str, value: str) -> Callable[[FakeRoot, int], None]:
    def change(tree: FakeRoot, place: int) -> None:
        setattr(_nic(tree, place), name, value)

    return change


def _iommu(tree: FakeRoot, _place: int) -> None:
    tree.iommu = "DMA-FQ"
    tree.files["/proc/cmdline"] = "root=UUID=1 ro intel_iommu=on\n"


def _file(path: str, content: str | bytes) -> Callable[[FakeRoot, int], None]:
    def change(tree: FakeRoot, _place: int) -> None:
        tree.files[path] = content

    return change


def _link(
    state: str, physical: str, rate: str = "10 Gb/sec (4X SDR)", lid: str = "0x0", sm_lid: str = "0x0"
) -> Callable[[FakeRoot, int], None]:
    """A port in another state; one that is not active tells the least rate there is, and no LIDs unless given."""

    def change(tree: FakeRoot, place: int) -> None:
        hca = _nic(tree, place)
        hca.state, hca.physical, hca.rate, hca.lid, hca.sm_lid = state, physical, rate, lid, sm_lid

    return change


def _counted(**counters: str) -> Callable[[FakeRoot, int], None]:
    def change(tree: FakeRoot, place: int) -> None:
        _nic(tree, place).counters.update(counters)

    return change


def _unsynced(tree: FakeRoot, _place: int) -> None:
    del tree.files["/run/systemd/timesync/synchronized"]
    tree.folders.append("/run/systemd/timesync")


# name -> what it changes; its number is the place of the part, counted from 0.
FAULTS: dict[str, Callable[[FakeRoot, int], None]] = {
    "gpu_missing": lambda tree, place: tree.remove(_gpu(tree, place).address),
    "gpu_other": lambda tree, place: setattr(_gpu(tree, place), "device", "2331"),
    "gpu_narrow": lambda tree, place: _narrow(tree, _gpu(tree, place)),
    "gpu_slow_link": lambda tree, place: _slow(tree, _gpu(tree, place)),
    "gpu_behind_gen4": lambda tree, place: _port_limit(tree, _gpu(tree, place)),
    "switch_narrow": _switch_narrow,
    "gpu_unbound": lambda tree, place: setattr(_gpu(tree, place), "driver", ""),
    "gpu_busy": _process,
    "nic_missing": lambda tree, place: tree.remove(_nic(tree, place).address),
    "nic_narrow": lambda tree, place: _narrow(tree, tree.devices[_nic(tree, place).address]),
    "nic_down": _link("1: DOWN", "2: Polling"),
    "nic_disabled": _link("1: DOWN", "3: Disabled"),
    "nic_asleep": _link("1: DOWN", "1: Sleep"),
    "nic_training": _link("1: DOWN", "4: PortConfigurationTraining"),
    "nic_init": _link("2: INIT", "5: LinkUp", "400 Gb/sec (4X NDR)"),
    "nic_armed": _link("3: ARMED", "5: LinkUp", "400 Gb/sec (4X NDR)", "0x80", "0x1"),
    "nic_without_lid": _set("lid", "0x0"),
    "nic_without_sm": _set("sm_lid", "0x0"),
    "nic_ethernet": _set("layer", "Ethernet"),
    "nic_slow": _set("rate", "200 Gb/sec (4X HDR)"),
    "nic_narrow_link": _set("rate", "100 Gb/sec (1X NDR)"),
    "nic_one_lane_hdr": _set("rate", "50 Gb/sec (1X HDR)"),
    "nic_errors": _counted(symbol_error="65535", port_rcv_errors="14"),
    "nic_flaps": _counted(link_downed="255"),
    "nic_firmware": _set("firmware", "28.36.1010"),
    "nic_elsewhere": _moved,
    "nvme_missing": lambda tree, place: tree.remove(tree.drives[f"nvme{place}"]),
    "nvswitch_missing": lambda tree, place: tree.remove(f"0000:{0x83 + place:02x}:00.0"),
    "memory_short": _file("/proc/meminfo", f"MemTotal: {(2 * 1024 - 64) * 1024 * 1024 * 98 // 100} kB\n"),
    "secure_boot": _file("/sys/firmware/efi/efivars/" + SECURE_BOOT, b"\x06\x00\x00\x00\x01"),
    "iommu_translates": _iommu,
    "acs_redirects": _acs,
    "nouveau": _file("/sys/module/nouveau/initstate", "live\n"),
    "clock_free_running": _unsynced,
    "other_kernel": _file("/proc/sys/kernel/osrelease", "6.8.0-90-generic\n"),
}


def build(root: Path, kind: str = "hgx-h100", driver: str = "", faults: tuple[tuple[str, int], ...] = ()) -> Path:
    """A node of that kind below `root`, with its faults; `driver` "" is a bare one."""
    tree = KINDS[kind]()
    if driver:
        with_driver(tree, driver)
    for name, place in faults:
        FAULTS[name](tree, place)
    return tree.write(root)


def main() -> int:
    """For a shell."""
    parser = argparse.ArgumentParser(description="write a fake node below a folder")
    parser.add_argument("--kind", choices=sorted(KINDS), default="hgx-h100")
    parser.add_argument("--out", required=True)
    parser.add_argument("--driver", default="")
    parser.add_argument("--fault", action="append", default=[], metavar="NAME[=PLACE]", help=", ".join(sorted(FAULTS)))
    args = parser.parse_args()
    pairs = [fault.partition("=") for fault in args.fault]
    build(Path(args.out), args.kind, args.driver, tuple((name, int(place or 0)) for name, _, place in pairs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
