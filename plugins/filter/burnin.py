"""Ansible filters: the thin bridge from roles to the package burnin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from burnin.adapters.clock import utc_now
from burnin.adapters.names import node_folder
from burnin.inventory import SITE_VARIABLES
from burnin.stack.bridge import check_plain, resolve_plain
from burnin.stack.distros import arch_of, distro_of


def burnin_site_variables(hostvars: Mapping[str, Mapping[str, Any]], hosts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """host -> its variables of the inventory contract (and nothing else: the rest may hold secrets)."""
    return {host: {name: hostvars[host][name] for name in SITE_VARIABLES if name in hostvars[host]} for host in hosts}


def burnin_planted(faults: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Planted faults as the simulation sees them: without what the demo expects to be found."""
    return [{name: value for name, value in fault.items() if name != "expect"} for fault in faults]


def burnin_stack_check(stack: Any, skus: Iterable[str] = ()) -> dict[str, Any]:
    """What is wrong with burnin_stack today, for these SKUs."""
    return check_plain(stack, utc_now().date(), skus)


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Any]:
        return {
            "burnin_node_folder": node_folder,
            "burnin_planted": burnin_planted,
            "burnin_site_variables": burnin_site_variables,
            "burnin_stack_arch": arch_of,
            "burnin_stack_check": burnin_stack_check,
            "burnin_stack_distro": distro_of,
            "burnin_stack_resolve": resolve_plain,
        }
