"""ib_interface over fake HGX machines: which port gets which name, whatever the kernel calls it and whichever cards come and go; what is written; what is left alone."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from fake_links import ROOT, Node, handed_on, names
from lab import fake_root

RULES = "/etc/udev/rules.d/70-burnin-ib.rules"
NETPLAN = "/etc/netplan/90-burnin-ib.yaml"
KEYFILES, NETWORKD = "/etc/NetworkManager/system-connections", "/etc/systemd/network"
GUID, PCI = "a088:c203:0056:7801", "0000:3c:00.0"  # of mlx5_1
RENDERERS = ("netplan", "networkmanager", "networkd")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize(
    "port",
    [
        pytest.param({"guid": GUID}, id="by GUID as sysfs has it"),
        pytest.param({"guid": "0xA088C20300567801"}, id="by GUID as ibstat has it"),
        pytest.param({"guid": "a0:88:c2:03:00:56:78:01"}, id="by the tail of its address"),
        pytest.param({"pci": PCI}, id="by PCI function"),
        pytest.param({"pci": "3c:00.0"}, id="by PCI function without its domain"),
        pytest.param({"rdma": "mlx5_1", "port": 1}, id="by RDMA device and port"),
        pytest.param({"rdma": "mlx5_1"}, id="by RDMA device"),
    ],
)
def test_a_port_is_found_whatever_its_interface_is_called(node: Node, port: dict[str, Any]) -> None:
    plan = node.plan(ports=[{**port, "name": "fabric1", "addresses": ["10.9.0.7/16"]}])

    assert [(one.name, one.now, one.port.rdma, one.addresses) for one in plan.interfaces] == [
        ("fabric1", "ibp60s0", "mlx5_1", ("10.9.0.7/16",))
    ]


def test_without_a_name_the_interface_keeps_the_one_it_has(node: Node) -> None:
    node.tree.hcas[0].guid, node.tree.hcas[0].netdev = "aaaa:0000:0000:0001", "ibs22f0"
    node.write()

    plan = node.plan(ports=[{"guid": "0xaaaa000000000001", "addresses": ["10.9.0.7/16"]}])

    assert names(plan) == {"mlx5_0": "ibs22f0"}
    assert names(node.plan(ports=[{"name": "ibs22f0"}])) == {"mlx5_0": "ibs22f0"}


def test_the_rule_matches_the_guid_and_nothing_before_it(node: Node) -> None:
    node.give(ports=[{"guid": GUID, "name": "fabric1"}, {"pci": "0000:4d:00.0", "name": "fabric2"}])

    rules = [line for line in node.text(RULES).splitlines() if not line.startswith("#")]
    common = 'SUBSYSTEM=="net", ACTION=="add", ATTR{type}=="32", KERNEL!="*.*", '
    assert rules == [
        common + 'ATTR{address}=="?*a0:88:c2:03:00:56:78:01", NAME="fabric1"',
        common + 'KERNELS=="0000:4d:00.0", ATTR{dev_port}=="0", NAME="fabric2"',
    ]


def test_a_pattern_counts_by_pci_address_and_leaves_ethernet_out(node: Node) -> None:
    plan = node.plan(pattern="mlx5_ib{index}", expected=8)

    assert names(plan) == {f"mlx5_{place}": f"mlx5_ib{place}" for place in range(8)}
    assert [(one.port.split(" ")[0], one.code) for one in plan.left_out] == [("rocep1s0f0", "LINK_LAYER"), ("rocep1s0f1", "LINK_LAYER")]
    assert "mlxconfig -d 0000:01:00.0 set LINK_TYPE_P1=1" in plan.left_out[0].why


def test_a_pattern_can_count_as_the_gpus_stand(node: Node) -> None:
    for hca, address in zip(node.tree.hcas[:2], ("0000:f1:00.0", "0000:3c:00.0"), strict=True):
        device = node.tree.devices.pop(hca.address)
        device.address = hca.address = address
        node.tree.devices[address] = device
    node.write()

    assert names(node.plan(pattern="fab{index}", order="pci"))["mlx5_0"] == "fab7"
    assert names(node.plan(pattern="fab{index}", order="gpu"))["mlx5_0"] == "fab0"


def test_the_bridges_to_nvswitches_never_get_an_interface(tmp_path: Path) -> None:
    node = Node(tmp_path, "hgx-b200")

    plan = node.give(pattern="mlx5_ib{index}")

    assert sorted(names(plan)) == [f"mlx5_{place}" for place in range(8)]
    assert [one.code for one in plan.left_out] == ["BRIDGE_REFUSED"] * 4
    assert not [text for text in node.files().values() if "b0:cf:0e:03" in text or ":83:00.0" in text]


def test_names_stay_with_their_slots_when_cards_die_and_are_swapped(node: Node) -> None:
    node.give(pattern="mlx5_ib{index}")
    before = node.text(RULES)

    node.tree.remove("0000:3c:00.0")
    node.write()
    one_dead = node.give(pattern="mlx5_ib{index}", addresses={"mlx5_ib2": ["10.11.0.7/16"]})
    again = node.plan(pattern="mlx5_ib{index}", addresses={"mlx5_ib2": ["10.11.0.7/16"]})
    node.tree = fake_root.hgx_h100()
    node.tree.hcas[1].guid = "b83f:d203:00aa:0001"
    node.tree.hcas[1].netdev = "ib0"
    node.write()
    swapped = node.give(pattern="mlx5_ib{index}")

    assert names(one_dead) == {f"mlx5_{place}": f"mlx5_ib{place}" for place in range(8) if place != 1}
    assert not again.steps
    assert names(swapped)["mlx5_1"] == "mlx5_ib1"
    assert node.text(RULES) == before


@pytest.mark.parametrize("system", RENDERERS)
def test_the_second_run_changes_nothing_and_the_kernels_first_bytes_of_an_address_do_not_count(tmp_path: Path, system: str) -> None:
    node = Node(tmp_path, system=system)
    asked: dict[str, Any] = {"pattern": "fab{index}", "mtu": 4092, "p_keys": [0x8001, "0x000a"], "addresses": {"fab0": ["10.9.0.7/16"]}}

    first, after = node.give(**asked), node.files()
    at = "/sys/class/net/ibp26s0/address"
    node.put(at, node.text(at).replace("00:00:10:71", "00:00:00:8c"))
    second = node.give(**asked)

    assert first.steps
    assert (first.renderer, second.renderer) == (system, system)
    assert second.steps == ()
    assert node.files() == after


def test_netplan_is_told_once_for_each_port(node: Node) -> None:
    node.give(ports=[{"guid": GUID, "name": "fab1", "addresses": ["10.9.0.7/16", "fd00:9::7/64"], "mtu": 4092, "p_keys": [0x8001]}])

    assert node.text(NETPLAN).splitlines()[1:] == [
        "network:", "  version: 2", "  ethernets:", '    "fab1":', '      renderer: "networkd"', "      optional: true", "      dhcp4: false",
        "      dhcp6: false", "      accept-ra: false", '      infiniband-mode: "datagram"', "      mtu: 4092",
        '      addresses: ["10.9.0.7/16", "fd00:9::7/64"]',
    ]  # fmt: skip
    assert (node.root / NETPLAN.lstrip("/")).stat().st_mode & 0o777 == 0o600
    assert "IPoIB=fab1.8001" in node.text(f"{NETWORKD}/10-netplan-fab1.network.d/burnin-ib.conf")
    assert "PartitionKey=0x8001" in node.text(f"{NETWORKD}/60-burnin-ib-fab1.8001.netdev")


def test_networkmanager_has_a_keyfile_a_link_and_no_name_for_a_partitions(tmp_path: Path) -> None:
    node = Node(tmp_path, system="networkmanager")

    node.give(
        ports=[{"pci": PCI, "name": "fab1", "addresses": ["10.9.0.7/16"], "p_keys": [{"p_key": 0x000A, "addresses": ["10.8.0.7/16"]}]}]
    )

    parent, child = (node.text(f"{KEYFILES}/burnin-ib-{name}.nmconnection") for name in ("fab1", "fab1.800a"))
    assert "type=infiniband\ninterface-name=fab1\n" in parent
    assert "[infiniband]\ntransport-mode=datagram\n" in parent
    assert "[ipv4]\nmethod=manual\naddress1=10.9.0.7/16\nnever-default=true\n" in parent
    assert "interface-name" not in child
    assert "p-key=32778\nparent=fab1\ntransport-mode=datagram\n" in child
    assert (node.root / KEYFILES.lstrip("/") / "burnin-ib-fab1.nmconnection").stat().st_mode & 0o777 == 0o600


def test_networkd_has_a_network_a_link_and_a_netdev_a_partition(tmp_path: Path) -> None:
    node = Node(tmp_path, system="networkd")

    node.give(ports=[{"pci": PCI, "name": "fab1", "addresses": ["10.9.0.7/16"], "mtu": 2044, "p_keys": [0x8001]}])

    parent, child = node.text(f"{NETWORKD}/60-burnin-ib-fab1.network"), node.text(f"{NETWORKD}/60-burnin-ib-fab1.8001.netdev")
    assert "[Match]\nName=fab1\n\n[Link]\nMTUBytes=2044\nRequiredForOnline=no\n" in parent
    assert "Address=10.9.0.7/16\nIPoIB=fab1.8001\n\n[IPoIB]\nMode=datagram\n" in parent
    assert "Kind=ipoib\n\n[IPoIB]\nPartitionKey=0x8001\nMode=datagram\n" in child


@pytest.mark.parametrize("asked", [[0x000A, 0x800A], [{"p_key": "0x800a"}, {"p_key": "0x000A"}]])
def test_a_partition_with_and_without_the_full_member_bit_is_one_interface(node: Node, asked: list[Any]) -> None:
    plan = node.plan(ports=[{"pci": PCI, "name": "fab1", "p_keys": asked}])

    assert [plan.interfaces[0].child_name(child) for child in plan.interfaces[0].children] == ["fab1.800a"]


def test_a_limited_member_is_one_only_where_it_is_said_and_told(node: Node) -> None:
    plan = node.plan(ports=[{"pci": PCI, "name": "fab1", "p_keys": [{"p_key": "0x8001", "limited": True}]}])

    assert [child.p_key for child in plan.interfaces[0].children] == [0x0001]
    assert any("limited members (0x0001)" in note for note in plan.notes)


def test_rdma_devices_get_names_by_the_tool_that_gives_them(node: Node) -> None:
    plan = node.give(ports=[{"guid": GUID, "name": "fab1", "rdma_name": "rail1"}], rdma_naming="kernel")

    rules = node.text("/etc/udev/rules.d/59-burnin-rdma.rules")
    assert 'ATTR{ports/1/gids/0}=="*:a088:c203:0056:7801", PROGRAM="rdma_rename %k NAME_FIXED rail1"' in rules
    assert any("mlx5_1 becomes rail1" in why for why in plan.reboot)
    assert "kernel's names of RDMA devices stay" in node.text("/etc/udev/rules.d/60-rdma-persistent-naming.rules")


def test_a_link_that_is_up_keeps_its_name_until_the_next_boot(node: Node) -> None:
    node.tree.hcas[1].up = True
    node.write()

    plan = node.plan({"programs": ("netplan", "ip")}, pattern="fab{index}")

    moved = {step.argv[4] for step in plan.steps if step.kind == "rename"}
    assert moved == {one.now for one in plan.interfaces} - {"ibp60s0"}
    assert [why.split(":")[0] for why in plan.reboot] == ["ibp60s0 becomes fab1"]


def test_networkmanagers_own_additions_to_a_keyfile_are_no_change_and_one_field_is_one(tmp_path: Path) -> None:
    node = Node(tmp_path, system="networkmanager")
    asked: dict[str, Any] = {"ports": [{"pci": PCI, "name": "fab1", "mtu": 2044, "addresses": ["10.9.0.7/16"]}], "allow_connected": True}
    node.give(**asked)
    path = f"{KEYFILES}/burnin-ib-fab1.nmconnection"
    rewritten = "\n".join(line for line in node.text(path).splitlines() if not line.startswith("#"))
    node.put(path, rewritten.replace("[infiniband]", "timestamp=1700000000\n\n[ethernet]\n\n[infiniband]") + "\n[proxy]\n", 0o600)

    same = node.plan(**asked)
    connected = node.plan(**{**asked, "mode": "connected"})

    assert (same.steps, same.differs) == ((), ())
    assert connected.differs == (f"{path}: infiniband.transport-mode",)


def test_what_is_no_longer_asked_for_goes_and_files_of_others_stay(tmp_path: Path) -> None:
    node = Node(tmp_path, system="networkd")
    others = {
        f"{NETWORKD}/10-mgmt.network": "[Match]\nName=eno1\n[Network]\nDHCP=yes\n",
        "/etc/udev/rules.d/70-persistent-net.rules": 'SUBSYSTEM=="net", ATTR{address}=="b8:ce:f6:a1:00:01", NAME="mgmt0"\n',
        "/etc/udev/rules.d/60-rdma-persistent-naming.rules": "# the site's own\n",
    }
    for path, text in others.items():
        node.put(path, text)
    node.give(ports=[{"pci": PCI, "name": "fab1"}, {"pci": "0000:4d:00.0", "name": "fab2"}])

    fewer = node.give(ports=[{"pci": PCI, "name": "fab1"}])

    assert [step.path for step in fewer.steps if step.kind == "remove"] == [f"{NETWORKD}/60-burnin-ib-fab2.network"]
    assert {path: node.text(path) for path in others} == others


def module(node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **asked: Any) -> dict[str, Any]:
    """The module itself, as Ansible runs it."""
    from ansible.module_utils import basic

    spec = importlib.util.spec_from_file_location("ib_interface", ROOT / "plugins/modules/ib_interface.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    check = asked.pop("check", False)
    given = {**node.params(**asked), "hardware": handed_on(node.root), "root": str(node.root), "sysfs": str(node.root)}
    told = {"ANSIBLE_MODULE_ARGS": {**given, "_ansible_check_mode": check, "_ansible_diff": True}}
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", json.dumps(told).encode())
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy")
    with pytest.raises(SystemExit):
        loaded.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_the_module_writes_nothing_in_check_mode_and_tells_the_same(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = node.files()

    told = module(node, monkeypatch, capsys, pattern="fab{index}", check=True)
    clean = node.files() == before
    done = module(node, monkeypatch, capsys, pattern="fab{index}")
    again = module(node, monkeypatch, capsys, pattern="fab{index}")

    assert clean
    assert (told["changed"], done["changed"], again["changed"]) == (True, True, False)
    assert told["burnin"]["differs"] == done["burnin"]["differs"]
    assert {one["after_header"] for one in told["diff"]} == {RULES, NETPLAN, "/etc/modules-load.d/burnin-ib.conf"}
    assert done["burnin"]["interfaces"][0] | {"states": None} == {
        "name": "fab0", "now": "ibp26s0", "pci": "0000:1a:00.0", "guid": "a088c20300567800", "rdma": "mlx5_0", "port": 1, "pinned": "pci",
        "addresses": [], "mtu": None, "mode": "datagram", "p_keys": [], "states": None,
    }  # fmt: skip


def test_the_module_reads_back_and_fails_for_an_mtu_that_the_fabric_did_not_give(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    node.tree.hcas[0].netdev, node.tree.hcas[0].mtu, node.tree.hcas[0].up = "fab0", 2044, True
    node.write()

    result = module(node, monkeypatch, capsys, ports=[{"pci": "0000:1a:00.0", "name": "fab0", "mtu": 4092}])

    assert result["failed"]
    assert result["burnin"]["code"] == "MTU_NOT_REACHED"
    assert result["msg"].startswith("MTU_NOT_REACHED: fab0 was asked for mtu 4092 and has 2044")
    assert "mtu=5" in result["msg"]


def test_the_module_refuses_with_its_code(node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    before = node.files()

    result = module(node, monkeypatch, capsys, ports=[{"name": "ib0"}])

    assert result["failed"]
    assert result["burnin"]["code"] == "HCA_UNKNOWN"
    assert "ibp26s0" in result["msg"], "those that are there are named"
    assert node.files() == before
