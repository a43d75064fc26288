"""burnin drift refuses what is wrong before it looks at any node: exit 2, one line that names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from burnin.cli import run
from unit.stack.drifting import STACK

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no stack": ({"burnin_stack": None}, "n1: no burnin_stack"),
    "a stack that does not fit together": (
        {"burnin_stack": {**STACK, "nccl": {"version": "2.28.9", "cuda": "13.0"}}},
        "NCCL_OTHER_CUDA",
    ),
    "a code that is none": ({"burnin_drift_accept": ["PIN_MISING"]}, "did you mean PIN_MISSING"),
    "a SKU that is none": ({"burnin_sku": "H100-SXM6"}, "H100-SXM6"),
}


@pytest.mark.parametrize("name", WRONG)
def test_nothing_is_looked_at(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed, words = WRONG[name]
    variables = {"burnin_stack": STACK, "burnin_sku": "H100-SXM5-80GB", "ansible_host": "198.18.255.1", **changed}
    inventory = tmp_path / "hosts.yml"
    given = {key: value for key, value in variables.items() if value is not None}
    inventory.write_text(yaml.safe_dump({"gpu_nodes": {"hosts": {"n1": None}, "vars": given}}))

    assert run(["drift", "-i", str(inventory)]) == 2

    shown = capsys.readouterr()
    assert words in shown.err
    assert shown.out == ""
