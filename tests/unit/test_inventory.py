"""The inventory contract: refused before anything is touched, with the host, what was found and what to do."""

from __future__ import annotations

import pytest

from burnin.errors import InventoryError, PolicyError
from burnin.inventory import check_variables, node_of
from burnin.verdict.policy import default_policy

ROLES = {
    "burnin_run": {"burnin_run_root": [], "burnin_run_plan": [], "burnin_run_backend": ["nvml", "cpu", "sim"]},
    "preflight": {"preflight_free_mib": []},
}
POLICY = default_policy()


def test_a_node_as_a_site_writes_it() -> None:
    node = node_of(
        "gpu-01", {"burnin_sku": "H100-SXM5-80GB", "burnin_rack": "07", "burnin_position": "3", "ansible_host": "x"}, "gpu-01", POLICY
    )

    assert (node.rack, node.position, node.expected_gpus) == ("07", 3, 8)


def test_a_site_may_expect_another_count_than_the_sku() -> None:
    assert node_of("n", {"burnin_sku": "H100-SXM5-80GB", "burnin_expected_gpus": 4}, "n", POLICY).expected_gpus == 4


def test_without_an_expectation_nothing_is_made_up() -> None:
    assert node_of("n", {}, "n", POLICY).expected_gpus is None


@pytest.mark.parametrize(
    "value", [7, 1.2, 42798, True, ["A1"]], ids=["07 read as 7", "1.20 read as 1.2", "an octal serial", "yes read as true", "a list"]
)
def test_a_label_that_yaml_turned_into_another_thing_is_refused(value: object) -> None:
    with pytest.raises(InventoryError, match=r"burnin_rack of gpu-01: found .*quotes"):
        node_of("gpu-01", {"burnin_rack": value}, "gpu-01", POLICY)


@pytest.mark.parametrize("value", [-1, 1.5, "x", True, 65], ids=["negative", "a fraction", "a word", "a boolean", "more than any node has"])
def test_a_count_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(InventoryError, match="burnin_expected_gpus of n: found"):
        node_of("n", {"burnin_expected_gpus": value}, "n", POLICY)


def test_an_unknown_sku_names_the_nearest() -> None:
    with pytest.raises(PolicyError, match="did you mean 'H100-SXM5-80GB'"):
        node_of("n", {"burnin_sku": "H100-SXM-80GB"}, "n", POLICY)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("burnin_run_rooot", "burnin_run_root"), ("burnin_skuu", "burnin_sku"), ("preflight_free_mb", "preflight_free_mib")],
)
def test_a_misspelt_variable_of_ours_is_refused(name: str, nearest: str) -> None:
    with pytest.raises(InventoryError, match=rf"hosts.yml: gpu-01: variable '{name}'.*did you mean '{nearest}'"):
        check_variables({name: 1}, ROLES, "hosts.yml: gpu-01")


def test_other_peoples_variables_are_theirs() -> None:
    check_variables(
        dict.fromkeys(("ansible_host", "ntp_servers", "burnin_rack", "burnin_run_plan", "kernel_args"), "x"), ROLES, "hosts.yml"
    )


def test_a_value_that_is_none_of_the_choices_is_refused_before_a_node_is_blamed() -> None:
    with pytest.raises(InventoryError, match=r"n1: burnin_run_backend is 'cpuu'; did you mean 'cpu'\? Expected one of nvml, cpu, sim"):
        check_variables({"burnin_run_backend": "cpuu"}, ROLES, "n1")


@pytest.mark.parametrize("value", ["sim", "{{ site_backend }}"])
def test_a_choice_or_a_template_is_taken(value: str) -> None:
    check_variables({"burnin_run_backend": value}, ROLES, "n1")
