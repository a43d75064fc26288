"""What the role hands in and gets back: variables checked, stacks resolved, findings bounded."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from burnin.errors import InventoryError, StackError
from burnin.inventory import node_of
from burnin.outcome import Outcome
from burnin.preflight import bridge
from burnin.preflight.expected import boards, expected_parts
from burnin.preflight.judging import LONGEST_TEXT, Finding, text
from burnin.stack.hardware import known
from burnin.verdict.policy import default_policy

ROOT = Path(__file__).resolve().parents[3]
STACK: dict[str, Any] = yaml.safe_load((ROOT / "inventory/example/group_vars/all/stack.yml").read_text(encoding="utf-8"))["burnin_stack"]


def document(system: str = "ubuntu", version: str = "24.04", arch: str | None = "x86_64") -> dict[str, Any]:
    return {"host": {"schema": "burnin.host/1", "os": {"id": system, "version_id": version, "arch": arch, "pretty": f"{system} {version}"}}}


def test_every_sku_that_the_stack_knows_has_its_gpus_and_its_board() -> None:
    policy = default_policy()

    assert set(known()) == set(boards()) == set(policy.skus)
    assert all(policy.expected_gpus(sku) for sku in known())
    for sku, hardware in known().items():
        parts = expected_parts(sku)
        assert ("nvswitches" in parts) == (hardware.nvswitch and not hardware.nvlink5), sku
        assert ("nvlink5_bridges" in parts) == (hardware.nvlink5 and hardware.nvswitch), sku


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        pytest.param({"parts": {"nic": 8}}, "'nic' is no part that we look for; did you mean 'nics'?", id="a misspelt part"),
        pytest.param({"parts": [8]}, "burnin_sku_parts: found list; expected a mapping", id="a list of parts"),
        pytest.param({"parts": {"nics": "many"}}, "nics is 'many'; expected a number", id="a word for a number"),
        pytest.param({"parts": {"nics": True}}, "nics is 'True'; expected a number", id="yes for a number"),
        pytest.param({"parts": {"nics": -1}}, "expected a number, zero or more", id="less than none"),
        pytest.param(
            {"parts": {"nic_link_layer": "RoCE"}}, "nic_link_layer is 'RoCE'; expected InfiniBand or Ethernet", id="another layer"
        ),
        pytest.param({"parts": {"nic_devices": "1021"}}, "expected a list of PCI device ids in quotes", id="one id"),
        pytest.param({"parts": {"nic_devices": [1021]}}, "expected a list of PCI device ids in quotes", id="an id without quotes"),
        pytest.param(
            {"accept": {"NIC_MISING": "x"}}, "'NIC_MISING' is no code of the preflight; did you mean NIC_MISSING?", id="a misspelt code"
        ),
        pytest.param({"accept": {"NIC_MISSING": " "}}, "NIC_MISSING has no reason; say why", id="a waiver without its reason"),
        pytest.param({"accept": ["NIC_MISSING"]}, "NIC_MISSING has no reason", id="a bare code"),
        pytest.param({"accept": "NIC_MISSING"}, "burnin_preflight_accept: found str; expected a mapping", id="a code as text"),
        pytest.param(
            {"accept": [{"code": "NIC_DOWN", "why": "x", "til": 1}]},
            "NIC_DOWN: 'til' is none of code, why, who, until",
            id="a misspelt key",
        ),
        pytest.param({"accept": [{"code": "NIC_DOWN", "why": "x", "until": "Friday"}]}, "until is 'Friday'; expected a day", id="no day"),
        pytest.param({"sku": "H100"}, "burnin_sku: 'H100' is unknown; known: ", id="no SKU of ours"),
        pytest.param({"expected_gpus": "eight"}, "burnin_expected_gpus: found 'eight'; expected a whole number", id="GPUs as a word"),
        pytest.param({"level": "full"}, "preflight_level: found 'full'; expected one of bare, ready", id="no level"),
    ],
)
def test_a_variable_that_cannot_be_meant_is_refused_by_name(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InventoryError) as refused:
        bridge.asked(wrong.pop("level", "bare"), **wrong)

    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        pytest.param({"burnin_sku_parts": {"nic": 8}}, "n1: burnin_sku_parts: 'nic' is no part that we look for", id="parts"),
        pytest.param({"burnin_preflight_accept": ["NIC_MISSING"]}, "n1: burnin_preflight_accept: NIC_MISSING has no reason", id="a waiver"),
    ],
)
def test_a_site_that_writes_it_wrongly_is_told_before_a_node_is_touched(variables: dict[str, Any], message: str) -> None:
    with pytest.raises(InventoryError, match=re.escape(message)):
        node_of("n1", variables, "n1", default_policy())

    assert node_of("n1", dict.fromkeys(variables, "{{ later }}"), "n1", default_policy()).node == "n1"


def test_a_waiver_holds_through_its_day() -> None:
    waiver = [{"code": "NIC_MISSING", "why": "card on order", "who": "kim", "until": "2026-12-31"}]

    held = bridge.asked("bare", accept=waiver, today=date(2026, 12, 31)).accept
    over = bridge.asked("bare", accept=waiver, today=date(2027, 1, 1)).accept

    assert (held, over) == ({"NIC_MISSING": "card on order, by kim, until 2026-12-31"}, {})


def test_a_number_in_quotes_and_ids_as_lspci_writes_them_are_taken() -> None:
    parts = expected_parts(None, {"nics": "9", "nic_devices": ["0x1021", "A2DC"]})

    assert (parts["nics"].value, parts["nic_devices"].value, parts["nics"].confidence) == (9, ["1021", "a2dc"], "site")


@pytest.mark.parametrize(
    ("system", "version", "arch", "distro"),
    [
        ("ubuntu", "24.04", "x86_64", "ubuntu2404"),
        ("debian", "12", "x86_64", "debian12"),
        ("rocky", "9.6", "x86_64", "rhel9"),
        ("almalinux", "10.1", "x86_64", "rhel10"),
    ],
)
def test_the_stack_is_resolved_for_the_system_that_the_node_names(system: str, version: str, arch: str, distro: str) -> None:
    found, problem = bridge.resolution_of(document(system, version, arch), bridge.asked("bare", sku="H100-SXM5-80GB", stack=STACK))

    assert problem is None
    assert found is not None
    assert found["distro"] == distro


@pytest.mark.parametrize(
    ("told", "piece"),
    [
        pytest.param(document("arch", "rolling"), "arch rolling on x86_64: distribution 'arch'", id="a system that is none of ours"),
        pytest.param(document("debian", "11"), "debian11", id="one that has ended"),
        pytest.param(document(arch="riscv64"), "architecture 'riscv64'", id="another machine"),
        pytest.param(document(arch=None), "architecture ''", id="a machine that is not told"),
        pytest.param({"host": {}}, "a system that it does not name", id="nothing told"),
    ],
)
def test_a_system_that_the_stack_says_nothing_for_fails_that_node_in_words(told: dict[str, Any], piece: str) -> None:
    asked = bridge.asked("bare", stack=STACK)

    resolution = bridge.resolution_of(told, asked)
    found = bridge.examine(told, asked, resolution)

    assert resolution[0] is None
    assert [one["code"] for one in found["findings"]] == ["STACK_UNRESOLVED"]
    assert piece in found["text"]


def test_without_a_stack_nothing_is_resolved_and_nothing_is_reached() -> None:
    assert bridge.resolution_of(document(), bridge.asked("bare")) == (None, None)
    assert bridge.addresses(None) == []


def test_what_is_reached_is_what_the_package_manager_fetches_first() -> None:
    apt, _ = bridge.resolution_of(document(), bridge.asked("bare", sku="H100-SXM5-80GB", stack=STACK))
    dnf, _ = bridge.resolution_of(document("rocky", "9.6"), bridge.asked("bare", sku="H100-SXM5-80GB", stack=STACK))

    assert "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/InRelease" in bridge.addresses(apt)
    assert "https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64/repodata/repomd.xml" in bridge.addresses(dnf)
    assert any(url.endswith("3bf863cc.pub") for url in bridge.addresses(apt))


def test_a_ready_node_is_held_against_its_stack_too() -> None:
    asked = bridge.asked("ready", sku="H100-SXM5-80GB", stack=STACK, judge_parts=False)
    told = document()
    resolution = bridge.resolution_of(told, asked)

    found = bridge.examine(told, asked, resolution, today=date(2026, 12, 1))

    assert found["failed"] is True
    assert [(one["code"], one["outcome"]) for one in found["findings"]] == [("DRIFT_UNREAD", "INCONCLUSIVE")]
    assert found["text"].startswith("DRIFT_UNREAD: ")


def test_a_drift_that_the_site_lives_with_does_not_stop_and_one_that_is_none_is_refused() -> None:
    told = document()
    asked = bridge.asked("ready", stack=STACK, judge_parts=False, accept_drift="DRIFT_UNREAD")
    found = bridge.examine(told, asked, bridge.resolution_of(told, asked), today=date(2026, 12, 1))
    assert (found["failed"], [one["outcome"] for one in found["findings"]]) == (False, ["REVIEW"])

    misspelt = bridge.asked("ready", stack=STACK, judge_parts=False, accept_drift="DRIFT_UNRED")
    with pytest.raises(StackError, match="did you mean DRIFT_UNREAD"):
        bridge.examine(told, misspelt, bridge.resolution_of(told, misspelt))


def test_the_text_for_a_log_is_one_line_bounded_and_can_be_taken_apart() -> None:
    many = [Finding(f"CODE_{number}", Outcome.FAIL, "Why. " * 40, "Do this.") for number in range(20)]

    told = text([*many, Finding("OTHER", Outcome.REVIEW, "Not this.", "x")])

    assert len(told) < LONGEST_TEXT + 400
    assert "\n" not in told
    pieces = told.split(" | ")
    assert pieces[0].startswith("CODE_0: Why. ")
    assert pieces[-1].startswith(f"and {21 - len(pieces)} more: CODE_")
    assert "OTHER" not in told


def test_what_a_node_says_cannot_break_the_line() -> None:
    told = {
        "host": {
            "schema": "burnin.host/1",
            "level": "bare",
            "gpu_processes": [{"pid": 1, "name": "a\x1b[31m\nb | c", "device": "/dev/nvidia0"}],
        }
    }

    found = bridge.examine(told, bridge.asked("bare", judge_parts=False))

    assert "\n" not in found["review"]
    assert "\x1b" not in found["review"]
