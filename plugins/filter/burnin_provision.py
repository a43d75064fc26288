"""Ansible filters of the package roles: the thin bridge to burnin.stack.handing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burnin.adapters.clock import utc_now
from burnin.stack import handing
from burnin.stack.bridge import check_plain
from burnin.stack.nccl_conf import nccl_conf


def problems(stack: Any, system: Mapping[str, Any], sku: str = "") -> list[str]:
    """Why this node cannot be given this stack today."""
    return handing.problems(stack, system, sku, utc_now().date())


def said(resolution: Mapping[str, Any], stack: Any, system: Mapping[str, Any]) -> list[str]:
    """What a person should know before anything is changed."""
    skus = [resolution["sku"]] if resolution["sku"] else []
    return handing.said(resolution, check_plain(stack, utc_now().date(), skus), system)


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Any]:
        return {
            "burnin_nccl_conf": nccl_conf,
            "burnin_provision_built": handing.built,
            "burnin_provision_dkms_name": handing.dkms_name,
            "burnin_provision_group": handing.group,
            "burnin_provision_kernel": handing.kernel_wanted,
            "burnin_provision_kernel_group": handing.kernel_group,
            "burnin_provision_modules_for": handing.modules_for,
            "burnin_provision_place": handing.place,
            "burnin_provision_problems": problems,
            "burnin_provision_repositories": handing.repositories,
            "burnin_provision_said": said,
            "burnin_provision_stale": handing.stale,
        }
