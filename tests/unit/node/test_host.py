"""The reader of the machine, over the trees of lab/fake_root.py: what is there, what each planted fault changes, and what it will not guess."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from burnin.node.__main__ import main
from burnin.node.host import pci
from burnin.node.host.document import host
from burnin.node.host.reading import Reader
from lab import fake_root


@pytest.fixture(scope="module")
def h100(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return host("bare", str(fake_root.build(tmp_path_factory.mktemp("h100"))))


def read(*faults: str, kind: str = "hgx-h100", driver: str = "") -> dict[str, Any]:
    """A tree is a thousand small files: in memory where there is such a place."""
    pairs = tuple((name, int(place or 0)) for name, _, place in (fault.partition("=") for fault in faults))
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        return host("bare", str(fake_root.build(Path(folder), kind, driver, pairs)))


def test_a_whole_node_is_read_whole(h100: dict[str, Any]) -> None:
    assert [len(h100[name]) for name in ("gpus", "nics", "nvme")] == [8, 10, 8]
    assert (h100["nvswitches"], h100["nvlink5"], h100["iommu"]) == (4, False, "passthrough")
    assert (h100["memory_mib"], h100["cpus"], h100["pci_functions"]) == (2055208, 224, 75)
    assert h100["os"] == {"id": "ubuntu", "version_id": "24.04", "like": "debian", "pretty": "Ubuntu 24.04.3 LTS", "arch": "x86_64"}
    assert h100["kernel"]["running"] == "6.8.0-88-generic"
    assert (h100["kernel"]["installed"], h100["kernel"]["headers"]) == (["6.8.0-88-generic"], ["6.8.0-88-generic"])
    assert (h100["firmware"]["secure_boot"], h100["firmware"]["bios_version"]) == (False, "2.6.3")
    assert h100["modules"] == {"mlx5_core": {"version": "25.10-1.7.1"}}
    assert (h100["gpu_processes"], h100["clock"], h100["software"], h100["errors"]) == ([], {"synchronized": True}, None, [])


def test_a_gpu_is_told_with_both_ends_of_its_link_and_its_place(h100: dict[str, Any]) -> None:
    assert h100["gpus"][0] == {
        "address": "0000:19:00.0", "device": "10de:2330", "subsystem": "10de:16c1", "driver": None, "numa_node": 0, "slot": "21",
        "speed_gts": 32.0, "width": 16, "max_speed_gts": 32.0, "max_width": 16,
        "port_address": "0000:17:01.0", "port_speed_gts": 32.0, "port_width": 16, "port_max_speed_gts": 32.0, "port_max_width": 16,
        "switch": "0000:16:00.0",
        "switch_speed_gts": 32.0, "switch_width": 16, "switch_max_speed_gts": 32.0, "switch_max_width": 16,
    }  # fmt: skip


def test_an_adapter_is_told_by_its_rdma_port_and_its_card(h100: dict[str, Any]) -> None:
    hca = next(nic for nic in h100["nics"] if nic["rdma"] == "mlx5_0")

    assert {name: hca[name] for name in ("netdev", "address", "port", "link_layer", "state", "physical_state", "rate_gb_s")} == {
        "netdev": "ibp26s0", "address": "0000:1a:00.0", "port": 1, "link_layer": "InfiniBand", "state": "ACTIVE", "physical_state": "LinkUp",
        "rate_gb_s": 400.0,
    }  # fmt: skip
    assert (hca["guid"], hca["firmware"], hca["board_id"]) == ("a088c20300567800", "28.41.1000", "MT_0000000838")
    assert (hca["switch"], hca["nvlink5_bridge"]) == (h100["gpus"][0]["switch"], False)


def test_each_gpu_has_its_adapter_on_its_own_switch(h100: dict[str, Any]) -> None:
    switches = [gpu["switch"] for gpu in h100["gpus"]]

    assert len(set(switches)) == 8
    assert set(switches) < {nic["switch"] for nic in h100["nics"]}


def test_a_drive_is_told_by_serial_and_size(h100: dict[str, Any]) -> None:
    drive = h100["nvme"][3]

    assert (drive["name"], drive["serial"], drive["size_bytes"]) == ("nvme3", "S64HNE0T000003", 3840755982336)
    assert (drive["width"], drive["speed_gts"], drive["port_max_speed_gts"]) == (4, 16.0, 32.0)


def test_the_bridges_of_nvlink_5_are_seen_in_their_product_data_and_are_nobodys_network() -> None:
    found = read(kind="hgx-b200")

    assert (found["nvlink5"], found["nvswitches"]) == (True, 0)
    assert [nic["rdma"] for nic in found["nics"] if nic["nvlink5_bridge"]] == ["mlx5_8", "mlx5_9", "mlx5_10", "mlx5_11"]
    assert sum(not nic["nvlink5_bridge"] for nic in found["nics"]) == 8


def test_product_data_that_would_not_be_read_leave_the_bridges_unknown(tmp_path: Path) -> None:
    tree = fake_root.hgx_b200()
    for device in tree.devices.values():
        device.vpd = ""
    assert host("bare", str(tree.write(tmp_path / "none")))["nvlink5"] is False
    tree.folders.append(tree.path(tree.devices[tree.hcas[0].address]) + "/vpd")

    assert host("bare", str(tree.write(tmp_path / "shut")))["nvlink5"] is None


def test_a_box_of_cards_has_neither() -> None:
    found = read(kind="pcie-l40s")

    assert (found["nvlink5"], found["nvswitches"], len(found["gpus"]), len(found["nics"])) == (False, 0, 8, 2)
    assert {nic["link_layer"] for nic in found["nics"]} == {"Ethernet"}


def test_without_their_drivers_cards_are_still_there_and_nothing_is_guessed(tmp_path: Path) -> None:
    tree = fake_root.hgx_h100()
    tree.hcas, tree.drives = [], {}

    found = host("bare", str(tree.write(tmp_path)))

    assert (len(found["nics"]), len(found["nvme"])) == (10, 8)
    assert {nic[name] for nic in found["nics"] for name in ("rdma", "state", "link_layer", "rate_gb_s", "firmware")} == {None}
    assert {drive[name] for drive in found["nvme"] for name in ("name", "serial", "size_bytes")} == {None}


@pytest.mark.parametrize("lanes", [0, 255])
def test_a_link_that_is_none_has_no_width(lanes: int, tmp_path: Path) -> None:
    tree = fake_root.hgx_h100()
    tree.gpus()[0].width = lanes

    assert host("bare", str(tree.write(tmp_path)))["gpus"][0]["width"] is None


def test_a_pci_bridge_of_the_same_maker_is_no_nvswitch(tmp_path: Path) -> None:
    """A Grace processor's root ports are NVIDIA's, too."""
    tree = fake_root.hgx_h100()
    tree.devices["0000:f0:00.0"] = fake_root.Device("0000:f0:00.0", "pci0000:f0", "10de", "22b1", fake_root.BRIDGE_CLASS)

    assert host("bare", str(tree.write(tmp_path)))["nvswitches"] == 4


def test_the_installed_system_may_be_another_than_the_machine(tmp_path: Path) -> None:
    machine = fake_root.build(tmp_path / "machine")
    (tmp_path / "system/etc").mkdir(parents=True)
    (tmp_path / "system/etc/os-release").write_text("ID=debian\nVERSION_ID=12\n")

    found = host("bare", str(machine), str(tmp_path / "system"))

    assert (found["os"]["id"], len(found["gpus"]), found["memory_mib"]) == ("debian", 8, 2055208)
    assert (found["kernel"]["running"], found["kernel"]["installed"]) == ("6.8.0-88-generic", [])


def test_virtual_functions_are_no_cards(tmp_path: Path) -> None:
    tree = fake_root.hgx_h100()
    for parent in ("0000:19:00.0", "0000:1a:00.0"):
        card = tree.devices[parent]
        virtual = fake_root.Device(parent.replace("00.0", "00.4"), card.above, card.vendor, card.device, card.kind)
        tree.devices[virtual.address] = virtual
        tree.links[tree.path(virtual) + "/physfn"] = "../" + parent
    tree.hcas.append(fake_root.Hca("mlx5_20", "0000:1a:00.4", "ib20", guid="a088:c203:0056:9999"))

    found = host("bare", str(tree.write(tmp_path)))

    assert (len(found["gpus"]), len(found["nics"])) == (8, 10)


def test_after_provisioning_the_driver_is_seen_on_each_gpu() -> None:
    found = read(driver="580.126.09")

    assert {gpu["driver"] for gpu in found["gpus"]} == {"nvidia"}
    assert found["modules"]["nvidia"] == {"version": "580.126.09"}
    assert "nvidia_peermem" in found["modules"]


CHANGES = [
    pytest.param("gpu_missing=3", lambda told: len(told["gpus"]), 7, id="a GPU gone"),
    pytest.param("gpu_other=1", lambda told: told["gpus"][1]["device"], "10de:2331", id="another GPU"),
    pytest.param("gpu_narrow", lambda told: (told["gpus"][0]["width"], told["gpus"][0]["max_width"]), (8, 16), id="half the lanes"),
    pytest.param("gpu_slow_link", lambda told: (told["gpus"][0]["speed_gts"], told["gpus"][0]["port_max_speed_gts"]), (8.0, 32.0), id="Gen3"),
    pytest.param("gpu_behind_gen4", lambda told: told["gpus"][0]["port_max_speed_gts"], 16.0, id="a port that cannot do more"),
    pytest.param("nic_missing=2", lambda told: len(told["nics"]), 9, id="an adapter gone"),
    pytest.param("nic_down", lambda told: (told["nics"][2]["state"], told["nics"][2]["physical_state"]), ("DOWN", "Polling"), id="no cable"),
    pytest.param("nic_init", lambda told: told["nics"][2]["state"], "INIT", id="no subnet manager"),
    pytest.param("nic_ethernet", lambda told: told["nics"][2]["link_layer"], "Ethernet", id="another link layer"),
    pytest.param("nic_slow", lambda told: told["nics"][2]["rate_gb_s"], 200.0, id="half the rate"),
    pytest.param("nic_elsewhere", lambda told: "0000:16:00.0" in {nic["switch"] for nic in told["nics"]}, False, id="an adapter moved"),
    pytest.param("nvme_missing=5", lambda told: [drive["name"] for drive in told["nvme"]].count("nvme5"), 0, id="a drive gone"),
    pytest.param("nvswitch_missing", lambda told: told["nvswitches"], 3, id="an NVSwitch gone"),
    pytest.param("memory_short", lambda told: told["memory_mib"], 1990983, id="memory short"),
    pytest.param("secure_boot", lambda told: told["firmware"]["secure_boot"], True, id="Secure Boot on"),
    pytest.param("iommu_translates", lambda told: told["iommu"], "translated", id="the IOMMU translates"),
    pytest.param("acs_redirects", lambda told: [p["address"] for p in told["acs"] if p["redirect"]], ["0000:17:01.0"], id="ACS redirects"),
    pytest.param("nouveau", lambda told: told["modules"].get("nouveau"), {"version": None}, id="nouveau loaded"),
    pytest.param("clock_free_running", lambda told: told["clock"]["synchronized"], False, id="nobody keeps the clock"),
    pytest.param("other_kernel", lambda told: told["kernel"]["running"], "6.8.0-90-generic", id="another kernel"),
    pytest.param("gpu_busy=2", lambda told: told["gpu_processes"], [{"pid": 4242, "name": "python3", "device": "/dev/nvidia2"}], id="a job"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "look", "expected"), CHANGES)
def test_a_planted_fault_is_read(fault: str, look: Any, expected: object, h100: dict[str, Any]) -> None:
    assert look(h100) != expected

    assert look(read(fault)) == expected


def test_an_empty_root_says_nothing_and_breaks_nothing(tmp_path: Path) -> None:
    found = host("ready", str(tmp_path))

    assert (found["gpus"], found["nics"], found["nvme"], found["acs"], found["modules"], found["pci_functions"]) == ([], [], [], [], {}, 0)
    assert (found["memory_mib"], found["cpus"], found["kernel"]["running"], found["os"]["id"], found["os"]["arch"]) == (None,) * 5
    assert (found["iommu"], found["clock"]["synchronized"], found["errors"]) == ("unknown", None, [])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(b"\x06\0\0\0\x01", True, id="on"),
        pytest.param(b"\x06\0\0\0\x00", False, id="off"),
        pytest.param(b"\x06\0\0", None, id="cut off"),
        pytest.param(b"\x06\0\0\0\x07", None, id="neither"),
    ],
)
def test_secure_boot_is_what_the_variable_says(value: bytes, expected: bool | None, tmp_path: Path) -> None:
    place = tmp_path / "sys/firmware/efi/efivars"
    place.mkdir(parents=True)
    (place / fake_root.SECURE_BOOT).write_bytes(value)

    assert host("bare", str(tmp_path))["firmware"]["secure_boot"] is expected


def test_a_machine_without_uefi_has_no_secure_boot_and_one_that_hides_the_variable_is_not_known(tmp_path: Path) -> None:
    assert host("bare", str(tmp_path))["firmware"]["secure_boot"] is False
    (tmp_path / "sys/firmware/efi").mkdir(parents=True)

    assert host("bare", str(tmp_path))["firmware"]["secure_boot"] is None


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        pytest.param(fake_root.config_space(fake_root.Device("a", "b", "8086", "1", "060400", acs=0x1D)), [True], id="redirects"),
        pytest.param(fake_root.config_space(fake_root.Device("a", "b", "8086", "1", "060400", acs=0x08)), [True], id="completions only"),
        pytest.param(fake_root.config_space(fake_root.Device("a", "b", "8086", "1", "060400", acs=0x11)), [False], id="does not"),
        pytest.param(fake_root.config_space(fake_root.Device("a", "b", "8086", "1", "060400")), [], id="no such capability"),
        pytest.param(bytes(64), [None], id="what one without root may read"),
        pytest.param(b"\xff" * 4096, [None], id="a port that is gone"),
        pytest.param(bytes(0x100) + (0x1 | (0x100 << 20)).to_bytes(4, "little") + bytes(0xEFC), [], id="a chain that goes in a circle"),
        pytest.param(bytes(0x100) + (0x1 | (0xFFC << 20)).to_bytes(4, "little") + bytes(0xEFC), [], id="a chain that leads out"),
    ],
)
def test_access_control_is_read_from_configuration_space(space: bytes, expected: list[bool | None], tmp_path: Path) -> None:
    tree = fake_root.hgx_h100()
    card = tree.gpus()[0]
    root = tree.write(tmp_path)
    place = root / (tree.path(tree.devices[card.above]).lstrip("/") + "/config")
    place.write_bytes(space)

    reader = Reader(str(root))
    listed = pci.acs(reader, pci.devices(reader), [card.address])

    assert [port["redirect"] for port in listed if port["address"] == card.above] == expected


def test_links_stay_inside_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc/alternatives").mkdir(parents=True)
    (root / "usr/local/cuda-12.9").mkdir(parents=True)
    (root / "etc/alternatives/cuda").symlink_to("/usr/local/cuda-12.9")
    (root / "usr/local/cuda").symlink_to("/etc/alternatives/cuda")
    (root / "etc/passwd").symlink_to("/../../../../../../etc/passwd")
    (root / "etc/round").symlink_to("round")
    reader = Reader(str(root))

    assert reader.realpath("/usr/local/cuda") == "/usr/local/cuda-12.9"
    assert reader.glob("/usr/*/cuda*") == ["/usr/local/cuda", "/usr/local/cuda-12.9"]
    assert (reader.read_text("/etc/passwd"), reader.exists("/etc/round"), reader.run(["true"])) == (None, False, None)
    assert reader.readlink("/usr/local/cuda") == "/etc/alternatives/cuda"


def test_what_is_no_file_does_not_hold_the_reader_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "long").write_bytes(b"x" * 100_000)
    reader = Reader(str(tmp_path))

    assert (reader.read_bytes("/pipe"), reader.read_bytes("/folder"), len(reader.read_bytes("/long") or b"")) == (None, None, 65536)
    assert reader.line("/long", 10) == "x" * 10


def test_when_the_time_is_up_the_rest_is_told_as_unread(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    reader = Reader(str(tmp_path), seconds=0)

    assert (reader.read_text("/one"), reader.listdir("/")) == (None, [])
    assert {error["why"] for error in reader.errors} == {"not read: the time for the whole reading is up"}


def test_a_command_that_hangs_or_is_not_there_is_none() -> None:
    reader = Reader("/")

    assert reader.run(["sleep", "60"], timeout_s=0.1) is None
    assert reader.run(["no-such-command"]) is None
    assert [error["path"] for error in reader.errors] == ["sleep 60"]


def test_the_command_prints_a_bare_node_without_asking_its_driver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = fake_root.build(tmp_path)

    code = main(["identity", "--level", "bare", "--root", str(root)])

    told = json.loads(capsys.readouterr().out)
    assert (code, told["backend"], len(told["gpus"]), told["host"]["level"]) == (0, "nvml", 8, "bare")
    assert re.fullmatch(r"PCI-[0-9a-f]{8}-0000:19:00\.0", told["gpus"][0]["gpu"])
    assert told["gpus"][0]["kind"] == "pci"
    assert told["backend_problem"] is None
    assert told["host"]["software"] is None


def test_a_ready_node_whose_backend_does_not_open_is_still_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = fake_root.build(tmp_path, driver="580.126.09")

    code = main(["identity", "--level", "ready", "--root", str(root), "--options", str(tmp_path / "none.json")])

    told = json.loads(capsys.readouterr().out)
    assert (code, len(told["gpus"]), told["host"]["modules"]["nvidia"]["version"]) == (0, 8, "580.126.09")
    assert "cannot read" in told["backend_problem"]
    assert told["host"]["software"] is not None


def test_without_a_level_the_machine_is_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["identity", "--backend", "cpu"]) == 0
    assert "host" not in json.loads(capsys.readouterr().out)
    assert main(["identity", "--backend", "nvml"]) == 2
