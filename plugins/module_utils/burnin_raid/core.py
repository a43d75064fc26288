"""The order of things: read, decide, and only then write; afterwards read and decide again: nothing may be left to do."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping

from ansible.module_utils.burnin_group import node
from ansible.module_utils.burnin_group.model import Refusal, few
from ansible.module_utils.burnin_raid import holding, planning
from ansible.module_utils.burnin_raid.applying import Failed, Hands
from ansible.module_utils.burnin_raid.model import Drive, Plan, Refused, Wanted, World, names
from ansible.module_utils.burnin_raid.reading import Reader
from ansible.module_utils.burnin_raid.selecting import select

MOST_TURNS = 4  # assemble, name, settle, look


@dataclass
class Done:
    """What is told, whether it went well or not."""

    state: str = "refused"
    code: str = ""
    message: str = ""
    world: World | None = None
    plan: Plan | None = None
    erase: Mapping[str, str] = field(default_factory=dict)
    steps: list[list[str]] = field(default_factory=list)
    carried_out: list[list[str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    files: list[dict[str, str]] = field(default_factory=list)
    selected: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return bool(self.steps) or (self.state == "absent" and bool(self.missing))

    def plain(self) -> dict[str, Any]:
        """The answer."""
        told: dict[str, Any] = {
            "state": self.state,
            "array": dict(self.plan.array) if self.plan else {},
            "filesystem": dict(self.plan.filesystem) if self.plan else {},
            "drives": [_drive(drive, self) for drive in self.world.drives] if self.world else [],
            "erase": dict(self.erase), "missing": self.missing, "steps": self.steps, "findings": findings(self), "notes": self.notes,
        }  # fmt: skip
        told["notes"] = [*self.notes, *(one["message"] for one in told["findings"])]
        if self.code:
            told.update(code=self.code, message=self.message, changed={"steps": [" ".join(step) for step in self.carried_out]})
        return told


def settle(reader: Reader, wanted: Wanted, check: bool, tools: Iterable[str] = ()) -> Done:
    """Never raises for what a node can be like: a refusal is told in `code` and `message`."""
    done = Done(missing=[tool for tool in tools if not shutil.which(tool, path=node.PATH)])
    try:
        if done.missing and not check:
            raise Refused("TOOL_MISSING", "programs are missing: %s. Install what brings them" % few(done.missing, 16))
        _settle(reader, wanted, check, done)
    except Failed as failed:
        left = few([" ".join(step) for step in failed.left], 4)
        done.carried_out, done.state = failed.done, "refused"
        so_far = "Done until then: %s. Not done: %s." % (few([" ".join(step) for step in failed.done], 16), left)
        done.code, done.message = failed.refusal.code, _sentence(failed.refusal, so_far if failed.done else "Nothing was written.")
    except Refusal as refusal:
        _refused(done, refusal, check)
    return done


def _refused(done: Done, refusal: Refusal, check: bool) -> None:
    if check and done.missing and refusal.code in ("READ_FAILED", "TOOL_MISSING"):
        done.state = "absent"
        done.notes.append("what is there can only be told once %s is installed: %s" % (few(done.missing), refusal.message))
        return
    end = "Done until then: %s." % few([" ".join(step) for step in done.carried_out], 16) if done.carried_out else "Nothing was written."
    done.state, done.code, done.message = "refused", refusal.code, _sentence(refusal, end)
    done.erase = refusal.erase if isinstance(refusal, Refused) else {}


def _sentence(refusal: Refusal, end: str) -> str:
    return "%s. %s" % (refusal.message.rstrip(". "), end)


def _settle(reader: Reader, wanted: Wanted, check: bool, done: Done) -> None:
    uuids = (str(uuid.uuid4()), str(uuid.uuid4()))
    for turn in range(MOST_TURNS):
        world, plan = _look(reader, wanted, uuids, check, done)
        if turn == 0:
            done.world, done.plan, done.state = world, plan, plan.state
            done.erase = plan.erase
        elif done.plan and done.plan.state == "created" and plan.steps:
            raise Refused(
                "COMMAND_FAILED", "all was done, and read again it still lacks %s" % few(" ".join(step.plain()) for step in plan.steps)
            )
        elif done.plan and plan.array.get("uuid") != done.plan.array.get("uuid"):
            raise Refused("COMMAND_FAILED", "all was done, and read again it is another array: %s" % plan.array.get("uuid"))
        done.notes += [note for note in plan.notes if note not in done.notes]
        done.steps += [step.plain() for step in plan.steps]
        done.files += [
            {"before_header": step.path, "after_header": step.path, "before": step.before or "", "after": step.content}
            for step in plan.steps
            if step.kind == "write"
        ]
        if check or not plan.steps:
            _kept(done, plan)
            return
        Hands(reader.root, world, plan).carry_out()
        done.carried_out += [step.plain() for step in plan.steps]
    raise Refused("COMMAND_FAILED", "after %d turns there still is something to do" % MOST_TURNS)


def _kept(done: Done, plan: Plan) -> None:
    """The array and file system as they were last read. What a check would make is told as it was planned."""
    first = done.plan
    if first is not None and plan is not first:
        done.plan = Plan(first.state, first.selected, first.steps, plan.array, plan.filesystem, first.erase, first.notes)
        for one, two in ((first.filesystem, plan.filesystem),):
            if one and one.get("uuid") != two.get("uuid"):
                raise Refused("COMMAND_FAILED", "the file system made is %s, and read again it is %s" % (one.get("uuid"), two.get("uuid")))


def _look(reader: Reader, wanted: Wanted, uuids: tuple[str, str], check: bool, done: Done) -> tuple[World, Plan]:
    def chosen(shown: World) -> tuple[Drive, ...]:
        done.world = done.world or shown
        picked = select(shown, wanted)
        done.selected = tuple(drive.name for drive in picked)
        return picked

    world = reader.world(wanted, chosen)
    if not done.steps:
        done.world = world
    return world, planning.plan(world, wanted, uuids, dry=check)


def _drive(drive: Drive, done: Done) -> dict[str, Any]:
    return {
        "name": drive.name, "serial": drive.serial, "model": drive.model, "size_bytes": drive.size_bytes, "firmware": drive.firmware,
        "major_minor": drive.dev, "ids": list(drive.ids),
        "role": "member" if drive.name in done.selected else "system" if drive.system else "other",
        "holds": holding.text(drive, done.world) if done.world else "",
    }  # fmt: skip


def findings(done: Done) -> list[dict[str, str]]:
    """What does not stop an array and should be known: a drive with another firmware than its like. Wear and errors are the burn-in's."""
    members = [drive for drive in done.world.drives if drive.name in done.selected] if done.world else []
    versions = [drive.firmware for drive in members if drive.firmware]
    usual = max(sorted(set(versions)), key=versions.count, default="")
    odd = [drive for drive in members if drive.firmware and drive.firmware != usual]
    return [
        {
            "code": "DISK_FIRMWARE",
            "serial": drive.serial,
            "message": "%s has firmware %s, the others %s; bring it to theirs" % (names([drive]), drive.firmware, usual),
        }
        for drive in odd
    ]


def diff(done: Done) -> list[dict[str, str]]:
    """Files, and each drive in words."""
    told = list(done.files)
    plan, world = done.plan, done.world
    if plan is None or world is None or plan.state != "created":
        return told
    for place, drive in enumerate(plan.selected):
        before = holding.text(drive, world) or "blank"
        after = "member %d of array %s, %s" % (place, plan.array["uuid"], plan.array["device"])
        told.append({"before_header": names([drive]), "after_header": names([drive]), "before": before + "\n", "after": after + "\n"})
    return told
