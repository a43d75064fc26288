"""The inventory as Ansible resolves it."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from burnin.adapters.ansible_env import Workplace, environment, program, workplace
from burnin.adapters.names import check_host_name
from burnin.adapters.processes import end
from burnin.adapters.secrets import vault_arguments
from burnin.errors import BrokenError, InventoryError

GROUP = "gpu_nodes"
TIMEOUT_S = 120.0
SHOWN = 8
VARIABLE_FOLDERS = ("group_vars", "host_vars")
MOST_FILES, LARGEST_FILE_BYTES = 5000, 4 * 2**20
WARNING = re.compile(r"^\[WARNING\]: (.+)$", re.MULTILINE)
ERROR = re.compile(r"^(?:\[ERROR\]: |ERROR! )(.+)$", re.MULTILINE)
UNMATCHED = re.compile(r"Could not match supplied host pattern, ignoring: (.+)")
UNPARSED = re.compile(r"Completely failed to parse inventory source (.+)")
PARSER = re.compile(r"Failed to parse inventory with '(\w+)' plugin: (.+)")
PARSER_OF = {".yml": "yaml", ".yaml": "yaml", ".json": "yaml", ".toml": "toml", ".ini": "ini", "": "ini"}


@dataclass(frozen=True, slots=True)
class Inventory:
    """`hosts`: host -> its variables, merged. `groups`: group -> its hosts, of any depth. `warnings`: of Ansible, for a person."""

    group: str
    hosts: Mapping[str, Mapping[str, object]] = field(repr=False)
    groups: Mapping[str, tuple[str, ...]]
    warnings: tuple[str, ...] = ()


def list_hosts(
    project: Path,
    inventory: Sequence[Path | str],
    limit: str | None = None,
    extravars: Mapping[str, object] | None = None,
    *,
    group: str = GROUP,
    envvars: Mapping[str, str] | None = None,
    work_base: Path | None = None,
    timeout_s: float = TIMEOUT_S,
    ansible_args: Sequence[str] = (),
) -> Inventory:
    """The hosts of `group`, as `ansible-inventory --list` resolves them. Raises InventoryError, one line, for whatever is amiss."""
    sources = inventory_sources(inventory)
    named = ", ".join(str(source) for source in inventory)
    with workplace(work_base) as place:
        argv = [str(program("ansible-inventory")), "--list", *(word for source in sources for word in ("-i", source))]
        argv += vault_arguments(ansible_args)  # an inventory in vaults could not be read without
        argv += ["--limit", limit] if limit is not None else []
        argv += ["-e", f"@{place.write('extravars', json.dumps(dict(extravars)))}"] if extravars else []
        done = _run(argv, place, environment(place, project.absolute(), envvars or {}), timeout_s, named)
    warnings = _warnings(done.stderr)
    if done.returncode:
        raise InventoryError(f"{named}: {_why(done.stderr)}")
    if unmatched := [match[1] for warning in warnings if (match := UNMATCHED.search(warning))]:
        raise InventoryError(f"--limit {limit}: matches no host or group of {named}: {', '.join(unmatched)}; correct it or leave it out")
    found = _parse(done.stdout, group, named, warnings)
    if not found.hosts and limit is not None:
        everyone = list_hosts(
            project, inventory, None, extravars, group=group, envvars=envvars, work_base=work_base, timeout_s=timeout_s,
            ansible_args=ansible_args,
        )  # fmt: skip
        raise InventoryError(
            f"--limit {limit}: leaves none of the {len(everyone.hosts)} hosts of {group} in {named} ({_few(everyone.hosts)})"
        )
    if not found.hosts:
        raise InventoryError(f"{named}: {_no_group(found, group)}; put the GPU servers under the group {group}, see inventory/example")
    return found


def inventory_sources(inventory: Sequence[Path | str]) -> list[str]:
    """Absolute paths; a text with a comma is a list of hosts, as Ansible has it. Raises InventoryError for a path that is not there."""
    if not inventory:
        raise InventoryError("no inventory was given; give -i INVENTORY, for instance inventory/example")
    sources = []
    for source in inventory:
        if isinstance(source, str) and "," in source:
            sources.append(source)
            continue
        path = Path(source).expanduser().absolute()
        if not path.exists():
            raise InventoryError(f"{source}: no such inventory file or folder (looked for {path}); correct -i")
        sources.append(str(path))
    return sources


def places_of(inventory: Sequence[Path | str], name: str) -> list[str]:
    """Where an inventory's files set the variable `name`: 'file:line', sorted. Found by its text, so a plugin's or a script's are not."""
    setting = re.compile(rf"""^\s*(?:-\s+)?["']?{re.escape(name)}["']?\s*[:=]|\s{re.escape(name)}=""")
    return [
        f"{path}:{number}"
        for path in _files(inventory)
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1)
        if setting.search(line)
    ]


def _files(inventory: Sequence[Path | str]) -> list[Path]:
    """The files of an inventory, and of group_vars and host_vars beside it."""
    found: set[Path] = set()
    for path in (Path(source) for source in inventory if not (isinstance(source, str) and "," in source)):
        folders = [path] if path.is_dir() else [path.parent / name for name in VARIABLE_FOLDERS]
        found |= {path} if path.is_file() else set()
        found |= {file for folder in folders for file in itertools.islice(folder.rglob("*"), MOST_FILES) if file.is_file()}
    return sorted(file for file in found if file.stat().st_size <= LARGEST_FILE_BYTES and os.access(file, os.R_OK))


def _run(argv: list[str], place: Workplace, env: dict[str, str], timeout_s: float, named: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InventoryError(f"{named}: ansible-inventory did not answer in {timeout_s:.0f} s; does an inventory script hang?") from error
    except OSError as error:
        raise BrokenError(f"{argv[0]}: could not be started: {error}") from error
    finally:
        end(mark=place.mark)


def _parse(text: str, group: str, named: str, warnings: tuple[str, ...]) -> Inventory:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise BrokenError(f"{named}: ansible-inventory gave no JSON: {error}") from error
    variables = document.pop("_meta", {}).get("hostvars", {})
    # A group without hosts stands only among the children of another.
    known = set(document) | {child for entry in document.values() for child in entry.get("children", [])}
    members = {name: _members(document, name, frozenset()) for name in sorted(known)}
    hosts = {host: dict(variables.get(host, {})) for host in sorted(members.get(group, ()))}
    for host in hosts:
        check_host_name(host)
    groups = {name: tuple(sorted(found & set(hosts))) for name, found in sorted(members.items()) if name == group or found & set(hosts)}
    return Inventory(group, hosts, groups if group in members else dict.fromkeys(members, ()), warnings)


def _members(document: Mapping[str, Mapping[str, list[str]]], name: str, above: frozenset[str]) -> set[str]:
    entry = document.get(name, {})
    found = set(entry.get("hosts", []))
    for child in entry.get("children", []):
        if child not in above:
            found |= _members(document, child, above | {name})
    return found


def _no_group(found: Inventory, group: str) -> str:
    if group in found.groups:
        return f"the group {group} is empty"
    others = [name for name in found.groups if name not in {"all", "ungrouped"}]
    return f"has no group {group}" + (f", only {_few(others)}" if others else " and no other")


def _warnings(stderr: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(line.strip() for line in WARNING.findall(stderr)))


def _why(stderr: str) -> str:
    """One line out of the many: of all the parsers Ansible tried, what the one for this kind of file said."""
    if unparsed := UNPARSED.search(stderr):
        path = Path(unparsed[1].strip())
        reasons = dict(PARSER.findall(stderr[: unparsed.start()]))
        reason = reasons.get("script") or reasons.get(PARSER_OF.get(path.suffix, "")) or next(reversed(reasons.values()), "")
        return f"{path.name} is no inventory that Ansible can read" + (f": {reason.strip()}" if reason else "") + "; correct the file"
    lines = ERROR.findall(stderr) or [line for line in stderr.splitlines() if line.strip()]
    return f"ansible-inventory refuses it: {lines[-1].strip() if lines else 'no reason given'}"


def _few(names: Sequence[str] | Mapping[str, object]) -> str:
    shown = list(names)[:SHOWN]
    return ", ".join(shown) + (", ..." if len(names) > SHOWN else "")
