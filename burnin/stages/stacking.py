"""stack: read the one file, check it, say what it comes to. Touches no node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from burnin.adapters.clock import utc_now
from burnin.errors import InventoryError, StackError
from burnin.stack.checking import check
from burnin.stack.hardware import ANY, Hardware, hardware
from burnin.stack.model import DISTROS, VARIABLE, Problem, Stack, errors, ordered, summary
from burnin.stack.reading import read_stack, read_text
from burnin.stack.resolution import Resolution
from burnin.stack.resolving import resolve
from burnin.stages.nodes import Target
from burnin.stages.nodes import resolve as resolve_hosts


@dataclass(frozen=True, slots=True)
class Checked:
    """A stack and what is wrong with it. `stack` is None when the file could not be read as one. `where` is its file, or a host."""

    where: str
    stack: Stack | None
    skus: tuple[str, ...]
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return self.stack is not None and not errors(self.problems)

    def as_dict(self, schema: str) -> dict[str, Any]:
        """What every `--json` of this verb begins with."""
        return {"schema": schema, "where": self.where, "ok": self.ok, "skus": list(self.skus), **summary(self.problems)}


def check_file(path: Path, skus: Iterable[str] = ()) -> Checked:
    """Raises StackError for a file that is not there, or a SKU that is not known."""
    wanted = tuple(skus)
    for sku in wanted:
        hardware(sku)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8 text"
        raise StackError(
            f"{path}: cannot be read ({why}); expected a stack file such as inventory/example/group_vars/all/stack.yml; correct the path"
        ) from None
    stack, problems = read_text(text)
    return _checked(str(path), stack, problems, wanted)


def check_host(inventory: list[str], host: str) -> Checked:
    """The stack as that host of the inventory has it. Raises InventoryError for a host that is not there or has none."""
    hosts = resolve_hosts(Target(tuple(inventory)))
    if host not in hosts:
        raise InventoryError(f"--host {host}: not among the {len(hosts)} hosts of {', '.join(inventory)}: {', '.join(list(hosts)[:8])}")
    variables = hosts[host]
    if VARIABLE not in variables:
        raise InventoryError(f"{host}: has no {VARIABLE}; give the site a group_vars/all/stack.yml, see inventory/example")
    stack, problems = read_stack(variables[VARIABLE])
    sku = variables.get("burnin_sku")
    if sku is not None:
        hardware(str(sku))
    found = _checked(host, stack, problems, (str(sku),) if sku else ())
    # The file may name all SKUs of the site; this host has one.
    return replace(found, skus=(str(sku),)) if sku else found


def _checked(where: str, stack: Stack | None, problems: list[Problem], skus: tuple[str, ...]) -> Checked:
    if stack is not None:
        problems = ordered([*problems, *check(stack, utc_now().date(), skus)])
    return Checked(where, stack, tuple(sorted({*skus, *(stack.skus if stack else ())})), tuple(problems))


def hardware_of(checked: Checked, sku: str | None) -> Hardware:
    """The SKU asked for, else the only one that is named, else none in particular."""
    if sku is not None:
        return hardware(sku)
    return hardware(checked.skus[0]) if len(checked.skus) == 1 else ANY


def resolutions(stack: Stack, found: Hardware, arch: str | None, distros: Iterable[str] = DISTROS) -> dict[str, Resolution]:
    """Distribution -> what it comes to, on `arch` or what these GPUs come with. Raises StackError."""
    return {name: resolve(stack, name, arch or found.arches[0], found) for name in distros}


def plain(stack: Stack) -> Mapping[str, Any]:
    """The stack as it was understood."""
    return asdict(stack)
