"""A real HGX H100 (PowerEdge XE9680), as its public `lspci -vvv` shows it, turned into the sysfs that it came from: read and judged whole."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from burnin.node.host.document import host
from burnin.preflight import bridge
from lab.fake_root import ACS_ALL, ACS_NONE, BRIDGE_CLASS, ETHERNET_CLASS, GPU_CLASS, NVME_CLASS, NVSWITCH_CLASS, Device, FakeRoot, machine

CLASSES = {
    "3D controller": GPU_CLASS, "Bridge": NVSWITCH_CLASS, "PCI bridge": BRIDGE_CLASS, "Ethernet controller": ETHERNET_CLASS,
    "Non-Volatile memory controller": NVME_CLASS,
}  # fmt: skip
MAKERS = {"NVIDIA": "10de", "Mellanox": "15b3", "Broadcom": "1000", "Intel": "8086", "Micron": "1344"}
CARDS = {"ConnectX-7": "1021", "ConnectX-6 Dx": "101d"}
GENERATIONS = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5}


def device(block: str) -> Device:
    address, kind, name = re.match(r"(\S+) ([^:]+?)(?: \[\w+\])?: (.*)", block).groups()  # type: ignore[union-attr]
    told = re.search(r"Device ([0-9a-f]{4})", name)
    ids = [number for card, number in CARDS.items() if card in name] or ([told[1]] if told else ["0000"])
    ends = {what: re.search(rf"{what}:\t.*?Speed ([0-9.]+)GT/s[^,]*, Width x(\d+)", block) for what in ("LnkCap", "LnkSta")}
    most, now = ends["LnkCap"], ends["LnkSta"]
    control = re.search(r"ACSCtl:\t(.*)", block)
    driver = re.search(r"Kernel driver in use: (\S+)", block)
    numa = re.search(r"NUMA node: (\d+)", block)
    return Device(
        f"0000:{address}", "", next((number for maker, number in MAKERS.items() if maker in name), "ffff"), ids[0],
        CLASSES.get(kind, "088000"),
        gen=GENERATIONS[now[1]] if now else 1, width=int(now[2]) if now else 0,
        most_gen=GENERATIONS[most[1]] if most else 1, most_width=int(most[2]) if most else 0,
        driver=driver[1] if driver else "", numa=int(numa[1]) if numa else 0,
        acs=None if control is None else ACS_ALL if "Redir+" in control[1] else ACS_NONE,
    )  # fmt: skip


def tree(text: str) -> FakeRoot:
    """The machine with each device below the bridge that leads to its bus."""
    blocks = [block for block in text.split("\n\n") if re.match(r"[0-9a-f]{2}:[0-9a-f]{2}\.\d ", block)]
    found = machine(FakeRoot(), "PowerEdge XE9680", 2 * 1024 * 1024 * 98 // 100)
    behind: dict[str, str] = {}
    for block in blocks:
        one = device(block)
        found.devices[one.address] = one
        if bus := re.search(r"secondary=([0-9a-f]{2})", block):
            behind[bus[1]] = one.address
    for one in found.devices.values():
        bus = one.address[5:7]
        one.above = behind.get(bus, f"pci0000:{bus}")
    return found


@pytest.fixture(scope="module")
def told(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    text = (shared / "samples/lspci/h100-xe9680.lspci-vvv.txt").read_text(encoding="utf-8")
    return host("bare", str(tree(text).write(tmp_path_factory.mktemp("xe9680"))))


def test_its_parts_are_counted_as_they_stand(told: dict[str, Any]) -> None:
    kinds = [nic["device"] for nic in told["nics"]]

    assert (len(told["gpus"]), told["nvswitches"], len(told["nvme"])) == (8, 4, 8)
    assert (kinds.count("15b3:1021"), kinds.count("15b3:101d")) == (8, 4)
    assert {gpu["device"] for gpu in told["gpus"]} == {"10de:2330"}
    assert {gpu["driver"] for gpu in told["gpus"]} == {"nvidia"}


def test_each_gpu_and_its_adapter_stand_on_one_switch(told: dict[str, Any]) -> None:
    own = {nic["switch"] for nic in told["nics"] if nic["device"] == "15b3:1021"}

    assert len({gpu["switch"] for gpu in told["gpus"]}) == 8
    assert own == {gpu["switch"] for gpu in told["gpus"]}
    assert told["gpus"][0]["port_address"] == "0000:17:01.0"
    assert told["gpus"][0]["switch"] == "0000:16:00.0"


def test_a_drive_of_gen4_behind_a_port_of_gen5_is_no_fault(told: dict[str, Any]) -> None:
    assert {(drive["speed_gts"], drive["max_speed_gts"], drive["port_max_speed_gts"]) for drive in told["nvme"]} == {(16.0, 16.0, 32.0)}


def test_the_preflight_lets_the_real_node_through(told: dict[str, Any]) -> None:
    judged = bridge.examine({"host": told}, bridge.asked("bare", sku="H100-SXM5-80GB"))

    assert judged["failed"] is False
    assert judged["findings"] == []
