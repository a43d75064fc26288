"""The provisioning stage: the stack is checked, then playbooks/provision.yml is played, batch by batch, and each node's story is told."""

from __future__ import annotations

import json
import shlex
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burnin import erasing
from burnin.adapters.ansible import Event, PlayResult
from burnin.adapters.cancel import Cancel
from burnin.adapters.clock import utc_now
from burnin.adapters.run_control import newest, read_ledger
from burnin.adapters.run_files import locked, write_json, write_text
from burnin.errors import InventoryError, StackError
from burnin.stack.checking import check
from burnin.stack.hardware import hardware
from burnin.stack.model import VARIABLE, Problem, errors
from burnin.stack.reading import read_stack
from burnin.stages.nodes import Driver, Target, resolve
from burnin.stages.opening import open_run
from burnin.stages.provisioned import Story, document
from burnin.status import NodeStatus, clean, count

if TYPE_CHECKING:
    from burnin.stages.burn_in import Show

PLAYBOOK, STAGE = "provision.yml", "provision"
# One batch: gigabytes of packages, modules built, a reboot of twenty minutes. Tasks have limits of their own.
BATCH_S = 4 * 3600.0
SERIAL, MAX_FAIL = "burnin_serial", "burnin_max_fail_percentage"
NAMED = 6


@dataclass(frozen=True, slots=True)
class Pace:
    """How the nodes are gone through, from the inventory. `serial` None: all at once; `max_fail` None: no failure stops other nodes."""

    serial: Any = None
    max_fail: float | None = None

    def variables(self) -> dict[str, Any]:
        """For the play, which cannot ask a host that a --limit left out."""
        asked = {SERIAL: self.serial, MAX_FAIL: self.max_fail}
        return {name: value for name, value in asked.items() if value is not None}


def has_stack(hosts: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the inventory pins anything at all."""
    return any(VARIABLE in variables for variables in hosts.values())


def check_stacks(hosts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The warnings on the stack of these nodes. Raises StackError that names every fault, and whose."""
    alike: dict[str, list[str]] = defaultdict(list)
    for host, variables in sorted(hosts.items()):
        alike[json.dumps([variables.get(VARIABLE), variables.get("burnin_sku")], sort_keys=True, default=str)].append(host)
    faults: list[str] = []
    warnings: list[str] = []
    for names in alike.values():
        for problem in _problems(hosts[names[0]]):
            told = f"{_few(names)}: {problem.sentence if isinstance(problem, Problem) else problem}"
            (warnings if isinstance(problem, Problem) and not errors([problem]) else faults).append(told)
    if faults:
        lines = "\n  ".join(faults)
        raise StackError(f"{VARIABLE}: {count(len(faults), 'fault')}; nothing was touched\n  {lines}")
    return warnings


def _problems(variables: Mapping[str, Any]) -> list[Problem | str]:
    if VARIABLE not in variables:
        return [f"has no {VARIABLE}; give the site a group_vars/all/stack.yml (inventory/example has one)."]
    stack, problems = read_stack(variables[VARIABLE])
    sku = variables.get("burnin_sku")
    unknown: list[Problem | str] = []
    try:
        _ = hardware(str(sku)) if sku else None
    except StackError as problem:
        unknown, sku = [f"burnin_sku: {problem}"], None
    if stack is not None:
        problems = [*problems, *check(stack, utc_now().date(), [str(sku)] if sku else ())]
    return [*unknown, *problems]


def _few(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:NAMED]) + (f" and {len(listed) - NAMED} more" if len(listed) > NAMED else "")


def pace_of(hosts: Mapping[str, Mapping[str, Any]], variables: Mapping[str, Any]) -> Pace:
    """What the inventory says of the pace; a play has one, so the nodes must agree. Raises InventoryError."""
    serial, most = (_agreed(name, hosts, variables) for name in (SERIAL, MAX_FAIL))
    for one in serial if isinstance(serial, list) else [serial]:
        if one is not None and not _is_batch(one):
            raise InventoryError(f'{SERIAL}: found {one!r}; expected a number of nodes above 0, a share like "25%", or a list of them')
    try:
        share = None if most is None else float(most)
    except (TypeError, ValueError):
        share = -1.0
    if share is not None and not 0 <= share <= 100:
        raise InventoryError(f"{MAX_FAIL}: found {most!r}; expected a share in percent, from 0 to 100")
    return Pace(serial, share)


def _agreed(name: str, hosts: Mapping[str, Mapping[str, Any]], variables: Mapping[str, Any]) -> Any:
    found: dict[str, list[str]] = defaultdict(list)
    for host, own in hosts.items():
        found[json.dumps(variables.get(name, own.get(name)), default=str)].append(host)
    if len(found) > 1:
        told = "; ".join(f"{_few(names)}: {value}" for value, names in found.items())
        raise InventoryError(f"{name}: the nodes differ ({told}); a roll has one pace: set it for the whole group, or use --limit")
    return json.loads(next(iter(found)))


def _is_batch(value: Any) -> bool:
    text = str(value)
    share = text.removesuffix("%")
    return not isinstance(value, bool) and share.isascii() and share.isdigit() and int(share) > 0 and (text == share or int(share) <= 100)


def provision(driver: Driver, nodes: list[str], show: Show, pace: Pace) -> dict[str, Story]:
    """Play it on these nodes; what became of each. A batch that failed as a whole ends Ansible's play: the rest is played on, where no limit was set."""
    stories = {node: Story() for node in nodes}
    driver = replace(driver, watch=lambda event: _hear(stories, event, show))
    left, batches = list(nodes), len(nodes) if pace.serial is not None else 1
    while left and not driver.cancel():
        result = driver.play(PLAYBOOK, left, stage=STAGE, timeout_s=BATCH_S * batches, **pace.variables())
        _end(stories, result, show, check=driver.target.check)
        rest = [node for node in left if stories[node].state == "not_reached"]
        if pace.max_fail is not None or result.status != "finished" or len(rest) == len(left):
            break
        if rest:
            show.say(f"A whole batch failed; going on with {count(len(rest), 'node')}: no {MAX_FAIL} is set.")
        left = rest
    if left and pace.max_fail is not None:
        show.say(f"The roll ended: more than {pace.max_fail:g} % of a batch failed ({MAX_FAIL}); {_few(left)} did not have their turn.")
    for node in nodes:
        driver.note(STAGE, node, _word(stories[node].state), told(stories[node]))
    return stories


def in_site(driver: Driver, run: Mapping[str, Any], nodes: list[str], show: Show) -> list[str]:
    """The nodes that are as the stack says, as a part of a run: provisioned now, or earlier in it. All of them where nothing is pinned.

    One that was done is not gone over again: its load may be running.
    """
    pace = run.get(STAGE)
    if pace is None:
        return nodes
    done = {node for node, state in newest(read_ledger(driver.folder), STAGE).items() if state == "ok"} & set(nodes)
    rest = sorted(set(nodes) - done)
    if not rest or driver.cancel():
        return sorted(done)
    check = driver.target.check
    show.stage(f"Provision {count(len(rest), 'node')}{' (check: nothing is changed)' if check else ''}")
    stories = provision(driver, rest, show, Pace(**pace))
    asking = ask_consent(driver.folder, driver.target, stories, show, verb="site")
    write_json(driver.folder / "provision.json", document(str(run["run_id"]), stories, check=check, erase_file=asking))
    well = [node for node in rest if _word(stories[node].state) == "ok"]
    if check and (moved := [node for node in well if stories[node].state != "ok"]):
        show.say(f"{_few(moved)}: would change, so their burn-in cannot be looked at yet (burnin provision --check says what).")
        well = sorted(set(well) - set(moved))
    if not driver.target.ansible_args:  # with --tags and the like nobody knows whether it looked at the nodes, at its end
        for node in well:
            driver.note("preflight", node, "ok", "at the end of provisioning")
    return sorted(done.union(well))


def ask_consent(folder: Path, target: Target, stories: Mapping[str, Story], show: Show, *, verb: str = STAGE) -> str | None:
    """Write what a consent to erase drives would be, where a node was refused for want of one, and say so; the file's path."""
    wanted = {node: story.erase for node, story in stories.items() if story.erase}
    if not wanted:
        return None
    path = folder / erasing.FILE
    write_text(path, erasing.render(wanted, {node: _refusal(stories[node]) for node in wanted}))
    drives = sum(len(drives) for drives in wanted.values())
    where = [word for source in target.inventory for word in ("-i", source)] + (["--limit", target.limit] if target.limit else [])
    show.say(
        f"{count(drives, 'drive')} of {_few(sorted(wanted))} hold something and were left alone. Read {path}: it names each, and what is on it. "
        f"To erase exactly those: {shlex.join(['burnin', verb, *where, '-e', f'@{path}'])}"
    )
    return str(path)


def _refusal(story: Story) -> str:
    failure = story.failure or {}
    return f"{failure.get('code', '')}: {failure.get('message', '')}"


def drop_run(folder: Path) -> None:
    """A dry run is no run: the newest run stays the newest. What is left of it is the consent that it asks for, if it does."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != erasing.FILE:
            path.unlink()
    if not (folder / erasing.FILE).exists():
        folder.rmdir()


def _word(state: str) -> str:
    """The ledger's word: what the verdict knows."""
    return {"changed": "ok", "would_change": "ok", "given_up": "missing", "not_reached": "missing"}.get(state, state)


def told(story: Story) -> str:
    """Why a node is not as it shall be, in one line; "" when it is."""
    if story.state == "reboot_required" and story.reboot:
        return f"waits for a reboot: {'; '.join(story.reboot['reasons'])}"
    if story.failure and story.state == "failed":
        code = f" [{story.failure['code']}]" if story.failure["code"] else ""
        return f"{story.failure['task']}: {story.failure['message']}{code}"
    return story.why


def _hear(stories: Mapping[str, Story], event: Event, show: Show) -> None:
    if event.host in stories:
        stories[event.host].hear(event)
        if event.state == "start":
            show.node(event.host, NodeStatus("working", stage=clean(event.task)))


def _end(stories: Mapping[str, Story], result: PlayResult, show: Show, *, check: bool) -> None:
    for node, host in result.hosts.items():
        stories[node].end(host, cancelled=result.status == "cancelled", check=check)
        show.node(node, NodeStatus(stories[node].state, why=clean(told(stories[node]))))


def go(target: Target, show: Show, cancel: Cancel, *, runs: Path) -> tuple[Path | None, dict[str, Any]]:
    """Open a run folder, provision its nodes, write provision.json; the folder (None after a check, which keeps none) and the document."""
    hosts = resolve(target)
    warnings = check_stacks(hosts)
    pace = pace_of(hosts, target.variables)
    opened = open_run(hosts, plan="preflight", runs=runs, source=target.source(), burn_in=False)
    try:
        show.say(f"Run {opened.run_id}: {count(len(opened.nodes), 'node')} to provision, in {opened.folder}")
        for warning in warnings:
            show.say(f"Warning: {warning}")
        with locked(opened.folder):
            show.stage(f"Provision {count(len(opened.nodes), 'node')}{' (check: nothing is changed)' if target.check else ''}")
            stories = provision(Driver(opened.folder, target, cancel), [node.node for node in opened.nodes], show, pace)
            asking = ask_consent(opened.folder, target, stories, show)
            made = document(opened.run_id, stories, check=target.check, notes=warnings, erase_file=asking)
            write_json(opened.folder / "provision.json", made)
        return (None if target.check else opened.folder), made
    finally:
        if target.check:
            drop_run(opened.folder)
