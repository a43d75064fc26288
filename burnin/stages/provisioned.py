"""What provisioning did to each node, from the events of its plays: one document for people and machines. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from burnin.adapters.ledger import Event, HostResult, HostState
from burnin.erasing import asked_for
from burnin.outcome import Outcome

SCHEMA = "burnin.provision/1"
# What our modules say that they did; others that change something are told by their task's name.
WHAT = ("installed", "upgraded", "downgraded", "removed", "held", "files", "services", "alternatives", "did")
STATES = {
    "ok": Outcome.PASS,
    "changed": Outcome.PASS,
    "would_change": Outcome.PASS,
    "reboot_required": Outcome.RETEST,
    "failed": Outcome.FAIL,
    "unreachable": Outcome.INCONCLUSIVE,
    "cancelled": Outcome.INCONCLUSIVE,
    "given_up": Outcome.INCONCLUSIVE,
    "not_reached": Outcome.INCONCLUSIVE,
}
NOT_REACHED = "its turn did not come: the roll ended before"
LONGEST_NOTE, MOST_NOTES = 500, 20


@dataclass(slots=True)
class Story:
    """One node so far. `part`: it did more than skip. `reboot`: the last word of the role reboot. `erase`: the drives that want a consent."""

    part: bool = False
    changes: list[dict[str, Any]] = field(default_factory=list)
    reboot: dict[str, Any] | None = None
    flagged: bool = False
    notes: list[str] = field(default_factory=list)
    failure: dict[str, Any] | None = None
    erase: dict[str, str] = field(default_factory=dict)
    state: str = "not_reached"
    why: str = NOT_REACHED

    def hear(self, event: Event) -> None:
        """Take in one step."""
        self.part = self.part or event.state not in ("start", "skipped")
        if event.ignored or event.state not in ("ok", "changed", "failed"):
            return
        data = event.data
        if "reasons" in data and data.get("state") != "not_needed":
            self.reboot = _reboot(data)
        if event.state == "changed" and "reasons" not in data:
            self.changes.append(_change(event))
            self.flagged = self.flagged or data.get("reboot_required") is True or bool(data.get("reboot"))
        if event.state == "failed":
            self.failure = {
                "task": event.task,
                "code": str(data.get("code") or ""),
                "message": event.message,
                "changed": _before(data),
            }
            self._ask(data)
        for note in _texts(data.get("notes")):
            if note not in self.notes and len(self.notes) < MOST_NOTES:
                self.notes.append(note)

    def _ask(self, data: Mapping[str, Any]) -> None:
        self.erase, unfit = asked_for(data)
        if unfit:
            self.notes.append(
                f"{unfit} of its drives cannot be written into a consent (no plain text, or too many); look at them on the node."
            )

    def end(self, result: HostResult, *, cancelled: bool, check: bool) -> None:
        """How it came out of a play."""
        self.why = result.message
        if result.state is HostState.UNREACHABLE:
            self.state = "unreachable"
        elif result.state is HostState.FAILED:
            self.state = "failed"
            self.failure = self.failure or {"task": result.task or "", "code": "", "message": result.message, "changed": None}
        elif result.state is HostState.MISSING:
            self.state = "cancelled" if cancelled else "given_up" if self.part else "not_reached"
            self.why = "a person stopped the run" if cancelled else result.message if self.part else NOT_REACHED
        else:
            self.state, self.why = self._well(check), ""

    def _well(self, check: bool) -> str:
        waits = self.reboot is not None and self.reboot["state"] == "required"
        if waits and not check:
            return "reboot_required"
        rebooted = self.reboot is not None and self.reboot["state"] in ("rebooted", "would_reboot")
        if self.changes or rebooted:
            return "would_change" if check else "changed"
        return "ok"

    @property
    def outcome(self) -> Outcome:
        return STATES[self.state]

    def as_dict(self, node: str, check: bool) -> dict[str, Any]:
        """One node of the document."""
        reboot = self.reboot
        if check and reboot is None and self.flagged:
            reboot = {"state": "would_reboot", "reasons": ["what would be installed asks for one"]}
        return {
            "node": node,
            "state": self.state,
            "verdict": self.outcome.value,
            "why": self.why,
            "changes": self.changes,
            "reboot": reboot,
            "failure": self.failure,
            "erase": self.erase,
            "notes": self.notes,
        }


def _before(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a task had changed before it failed; {} when it says that it was nothing, None when it does not say."""
    changed = data.get("changed")
    return {name: one for name, one in changed.items() if one} if isinstance(changed, Mapping) else None


def _change(event: Event) -> dict[str, Any]:
    data = event.data
    told = {name: data[name] for name in WHAT if data.get(name)}
    settings, array = _settings(data), _array(data)
    told |= {"settings": settings} if settings else {}
    told |= {"array": array} if array else {}
    return {"task": event.task, "group": str(data.get("group") or ""), "version": str(data.get("version") or ""), **told}


def _settings(data: Mapping[str, Any]) -> list[str]:
    """Which settings node_tuning changed, as `name: before -> after`."""
    settings = data.get("settings")
    changed = {name: one for name, one in settings.items() if one.get("changed")} if isinstance(settings, Mapping) else {}
    return [f"{name}: {one.get('before')} -> {one.get('after')}"[:LONGEST_NOTE] for name, one in changed.items()]


def _array(data: Mapping[str, Any]) -> list[str]:
    """What nvme_raid0 did, with what it erased: that is what a person looks for first."""
    array, erased = data.get("array"), data.get("erase")
    if not isinstance(array, Mapping) or data.get("state") not in ("created", "adopted"):
        return []
    told = [f"{data['state']} {array.get('device')} of {len(array.get('members') or ())} drives"]
    if isinstance(erased, Mapping):
        told += [f"erased {serial} ({on_it})"[:LONGEST_NOTE] for serial, on_it in erased.items()]
    return told


def _reboot(data: Mapping[str, Any]) -> dict[str, Any]:
    reasons = [str(one.get("found")) for one in data["reasons"] if isinstance(one, Mapping)] if isinstance(data["reasons"], list) else []
    told: dict[str, Any] = {"state": str(data.get("state")), "reasons": reasons}
    before, after = data.get("found_before"), data.get("found")
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        told |= {"seconds": data.get("seconds"), "boot_id": [before.get("boot_id"), after.get("boot_id")]}
        told |= {name: [before.get(name), after.get(name)] for name in ("kernel", "module")}
    return told


def _texts(value: object) -> list[str]:
    return [str(one)[:LONGEST_NOTE] for one in value] if isinstance(value, list) else []


def document(
    run_id: str, stories: Mapping[str, Story], *, check: bool, notes: Iterable[str] = (), erase_file: str | None = None
) -> dict[str, Any]:
    """burnin.provision/1: sorted, one entry for every node that was meant. `erase_file`: what a consent to erase drives would be."""
    nodes = [stories[name].as_dict(name, check) for name in sorted(stories)]
    counts = {state: sum(node["state"] == state for node in nodes) for state in STATES}
    return {
        "schema": SCHEMA,
        "run_id": run_id,
        "check": check,
        "summary": {"nodes": len(nodes), "rebooted": sum((node["reboot"] or {}).get("state") == "rebooted" for node in nodes), **counts},
        "nodes": nodes,
        "notes": list(notes),
        "erase_file": erase_file,
    }


def outcomes(document: Mapping[str, Any]) -> list[Outcome]:
    """Of every node, for the exit code."""
    return [Outcome(node["verdict"]) for node in document["nodes"]]
