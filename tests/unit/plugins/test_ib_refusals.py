"""ib_interface refuses before it writes: each refusal with its code, the part by name, and not one file of the node another than before."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import fake_links
from fake_links import Node, making, model

PCI, OTHER = "0000:3c:00.0", "0000:4d:00.0"  # of mlx5_1 and mlx5_2


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def refused(node: Node, world: dict[str, Any] | None = None, **asked: Any) -> model.Refusal:
    """The refusal; the node is as before."""
    before = node.files()
    with pytest.raises(model.Refusal) as caught:
        making.do(node.plan(world, **asked), str(node.root))
    assert node.files() == before
    return caught.value


def port(**more: Any) -> dict[str, Any]:
    return {"pci": PCI, "name": "fab1", **more}


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        pytest.param({"ports": [{"guid": "a088:c203:0056:9999", "name": "fab1"}]}, "HCA_UNKNOWN", "mlx5_0 port 1 (0000:1a:00.0", id="no such GUID"),
        pytest.param({"ports": [{"pci": "0000:99:00.0", "name": "fab1"}]}, "HCA_UNKNOWN", "PCI address 0000:99:00.0", id="no such function"),
        pytest.param({"ports": [{"pci": PCI, "port": 2, "name": "fab1"}]}, "HCA_UNKNOWN", "0000:3c:00.0 port 2", id="no such port"),
        pytest.param({"ports": [{"name": "ib0"}]}, "HCA_UNKNOWN", "ibp26s0", id="ib0 is not called ib0: those there are named"),
        pytest.param({"ports": [{"guid": "a088", "name": "fab1"}]}, "GUID_INVALID", "a088 is no port GUID", id="half a GUID"),
        pytest.param({"ports": [{"guid": 0xA088C20300567801, "name": "fab1"}]}, "GUID_INVALID", "in quotes", id="a GUID that YAML made a number"),
        pytest.param({"ports": [{"guid": "0" * 16, "name": "fab1"}]}, "GUID_INVALID", "is no port GUID", id="a GUID of zeros"),
        pytest.param(
            {"ports": [{"guid": "a088:c203:0056:7801", "name": "fab1"}, {"guid": "0xa088c20300567801", "name": "fab2"}]},
            "GUID_TWICE", "ib_interface_ports[1]: GUID a088c20300567801 is ib_interface_ports[0]'s already", id="one GUID twice",
        ),
        pytest.param({"ports": [port(), {"rdma": "mlx5_1", "name": "fab2"}]}, "PORT_TWICE", "ib_interface_ports[0] and ib_interface_ports[1]", id="one port twice"),
        pytest.param({"ports": [port(), {"pci": PCI, "name": "fab2"}]}, "PORT_TWICE", "PCI address", id="one function twice"),
        pytest.param({"ports": [{"pci": "3c", "name": "fab1"}]}, "PCI_INVALID", "3c is no PCI address", id="no PCI address"),
        pytest.param({"ports": [{"pci": "0000:01:00.0", "name": "fab1"}]}, "LINK_LAYER", "mlxconfig -d 0000:01:00.0 set LINK_TYPE_P1=1", id="an Ethernet port"),
        pytest.param({"ports": [port(), {"pci": OTHER, "name": "fab1"}]}, "NAME_TAKEN", "name fab1", id="one name for two"),
        pytest.param({"ports": [port(name="ens1f0np0")]}, "NAME_TAKEN", "ens1f0np0", id="a name of another device"),
        pytest.param({"ports": [port(name="ib0")]}, "NAME_KERNELS", "ib0", id="a name that the kernel gives"),
        pytest.param({"pattern": "ib{index}"}, "NAME_KERNELS", "ib_interface_pattern", id="a pattern of the kernel's"),
        pytest.param({"pattern": "fab"}, "NAME_INVALID", "fab is no pattern", id="a pattern without a number"),
        pytest.param({"ports": [port(name="a-name-too-long-")]}, "NAME_INVALID", "at most 15", id="a name too long"),
        pytest.param({"ports": [port(name="eleven-long", p_keys=[1])]}, "NAME_INVALID", "at most 10", id="no room for the partition"),
        pytest.param({"ports": [port(name="../../x")]}, "NAME_INVALID", "no name for an interface", id="a name that is a path"),
        pytest.param({"ports": [port(name='a", RUN+="x')]}, "NAME_INVALID", "no name for an interface", id="a name that is a rule"),
        pytest.param({"ports": [port(rdma_name="mlx5_7")]}, "RDMA_NAME_INVALID", "mlx5_7 cannot be given", id="an RDMA name of the kernel's"),
        pytest.param({"ports": [port(mode="connected")]}, "MODE_UNSUPPORTED", "fab1: mlx5_1 port 1", id="connected on a ConnectX-7"),
        pytest.param({"ports": [port(mode="rc")]}, "DESCRIPTION_INVALID", "rc is not known", id="a mode that is none"),
        pytest.param({"mode": "datagram", "mtu": 65520, "pattern": "fab{index}"}, "MTU_TOO_LARGE", "4092", id="a connected MTU on datagrams"),
        pytest.param({"ports": [port(mtu=4093)]}, "MTU_TOO_LARGE", "ib_interface_ports[0]: mtu 4093", id="one byte over"),
        pytest.param({"ports": [port(mode="connected", mtu=65521)], "allow_connected": True}, "MTU_TOO_LARGE", "65520", id="one over connected's"),
        pytest.param({"ports": [port(mtu=67)]}, "MTU_INVALID", "under the least", id="under IPv4's least"),
        pytest.param({"ports": [port(mtu=1279, addresses=["fd00::7/64"])]}, "MTU_INVALID", "1280", id="under IPv6's least"),
        pytest.param({"ports": [port(mtu="big")]}, "MTU_INVALID", "big is no number", id="an MTU that is a word"),
        *(
            pytest.param({"ports": [port(addresses=[given])]}, "ADDRESS_INVALID", f"ib_interface_ports[0]: {given} is", id=f"address {given}")
            for given in ("10.9.0.7", "10.9.0.256/16", "10.9.0.0/16", "10.9.255.255/16", "10.9.0.7/33", "127.0.0.1/8", "224.0.0.1/24", "0.0.0.0/0", "fe80::1%e/64", "x")
        ),
        pytest.param({"pattern": "fab{index}", "addresses": {"fab0": ["10.9.0.7"]}}, "ADDRESS_INVALID", "ib_interface_addresses.fab0", id="an address by name"),
        pytest.param({"pattern": "fab{index}", "addresses": {"fab9": ["10.9.0.7/16"]}}, "NAME_UNKNOWN", "fab9", id="an address for nobody"),
        pytest.param(
            {"ports": [port(addresses=["10.9.0.7/16"]), {"pci": OTHER, "name": "fab2", "addresses": ["10.9.0.7/24"]}]},
            "ADDRESS_TWICE", "address 10.9.0.7", id="one address for two",
        ),
        pytest.param({"ports": [port(addresses=["10.9.0.7/16"], p_keys=[{"p_key": 1, "addresses": ["10.9.0.7/16"]}])]}, "ADDRESS_TWICE", "0x8001", id="a partition"),
        *(
            pytest.param({"ports": [port(p_keys=[given])]}, "PKEY_INVALID", "ib_interface_ports[0].p_keys[0]", id=f"P_Key {given}")
            for given in (0, 0x8000, "0x0000", "0x7fff", 0xFFFF, 0x10000, -1, "8001", "0xzz", True)
        ),
        pytest.param({"ports": [port(p_keys=[0x8001, {"p_key": 1, "limited": True}])]}, "PKEY_INVALID", "partition 0x0001", id="full and limited"),
        pytest.param({"ports": [port(colour="blue")]}, "DESCRIPTION_INVALID", "colour is not known", id="a misspelt key"),
        pytest.param({"ports": [{"addresses": ["10.9.0.7/16"]}]}, "DESCRIPTION_INVALID", "say which port", id="no port"),
        pytest.param({"ports": [{"pci": PCI, "rdma": "mlx5_1", "name": "fab1"}]}, "DESCRIPTION_INVALID", "pci and rdma", id="two ways to say which"),
        pytest.param({"pattern": "fab{index}", "expected": 9}, "PORTS_TOO_FEW", "8 can have an interface", id="fewer than expected"),
        pytest.param({"pattern": "fab{index}", "renderer": "wicked"}, "SYSTEM_UNKNOWN", "wicked is not known", id="a renderer that is none"),
    ],
)  # fmt: skip
def test_what_cannot_be(node: Node, asked: dict[str, Any], code: str, said: str) -> None:
    refusal = refused(node, **asked)

    assert refusal.code == code
    assert said in str(refusal)


def test_a_bridge_to_nvswitches_is_refused_by_name_and_by_guid(tmp_path: Path) -> None:
    node = Node(tmp_path, "hgx-b200")

    for which in ({"pci": "0000:84:00.0"}, {"guid": "b0cf:0e03:00d0:0001"}, {"rdma": "mlx5_9"}):
        refusal = refused(node, ports=[{**which, "name": "fab1"}])
        assert refusal.code == "BRIDGE_REFUSED"
        assert "mlx5_9 port 1 (0000:84:00.0" in str(refusal)


def test_a_pattern_is_not_believed_where_no_adapter_could_be_asked_for_a_bridge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path, "hgx-b200")
    told = fake_links.handed_on(node.root)
    monkeypatch.setattr("fake_links.handed_on", lambda _root: {**told, "nvlink5": None})

    assert refused(node, pattern="fab{index}").code == "BRIDGES_UNKNOWN"


def test_without_preflight_nobody_knows_the_adapters(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fake_links.handed_on", lambda _root: {})

    refusal = refused(node, pattern="fab{index}")

    assert refusal.code == "HARDWARE_UNKNOWN"
    assert "preflight" in str(refusal)


def test_two_adapters_with_one_guid_are_refused_both_by_name(node: Node) -> None:
    node.tree.hcas[2].guid = node.tree.hcas[1].guid
    node.write()

    refusal = refused(node, pattern="fab{index}")

    assert refusal.code == "GUID_TWICE"
    assert "mlx5_1 port 1" in str(refusal)
    assert "mlx5_2 port 1" in str(refusal)


def test_a_virtual_function_is_refused(node: Node) -> None:
    (node.root / "sys/bus/pci/devices/0000:3c:00.1/physfn").mkdir(parents=True)

    refusal = refused(node, ports=[{"pci": "0000:3c:00.1", "name": "fab1"}])

    assert refusal.code == "VIRTUAL_FUNCTION"
    assert "0000:3c:00.1" in str(refusal)


def test_connected_is_taken_by_cards_that_have_it_and_refused_where_the_kernel_has_none(node: Node) -> None:
    card = node.tree.devices[PCI]
    card.device, card.driver = "1011", "mlx5_core"  # Connect-IB
    node.write()
    asked: dict[str, Any] = {"ports": [port(mode="connected", mtu=65520)]}

    assert node.plan(**asked).interfaces[0].mode == "connected"
    mode = next((node.root / "sys/devices").rglob("net/ibp60s0/mode"))
    mode.unlink()

    refusal = refused(node, **asked)
    assert refusal.code == "MODE_UNSUPPORTED"
    assert "ibp60s0" in str(refusal)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("/etc/netplan/50-cloud-init.yaml", "network:\n  ethernets:\n    fab1:\n      dhcp4: true\n", id="netplan"),
        pytest.param("/etc/netplan/50-x.yaml", "network: {ethernets: {x: {match: {name: y}, set-name: fab1}}}\n", id="netplan's set-name"),
        pytest.param("/etc/systemd/network/10-ib.network", "[Match]\nName=fab*\n", id="networkd by a glob"),
        pytest.param("/etc/systemd/network/10-ib.network", "[Match]\nType=infiniband\n", id="networkd by type"),
        pytest.param("/etc/systemd/network/10-ib.link", "[Match]\nPath=x\n[Link]\nName=fab1\n", id="a .link file"),
        pytest.param("/etc/udev/rules.d/70-persistent-ipoib.rules", 'ATTR{address}=="?*01", NAME="fab1"\n', id="a udev rule"),
        pytest.param(
            "/etc/NetworkManager/system-connections/ib.nmconnection", "[connection]\ntype=infiniband\ninterface-name=fab1\n", id="a keyfile"
        ),
        pytest.param(
            "/etc/NetworkManager/system-connections/ib.nmconnection",
            "[connection]\ntype=infiniband\n[infiniband]\nmac-address=80:00:00:1A:FE:80:00:00:00:00:00:00:A0:88:C2:03:00:56:78:01\n",
            id="a keyfile by the GUID's tail",
        ),
        pytest.param("/etc/sysconfig/network-scripts/ifcfg-fab1", "TYPE=InfiniBand\nDEVICE=fab1\n", id="ifcfg"),
        pytest.param("/etc/network/interfaces", "auto fab1\niface fab1 inet dhcp\n", id="ifupdown"),
        pytest.param("/etc/udev/rules.d/70-burnin-ib.rules", "# a person's file\n", id="a file that has our name"),
    ],
)
def test_a_profile_of_others_for_the_link_is_refused_by_its_path(node: Node, path: str, text: str) -> None:
    node.put(path, text)

    refusal = refused(node, ports=[port()])

    assert refusal.code == "FOREIGN_PROFILE"
    assert path in str(refusal)


@pytest.mark.parametrize(
    ("system", "world", "code"),
    [
        pytest.param("netplan", {"programs": ()}, "TOOL_MISSING", id="no netplan"),
        pytest.param("networkmanager", {"active": ()}, "RENDERER_NOT_RUNNING", id="NetworkManager does not run"),
        pytest.param(
            "networkd", {"active": (), "others": {"/etc/systemd/network/10-x.network": "[Match]\nName=eno1\n"}}, "RENDERER_NOT_RUNNING",
            id="networkd would put others' files into force",
        ),
        pytest.param("networkd", {"system": "slackware", "like": ()}, "SYSTEM_UNKNOWN", id="a system that we do not know"),
    ],
)  # fmt: skip
def test_a_node_that_cannot_configure_its_links_is_refused(tmp_path: Path, system: str, world: dict[str, Any], code: str) -> None:
    assert refused(Node(tmp_path, system=system), world, ports=[port()]).code == code


def test_what_was_written_is_put_back_where_a_folder_cannot_be_written(tmp_path: Path) -> None:
    node = Node(tmp_path, system="networkd")
    plan = node.plan(ports=[port()])
    node.put("/etc/udev/rules.d", "a file where a folder should be")
    before = node.files()

    with pytest.raises(model.Trouble) as caught:
        making.do(plan, str(node.root))

    assert caught.value.code == "WRITE_FAILED"
    assert node.files() == before


def test_every_code_is_on_the_page() -> None:
    """docs/ib_interface.md names each code that the module can give, and no other."""
    code = "\n".join(path.read_text() for path in sorted((fake_links.ROOT / "plugins/module_utils/burnin_ib").glob("*.py")))
    given = set(re.findall(r'"([A-Z]+(?:_[A-Z]+)+|EXCLUDED)"', code)) - {"LC_ALL", "ID_LIKE"}
    rows = re.findall(r"^\| (`[A-Z_]+`(?:, `[A-Z_]+`)*) \|", (fake_links.ROOT / "docs/ib_interface.md").read_text(), re.MULTILINE)

    assert {name.strip("`") for cell in rows for name in cell.split(", ")} == given
