"""Drift over the fleet: the few are named with their nodes, also for what no stack file pins; and the document that all of it becomes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from burnin.outcome import Outcome
from burnin.stack.drift.case import case_of
from burnin.stack.drift.document import Looked, document, outcomes
from burnin.stack.drift.fleet import Shared, minorities
from burnin.stack.drift.judging import judge
from unit.stack.drifting import NEWER, Node, resolution


def fleet(count: int, change: Callable[[Node], object] = lambda _node: None, few: tuple[int, ...] = ()) -> dict[str, Node]:
    nodes = {f"gpu-{number:02}": Node() for number in range(count)}
    for number in few:
        change(nodes[f"gpu-{number:02}"])
    return nodes


def shared(nodes: dict[str, Node]) -> list[Shared]:
    return minorities({name: case_of(node.want, node.host) for name, node in nodes.items()})


def _other_kernel(node: Node) -> None:
    """As a node has it that booted another kernel on hold: its resolution asks for other headers."""
    node.want = resolution(kernel=NEWER)
    node.host["kernel"].update(running=NEWER, installed=[NEWER], headers=[NEWER])


FEW = {
    "a kernel on hold": (_other_kernel, "KERNEL_MINORITY", "kernel 6.1.0-41-amd64", "6.1.0-40-amd64, as 62 of 64 nodes have"),
    "a package that is not pinned": (
        lambda node: node.move("rdma-core", "2507mlnx58-1.2507097"),
        "PACKAGE_MINORITY",
        "rdma-core 2507mlnx58-1.2507097",
        "2510mlnx60-1.2510171, as 62 of 64 nodes have",
    ),
    "a module that is not pinned": (
        lambda node: node.host["modules"].update(mlx5_core={"version": "25.07-0.9.7"}),
        "MODULE_MINORITY",
        "mlx5_core 25.07-0.9.7",
        "25.10-1.7.1, as 62 of 64 nodes have",
    ),
    "a BIOS": (
        lambda node: node.host["firmware"].update(bios_version="2.1"),
        "FIRMWARE_MINORITY",
        "BIOS of HGX H100 2.1",
        "2.4, as 62 of 64 nodes have",
    ),
    "one NIC of eight": (
        lambda node: node.host["nics"][3].update(firmware="28.39.1002"),
        "FIRMWARE_MINORITY",
        "firmware of NIC MT_0000000838 28.39.1002 + 28.43.1014",
        "28.43.1014, as 62 of 64 nodes have",
    ),
    "a drive": (
        lambda node: node.host["nvme"][0].update(firmware="1UET7103"),
        "FIRMWARE_MINORITY",
        "firmware of NVMe KIOXIA CD8 1UET7103",
        "1UET7104, as 62 of 64 nodes have",
    ),
}


@pytest.mark.parametrize("name", FEW)
def test_the_few_are_named(name: str) -> None:
    change, code, found, expected = FEW[name]

    (one,) = shared(fleet(64, change, few=(7, 41)))

    assert (one.finding.code, one.finding.found, one.finding.expected) == (code, found, expected)
    assert (one.nodes, one.of) == (("gpu-07", "gpu-41"), 64)
    assert one.finding.outcome is Outcome.REVIEW


def test_nodes_that_are_alike_have_nothing() -> None:
    assert shared(fleet(8)) == []
    assert shared(fleet(1)) == []


def test_what_differs_on_the_same_nodes_is_one_finding() -> None:
    def change(node: Node) -> None:
        node.move("rdma-core", "2507mlnx58-1.2507097")
        node.move("nvidia-container-toolkit", "1.16.0-1")

    (one,) = shared(fleet(8, change, few=(3,)))

    assert one.finding.items == ("nvidia-container-toolkit 1.16.0-1", "rdma-core 2507mlnx58-1.2507097")


def test_without_a_majority_all_are_named() -> None:
    (one,) = shared(fleet(4, lambda node: node.move("rdma-core", "50.0-2"), few=(0, 1)))

    assert one.nodes == ("gpu-00", "gpu-01", "gpu-02", "gpu-03")
    assert one.finding.found == "rdma-core: 2510mlnx60-1.2510171 on 2, 50.0-2 on 2 of 4 nodes"


def test_a_pinned_package_is_told_by_its_own_rule_alone() -> None:
    nodes = fleet(8, lambda node: node.move("libnvidia-ml1", "580.150.02-1"), few=(3,))

    assert shared(nodes) == []


def test_a_pinned_kernel_is_told_by_its_own_rule_alone() -> None:
    nodes = fleet(3)
    for number, node in enumerate(nodes.values()):
        node.want = {**node.want, "kernel": {"policy": "pinned", "version": NEWER, "release": NEWER}}
        node.host["kernel"]["running"] = f"6.1.0-{number}-amd64"

    assert [one for one in shared(nodes) if one.finding.code == "KERNEL_MINORITY"] == []


def test_other_stacks_are_not_compared() -> None:
    nodes = fleet(6, lambda node: node.move("rdma-core", "50.0-2"), few=(0, 1, 2))
    for name in ("gpu-00", "gpu-01", "gpu-02"):
        nodes[name].want = resolution(sku="H200-SXM-141GB")

    assert shared(nodes) == []


def made(nodes: dict[str, Node], shuffled: int = 0) -> dict[str, object]:
    looked = [Looked(name, judge(node.want, node.host), "debian12") for name, node in nodes.items()]
    random.Random(shuffled).shuffle(looked)
    return document(looked, shared(nodes), "2026-12-01T00:00:00+00:00", ["inventory"])


def _drifted() -> dict[str, Node]:
    nodes = fleet(8, lambda node: node.move("rdma-core", "50.0-2"), few=(6,))
    for number, name in enumerate(("gpu-01", "gpu-02", "gpu-05")):
        nodes[name]["libnvidia-ml1"]["held"] = False
        if number:
            nodes[name]["libcuda1"]["held"] = False
    nodes["gpu-02"].host["modules"]["nvidia"]["version"] = "580.95.05"
    return nodes


def test_the_document_groups_by_code_over_the_nodes() -> None:
    told = made(_drifted())

    rows = {row["code"]: row for row in told["findings"]}  # type: ignore[attr-defined]
    assert list(rows) == ["DRIVER_REBOOT_NEEDED", "HOLD_MISSING", "PACKAGE_MINORITY"]
    assert rows["HOLD_MISSING"]["nodes"] == ["gpu-01", "gpu-02", "gpu-05"]
    assert rows["HOLD_MISSING"]["of"] == 8
    assert rows["HOLD_MISSING"]["found"] == [
        {"found": "libcuda1, libnvidia-ml1 not held", "nodes": 2},
        {"found": "libnvidia-ml1 not held", "nodes": 1},
    ]
    assert rows["HOLD_MISSING"]["runbook"] == "docs/runbooks/HOLD_MISSING.md"
    assert rows["PACKAGE_MINORITY"]["nodes"] == ["gpu-06"]
    assert told["summary"] == {"nodes": 8, "PASS": 5, "FAIL": 3, "REVIEW": 0, "INCONCLUSIVE": 0, "RETEST": 0, "accepted": 0}
    assert told["verdict"] == "FAIL"
    assert [node["verdict"] for node in told["nodes"]] == ["PASS", "FAIL", "FAIL", "PASS", "PASS", "FAIL", "PASS", "PASS"]  # type: ignore[attr-defined]


def test_several_groups_of_one_node_are_told_as_one_list() -> None:
    nodes = fleet(2)
    nodes["gpu-01"]["libnccl2"]["held"] = False
    nodes["gpu-01"]["libcuda1"]["held"] = False

    (row,) = made(nodes)["findings"]  # type: ignore[misc]

    assert row["found"] == [{"found": "libcuda1, libnccl2", "nodes": 1}]
    assert row["groups"] == ["driver", "nccl"]


def test_the_document_depends_on_no_order() -> None:
    assert json.dumps(made(_drifted(), 1)) == json.dumps(made(_drifted(), 2))


def test_a_clean_fleet_passes_and_no_node_at_all_does_not() -> None:
    assert outcomes(made(fleet(3))) == [Outcome.PASS]
    assert outcomes(document([], [], "", [])) == [Outcome.INCONCLUSIVE]
