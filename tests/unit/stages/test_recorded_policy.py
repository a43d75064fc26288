"""A run is judged by the limits that it was opened with; a damaged run.json is bad input, never a crash."""

from __future__ import annotations

import pytest

from burnin.errors import PolicyError
from burnin.stages.judging import recorded_policy
from burnin.verdict.policy import default_policy, read_policy


def recorded(policy: object) -> dict:
    return {"policy": policy}


def as_written(name: str = "default", **limits: dict) -> dict:
    shipped = default_policy()
    return {"name": name, "digest": "x", "limits": {**shipped.limits, **limits}, "skus": shipped.skus}


def test_the_recorded_limits_are_the_ones_that_count() -> None:
    text = "schema: burnin.policy/1\nname: site\nlimits:\n  heat_margin_c: {value: 7, unit: C, why: summer, source: report 12}\n"
    site = read_policy(text)

    again = recorded_policy(recorded({"name": site.name, "limits": site.limits, "skus": site.skus}))

    assert (again.limit("heat_margin_c"), again.digest) == (7, site.digest)


def test_a_limit_that_this_version_does_not_know_is_left_out() -> None:
    assert recorded_policy(recorded(as_written(gone_limit={"value": 1}))).digest == default_policy().digest


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(None, id="gone"),
        pytest.param([], id="a list"),
        pytest.param(as_written(heat_margin_c={"value": "hot"}), id="a limit that is no number"),
        pytest.param(as_written() | {"limits": 3}, id="limits that are none"),
        pytest.param(as_written() | {"skus": {"X": 1}}, id="a SKU that is none"),
    ],
)
def test_a_damaged_policy_is_bad_input(policy: object) -> None:
    with pytest.raises(PolicyError, match=r"run\.json: policy"):
        recorded_policy(recorded(policy))
