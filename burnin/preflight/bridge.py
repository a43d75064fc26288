"""The preflight for roles: plain data in, plain data out. plugins/action/burnin_preflight.py only names these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from burnin.errors import InventoryError, StackError
from burnin.preflight.case import Case, Site
from burnin.preflight.expected import expected_parts
from burnin.preflight.judging import drifted, failed, judge, ordered, text
from burnin.preflight.policy import accepted
from burnin.stack.bridge import resolve_plain
from burnin.stack.distros import arch_of, distro_of
from burnin.stack.drift.judging import check_plain as drift_of
from burnin.stack.hardware import known
from burnin.verdict.policy import default_policy

LEVELS = ("bare", "ready")
# /etc/os-release's ID -> Ansible's distribution, which the stack's names follow.
SYSTEMS = {
    "debian": "Debian", "ubuntu": "Ubuntu", "rhel": "RedHat", "rocky": "Rocky", "almalinux": "AlmaLinux", "centos": "CentOS", "ol": "OracleLinux",
}  # fmt: skip
SCHEMA = "burnin.preflight/1"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the inventory says of one node, checked. Raises InventoryError while it is made."""

    level: str
    sku: str | None
    expected_gpus: int | None
    parts: Mapping[str, Any]
    accept: Mapping[str, str]
    judge_parts: bool
    stack: object = field(default=None, repr=False)
    accept_drift: object = None
    judge_stack: bool = True


def asked(
    level: str,
    *,
    sku: object = None,
    expected_gpus: object = None,
    parts: object = None,
    accept: object = None,
    stack: object = None,
    accept_drift: object = None,
    judge_parts: bool = True,
    judge_stack: bool = True,
    today: date | None = None,
) -> Asked:
    """The inventory's variables for one node. Raises InventoryError naming variable, value and remedy.

    `judge_parts`: hold the machine against its SKU; `judge_stack`: what runs on it, and a ready node against its stack.
    """
    if level not in LEVELS:
        raise InventoryError(f"preflight_level: found {str(level)[:40]!r}; expected one of {', '.join(LEVELS)}")
    if sku in ("", None):
        name = None
    elif isinstance(sku, str) and sku in known():
        name = sku
    else:
        raise InventoryError(f"burnin_sku: {str(sku)[:60]!r} is unknown; known: {', '.join(sorted(known()))}")
    count = expected_gpus if expected_gpus not in ("", None) else default_policy().expected_gpus(name)
    if count is not None and (isinstance(count, bool) or not str(count).isdigit()):
        raise InventoryError(f"burnin_expected_gpus: found {str(count)[:40]!r}; expected a whole number")
    return Asked(
        level,
        name,
        None if count is None else int(str(count)),
        expected_parts(name, parts),
        accepted(accept, today),
        judge_parts,
        stack or None,
        accept_drift,
        judge_stack,
    )


def resolution_of(document: Mapping[str, Any], asked_for: Asked) -> tuple[dict[str, Any] | None, str | None]:
    """What the stack comes to on the node that this identity is of; or why it comes to nothing."""
    if asked_for.stack is None:
        return None, None
    host = document.get("host") or {}
    system, kernel = host.get("os") or {}, host.get("kernel") or {}
    identity, version = str(system.get("id") or ""), str(system.get("version_id") or "")
    try:
        distro = distro_of(SYSTEMS.get(identity, identity), version)
        arch = arch_of(str(system.get("arch") or ""))
        release = version if distro.startswith("rhel") and "." in version else None
        return resolve_plain(asked_for.stack, distro, arch, asked_for.sku or "", kernel.get("running"), release), None
    except StackError as problem:
        return None, f"{system.get('pretty') or identity or 'a system that it does not name'} on {system.get('arch')}: {problem}"


def addresses(resolution: Mapping[str, Any] | None) -> list[str]:
    """What the package manager will fetch first of each repository, and its key: small files, one each."""
    found = []
    for repository in (resolution or {}).get("repositories") or []:
        url = str(repository["url"]).rstrip("/") + "/"
        if repository.get("deb822") and (resolution or {}).get("manager") == "apt":
            suite = str(repository["deb822"].get("Suites") or "./")
            flat = suite.endswith("/")
            found.append(url + (suite.lstrip("./") + "InRelease" if flat else f"dists/{suite}/InRelease"))
        else:
            found.append(url + "repodata/repomd.xml")
        if repository.get("key_url"):
            found.append(str(repository["key_url"]))
    return list(dict.fromkeys(found))


def examine(
    document: Mapping[str, Any],
    asked_for: Asked,
    resolution: tuple[Mapping[str, Any] | None, str | None] = (None, None),
    site: Site | None = None,
    today: date | None = None,
) -> dict[str, Any]:
    """The findings on one identity document: {"schema", "level", "parts_judged", "findings", "failed", "text", "review"}.

    With a stack a ready node is also held against it, as `burnin drift` does (`today`: what is accepted until a day). Raises StackError for a
    burnin_drift_accept that cannot be read.
    """
    stack, problem = resolution
    host = document.get("host")
    case = Case(
        host=host if isinstance(host, Mapping) else {},
        level=asked_for.level,
        sku=asked_for.sku,
        hardware=known()[asked_for.sku] if asked_for.sku else None,
        expected_gpus=asked_for.expected_gpus,
        parts=asked_for.parts,
        stack=stack,
        stack_problem=problem,
        site=site or Site(),
        judge_parts=asked_for.judge_parts,
        judge_machine=asked_for.judge_stack,
        problem=document.get("backend_problem") or None,
    )
    findings = judge(case, asked_for.accept)
    if stack is not None and asked_for.level == "ready" and asked_for.judge_stack:
        differs = drift_of(stack, case.host, asked_for.accept_drift, today or date.max)["findings"]
        findings = ordered([*findings, *drifted(differs)])
    return {
        "schema": SCHEMA,
        "level": asked_for.level,
        "parts_judged": asked_for.judge_parts,
        "findings": [finding.as_dict() for finding in findings],
        "failed": failed(findings),
        "text": text(findings),
        "review": text(findings, stopping=False),
    }
