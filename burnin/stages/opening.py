"""Open a run: resolve and check everything that can be wrong before a node is touched, then write the run folder."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from burnin import __version__, plans
from burnin.adapters.clock import utc_now
from burnin.adapters.names import check_host_name, node_folder
from burnin.adapters.run_files import new_run_id, write_json
from burnin.adapters.zipapp import build
from burnin.errors import InventoryError, PlanError, PolicyError, UsageError
from burnin.inventory import Node, node_of
from burnin.node.plan import Plan
from burnin.verdict.policy import Policy, read_policy

NODE_PROGRAM = "burnin-node.pyz"


@dataclass(frozen=True, slots=True)
class Opened:
    """A run folder that is ready: what the plays need to know of it."""

    folder: Path
    run_id: str
    plan: Plan
    nodes: tuple[Node, ...]


def load_policy(path: Path | None) -> Policy:
    """The policy in force. Raises PolicyError for a file that cannot be used."""
    if path is None:
        return read_policy(None)
    try:
        return read_policy(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as problem:
        raise PolicyError(f"{path}: cannot be read ({problem}); give --policy FILE") from None


def load_plan(name: str) -> tuple[dict[str, Any], Plan]:
    """A plan by name or path, checked. Raises PlanError."""
    if name == "preflight":
        return dict(plans.PREFLIGHT), Plan("preflight", "", 0, ())
    path = Path(name)
    if path.suffix in (".yaml", ".yml", ".json") or "/" in name:
        try:
            return plans.parse(path.read_text(encoding="utf-8"), name)
        except (OSError, UnicodeDecodeError) as problem:
            raise PlanError(f"{name}: cannot be read ({problem}); known plans: {', '.join(plans.shipped())}") from None
    return plans.parse(plans.shipped_text(name), f"plan {name}")


def resolve_nodes(hosts: Mapping[str, Mapping[str, Any]], policy: Policy) -> tuple[Node, ...]:
    """The nodes of an inventory's hosts, checked. Raises InventoryError."""
    for host in hosts:
        check_host_name(host)
    nodes = tuple(node_of(host, variables, node_folder(host), policy) for host, variables in sorted(hosts.items()))
    folders = [node.folder for node in nodes]
    for node in nodes:
        if folders.count(node.folder) > 1:
            raise InventoryError(f"hosts that end in one folder {node.folder!r}: rename one of them ({node.node})")
    return nodes


def open_run(
    hosts: Mapping[str, Mapping[str, Any]],
    *,
    plan: str,
    runs: Path,
    policy_path: Path | None = None,
    seed: int = 1,
    source: Mapping[str, Any] | None = None,
    burn_in: bool = True,
    preflight: bool = False,
    provision: Mapping[str, Any] | None = None,
    run_id: str | None = None,
) -> Opened:
    """Make runs/<run_id>/ with run.json and the node program in it. Nothing is written before everything was checked.

    `preflight`: no node is burned in before it has passed one; a resume keeps to that. `provision`: nor before it has the stack; at this pace.
    """
    policy = load_policy(policy_path)
    raw, checked = load_plan(plan)
    nodes = resolve_nodes(hosts, policy)
    run_id = run_id or new_run_id()
    folder = runs.resolve() / run_id
    try:
        folder.mkdir(parents=True, mode=0o700)
    except OSError as problem:
        raise UsageError(f"--out {runs}: no run folder can be made there ({problem.strerror}); give a folder that can be written") from None
    program = build(folder / NODE_PROGRAM)
    document = {
        "schema": "burnin.run/1",
        "run_id": run_id,
        "created": utc_now().isoformat(timespec="seconds"),
        "plan": plans.for_node(raw, run_id, seed),
        "policy": {"name": policy.name, "digest": policy.digest, "limits": policy.limits, "skus": policy.skus},
        "inventory": {"nodes": [{**asdict(node), "burn_in": burn_in} for node in nodes]},
        "preflight": preflight,
        "provision": dict(provision) if provision is not None else None,
        "source": dict(source or {}),
        "tools": tools(),
        "digests": {"node_program": program, "plan": _digest(raw), "policy": policy.digest},
    }
    write_json(folder / "run.json", document)
    return Opened(folder, run_id, checked, nodes)


def tools() -> dict[str, str]:
    """The versions that made this run."""
    names: Sequence[str] = ("ansible-core", "ansible-runner", "polars", "nvidia-ml-py", "jinja2")
    return {"burnin": __version__, "python": platform.python_version(), **{name: version(name) for name in names}}


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()
