"""What preflight found reaches the verdict: under its own code, as it was judged then, and never as more than the node's own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from burnin.verdict.looked import MOST, findings
from unit.verdict.folders import folder, node_codes, preflight, verdicts

REVIEW = {"code": "NIC_DOWN", "outcome": "REVIEW", "why": "mlx5_3 is DOWN.", "action": "Plug it in."}
FAIL = {"code": "NIC_MISSING", "outcome": "FAIL", "why": "7 of 8.", "action": "Reseat it."}
DRIFT = {"code": "HOLD_MISSING", "outcome": "FAIL", "why": "Not held.", "action": "Provision."}


def written(*found: Any) -> str:
    return json.dumps({"gpus": [], "preflight": {"schema": "burnin.preflight/1", "findings": list(found)}})


def test_a_finding_of_preflight_is_the_nodes_and_no_gpus() -> None:
    document = folder().changed("n0", preflight=written(REVIEW)).document()

    assert node_codes(document) == {"NIC_DOWN": "REVIEW"}
    assert node_codes(document, "n1") == {"NODE_OK": "PASS"}
    assert set(verdicts(document)) == {"PASS"}
    told = next(one for node in document["nodes"] if node["node"] == "n0" for one in node["findings"])
    assert (told["why"], told["action"]) == ("mlx5_3 is DOWN.", "Plug it in.")


def test_a_node_that_preflight_kept_out_fails_under_the_code_that_kept_it_out() -> None:
    document = preflight(folder()).changed("n0", preflight=written(FAIL, DRIFT)).document()

    assert node_codes(document) == {"HOLD_MISSING": "FAIL", "NIC_MISSING": "FAIL"}
    assert document["summary"]["RMA"] == 0


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(None, id="no file"),
        pytest.param("{", id="no JSON"),
        pytest.param(json.dumps({"gpus": []}), id="written before there were findings"),
        pytest.param(json.dumps({"preflight": {"findings": {"code": "NIC_DOWN"}}}), id="no list"),
        pytest.param(written("NIC_DOWN", None, 7), id="no mappings"),
        pytest.param(written({**REVIEW, "code": "NOT_OURS"}), id="a code that is none"),
        pytest.param(written({**REVIEW, "code": "PERF_BELOW_MEDIAN"}), id="a code of another stage"),
        pytest.param(written({**REVIEW, "outcome": "RMA"}), id="a verdict that no preflight gives"),
        pytest.param(written({**REVIEW, "outcome": "PASS"}), id="a pass"),
        pytest.param(written({**REVIEW, "outcome": ["FAIL"]}), id="an outcome that is no word"),
    ],
)
def test_what_is_no_finding_of_preflight_says_nothing(content: str | None) -> None:
    assert findings(content) == ()


def test_findings_are_bounded_and_printable() -> None:
    found = findings(written(*[{**REVIEW, "why": "a\n\x1b[31m" + "b" * 5000, "action": None}] * 200))

    assert len(found) == MOST
    assert len(found[0].why) <= 600
    assert found[0].why.isprintable()
    assert found[0].action == ""
