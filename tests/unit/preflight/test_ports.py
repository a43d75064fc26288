"""The ports' rules of the preflight: each cause with its words and its remedy, both sides of each limit, what is nobody's, what was not told."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from burnin.node.host.document import host
from burnin.preflight import bridge
from lab import fake_root

SKUS = {"hgx-h100": "H100-SXM5-80GB", "hgx-b200": "B200-SXM-180GB", "pcie-l40s": "L40S"}
FIRST = "mlx5_0 0000:1a:00.0"


@cache
def _read(kind: str, fault: str) -> dict[str, Any]:
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        return host("bare", str(fake_root.build(Path(folder), kind, "", ((fault, 0),) if fault else ())))


def node(fault: str = "", kind: str = "hgx-h100") -> dict[str, Any]:
    return copy.deepcopy(_read(kind, fault))


def first(found: Mapping[str, Any], name: str = "mlx5_0") -> dict[str, Any]:
    port: dict[str, Any] = next(nic for nic in found["nics"] if nic["rdma"] == name)
    return port


def findings(found: Mapping[str, Any], kind: str = "hgx-h100", **asked: Any) -> dict[str, Mapping[str, str]]:
    judged = bridge.examine({"host": found}, bridge.asked("bare", sku=SKUS[kind], **asked))
    return {one["code"]: one for one in judged["findings"]}


CAUSES = [
    pytest.param("nic_down", "NIC_DOWN", "is DOWN (no cable, or nothing at its other end)", "change the cable", id="Polling"),
    pytest.param("nic_disabled", "NIC_DOWN", "is DOWN (turned off by a person, here or at the switch)", "turn the port on", id="Disabled"),
    pytest.param("nic_asleep", "NIC_DOWN", "is DOWN (asleep:", "load the driver anew", id="Sleep"),
    pytest.param("nic_training", "NIC_DOWN", "do not come to terms)", "cable or transceiver", id="training"),
    pytest.param("nic_init", "NIC_NO_SUBNET_MANAGER", "is INIT (no subnet manager has configured it)", "start a subnet manager", id="INIT"),
    pytest.param("nic_armed", "NIC_NO_SUBNET_MANAGER", "is ARMED (a subnet manager began", "subnet manager's log", id="ARMED"),
    pytest.param("nic_without_lid", "NIC_NO_SUBNET_MANAGER", "is ACTIVE with LID 0 (no subnet manager holds it)", "start the subnet manager", id="LID 0"),
    pytest.param("nic_without_sm", "NIC_NO_SUBNET_MANAGER", "is ACTIVE with SM LID 0 (", "start the subnet manager", id="SM LID 0"),
    pytest.param("nic_narrow_link", "NIC_WIDTH_LOW", "runs at 100 of 400 Gb/s: 1 of 4 lanes.", "cable or transceiver: lanes", id="lanes"),
    pytest.param("nic_one_lane_hdr", "NIC_WIDTH_LOW", "runs at 50 of 400 Gb/s: 1 of 4 lanes, and each at 50 of 100 Gb/s.", "cable", id="lanes, and slow"),
    pytest.param("nic_slow", "NIC_RATE_LOW", "runs at 200 of 400 Gb/s (4X HDR): all its lanes, each slower", "the slower end decides", id="speed"),
    pytest.param("nic_errors", "NIC_ERRORS", "has symbol_error at least 65535 in 10 h", "clean or change the cable", id="errors"),
    pytest.param("nic_flaps", "NIC_FLAPS", "has link_downed at least 255 in 10 h", "change the cable", id="flaps"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "code", "piece", "remedy"), CAUSES)
def test_a_port_is_named_with_its_cause_and_what_to_do_for_that_cause(fault: str, code: str, piece: str, remedy: str) -> None:
    found = findings(node(fault))

    assert list(found) == [code]
    assert f"{FIRST} {piece}" in found[code]["why"] or (FIRST in found[code]["why"] and piece in found[code]["why"])
    assert remedy in found[code]["action"]


def test_the_remedy_is_of_the_causes_that_were_found_and_of_no_other() -> None:
    found = node("nic_down")
    first(found, "mlx5_1").update(state="DOWN", physical_state="Disabled")
    action = findings(found)["NIC_DOWN"]["action"]

    assert "Polling: " in action
    assert "Disabled: " in action
    assert "Sleep" not in action
    assert "Disabled" not in findings(node("nic_down"))["NIC_DOWN"]["action"]


def test_a_state_that_we_do_not_know_is_told_as_it_is() -> None:
    found = node("nic_down")
    first(found)["physical_state"] = "Dreaming"

    assert "is DOWN (its link is Dreaming)" in findings(found)["NIC_DOWN"]["why"]


def test_ethernet_where_infiniband_was_bought_is_told_with_the_line_that_would_change_it() -> None:
    found = findings(node("nic_ethernet"))["NIC_LINK_LAYER"]

    assert (
        f"{FIRST} is set to Ethernet, InfiniBand was expected; this would change it: `mlxconfig -d 0000:1a:00.0 set LINK_TYPE_P1=1`."
        in found["why"]
    )
    assert found["outcome"] == "REVIEW", "the layer is our guess"


def test_the_line_is_of_that_port_and_of_that_layer() -> None:
    found = node()
    first(found)["address"] = "0000:1a:00.1"
    told = findings(found, parts={"nic_link_layer": "Ethernet"})["NIC_LINK_LAYER"]

    assert "`mlxconfig -d 0000:1a:00.1 set LINK_TYPE_P2=2`" in told["why"]
    assert told["outcome"] == "FAIL", "the site says so"


@pytest.mark.parametrize("address", ["0000:1a:00.0; reboot", "$(reboot)", "", None, 7])
def test_an_address_that_is_none_makes_no_line_to_paste(address: object) -> None:
    found = node("nic_ethernet")
    first(found)["address"] = address

    assert "mlxconfig" not in findings(found)["NIC_LINK_LAYER"]["why"]


def test_an_ethernet_port_has_no_subnet_manager_and_no_lid() -> None:
    found = node()
    for nic in found["nics"]:
        nic.update(link_layer="Ethernet", lid=0, sm_lid=0)
    assert findings(found, parts={"nic_link_layer": "Ethernet"}) == {}
    first(found)["state"] = "INIT"

    assert list(findings(found, parts={"nic_link_layer": "Ethernet"})) == ["NIC_DOWN"]


def test_an_ethernet_port_whose_network_device_is_not_up_is_told_so() -> None:
    found = node("nic_down")
    first(found).update(link_layer="Ethernet", netdev_up=False, netdev="ens1np0")

    told = findings(found, parts={"nic_link_layer": None})["NIC_DOWN"]

    assert "(its network device ens1np0 is not up)" in told["why"]
    assert "ip link" in told["action"]


def test_an_ethernet_port_that_keeps_its_rate_is_asked_over_its_network_device() -> None:
    found = node()
    first(found).update(link_layer="Ethernet", rate_gb_s=None, link_width=None, link_speed=None, netdev_speed_mb_s=400_000)
    assert findings(found, parts={"nic_link_layer": None}) == {}
    first(found)["netdev_speed_mb_s"] = 200_000

    assert "200 of 400 Gb/s" in findings(found, parts={"nic_link_layer": None})["NIC_RATE_LOW"]["why"]


@pytest.mark.parametrize(
    ("rate", "lanes", "speed", "code"),
    [
        pytest.param(400.0, 4, "NDR", None, id="as bought"),
        pytest.param(400.0, 2, "XDR", None, id="fewer lanes that carry it all the same"),
        pytest.param(800.0, 4, "XDR", None, id="more than was bought"),
        pytest.param(399.9, 4, "NDR", "NIC_RATE_LOW", id="a hair less"),
        pytest.param(200.0, 2, "NDR", "NIC_WIDTH_LOW", id="half the lanes"),
        pytest.param(200.0, None, None, "NIC_RATE_LOW", id="lanes not told"),
        pytest.param(None, 4, "HDR", "NIC_RATE_LOW", id="the rate from lanes and speed"),
        pytest.param(None, 4, "NDR", None, id="the rate from lanes and speed, and it is enough"),
        pytest.param(2.5, 1, "SDR", "NIC_WIDTH_LOW", id="the least there is"),
    ],
)
def test_rate_and_lanes_both_sides(rate: float | None, lanes: int | None, speed: str | None, code: str | None) -> None:
    found = node()
    first(found).update(rate_gb_s=rate, link_width=lanes, link_speed=speed)

    assert list(findings(found)) == ([] if code is None else [code])


def test_without_an_expected_rate_a_port_is_held_against_its_equals() -> None:
    none = {"nic_rate_gb_s": None}
    found = node("nic_slow")
    assert findings(found, parts=none)["NIC_RATE_LOW"]["why"].endswith("as others like it do.")
    assert findings(node(), parts=none) == {}
    for name in ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"):
        first(found, name).update(rate_gb_s=200.0, link_speed="HDR")
    assert findings(found, parts=none) == {}, "four to four: nobody is right"


def test_two_ports_say_nothing_about_each_other() -> None:
    found = node("nic_slow")
    found["nics"] = [nic for nic in found["nics"] if nic["rdma"] in ("mlx5_0", "mlx5_1")]

    assert "NIC_RATE_LOW" not in findings(found, parts={"nic_rate_gb_s": None, "nics": None, "hcas_per_gpu": None})


COUNTS = [
    pytest.param("symbol_error", 101, 10.0, "NIC_ERRORS", id="more than so many an hour"),
    pytest.param("symbol_error", 100, 10.0, None, id="exactly so many"),
    pytest.param("symbol_error", 9, 0.1, None, id="fewer than are worth a word, in no time"),
    pytest.param("symbol_error", 10, 0.1, "NIC_ERRORS", id="as many as are worth a word"),
    pytest.param("link_downed", 3, 14.0, "NIC_FLAPS", id="a link that went down three times in a night"),
    pytest.param("link_downed", 3, 15.0, None, id="as often as is usual"),
    pytest.param("link_downed", 2, 0.1, None, id="what a boot counts"),
    pytest.param("port_xmit_discards", 10**9, 1.0, None, id="congestion is no fault of the link"),
    pytest.param("port_rcv_data", 10**15, 1.0, None, id="traffic"),
]


@pytest.mark.parametrize(("name", "count", "hours", "code"), COUNTS)
def test_what_was_counted_both_sides(name: str, count: int, hours: float, code: str | None) -> None:
    found = node()
    first(found)["counters"][name] = count
    found["uptime_s"] = hours * 3600

    assert list(findings(found)) == ([] if code is None else [code])


def test_the_carrier_of_an_ethernet_port_flaps_too() -> None:
    found = node()
    first(found).update(link_layer="Ethernet", carrier_changes=8)
    found["uptime_s"] = 3600.0 * 8
    assert list(findings(found, parts={"nic_link_layer": None})) == ["NIC_FLAPS"]
    first(found)["carrier_changes"] = 7

    assert findings(found, parts={"nic_link_layer": None}) == {}


def test_bridges_to_the_nvswitches_and_storage_cards_are_not_judged_as_ports() -> None:
    found = node(kind="hgx-b200")
    for nic in found["nics"]:
        if nic["nvlink5_bridge"]:
            nic.update(state="DOWN", physical_state="Polling", lid=None, counters={"symbol_error": 10**6})
    assert findings(found, kind="hgx-b200") == {}
    storage = node()
    first(storage, "rocep1s0f0").update(state="DOWN", physical_state="Polling")

    assert findings(storage) == {}


SILENT = [
    pytest.param({"state": None}, "the state of " + FIRST, id="its state"),
    pytest.param({"rate_gb_s": None, "link_width": None}, "the rate of " + FIRST, id="its rate"),
    pytest.param({"lid": None}, "the LIDs of " + FIRST, id="its LID"),
    pytest.param({"sm_lid": None}, "the LIDs of " + FIRST, id="its subnet manager's LID"),
    pytest.param({"counters": None}, "what was counted at " + FIRST, id="its counters"),
]


@pytest.mark.parametrize(("changed", "piece"), SILENT)
def test_what_a_driver_keeps_to_itself_is_not_known_rather_than_good(changed: dict[str, Any], piece: str) -> None:
    found = node()
    first(found).update(changed)

    assert list(findings(found)) == ["FACTS_UNKNOWN"]
    assert piece in findings(found)["FACTS_UNKNOWN"]["why"]


def test_counts_without_their_time_are_not_known() -> None:
    found = node("nic_errors")
    found["uptime_s"] = None

    assert list(findings(found)) == ["FACTS_UNKNOWN"]
    assert "how long its ports have counted" in findings(found)["FACTS_UNKNOWN"]["why"]


@pytest.mark.parametrize("value", ["400", [400], {"a": 1}, True, -1, float("nan"), 10**30], ids=repr)
def test_a_value_of_another_kind_breaks_nothing(value: object) -> None:
    found = node()
    names = ("rate_gb_s", "link_width", "link_speed", "netdev_speed_mb_s", "carrier_changes", "state", "physical_state", "board_id", "port")
    for name in names:
        changed = copy.deepcopy(found)
        first(changed)[name] = value
        findings(changed)
        findings(changed, parts={"nic_rate_gb_s": None})
    first(found)["counters"] = {"symbol_error": value}
    found["uptime_s"] = value

    assert "NIC_ERRORS" not in findings(found)
