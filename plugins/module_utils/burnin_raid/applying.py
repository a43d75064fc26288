"""Carry out a plan. Before each step every drive is looked up again; the first failure ends it, and what was done until then is told."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import time
from pathlib import Path

from ansible.module_utils.burnin_group import node
from ansible.module_utils.burnin_group.model import Refusal, few
from ansible.module_utils.burnin_raid import probing
from ansible.module_utils.burnin_raid.identity import Held
from ansible.module_utils.burnin_raid.model import Drive, Plan, Refused, Step, World, clean, names
from ansible.module_utils.burnin_raid.using import mount_lines, read

SETTLE_S, LINK_S, LOOK_AGAIN_S = 60, 20, 0.5
MOST_WIPES, MOST_LOOKS = 5, 6
LONGEST_SAID, MOST_LINES = 1200, 6
NAMED = ("--create", "--assemble")


class Failed(Exception):
    """A refusal in the middle: with the steps that were done and those that were not."""

    def __init__(self, refusal: Refusal, done: list[list[str]], left: list[list[str]]) -> None:
        super().__init__(refusal.message)
        self.refusal, self.done, self.left = refusal, done, left


class Hands:
    """One plan, on one node."""

    def __init__(self, root: Path, world: World, plan: Plan) -> None:
        self.root, self.plan = root, plan
        self.held = Held(root, plan.selected)
        self.in_arrays = _in_arrays(world, plan)
        self.stopping = [step for step in plan.steps if step.argv[:2] == ("mdadm", "--stop")]

    def carry_out(self) -> None:
        """Raises Failed."""
        done: list[list[str]] = []
        try:
            self._prepare()
            for step in self.plan.steps:
                self._before(step)
                self._do(step)
                done.append(step.plain())
        except (Refusal, OSError) as problem:
            refusal = problem if isinstance(problem, Refusal) else Refusal("COMMAND_FAILED", clean(str(problem), LONGEST_SAID))
            raise Failed(refusal, done, [step.plain() for step in self.plan.steps[len(done) :]]) from problem
        finally:
            self.held.release()

    def _prepare(self) -> None:
        """Right before the first write: the same drives, ours alone, with the same on them. Those of an array to stop come once it is stopped."""
        self._quiet()
        self.held.check()
        if self.plan.state == "created":
            self.held.take(but=self.in_arrays)
            self.held.same_content(but=self.in_arrays)

    def _before(self, step: Step) -> None:
        self.held.check()
        if self.plan.state != "created" or step in self.stopping or not (step.drives or step.kind == "gone"):
            return
        waited = self.in_arrays
        self._quiet()
        if waited:
            self.in_arrays = frozenset()
            self.held.take()
            self.held.same_content(but=set(self.held.drives) - waited)
        if "--create" in step.argv or self._array_made():
            self.held.release()
        else:
            self.held.take(but=step.drives)
            self.held.release(step.drives)

    def _array_made(self) -> bool:
        """From then on md holds its members itself."""
        return bool(self.plan.array) and os.path.exists(str(node.at(self.root, str(self.plan.array["device"]))))

    def _do(self, step: Step) -> None:
        if step.kind == "run":
            self._run(step)
            if step.argv[0] == "mdadm" and step.argv[1] in NAMED:
                self._named(step.argv[2])
        elif step.kind == "wipe":
            self._wipe(step)
        elif step.kind == "gone":
            self._gone(step)
        elif step.kind == "folder":
            node.at(self.root, step.path).mkdir(mode=0o755, parents=True, exist_ok=True)
        elif step.kind == "write":
            self._write(step)
        else:
            self._mount(step)

    def _run(self, step: Step) -> None:
        """Raises Refused with the command and what it said."""
        done = node.run(step.argv, step.timeout_s)
        if done.returncode:
            self.held.check()  # a drive that went is the reason, not what the program says about it
            how = "took longer than %d s" % step.timeout_s if done.returncode == 124 else "exited %d" % done.returncode
            raise Refused("COMMAND_FAILED", "%s %s: %s" % (" ".join(step.argv), how, _said(done)))

    def _quiet(self) -> None:
        """udev opens what changed, and a program that wants it alone fails then."""
        if shutil.which("udevadm", path=node.PATH):
            node.run(("udevadm", "settle", "--timeout=%d" % SETTLE_S), SETTLE_S + 5)

    def _named(self, device: str) -> None:
        self._quiet()
        until = time.monotonic() + LINK_S
        while not os.path.exists(str(node.at(self.root, device))):
            if time.monotonic() > until:
                raise Refused("COMMAND_FAILED", "the array runs and %s does not lead to it after %d s; look at udev" % (device, LINK_S))
            time.sleep(LOOK_AGAIN_S)

    def _wipe(self, step: Step) -> None:
        """Until nothing shows: under one signature another may lie."""
        path = self.held.node(step.area)
        for _turn in range(MOST_WIPES):
            self._run(step)
            try:
                left = probing.signatures(path)
            except probing.Unreadable as problem:
                raise Refused("COMMAND_FAILED", "%s was wiped and cannot be read: %s" % (step.area, problem)) from None
            if not left:
                return
        raise Refused("COMMAND_FAILED", "%s was wiped %d times and still holds %s" % (step.area, MOST_WIPES, few(one.kind for one in left)))

    def _gone(self, step: Step) -> None:
        """Nothing is left of what was erased. Raises Refused."""
        left: list[str] = []
        for _turn in range(MOST_LOOKS):
            self._quiet()
            left = [found for name in step.drives for found in self._left_on(self.held.drives[name])]
            if not left:
                return
            self.held.read_tables_again()
            time.sleep(LOOK_AGAIN_S)
        raise Refused("COMMAND_FAILED", "after erasing there still is %s; look at who has it open" % few(left))

    def _left_on(self, drive: Drive) -> list[str]:
        told = ["partition %s of %s" % (name, names([drive])) for name in self.held.partitions(drive.name)]
        try:
            seen = probing.signatures(self.held.node(drive.name))
            blocks = probing.superblocks(self.held.node(drive.name), seen)
        except probing.Unreadable as problem:
            return [*told, "%s, which cannot be read: %s" % (names([drive]), problem)]
        return [
            *told,
            *("%s on %s" % (one.kind, names([drive])) for one in seen),
            *("md %s on %s" % (one.uuid, drive.name) for one in blocks),
        ]

    def _write(self, step: Step) -> None:
        """Only over what was read; where a link stands, over what it leads to."""
        path = Path(os.path.realpath(str(node.at(self.root, step.path))))
        there = node.read(path)
        if (None if there is None else there.decode("utf-8", "replace").strip()) != (None if step.before is None else step.before.strip()):
            raise Refused("COMMAND_FAILED", "%s was changed by somebody else since it was read; run again" % step.path)
        node.replace(path, step.content.encode(), stat.S_IMODE(path.stat().st_mode) if there is not None else 0o644)

    def _mount(self, step: Step) -> None:
        """systemd may have been faster, once it knew of the line."""
        if not self._is_mounted(step.path):
            done = node.run(step.argv, step.timeout_s)
            if done.returncode and not self._is_mounted(step.path):
                raise Refused("COMMAND_FAILED", "%s exited %d: %s" % (" ".join(step.argv), done.returncode, _said(done)))

    def _is_mounted(self, path: str) -> bool:
        return any(target == path for _dev, _root, target, *_more in mount_lines(read(self.root / "proc/self/mountinfo")))


def _said(done: subprocess.CompletedProcess[str]) -> str:
    """The beginning: mkfs.xfs gives its reason first, and a page of usage after it."""
    lines = [line.strip() for line in (done.stderr.strip() or done.stdout.strip()).splitlines() if line.strip()]
    return clean(" | ".join(lines[:MOST_LINES]), LONGEST_SAID) or "without a word"


def _in_arrays(world: World, plan: Plan) -> frozenset[str]:
    """Members of running arrays: md has them until it is stopped."""
    running = {array.name for array in world.arrays}
    return frozenset(drive.name for drive in plan.selected for use in drive.uses if use.kind == "holder" and use.what in running)
