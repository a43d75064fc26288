"""The reader of ports, over trees with sysfs as Linux writes it: what is told, what is not, and what a hostile file comes to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from burnin.node.host.document import host
from lab import fake_root


def read(tmp_path: Path, *changes: tuple[str, str | bytes], kind: str = "hgx-h100") -> dict[str, dict[str, Any]]:
    """RDMA name -> port, of a node in which some files of its first HCA (or whole paths) are others. None for a file that is not there."""
    tree = fake_root.KINDS[kind]()
    root = tree.write(tmp_path)
    hca = tree.hcas[0]
    for name, content in changes:
        place = root / (name.lstrip("/") if name.startswith("/") else f"{tree.path(tree.devices[hca.address]).lstrip('/')}/{name}")
        if content == b"gone":
            place.unlink()
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content if isinstance(content, bytes) else content.encode())
    document = host("bare", str(root))
    return {"": document, **{nic["rdma"]: nic for nic in document["nics"]}}


def test_a_port_is_told_whole(tmp_path: Path) -> None:
    port = read(tmp_path)["mlx5_0"]

    assert {name: port[name] for name in ("state", "physical_state", "rate_gb_s", "link_width", "link_speed", "lid", "sm_lid")} == {
        "state": "ACTIVE", "physical_state": "LinkUp", "rate_gb_s": 400.0, "link_width": 4, "link_speed": "NDR", "lid": 128, "sm_lid": 1,
    }  # fmt: skip
    assert port["width"] == 16, "the lanes of its slot are another thing"
    assert port["counters"]["symbol_error"] == 0
    assert (port["carrier"], port["netdev_speed_mb_s"]) == (None, None), "a network device over InfiniBand is not asked"


def test_an_ethernet_port_is_told_with_its_network_device(tmp_path: Path) -> None:
    port = read(tmp_path)["rocep1s0f0"]

    assert {name: port[name] for name in ("netdev", "netdev_up", "carrier", "carrier_changes", "netdev_speed_mb_s", "lid", "sm_lid")} == {
        "netdev": "ens1f0np0", "netdev_up": True, "carrier": True, "carrier_changes": 2, "netdev_speed_mb_s": 100_000, "lid": 0, "sm_lid": 0,
    }  # fmt: skip


def test_a_network_device_that_is_not_up_is_not_asked_for_what_it_cannot_tell(tmp_path: Path) -> None:
    """The kernel answers such a question with an error, which would be told as one of ours."""
    tree = fake_root.hgx_h100()
    root = tree.write(tmp_path)
    net = root / (tree.path(tree.devices["0000:01:00.0"]).lstrip("/") + "/net/ens1f0np0")
    (net / "flags").write_text("0x1002\n")
    for name in ("carrier", "speed"):
        (net / name).unlink()
        (net / name).mkdir()

    document = host("bare", str(root))
    port = next(nic for nic in document["nics"] if nic["rdma"] == "rocep1s0f0")

    assert (port["netdev_up"], port["carrier"], port["netdev_speed_mb_s"]) == (False, None, None)
    assert document["errors"] == []


RATES = [
    pytest.param("400 Gb/sec (4X NDR)", (400.0, 4, "NDR"), id="whole"),
    pytest.param("2.5 Gb/sec (1X SDR)", (2.5, 1, "SDR"), id="the least"),
    pytest.param("10 Gb/sec (4X)", (10.0, 4, None), id="an older kernel leaves SDR away"),
    pytest.param("40 Gb/sec (4X QDR)", (40.0, 4, "QDR"), id="QDR"),
    pytest.param("40 Gb/sec (4X FDR10)", (40.0, 4, "FDR10"), id="FDR10"),
    pytest.param("100 Gb/sec", (100.0, None, None), id="no brackets"),
    pytest.param("", (None, None, None), id="empty"),
    pytest.param("fast", (None, None, None), id="words"),
    pytest.param("400 Gb/sec (4X NDR) rm -rf", (None, None, None), id="more than it says"),
    pytest.param("9" * 100 + " Gb/sec (4X NDR)", (None, None, None), id="a number of a hundred digits"),
    pytest.param("\u0664\u0660\u0660 Gb/sec (4X NDR)", (None, None, None), id="digits of another script"),
    pytest.param(b"\xff\xfe400 Gb/sec", (None, None, None), id="no text"),
]


@pytest.mark.parametrize(("text", "expected"), RATES)
def test_a_rate_is_read_as_linux_writes_it_and_else_not_at_all(text: str | bytes, expected: tuple[Any, ...], tmp_path: Path) -> None:
    port = read(tmp_path, ("infiniband/mlx5_0/ports/1/rate", text))["mlx5_0"]

    assert (port["rate_gb_s"], port["link_width"], port["link_speed"]) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0x80", 128), ("0x0", 0), ("128", None), ("0xfffffffff", None), ("0x-1", None), ("0x1 0x2", None), ("", None), (b"gone", None)],
    ids=repr,
)
def test_a_lid_is_hexadecimal_or_not_told(text: str | bytes, expected: int | None, tmp_path: Path) -> None:
    port = read(tmp_path, ("infiniband/mlx5_0/ports/1/lid", text), ("infiniband/mlx5_0/ports/1/sm_lid", text))["mlx5_0"]

    assert (port["lid"], port["sm_lid"]) == (expected, expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("65535", 65535),
        ("18446744073709551615", 2**64 - 1),
        ("N/A (no PMA)", None),
        ("-1", None),
        ("1" * 21, None),
        (b"gone", None),
    ],
    ids=repr,
)
def test_a_counter_is_a_whole_number_or_not_told(text: str | bytes, expected: int | None, tmp_path: Path) -> None:
    counters = read(tmp_path, ("infiniband/mlx5_0/ports/1/counters/symbol_error", text))["mlx5_0"]["counters"]

    assert counters["symbol_error"] == expected
    assert counters["link_downed"] == 0, "the others are told all the same"


@pytest.mark.parametrize(("text", "expected"), [("36000.42 8000000.11\n", 36000.42), ("soon", None), ("", None), (b"gone", None)], ids=repr)
def test_the_time_since_the_boot(text: str | bytes, expected: float | None, tmp_path: Path) -> None:
    assert read(tmp_path, ("/proc/uptime", text))[""]["uptime_s"] == expected


def test_an_adapter_without_its_driver_tells_nothing_and_has_the_same_names(tmp_path: Path) -> None:
    tree = fake_root.hgx_h100()
    named = set(host("bare", str(tree.write(tmp_path / "driven")))["nics"][0])
    tree = fake_root.hgx_h100()
    tree.hcas = []

    nics = host("bare", str(tree.write(tmp_path / "bare")))["nics"]

    assert {frozenset(nic) for nic in nics} == {frozenset(named)}
    assert {nic[name] for nic in nics for name in ("lid", "counters", "link_width", "carrier")} == {None}
