"""The nodes of a run, and the one way to play on them: what the controller saw of each goes into the run's ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnin import erasing
from burnin.adapters.ansible import Event, HostState, PlayRequest, PlayResult, list_hosts, play
from burnin.adapters.cancel import Cancel
from burnin.adapters.clock import utc_now
from burnin.adapters.inventory import places_of
from burnin.adapters.project import project, role_variables
from burnin.adapters.run_files import append_line, read_run_json
from burnin.adapters.secrets import secrets_of
from burnin.errors import BrokenError, InventoryError
from burnin.inventory import ERASE, GROUP, check_variables

# What of a play's events a person should see; the rest is the ledger's.
Watch = Callable[[Event], None]
FORKS = 32
MARGIN_S = 60
# A look is repeated anyway: a node that is silent costs the others one connection timeout a look, not three (ansible.cfg retries). ssh's
# masters are not kept from one look to the next: that saves less than half a second of seven, and a look through the master of a node that
# has gone since waits until its keepalive gives up, 30 s instead of 4.
ONE_TRY = {"ANSIBLE_SSH_RETRIES": "0"}


@dataclass(frozen=True, slots=True)
class Target:
    """Where the nodes come from and how Ansible is called. `variables` may hold secrets: never written down whole."""

    inventory: tuple[str, ...]
    limit: str | None = None
    variables: Mapping[str, Any] = field(default_factory=dict, repr=False)
    ansible_args: tuple[str, ...] = ()
    check: bool = False
    work_base: Path | None = None

    def source(self) -> dict[str, Any]:
        """What run.json keeps, so that the run can be resumed: our own variables only, the others may be secrets."""
        ours = {name: value for name, value in self.variables.items() if name.startswith(("burnin_", "preflight_"))}
        return {"inventory": [str(Path(path).resolve()) for path in self.inventory], "limit": self.limit, "variables": ours}


def resolve(target: Target) -> dict[str, dict[str, Any]]:
    """host -> variables of every node. Refuses a misspelt variable of ours, and a consent to erase drives that is none. Raises UsageError."""
    root = project()
    # Not with the consent of this call: Ansible would show it as every host's own, and one that stands in the inventory could not be told.
    others = {name: value for name, value in target.variables.items() if name != ERASE}
    found = list_hosts(root, target.inventory, target.limit, others, group=GROUP, ansible_args=target.ansible_args)
    roles = role_variables(root)
    check_variables(target.variables, roles, "-e")
    for host, variables in found.hosts.items():
        check_variables(variables, roles, f"{', '.join(target.inventory)}: {host}")
    if having := [host for host, variables in found.hosts.items() if ERASE in variables]:
        erasing.refuse_kept(having, places_of(target.inventory, ERASE))
    if ERASE in target.variables:
        erasing.check(target.variables[ERASE], _everyone(target, found.hosts))
    return {host: dict(variables) for host, variables in found.hosts.items()}


def _everyone(target: Target, found: Mapping[str, object]) -> set[str]:
    """The inventory's hosts: a consent for one that a --limit leaves out is none that names nobody."""
    return set(found) if target.limit is None else set(present(target))


def present(target: Target) -> dict[str, dict[str, Any]]:
    """host -> variables of every node that the inventory has now, whatever --limit the run began with. Raises InventoryError.

    Nothing is refused here: a variable misspelt since must not keep anybody from stopping a load.
    """
    found = list_hosts(
        project(), target.inventory, None, target.variables, group=GROUP, work_base=target.work_base, ansible_args=target.ansible_args
    )
    return {host: dict(variables) for host, variables in found.hosts.items()}


@dataclass(slots=True)
class Driver:
    """Plays on the nodes of one run folder. Collects per node what happened; never lets one node decide for another.

    `hosts`: the inventory's hosts and variables where they are known; else they are asked for before the first play.
    """

    folder: Path
    target: Target
    cancel: Cancel
    watch: Watch = lambda _event: None
    hosts: Mapping[str, Mapping[str, Any]] | None = field(default=None, repr=False)
    _known: tuple[str, ...] | None = field(default=None, repr=False)

    def play(
        self, playbook: str, hosts: Sequence[str], *, stage: str, timeout_s: float | None = None, deaf: bool = False, **variables: Any
    ) -> PlayResult:
        """One short play on these hosts. `deaf`: goes on although a person asked to stop (the stop itself). Raises BrokenError when Ansible broke."""
        run = read_run_json(self.folder)
        ours = {
            "burnin_run_folder": str(self.folder),
            "burnin_run_id": run["run_id"],
            "burnin_run_plan_document": run["plan"],
            "burnin_run_wait": False,
            "burnin_run_only": list(hosts),
        }
        request = PlayRequest(
            project=project(),
            playbook=playbook,
            inventory=self.target.inventory,
            hosts=tuple(hosts),
            limit=self.target.limit,
            extravars={**self.target.variables, **ours, **variables},
            secrets=self._secrets(),
            timeout_s=timeout_s,
            forks=FORKS,
            check=self.target.check,
            ansible_args=self.target.ansible_args,
            work_base=self.target.work_base,
            envvars=ONE_TRY if stage == "poll" else {},
        )
        result = play(request, on_event=self.watch, cancelled=(lambda: False) if deaf else self.cancel)
        if result.status == "broken":
            raise BrokenError(
                f"stage {stage}: Ansible broke ({result.detail}); the run folder {self.folder} stays as it is, see `burnin resume`"
            )
        if result.strangers:
            raise BrokenError(f"stage {stage}: {', '.join(result.strangers)} took part and were not meant; nothing of this play counts")
        return result

    def note(self, stage: str, node: str, state: str, why: str = "") -> None:
        """A line in the ledger: the newest line of a node is what the verdict believes."""
        append_line(
            self.folder / "controller.jsonl",
            {"t": utc_now().isoformat(timespec="seconds"), "stage": stage, "node": node, "state": state, "why": why},
        )

    def note_all(self, stage: str, result: PlayResult) -> dict[str, HostState]:
        """The outcome of a play, one line a node; returns node -> state."""
        for name, host in sorted(result.hosts.items()):
            if result.status == "cancelled" and host.state is HostState.MISSING:
                self.note(stage, name, "cancelled", "a person stopped the run")
            else:
                self.note(stage, name, host.state.value.lower(), host.message if host.state is not HostState.OK else "")
        return {name: host.state for name, host in result.hosts.items()}

    def _secrets(self) -> tuple[str, ...]:
        """What is scrubbed from every message: the secrets of the inventory, and all of the -e variables that are not ours, however deep.

        A consent is no secret: scrubbed, a refusal could not name the drive.
        """
        if self._known is None:
            hosts = present(self.target) if self.hosts is None else self.hosts
            others = {name: value for name, value in self.target.variables.items() if name != ERASE}
            given = [value for name, value in others.items() if not name.startswith("burnin_")]
            found = secrets_of(project(), {**hosts, "": others}, self.target.ansible_args)
            self._known = (*sorted(found), *(value for one in given for value in _values(one)))
        return self._known


def _values(given: Any) -> list[str]:
    """The texts and numbers in a variable, as text; shorter ones would scrub words."""
    if isinstance(given, Mapping):
        return [value for one in given.values() for value in _values(one)]
    if isinstance(given, list | tuple):
        return [value for one in given for value in _values(one)]
    return [str(given)] if not isinstance(given, bool) and given is not None and len(str(given)) > 3 else []


def target_of(folder: Path, target: Target | None = None) -> Target:
    """How to reach a run's nodes again. Variables given now win over the recorded ones."""
    source = read_run_json(folder).get("source") or {}
    inventory = tuple(str(path) for path in source.get("inventory", ()))
    given = target or Target(())
    if not (given.inventory or inventory):
        raise InventoryError(f"{folder}: does not say which inventory it came from; give -i INVENTORY")
    return Target(
        inventory=given.inventory or inventory,
        limit=given.limit or source.get("limit"),
        variables={**(source.get("variables") or {}), **given.variables},
        ansible_args=given.ansible_args,
        work_base=given.work_base,
    )
