"""Ansible filters: the thin bridge from roles to the package burnin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from burnin.adapters.names import node_folder
from burnin.inventory import SITE_VARIABLES


def burnin_site_variables(hostvars: Mapping[str, Mapping[str, Any]], hosts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """host -> its variables of the inventory contract (and nothing else: the rest may hold secrets)."""
    return {host: {name: hostvars[host][name] for name in SITE_VARIABLES if name in hostvars[host]} for host in hosts}


def burnin_planted(faults: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Planted faults as the simulation sees them: without what the demo expects to be found."""
    return [{name: value for name, value in fault.items() if name != "expect"} for fault in faults]


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Any]:
        return {"burnin_node_folder": node_folder, "burnin_planted": burnin_planted, "burnin_site_variables": burnin_site_variables}
