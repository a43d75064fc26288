"""The order of things: look, try it in private, judge the plan, and only then change the node; afterwards assert that it is so."""

from __future__ import annotations

import errno
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ansible.module_utils.burnin_group import node
from ansible.module_utils.burnin_group.model import File, Group, Installed, Manager, Plan, Refusal, any_match, few, group_of

KERNEL = re.compile(
    r"^(linux-(image|modules)(-unsigned|-extra)?-[0-9]|linux-(generic|virtual|lowlatency|image-[a-z])"
    # EL: what a boot loader would find; headers, tools and firmware are no kernel.
    r"|kernel(-(rt|64k|uek|debug))*(-(core|modules|modules-core|modules-extra|uki-virt))?$)"
)
FORGET_MOST = 40


@dataclass(frozen=True)
class Wanted:
    """The module's parameters, read."""

    group: Group
    repositories: Sequence[Mapping[str, Any]] = ()
    files: Sequence[Mapping[str, Any]] = ()
    absent_files: Sequence[str] = ()
    services: Sequence[str] = ()
    services_start: bool = True
    alternatives: Mapping[str, str] = field(default_factory=dict)
    initramfs: bool = False
    allow_remove: Sequence[str] = ()
    allow_downgrade: bool = False
    allow_kernel: bool = False
    busy_devices: Sequence[str] = ()
    busy_ok: bool = False
    reboot_after: bool = False
    lock_timeout_s: float = 300


@dataclass
class Done:
    """What changed, or in check mode would: the module's answer."""

    group: str
    version: str
    plan: Plan = field(default_factory=Plan)
    held: List[str] = field(default_factory=list)
    files: List[str] = field(default_factory=list)
    services: List[str] = field(default_factory=list)
    alternatives: List[str] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)
    diff: List[Dict[str, str]] = field(default_factory=list)
    reboot_required: bool = False
    initramfs: bool = False

    @property
    def changed(self) -> bool:
        return bool(self.plan or self.held or self.files or self.services or self.alternatives or self.initramfs)

    def plain(self) -> Dict[str, Any]:
        down = {name: list(self.plan.change[name]) for name in self.plan.downgrade}
        return {
            "group": self.group, "version": self.version, "installed": self.plan.install, "removed": self.plan.remove, "finished": self.plan.finish, "downgraded": down,
            "upgraded": {name: list(pair) for name, pair in self.plan.change.items() if name not in down}, "held": self.held, "files": self.files,
            "services": self.services, "alternatives": self.alternatives, "initramfs": self.initramfs, "reboot_required": self.reboot_required,
            "notes": self.notes,
        }  # fmt: skip


class Failed(Exception):
    """A refusal, with what had been changed by then (nothing, as a rule)."""

    def __init__(self, refusal: Refusal, changed: Mapping[str, Any]) -> None:
        super().__init__(refusal.message)
        self.code, self.message, self.changed = refusal.code, refusal.message, changed


def settle(manager: Manager, wanted: Wanted, check: bool) -> Done:
    """Make the group true. Raises Failed."""
    done = Done(wanted.group.name, wanted.group.version)
    before: Mapping[str, Installed] = {}
    try:
        before = manager.installed()
        owned = [*manager.files(wanted.group, wanted.repositories), *_configured(wanted)]
        gone = manager.superseded(wanted.repositories)
        _compare(manager.root, owned, [*gone, *wanted.absent_files], done)
        needed = bool(manager.unmet(wanted.group, before))
        if needed and not check:
            # First, so that the plan is made of what is there when nobody else works on it.
            manager.wait(wanted.lock_timeout_s)
            before = manager.installed()
        if needed or any(file.what in ("source", "key") and file.path in done.files for file in owned):
            done.plan = manager.plan(wanted.group, [file for file in owned if file.what != "file"], gone, before)
            judge(wanted, done.plan, before, manager)
        if check:
            _rest(manager, wanted, done, before, check)
            return done
    except (Refusal, OSError) as error:
        raise Failed(_refusal(error), {}) from error
    return _carry_out(manager, wanted, done, before, owned, gone)


def _configured(wanted: Wanted) -> List[File]:
    return [File(str(one["path"]), str(one["content"]).encode(), int(str(one.get("mode") or "0644"), 8)) for one in wanted.files]


def _compare(root: Path, owned: Sequence[File], gone: Sequence[str], done: Done) -> None:
    for file in owned:
        path = node.at(root, file.path)
        there = node.read(path)
        if there != file.content or path.stat().st_mode & 0o7777 != file.mode:
            done.files.append(file.path)
            done.diff.append(
                {"header": file.path, "before": (there or b"").decode("utf-8", "replace"), "after": file.content.decode("utf-8", "replace")}
            )
    for name in gone:
        there = node.read(node.at(root, name))
        if there is not None:
            done.files.append(name)
            done.diff.append({"header": name, "before": there.decode("utf-8", "replace"), "after": ""})


def judge(wanted: Wanted, plan: Plan, installed: Mapping[str, Installed], manager: Manager) -> None:
    """Raises Refusal for anything in the plan that nobody asked for."""
    group = wanted.group
    leavers = [one for repository in wanted.repositories for one in repository.get("supersedes_packages") or ()]
    removals = [name for name in plan.remove if not any_match([*group.absent, *wanted.allow_remove, *leavers], name)]
    if removals:
        raise Refusal(
            "UNASKED_REMOVAL",
            "the transaction would remove %s, which nobody asked for. Find out why (apt-get -s install, dnf --assumeno), or allow it by name in the role's allow_remove"
            % few(sorted(removals)),
        )
    downs = [name for name in plan.downgrade if not group.ours(name)]
    if downs and not wanted.allow_downgrade:
        told = ["%s (%s -> %s)" % (name, *plan.change[name]) for name in downs]
        raise Refusal(
            "UNASKED_DOWNGRADE",
            "the transaction would take %s back to an older version, and this group does not pin it. Set the role's allow_downgrade if that is meant"
            % few(told),
        )
    kernels = [name for name in plan.touched if KERNEL.match(name) and (name in plan.remove or name not in group.names)]
    if kernels and not wanted.allow_kernel:
        raise Refusal(
            "KERNEL_WOULD_MOVE",
            "the transaction would move the kernel %s; kernels move only where burnin_stack.kernel says so. Pin the kernel there, or find which package asks for it"
            % few(kernels),
        )
    foreign = [
        name for name in [*plan.change, *plan.remove] if name in installed and installed[name].held and not group.ours(installed[name].name)
    ]
    foreign = [name for name in foreign if not any_match([*group.absent, *wanted.allow_remove], name)]
    if foreign:
        raise Refusal(
            "HELD_BY_OTHERS",
            "the transaction would move %s, which somebody holds. Release it (apt-mark unhold), or keep this group as it is"
            % few(sorted(foreign)),
        )
    if plan and wanted.busy_devices and not wanted.busy_ok:
        users = node.users_of(manager.root, wanted.busy_devices)
        if users:
            raise Refusal(
                "GPU_BUSY",
                "%s has a GPU open, and its driver would change under it (%s). Drain the node, end it, or say nvidia_driver_busy_ok"
                % (few(users), few(plan.touched, 3)),
            )


def _carry_out(
    manager: Manager, wanted: Wanted, done: Done, before: Mapping[str, Installed], owned: Sequence[File], gone: Sequence[str]
) -> Done:
    written: List[str] = []
    try:
        if done.plan or any(file.what != "file" and file.path in done.files for file in owned):
            manager.wait(wanted.lock_timeout_s)
        _write(manager.root, [file for file in owned if file.what != "file"], gone, done, written)
        if done.plan:
            manager.prepare(wanted.group)
            _intend(wanted, manager.root, done)
            manager.apply(wanted.group, done.plan)
        _rest(manager, wanted, done, before, False, owned, written)
        if done.changed:
            _assert(manager, wanted)
    except (Refusal, OSError) as error:
        now = _now(manager)
        if now is None:
            raise Failed(_refusal(error), {"packages": "unknown: the package database cannot be read", "files": written}) from error
        if done.plan:
            _hold_what_is_there(manager, wanted.group, now)
        raise Failed(_refusal(error), {**difference(before, now), "files": written}) from error
    return done


def _refusal(error: Exception) -> Refusal:
    if isinstance(error, Refusal):
        return error
    return Refusal("DISK_FULL" if getattr(error, "errno", 0) in (errno.ENOSPC, errno.EDQUOT) else "WRITE_FAILED", str(error))


def _hold_what_is_there(manager: Manager, group: Group, now: Mapping[str, Installed]) -> None:
    """A transaction that broke off has released holds (fact F5): without them the next upgrade takes the rest of the way to somewhere else."""
    loose = manager.unheld(group, now)
    try:
        if loose:
            manager.hold(group, loose)
    except (Refusal, OSError):  # the failure that is told is the first one; an unheld package is found by the next run
        return


def _intend(wanted: Wanted, root: Path, done: Done) -> None:
    """What a change of packages asks for is written down before it, or a failure in between would make the next run forget it."""
    if wanted.initramfs:
        node.replace(node.at(root, node.PENDING), b"", 0o600)
    if wanted.reboot_after:
        _flag(wanted, root, done.plan.touched)


def _flag(wanted: Wanted, root: Path, why: Sequence[str]) -> None:
    reason = "%s: %s" % (wanted.group.version, few(why, 4))  # the flag's file is named after the group
    node.replace(node.at(root, node.REBOOT_FLAGS + "/" + wanted.group.name), (reason + "\n").encode(), 0o644)


def _now(manager: Manager) -> "Mapping[str, Installed] | None":
    try:
        return manager.installed()
    except (Refusal, OSError):
        return None


def difference(before: Mapping[str, Installed], after: Mapping[str, Installed]) -> Dict[str, Any]:
    """What is different between two looks, for a person: at most 40 of each."""
    come = {name: one.version + ("" if one.whole else " (half-installed)") for name, one in after.items() if name not in before}
    moved = {
        name: [before[name].version, one.version + ("" if one.whole else " (half-installed)")]
        for name, one in after.items()
        if name in before and (before[name].version, before[name].whole) != (one.version, one.whole)
    }
    told = {"installed": come, "changed": moved, "removed": {name: one.version for name, one in before.items() if name not in after}}
    return {kind: dict(sorted(names.items())[:FORGET_MOST]) for kind, names in told.items()}


def _write(root: Path, owned: Sequence[File], gone: Sequence[str], done: Done, written: List[str]) -> None:
    """Keys first, then sources without their rivals, then pins: a pin in the same transaction as the packages has no effect."""
    for file in owned:
        if file.path in done.files:
            if file.what == "source":
                _remove(root, gone, written)
            node.replace(node.at(root, file.path), file.content, file.mode)
            written.append(file.path)
    _remove(root, gone, written)


def _remove(root: Path, names: Sequence[str], written: List[str]) -> None:
    for name in names:
        try:
            node.at(root, name).unlink()
            written.append(name)
        except FileNotFoundError:
            continue


def _rest(
    manager: Manager,
    wanted: Wanted,
    done: Done,
    before: Mapping[str, Installed],
    check: bool,
    owned: Sequence[File] = (),
    written: "List[str] | None" = None,
) -> None:
    """Holds, our configuration, initramfs, alternatives, services, the reboot's flag."""
    root, written = manager.root, written if written is not None else []
    after = manager.installed() if done.plan and not check else before
    done.held = manager.unheld(wanted.group, after)
    if check:
        done.held = sorted(
            {*done.held, *(name for name in (*done.plan.install, *done.plan.change) if any_match(wanted.group.hold, name))}
            - set(done.plan.remove)
        )
    elif done.held:
        manager.hold(wanted.group, done.held)
    by_path = {str(one["path"]): one for one in wanted.files}
    early = [name for name in done.files if by_path.get(name, {}).get("initramfs")]
    pending = node.at(root, node.PENDING)
    rebuild = bool(early or (wanted.initramfs and done.plan) or pending.exists())
    if not check:
        if rebuild:
            node.replace(pending, b"", 0o600)
        _write(root, [file for file in owned if file.what == "file"], wanted.absent_files, done, written)
        if rebuild:
            note = node.rebuild_initramfs(root)
            done.notes += [note] if note else []
            pending.unlink()
    done.initramfs = rebuild
    for name, path in wanted.alternatives.items():
        if node.settle_alternative(root, name, path, check):
            done.alternatives.append("%s -> %s" % (name, path))
    _services(root, wanted, done, check, bool([one for one in done.files if by_path.get(one, {}).get("daemon_reload")]))
    done.reboot_required = wanted.reboot_after and bool(done.plan or early)
    if done.reboot_required and not check:
        _flag(wanted, root, done.plan.touched or early)


def _services(root: Path, wanted: Wanted, done: Done, check: bool, reload_units: bool) -> None:
    if not wanted.services:
        return
    if not node.has_systemd(root):
        done.notes.append("no systemd runs here: %s left alone" % few(wanted.services))
        return
    if reload_units and not check:
        node.run(["systemctl", "daemon-reload"])
    done.services, notes = node.settle_services(wanted.services, wanted.services_start, check)
    done.notes += [] if check and done.plan else notes


def _assert(manager: Manager, wanted: Wanted) -> None:
    """It is as it was to be. Raises Refusal."""
    now = manager.installed()
    wrong = manager.unmet(wanted.group, now)
    if wrong:
        raise Refusal("MIXED_VERSIONS", "afterwards %s" % few(wrong))
    loose = manager.unheld(wanted.group, now)
    if loose:
        raise Refusal("NOT_HELD", "afterwards %s is not held" % few(loose))


def wanted_of(told: Mapping[str, Any]) -> Wanted:
    """From the module's parameters."""
    group = group_of(told["group"])
    simple = {name: told[name] for name in Wanted.__dataclass_fields__ if name not in ("group", "services") and told.get(name) is not None}
    return Wanted(group=group, services=group.services if told.get("services") is None else told["services"], **simple)


def timed(manager: Manager, wanted: Wanted, check: bool) -> Tuple[Done, float]:
    """As `settle`, and how many seconds it took."""
    began = time.monotonic()
    return settle(manager, wanted, check), time.monotonic() - began
