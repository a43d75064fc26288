"""The inventory contract: what a site says of its nodes, checked before anything is touched. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from burnin.errors import InventoryError
from burnin.preflight.expected import expected_parts
from burnin.preflight.policy import accepted
from burnin.verdict.policy import Policy

GROUP = "gpu_nodes"
# Variables of the whole suite; those of a role stand in its argument specs.
SITE_VARIABLES: dict[str, str] = {
    "burnin_sku": "What the node's GPUs are, e.g. H100-SXM5-80GB: names the expected parts and their limits.",
    "burnin_rack": "The rack, as text.",
    "burnin_position": "The place in the rack, a whole number; orders the map of the report.",
    "burnin_expected_gpus": "GPUs in the node, where it differs from the SKU's usual number.",
    "burnin_sku_parts": "Parts that differ from the SKU's usual ones, like {nics: 9, nvme: 10}; docs/preflight.md lists them. null: do not judge.",
    "burnin_preflight_accept": "Findings of preflight that the site lets this node through with: {CODE: why, who, until}.",
    "burnin_stack": "The pinned stack: driver, CUDA, NCCL, OFED, DCGM, kernel. docs/stack.md says what it holds.",
    "burnin_drift_accept": "Codes of drifts that the site lives with, each alone or with why, who and until. docs/drift.md shows both.",
    "burnin_serial": 'Nodes that are provisioned at once, as Ansible\'s serial: a number, "25%", or a list of them. Left out: all.',
    "burnin_max_fail_percentage": "Provisioning begins no further nodes once more than this share of a batch has failed. Left out: one failure stops no other node.",
    "burnin_demo_root": "The demo's folder.",
    "burnin_demo_gpus": "The demo's GPUs per node.",
    "burnin_demo_seed": "The demo's seed.",
    "burnin_demo_compress": "The demo's virtual seconds per real second.",
}
# Given for one call with -e, never in an inventory.
ERASE = "nvme_raid0_erase"
CALL_VARIABLES: dict[str, str] = {
    ERASE: "Drives that may be erased: {host: {serial: what is on it}}, as `burnin provision --check` writes it into erase.yml. docs/nvme_raid0.md says more.",
}
MOST_GPUS = 64


@dataclass(frozen=True, slots=True)
class Node:
    """One node as the site wrote it. `folder` is its name made safe for a file system."""

    node: str
    folder: str
    rack: str | None
    position: int | None
    sku: str | None
    expected_gpus: int | None


def _text(host: str, name: str, value: Any) -> str | None:
    """A label. YAML makes numbers of 07, 1.20 and 1e5: refuse those rather than guess what was written."""
    if value is None or isinstance(value, str):
        return value
    kind = type(value).__name__
    raise InventoryError(
        f"{name} of {host}: found {value!r} ({kind}); expected text. Put it in quotes, or YAML turns 07, 1.20 or 1e5 into another thing"
    )


def _whole(host: str, name: str, value: Any, most: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise InventoryError(f"{name} of {host}: found {value!r}; expected a whole number from 0 to {most}")
    return value


def _check_preflight(host: str, sku: str | None, variables: Mapping[str, Any]) -> None:
    """What the site says of parts and waivers, before a node is touched. A value that is still a template is left to the role."""
    checks: dict[str, Callable[[object], object]] = {
        "burnin_sku_parts": lambda given: expected_parts(sku, given),
        "burnin_preflight_accept": accepted,
    }
    for name, check in checks.items():
        given = variables.get(name)
        if isinstance(given, str) and "{{" in given:
            continue
        try:
            check(given)
        except InventoryError as problem:
            raise InventoryError(f"{host}: {problem}") from None


def node_of(host: str, variables: Mapping[str, Any], folder: str, policy: Policy) -> Node:
    """One node of the inventory. Raises InventoryError, or PolicyError for a SKU that is none of ours."""
    sku = _text(host, "burnin_sku", variables.get("burnin_sku"))
    policy.know_sku(sku)
    _check_preflight(host, sku, variables)
    expected = _whole(host, "burnin_expected_gpus", variables.get("burnin_expected_gpus"), MOST_GPUS)
    return Node(
        node=host,
        folder=folder,
        rack=_text(host, "burnin_rack", variables.get("burnin_rack")),
        position=_whole(host, "burnin_position", variables.get("burnin_position"), 10_000),
        sku=sku,
        expected_gpus=expected if expected is not None else policy.expected_gpus(sku),
    )


def check_variables(variables: Mapping[str, Any], roles: Mapping[str, Mapping[str, Sequence[str]]], where: str) -> None:
    """Refuse a variable of ours that no argument spec knows (misspelt, it is silently nothing), and a value that is none of its choices.

    `roles`: role name -> the variables in its argument specs -> the choices of each. A value that is still a template is left to Ansible.
    """
    choices = {name: list(allowed) for options in roles.values() for name, allowed in options.items()}
    known = set(SITE_VARIABLES).union(choices, CALL_VARIABLES)
    prefixes = ("burnin_", *(f"{role}_" for role in roles))
    for name in sorted(variables):
        if name.startswith(prefixes) and name not in known:
            near = get_close_matches(name, sorted(known), 1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
            raise InventoryError(f"{where}: variable {name!r} is none of ours and would do nothing; {hint}")
        value, allowed = variables[name], choices.get(name, [])
        if allowed and not (isinstance(value, str) and "{{" in value) and str(value) not in allowed:
            near = get_close_matches(str(value), allowed, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise InventoryError(f"{where}: {name} is {str(value)[:80]!r}; {hint}Expected one of {', '.join(allowed)}")
