"""The rules of the preflight over the fake nodes: what each fault comes to, both sides of each limit, what cannot be told, and what is not judged."""

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
from burnin.preflight.case import Site
from burnin.preflight.codes import CODES, SHARED
from burnin.preflight.policy import outcomes
from burnin.preflight.rules import RULES
from lab import fake_root

SKUS = {"hgx-h100": "H100-SXM5-80GB", "hgx-b200": "B200-SXM-180GB", "pcie-l40s": "L40S"}
DRIVER = "580.126.09"
# A tree is a thousand small files: in memory where there is such a place.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


@cache
def _read(kind: str, level: str, faults: tuple[str, ...]) -> dict[str, Any]:
    pairs = tuple((name, int(place or 0)) for name, _, place in (fault.partition("=") for fault in faults))
    with TemporaryDirectory(dir=MEMORY) as folder:
        return host(level, str(fake_root.build(Path(folder), kind, DRIVER if level == "ready" else "", pairs)))


def node(*faults: str, kind: str = "hgx-h100", level: str = "bare") -> dict[str, Any]:
    """A fake node's host document, to be changed at will."""
    found = copy.deepcopy(_read(kind, level, faults))
    if level == "ready":
        found["software"]["services"] = {"nvidia-fabricmanager.service": {"active": "active", "enabled": "enabled"}}
    return found


def judged(
    found: Mapping[str, Any], *, kind: str = "hgx-h100", site: Site | None = None, stack: Any = None, **asked: Any
) -> dict[str, Any]:
    """What comes of it."""
    asked = {"sku": SKUS[kind], **asked}
    problem = asked.pop("problem", None)
    return bridge.examine({"host": found, "backend_problem": problem}, bridge.asked(found["level"], **asked), (stack, None), site)


def told(found: Mapping[str, Any], **asked: Any) -> list[tuple[str, str]]:
    """(code, outcome) of each finding."""
    return [(one["code"], one["outcome"]) for one in judged(found, **asked)["findings"]]


def why(found: Mapping[str, Any], code: str, **asked: Any) -> str:
    return next(one["why"] for one in judged(found, **asked)["findings"] if one["code"] == code)


@pytest.mark.parametrize("level", ["bare", "ready"])
@pytest.mark.parametrize("kind", sorted(SKUS))
def test_a_sound_node_has_no_finding(kind: str, level: str) -> None:
    found = judged(node(kind=kind, level=level), kind=kind)

    assert (found["findings"], found["failed"], found["text"], found["review"]) == ([], False, "", "")


FAULTS = [
    pytest.param("gpu_missing=3", [("GPU_ABSENT", "REVIEW")], id="a GPU gone is the verdict's to judge"),
    pytest.param("gpu_other=2", [("SKU_MISMATCH", "FAIL")], id="one GPU of another kind"),
    pytest.param("gpu_narrow", [("PCIE_WIDTH_LOW", "FAIL")], id="a GPU on half its lanes"),
    pytest.param("gpu_slow_link", [("PCIE_SPEED_LOW", "REVIEW")], id="a GPU link that rests or lost speed"),
    pytest.param("gpu_behind_gen4", [("PCIE_PORT_LIMIT", "FAIL")], id="a GPU behind a Gen4 port"),
    pytest.param("switch_narrow", [("PCIE_WIDTH_LOW", "FAIL")], id="a switch on half its lanes"),
    pytest.param("nic_missing=4", [("NIC_MISSING", "FAIL")], id="an adapter gone"),
    pytest.param("nic_narrow", [("PCIE_WIDTH_LOW", "FAIL")], id="an adapter on half its lanes"),
    pytest.param("nic_down", [("NIC_DOWN", "REVIEW")], id="no cable"),
    pytest.param("nic_disabled", [("NIC_DOWN", "REVIEW")], id="a port that somebody turned off"),
    pytest.param("nic_init", [("NIC_NO_SUBNET_MANAGER", "REVIEW")], id="no subnet manager"),
    pytest.param("nic_armed", [("NIC_NO_SUBNET_MANAGER", "REVIEW")], id="a subnet manager that stopped half way"),
    pytest.param("nic_without_lid", [("NIC_NO_SUBNET_MANAGER", "REVIEW")], id="active, and no LID"),
    pytest.param("nic_without_sm", [("NIC_NO_SUBNET_MANAGER", "REVIEW")], id="active, and nobody's LID for a subnet manager"),
    pytest.param("nic_narrow_link", [("NIC_WIDTH_LOW", "REVIEW")], id="one lane of four"),
    pytest.param("nic_one_lane_hdr", [("NIC_WIDTH_LOW", "REVIEW")], id="50 of 400 Gb/s"),
    pytest.param("nic_errors", [("NIC_ERRORS", "REVIEW")], id="symbol errors since the boot"),
    pytest.param("nic_flaps", [("NIC_FLAPS", "REVIEW")], id="a link that went down again and again"),
    pytest.param("nic_ethernet", [("NIC_LINK_LAYER", "REVIEW")], id="a link layer that we only guess"),
    pytest.param("nic_slow", [("NIC_RATE_LOW", "REVIEW")], id="half the rate"),
    pytest.param("nic_firmware", [("FIRMWARE_DIFFERS", "REVIEW")], id="another firmware than its equals"),
    pytest.param("nic_elsewhere", [("GPU_WITHOUT_HCA", "REVIEW")], id="an adapter on another switch"),
    pytest.param("nvme_missing", [("NVME_MISSING", "REVIEW")], id="a drive gone, where the number is our guess"),
    pytest.param("memory_short", [("MEMORY_SHORT", "REVIEW")], id="one memory module gone, where the size is our guess"),
    pytest.param("nvswitch_missing", [("NVSWITCH_MISSING", "FAIL")], id="an NVSwitch gone"),
    pytest.param("iommu_translates", [("IOMMU_TRANSLATES", "REVIEW")], id="the IOMMU translates"),
    pytest.param("acs_redirects", [("ACS_REDIRECTS", "REVIEW")], id="ACS redirects"),
    pytest.param("clock_free_running", [("CLOCK_FREE_RUNNING", "REVIEW")], id="nobody keeps the clock"),
    pytest.param("gpu_busy", [("GPU_BUSY", "REVIEW")], id="a job on a GPU, before anything is changed"),
    pytest.param("secure_boot", [], id="Secure Boot alone is no fault"),
    pytest.param("nouveau", [], id="nouveau on a bare node is usual"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "expected"), FAULTS)
def test_what_a_fault_comes_to(fault: str, expected: list[tuple[str, str]]) -> None:
    found = node(fault)

    assert told(found) == expected
    assert judged(found)["failed"] == any(outcome == "FAIL" for _, outcome in expected)


SENTENCES = [
    pytest.param("gpu_missing=3", "GPU_ABSENT", "7 of 8 GPUs are on the PCI bus; none on the PCIe switch of mlx5_3 0000:5e:00.0.", id="the empty place"),
    pytest.param("gpu_behind_gen4", "PCIE_PORT_LIMIT", "is held by its port 0000:17:01.0, which can do 16 of 32 GT/s.", id="whose limit it is"),
    pytest.param("gpu_narrow=1", "PCIE_WIDTH_LOW", "GPU 0000:3b:00.0 (slot 22) runs at 8 of 16 lanes with its port 0000:39:01.0.", id="both ends"),
    pytest.param("gpu_slow_link", "PCIE_SPEED_LOW", "runs at 8 of 32 GT/s with its port 0000:17:01.0, read while idle.", id="that it was idle"),
    pytest.param("nic_missing=4", "NIC_MISSING", "of the kinds 1021, 1023, a2dc are there; none beside 0000:9b:00.0 (slot 25).", id="the GPU that lacks one"),
    pytest.param("nic_down", "NIC_DOWN", "mlx5_0 0000:1a:00.0 is DOWN (no cable, or nothing at its other end)", id="the cable"),
    pytest.param("nic_init", "NIC_NO_SUBNET_MANAGER", "mlx5_0 0000:1a:00.0 is INIT (no subnet manager has configured it)", id="the subnet manager"),
    pytest.param("nic_firmware", "FIRMWARE_DIFFERS", "mlx5_0 0000:1a:00.0 has 28.36.1010, not 28.41.1000", id="the minority"),
    pytest.param("gpu_busy=2", "GPU_BUSY", "python3 (4242) on /dev/nvidia2", id="the process"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "code", "piece"), SENTENCES)
def test_a_finding_names_the_part_and_the_cause(fault: str, code: str, piece: str) -> None:
    assert piece in why(node(fault), code)


def test_a_card_that_says_it_can_do_less_is_itself_the_limit() -> None:
    found = node()
    found["gpus"][0].update(max_speed_gts=16.0, speed_gts=16.0)

    assert told(found) == [("PCIE_CARD_LIMIT", "FAIL")]
    assert "says it can do 16 GT/s, 32 were expected" in why(found, "PCIE_CARD_LIMIT")


def test_a_drive_of_gen4_in_a_port_of_gen5_is_in_order_and_one_on_two_lanes_is_not() -> None:
    found = node()
    assert (found["nvme"][0]["speed_gts"], found["nvme"][0]["port_max_speed_gts"]) == (16.0, 32.0)
    found["nvme"][0]["width"] = 2

    assert told(found) == [("PCIE_WIDTH_LOW", "FAIL")]


def test_a_link_without_its_other_end_is_not_known_rather_than_bad() -> None:
    found = node()
    found["gpus"][0].update(dict.fromkeys(("width", "speed_gts", "port_max_width", "port_max_speed_gts")))

    assert told(found) == [("FACTS_UNKNOWN", "REVIEW")]
    assert "the links of 0000:19:00.0 (slot 21)" in why(found, "FACTS_UNKNOWN")
    narrow = node()
    narrow["gpus"][0].update(width=8, port_max_width=None)
    assert told(narrow) == [("FACTS_UNKNOWN", "REVIEW")]
    narrow["gpus"][0].update(width=16)
    assert told(narrow) == []


def test_an_adapter_for_storage_does_not_stand_in_for_a_missing_one() -> None:
    found = node("nic_missing")

    assert len(found["nics"]) == 9
    assert ("NIC_MISSING", "FAIL") in told(found)


def test_bridges_to_the_nvswitches_are_no_adapters_and_without_them_the_fabric_is_missing() -> None:
    found = node(kind="hgx-b200")
    found["nics"] = [nic for nic in found["nics"] if not nic["nvlink5_bridge"]]

    found["nvlink5"] = None
    assert told(found, kind="hgx-b200") == [("FACTS_UNKNOWN", "REVIEW")]
    found["nvlink5"] = False
    assert told(found, kind="hgx-b200") == [("NVSWITCH_MISSING", "FAIL")]
    for nic in found["nics"][:1]:
        nic["nvlink5_bridge"] = True
    assert told(found, kind="hgx-b200") == [("NIC_MISSING", "FAIL")]


def test_a_site_is_taken_at_its_word() -> None:
    assert told(node("nic_ethernet"), parts={"nic_link_layer": "InfiniBand"}) == [("NIC_LINK_LAYER", "FAIL")]
    assert told(node("nvme_missing"), parts={"nvme": 8}) == [("NVME_MISSING", "FAIL")]
    assert told(node("nvme_missing"), parts={"nvme": 7}) == []
    assert told(node("memory_short"), parts={"memory_gib": 2048}) == [("MEMORY_SHORT", "FAIL")]
    assert told(node("nic_missing"), parts={"nics": None, "hcas_per_gpu": None}) == []
    assert told(node(), parts={"nic_firmware": "28.43.1000"}) == [("FIRMWARE_DIFFERS", "REVIEW")]
    assert told(node(), parts={"bios_version": "2.7.0"}) == [("FIRMWARE_DIFFERS", "REVIEW")]
    assert told(node(), parts={"nic_firmware": "28.41.1000", "bios_version": "2.6.3"}) == []


def test_memory_may_lack_what_the_kernel_keeps_and_no_more() -> None:
    found = node()
    line = int(2048 * 1024 * 0.97)
    found["memory_mib"] = line + 1
    assert told(found) == []
    found["memory_mib"] = line - 1

    assert told(found) == [("MEMORY_SHORT", "REVIEW")]


def test_what_is_accepted_is_told_as_accepted_with_its_reason_and_no_longer_stops() -> None:
    found = judged(node("nic_missing"), accept={"NIC_MISSING": "card on order, A. Turing, until Friday"})

    assert [(one["code"], one["outcome"], one["accepted"]) for one in found["findings"]] == [
        ("NIC_MISSING", "REVIEW", "card on order, A. Turing, until Friday")
    ]
    assert found["failed"] is False
    assert "Accepted by the site: card on order" in found["review"]
    assert judged(node("nic_missing"), accept={"NVME_MISSING": "another thing"})["failed"] is True


def test_secure_boot_is_told_before_anything_is_changed_and_not_once_the_modules_are_loaded() -> None:
    stack = {"unsigned_modules": ["nvidia", "mlx5_core"]}
    assert told(node("secure_boot"), stack=stack) == [("SECURE_BOOT_UNSIGNED", "FAIL")]
    assert "nvidia, mlx5_core" in why(node("secure_boot"), "SECURE_BOOT_UNSIGNED", stack=stack)
    assert told(node(), stack=stack) == []
    hidden = node()
    hidden["firmware"]["secure_boot"] = None
    assert told(hidden, stack=stack) == [("FACTS_UNKNOWN", "REVIEW")]
    signed = node("secure_boot")
    signed["modules"]["nvidia"] = {"version": DRIVER}

    assert told(signed, stack=stack) == []


def test_the_place_of_the_node_both_sides_of_each_limit() -> None:
    assert told(node(), site=Site(free_mib=512, need_mib=512, skew_s=120, most_skew_s=120)) == []
    assert told(node(), site=Site(free_mib=511, need_mib=512, run_root="/var/lib/burnin")) == [("EVIDENCE_SPACE", "FAIL")]
    assert told(node(), site=Site(skew_s=-121, most_skew_s=120)) == [("CLOCK_SKEW", "FAIL")]
    reach = {"http://a/InRelease": {"ok": True}, "http://b/InRelease": {"ok": False, "why": "answered 404 Not Found"}}
    assert told(node(), site=Site(reach=reach)) == [("MIRROR_UNREACHABLE", "FAIL")]
    assert "1 of 2 addresses of the stack cannot be fetched: http://b/InRelease (answered 404 Not Found)" in why(
        node(), "MIRROR_UNREACHABLE", site=Site(reach=reach)
    )


def test_a_mirrors_password_is_not_told() -> None:
    reach = {"http://user:secret@b/InRelease": {"ok": False, "why": "timed out"}}

    assert why(node(), "MIRROR_UNREACHABLE", site=Site(reach=reach)).endswith("cannot be fetched: http://b/InRelease (timed out).")


def test_little_room_for_the_stack_is_told_where_a_stack_is_to_come() -> None:
    found = node()
    found["free_mib"] = {"/usr": 12287, "/boot": 300}

    assert told(found) == []
    assert told(found, stack={"unsigned_modules": []}) == [("SPACE_LOW", "REVIEW")]
    found["free_mib"] = {"/usr": 12288, "/boot": 299}
    assert "/boot has 299 MiB" in why(found, "SPACE_LOW", stack={"unsigned_modules": []})


def test_without_a_sku_parts_are_not_guessed_and_links_still_are_judged() -> None:
    assert told(node("nic_missing"), sku=None) == []
    assert told(node("gpu_narrow"), sku=None) == [("PCIE_WIDTH_LOW", "FAIL")]


def test_parts_that_are_not_to_be_judged_are_not() -> None:
    found = node("nic_missing", "gpu_narrow", "iommu_translates", "clock_free_running")

    assert told(found, judge_parts=False) == [("CLOCK_FREE_RUNNING", "REVIEW")]


def test_a_node_that_shows_nothing_is_no_pass() -> None:
    found = node()
    found.update(pci_functions=0, gpus=[], nics=[], nvme=[], acs=[], nvswitches=0)

    assert told(found) == [("NOTHING_READ", "FAIL")]


def test_acs_that_would_not_be_read_is_not_known() -> None:
    found = node()
    found["acs"][0]["redirect"] = None

    assert told(found) == [("FACTS_UNKNOWN", "REVIEW")]
    assert "ACS" in why(found, "FACTS_UNKNOWN")


READY = [
    pytest.param("nouveau", [("NOUVEAU_LOADED", "FAIL")], id="nouveau"),
    pytest.param("gpu_unbound=5", [("GPU_UNBOUND", "REVIEW")], id="one GPU without its driver is the verdict's to judge"),
    pytest.param("gpu_busy", [("GPU_BUSY", "FAIL")], id="a job on a GPU"),
]


@pytest.mark.parametrize(("fault", "expected"), READY)
def test_what_a_fault_comes_to_on_a_ready_node(fault: str, expected: list[tuple[str, str]]) -> None:
    assert told(node(fault, level="ready")) == expected


def test_a_ready_node_without_its_driver_fails() -> None:
    found = node(level="ready")
    del found["modules"]["nvidia"]

    assert told(found) == [("DRIVER_NOT_LOADED", "FAIL")]
    found["gpus"] = []
    assert "DRIVER_NOT_LOADED" not in dict(told(found))


def test_the_daemons_of_the_driver_itself_are_no_job() -> None:
    found = node(level="ready")
    found["gpu_processes"] = [{"pid": 7, "name": "nvidia-persiste", "device": "/dev/nvidia0"}]
    assert told(found) == []
    found["gpu_processes"].append({"pid": 8, "name": None, "device": "/dev/nvidia3"})

    assert "a process (8) on /dev/nvidia3" in why(found, "GPU_BUSY")


# Field report B08. The states of the GPUs' fabric need NVML, which this version does not read.
FABRIC = [
    pytest.param("H100-SXM5-80GB", "inactive", [("FABRIC_MANAGER_DOWN", "FAIL")], id="HGX without it"),
    pytest.param("H100-SXM5-80GB", "active", [], id="HGX with it"),
    pytest.param("H100-SXM5-80GB", None, [("FABRIC_MANAGER_DOWN", "FAIL")], id="HGX where it is not installed"),
    pytest.param("GB200", "inactive", [], id="rack-scale"),
    pytest.param("H100-PCIe-80GB", None, [], id="a PCIe card"),
    pytest.param(None, "inactive", [("FABRIC_MANAGER_DOWN", "FAIL")], id="no SKU, and NVSwitches on the bus"),
]


@pytest.mark.parametrize(("sku", "active", "expected"), FABRIC)
def test_whether_the_fabric_manager_must_run_says_the_board(sku: str | None, active: str | None, expected: list[tuple[str, str]]) -> None:
    found = node(level="ready")
    found["software"]["services"] = {} if active is None else {"nvidia-fabricmanager.service": {"active": active, "enabled": "enabled"}}

    assert told(found, sku=sku, judge_parts=False) == expected


def test_services_that_nobody_told_are_not_known() -> None:
    found = node(level="ready")
    found["software"]["services"] = None

    assert told(found) == [("FACTS_UNKNOWN", "REVIEW")]


def test_adapters_without_their_driver_fail_a_ready_node_only() -> None:
    bare, ready = node(), node(level="ready")
    for found in (bare, ready):
        for nic in found["nics"]:
            nic.update(dict.fromkeys(("rdma", "state", "link_layer", "rate_gb_s", "firmware", "physical_state")))

    assert told(bare) == []
    assert told(ready) == [("NIC_WITHOUT_DRIVER", "FAIL")]


def test_a_backend_that_does_not_open_is_told() -> None:
    assert told(node(level="ready"), problem="backend nvml: not in this version") == [("BACKEND_UNUSABLE", "REVIEW")]


def test_peer_memory_is_asked_for_where_the_stack_takes_that_way() -> None:
    from burnin.preflight.case import Case
    from burnin.preflight.rules import driver

    found = node(level="ready")
    missing = copy.deepcopy(found)
    del missing["modules"]["nvidia_peermem"]

    def codes(document: Mapping[str, Any], way: str) -> list[str]:
        return [raw.code for raw in driver.judge(Case(document, "ready", stack={"peer_memory": way}))]

    assert codes(found, "nvidia_peermem") == []
    assert codes(missing, "nvidia_peermem") == ["PEER_MEMORY_MISSING"]
    assert codes(missing, "dma-buf") == []


def test_every_code_is_some_rules_and_comes_to_something() -> None:
    assert set(CODES) | set(SHARED) == {code for rule in RULES for code in rule.CODES} == set(outcomes())
