"""The stage drift without Ansible: what is checked before a node is touched, and what becomes of what the nodes said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from burnin.adapters.ansible import HostResult, HostState, PlayResult
from burnin.errors import InventoryError, StackError
from burnin.stages import drifting
from unit.stack.drifting import KERNEL, NEWER, STACK, Node

SKU = "H100-SXM5-80GB"


def hosts(**variables: Any) -> dict[str, dict[str, Any]]:
    return {"n1": {"burnin_stack": STACK, "burnin_sku": SKU, **variables}, "n2": {"burnin_stack": STACK, "burnin_sku": SKU}}


def played(**states: HostState) -> PlayResult:
    results = {name: HostResult(name, state, message="" if state is HostState.OK else "no route to host") for name, state in states.items()}
    return PlayResult("finished", 0, results)


OK = {"n1": HostState.OK, "n2": HostState.OK}


def compared(told: dict[str, Any], states: dict[str, HostState] | None = None, **variables: Any) -> dict[str, Any]:
    return drifting.compare(drifting.wanted_of(hosts(**variables)), played(**(states or OK)), told, ("inventory",))


def codes(document: dict[str, Any]) -> dict[str, list[str]]:
    return {one["node"]: [finding["code"] for finding in one["findings"]] for one in document["nodes"]}


def test_clean_nodes() -> None:
    document = compared({"n1": Node().host, "n2": Node().host})

    assert codes(document) == {"n1": [], "n2": []}
    assert document["nodes"][0]["stack"] == f"debian12 {SKU} driver 580.126.09"


def test_a_drifted_node_and_one_that_is_gone() -> None:
    drifted = Node()
    drifted["libnvidia-ml1"]["held"] = False

    document = compared({"n1": drifted.host}, {"n1": HostState.OK, "n2": HostState.UNREACHABLE})

    assert codes(document) == {"n1": ["HOLD_MISSING"], "n2": ["DRIFT_UNREACHABLE"]}
    assert document["verdict"] == "FAIL"
    assert document["nodes"][1]["findings"][0]["found"] == "unreachable: no route to host"


def test_a_node_whose_look_failed_after_it_had_told_what_it_has_is_judged() -> None:
    drifted = Node()
    drifted["libnvidia-ml1"]["held"] = False

    assert codes(compared({"n1": drifted.host, "n2": Node().host}, {"n1": HostState.FAILED, "n2": HostState.OK}))["n1"] == ["HOLD_MISSING"]
    assert codes(compared({"n2": Node().host}, {"n1": HostState.FAILED, "n2": HostState.OK}))["n1"] == ["DRIFT_UNREACHABLE"]


@pytest.mark.parametrize("state", [HostState.UNREACHABLE, HostState.MISSING])
def test_a_document_of_a_node_that_did_not_end_well_is_not_believed(state: HostState) -> None:
    document = compared({"n1": Node().host, "n2": Node().host}, {"n1": HostState.OK, "n2": state})

    assert codes(document) == {"n1": [], "n2": ["DRIFT_UNREACHABLE"]}


def test_a_node_that_took_part_and_left_no_document() -> None:
    assert codes(compared({"n1": Node().host}))["n2"] == ["DRIFT_UNREACHABLE"]


def test_a_system_that_is_none_of_ours_is_unread() -> None:
    other = Node().host
    other["os"] = {"id": "arch", "version_id": "rolling", "arch": "x86_64"}

    document = compared({"n1": other, "n2": Node().host})

    assert codes(document)["n1"] == ["DRIFT_UNREAD"]
    assert "'arch'" in document["nodes"][0]["findings"][0]["found"]


def test_a_document_that_says_nothing_is_unread() -> None:
    assert codes(compared({"n1": {}, "n2": Node().host}))["n1"] == ["DRIFT_UNREAD"]


def test_the_kernel_that_counts_as_running() -> None:
    container = Node()
    container.host["kernel"].update(running="6.18.44-host", installed=[KERNEL, NEWER])

    document = compared({"n1": container.host, "n2": Node().host}, burnin_stack_kernel=NEWER)

    assert codes(document)["n1"] == ["HEADERS_MISSING", "DKMS_NOT_BUILT", "DKMS_NOT_BUILT"]


def test_accepted_on_one_node_only() -> None:
    drifted = Node()
    drifted["libnvidia-ml1"]["held"] = False

    document = compared({"n1": drifted.host, "n2": drifted.host}, burnin_drift_accept=["HOLD_MISSING"])

    assert [one["verdict"] for one in document["nodes"]] == ["PASS", "FAIL"]
    assert [(row["code"], row["nodes"], bool(row["accepted"])) for row in document["findings"]] == [
        ("HOLD_MISSING", ["n2"], False),
        ("HOLD_MISSING", ["n1"], True),
    ]


def test_the_few_are_told_beside_the_nodes() -> None:
    other = Node()
    other.move("rdma-core", "50.0-2")
    wanted = {f"n{number}": drifting.wanted_of(hosts())["n1"] for number in range(5)}
    told = {name: Node().host for name in wanted} | {"n3": other.host}

    document = drifting.compare(wanted, played(**dict.fromkeys(wanted, HostState.OK)), told, ("inventory",))

    assert [(row["code"], row["nodes"], row["of"]) for row in document["findings"]] == [("PACKAGE_MINORITY", ["n3"], 5)]
    assert document["verdict"] == "REVIEW"


def test_a_node_without_a_stack_is_said_before_any_is_touched() -> None:
    with pytest.raises(InventoryError, match="n3: no burnin_stack"):
        drifting.wanted_of({**hosts(), "n3": {}})


def test_a_stack_with_errors_is_said_before_any_is_touched() -> None:
    wrong = {**STACK, "nccl": {"version": "2.28.9", "cuda": "13.0"}}

    with pytest.raises(StackError, match=r"n3: .*NCCL_OTHER_CUDA.*no node was looked at"):
        drifting.wanted_of({**hosts(), "n3": {"burnin_stack": wrong, "burnin_sku": SKU}})


def test_a_code_to_accept_that_is_none_is_said_before_any_is_touched() -> None:
    with pytest.raises(StackError, match="did you mean HOLD_MISSING"):
        drifting.wanted_of(hosts(burnin_drift_accept="HOLD_MISSIN"))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (json.dumps({"host": {"schema": "x"}}), {"schema": "x"}),
        (json.dumps({"gpus": []}), {}),
        ("[1, 2]", {}),
        ("{", {}),
        ("[" * 100_000, {}),
        ("\udcff", {}),
    ],
    ids=["a document", "no host in it", "a list", "cut", "deep", "no UTF-8"],
)
def test_what_a_node_wrote(tmp_path: Path, content: str, expected: dict[str, Any]) -> None:
    file = tmp_path / "preflight.json"
    file.write_text(content, errors="surrogateescape")

    assert drifting.read_host(file) == expected


def test_no_file_and_one_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert drifting.read_host(tmp_path / "none.json") is None
    monkeypatch.setattr(drifting, "LARGEST_BYTES", 10)
    (tmp_path / "large.json").write_text(json.dumps({"host": {"schema": "burnin.host/1"}}))

    assert drifting.read_host(tmp_path / "large.json") == {}
