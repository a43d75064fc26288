"""The action plugin of preflight: what a node sends is believed only as far as it holds, and its clock is off only as far as is shown."""

from __future__ import annotations

import base64
import importlib.util
import json
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail

PLUGIN = Path(__file__).resolve().parents[3] / "plugins/action/burnin_preflight.py"


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    spec = importlib.util.spec_from_file_location("burnin_preflight_action", PLUGIN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode()


def test_an_identity_comes_back_whole(plugin: ModuleType) -> None:
    document = {"gpus": [], "host": {"os": {"pretty": "Debian für alle"}}}

    assert plugin.unpack(packed(json.dumps(document).encode())) == document


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param("no base64!", id="no base64"),
        pytest.param(base64.b64encode(b"no zlib").decode(), id="not packed"),
        pytest.param(packed(b"{"), id="no JSON"),
        pytest.param(packed(b"[]"), id="a list"),
        pytest.param(packed(b'{"host": {}}'), id="no GPUs told"),
        pytest.param(packed(b'{"gpus": {}}'), id="GPUs that are no list"),
        pytest.param(packed(b'{"gpus": [NaN]}'), id="no number"),
        pytest.param(packed(b'{"gpus": []}' + b" " * (17 * 2**20)), id="packed small and huge"),
        pytest.param(packed(b'{"gpus": ' + b"[" * 100_000), id="deeper than anybody reads"),
        pytest.param(packed(b"\xff\xfe{}"), id="no text"),
    ],
)
def test_what_is_no_identity_is_refused_in_words(plugin: ModuleType, sent: str) -> None:
    with pytest.raises(AnsibleActionFail, match="the node's identity"):
        plugin.unpack(sent)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        pytest.param(100.0, 0.0, id="as it was asked"),
        pytest.param(105.0, 0.0, id="while it was asked"),
        pytest.param(110.0, 0.0, id="as it answered"),
        pytest.param(99.0, -1.0, id="behind"),
        pytest.param(112.5, 2.5, id="ahead"),
    ],
)
def test_a_clock_is_off_by_what_the_asking_does_not_explain(plugin: ModuleType, node: float, expected: float) -> None:
    assert plugin.skew_s(100.0, node, 110.0) == expected


def test_the_result_holds_every_code_and_stays_small(plugin: ModuleType) -> None:
    findings: list[dict[str, Any]] = [{"code": f"C{number}", "outcome": "FAIL", "why": "x" * 5000, "action": "y"} for number in range(100)]

    told = plugin.told(findings)

    assert len(told) == plugin.MOST_TOLD
    assert set(told[0]) == {"code", "outcome", "why"}
    assert len(json.dumps(told)) < 20_000


def test_what_the_roles_that_follow_ask_of_the_machine(plugin: ModuleType) -> None:
    host = {
        "gpus": [{"address": "0000:18:00.0", "switch": "0000:16:00.0"}, "no GPU"],
        "nvswitches": 4,
        "nvlink5": False,
        "nics": [
            {"rdma": "mlx5_0", "guid": "x" * 99, "port": 1, "nvlink5_bridge": False, "firmware": "not asked for"},
            {"rdma": None},
            "no card",
        ],
    }
    unsaid = dict.fromkeys(plugin.PORT_FACTS, "")

    told = plugin.in_short({"host": host})

    assert told["nics"] == [{**unsaid, "rdma": "mlx5_0", "guid": "x" * 40, "port": 1, "nvlink5_bridge": False}, unsaid]
    assert {name: told[name] for name in told if name != "nics"} == {
        "gpus": 2, "nvswitches": 4, "nvlink5": False, "gpu_switches": ["0000:16:00.0"],
    }  # fmt: skip
    assert plugin.in_short({}) == {"gpus": 0, "nvswitches": None, "nvlink5": None, "nics": [], "gpu_switches": []}
