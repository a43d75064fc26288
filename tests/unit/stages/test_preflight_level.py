"""A burn-in wants nodes that are ready; who asks for another level by name gets it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from burnin.adapters.ansible import HostState
from burnin.stages import burn_in


class Quiet:
    """Says nothing."""

    def stage(self, text: str) -> None:
        """A stage begins."""


class Plays:
    """Remembers what it was told to play; node-2 does not pass."""

    def __init__(self, **variables: Any) -> None:
        self.target = SimpleNamespace(variables=variables)
        self.played: list[tuple[str, dict[str, Any]]] = []

    def play(self, playbook: str, _nodes: list[str], **told: Any) -> str:
        self.played.append((playbook, told))
        return "result"

    def note_all(self, _stage: str, _result: str) -> dict[str, HostState]:
        return {"node-1": HostState.OK, "node-2": HostState.FAILED}


@pytest.mark.parametrize(
    ("variables", "level"),
    [
        pytest.param({}, "ready", id="nothing asked"),
        pytest.param({"preflight_level": "bare", "other": 1}, "bare", id="asked for bare"),
    ],
)
def test_before_a_load_nodes_must_be_ready(variables: dict[str, Any], level: str) -> None:
    driver = Plays(**variables)

    ready = burn_in._preflight(driver, ["node-1", "node-2"], Quiet())  # type: ignore[arg-type]

    assert ready == ["node-1"]
    assert [(playbook, told["preflight_level"]) for playbook, told in driver.played] == [("preflight.yml", level)]
