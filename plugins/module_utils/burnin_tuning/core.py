"""All settings in one go: look and decide without a change; refuse; only then write, and look again."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, replace
from typing import Any, Dict, List, Mapping, Tuple

from ansible.module_utils.burnin_group import node
from ansible.module_utils.burnin_group.model import Refusal, few
from ansible.module_utils.burnin_tuning import files, kernel, limits, live, services
from ansible.module_utils.burnin_tuning.host import FLAGS, Host
from ansible.module_utils.burnin_tuning.model import (
    CHANGED,
    FAILED,
    GRACE_PARAMETERS,
    NEW_PROCESSES,
    NEXT_BOOT,
    NOW,
    OK,
    PENDING,
    UNSUPPORTED,
    Setting,
    Wish,
    unsupported,
)

KERNEL_SETTINGS = ("iommu", "kernel_parameters")
FLAG = FLAGS + "/node_tuning"
MOST_OF_A_NODE = 0.75  # of a NUMA node's memory for huge pages: the rest is the kernel's, the page cache's and everybody else's
HELD_KERNEL = "kernel_words"
NO_PAM = "no service of PAM loads pam_limits, so logins keep the kernel's"


@dataclass(frozen=True)
class Done:
    """What is told. `files`: those of ours that were written or taken away."""

    settings: Dict[str, Setting] = field(default_factory=dict)
    files: Tuple[str, ...] = ()
    reboot: str = ""
    notes: Tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        return bool(self.files) or any(one.changed for one in self.settings.values())


def settle(host: Host, wish: Wish, check: bool) -> Done:
    """Everything that is asked for. Raises Refusal before anything was changed, unless its text says what was."""
    before = files.state(host)
    planned = _Pass(host, wish, before, check=True).run()
    strange = files.foreign(host) + [kernel.DROP_IN] * (host.at(kernel.DROP_IN).exists() and files.MARK not in host.text(kernel.DROP_IN))
    if strange:
        raise Refusal("FILE_NOT_OURS", "%s: somebody else's file; expected none, or ours. Nothing was changed: move it away" % few(strange))
    lacking = unsupported(planned.settings, wish.require)
    if lacking:
        raise Refusal("SETTING_UNSUPPORTED", "%s. Nothing was changed; see node_tuning_require" % "; ".join(lacking))
    done = planned if check or not planned.changed else _Pass(host, wish, before, check=False).run()
    if not check:
        flag(host, done.reboot)
    return done


class _Pass:
    """One way through all settings, with or without writing."""

    def __init__(self, host: Host, wish: Wish, before: Mapping[str, Any], check: bool) -> None:
        self.host, self.wish, self.before, self.check = host, wish, before, check
        self.root = str(host.root)
        self.container = host.container()
        self.both = bool(live.cards(self.root, wish.gpus)) and bool(live.cards(self.root, wish.nics, rdma=True))
        self.notes: List[str] = []
        self.logins = {item: limits.effective(limits.texts(host), item) for _, item, _ in files.LIMIT_ITEMS}

    def run(self) -> Done:
        settings: Dict[str, Setting] = {}
        for name in self.wish.values:
            settings[name] = self._kept_off(name)
        ready = {name: value for name, value in self.wish.values.items() if settings[name].state != UNSUPPORTED}
        refuse_amounts(self.host, ready)
        for name in ready:
            if name in live.LOOKS:
                settings[name] = self._live(name)
            elif name == "time_sync":
                settings[name] = services.time_sync(self.host, self.check)
            elif name == "persistence":
                settings[name] = services.persistence(self.host)
        words = self._kernel(settings, ready)
        kept = {name: value for name, value in ready.items() if settings[name].state != UNSUPPORTED and name != "persistence"}
        held = {name: value for name, value in kept.items() if settings[name].state != FAILED}
        written = self._files(kept, {**held, **({HELD_KERNEL: words} if words else {})})
        self._limits(settings, ready, written)
        self._boots_again(written, settings)
        settings = {name: replace(one, drift=self._drifted(name, one)) for name, one in settings.items()}
        return Done(settings, tuple(written), waits(settings), tuple(self.notes))

    def _kept_off(self, name: str) -> Setting:
        """Unsupported where this node is not one for it, else a place to fill in."""
        wanted = _told(self.wish.values[name])
        words = ""
        if self.container and name not in ("memlock", "open_files", "persistence"):
            words = "this is a container: that setting is the machine's, set it there"
        elif name in self.wish.auto and not self.both:
            words = "auto: the node has not both a GPU and a network adapter"
        elif name == "kernel_parameters" and self.host.processor() != "arm":
            words = "auto: for Grace (aarch64) only"
        elif name == "iommu" and not self.host.iommu():
            words = "this machine shows no IOMMU, so nothing is translated"
        elif name in ("memlock", "open_files") and not self.host.may_raise():
            words = "root may not raise limits here (no CAP_SYS_RESOURCE), and a login would fail on it"
        return Setting(wanted, state=UNSUPPORTED if words else OK, detail=words)

    def _live(self, name: str) -> Setting:
        wanted = live.Wanted(dict(self.wish.values), self.wish.gpus, self.wish.nics)
        done = live.settle(self.root, name, wanted, self.check)
        changed = done.state == CHANGED or (done.state == FAILED and done.before != done.after)
        return Setting(_told(self.wish.values[name]), done.before, done.after, done.state, changed, applies=NOW, detail=done.detail)

    def _kernel(self, settings: Dict[str, Setting], ready: Mapping[str, Any]) -> List[str]:
        """The parameters of the next boot. Gives those that are ours."""
        asked = {name: self._words(name) for name in KERNEL_SETTINGS if name in ready}
        wanted = [word for words in asked.values() for word in words]
        held = [word for word in self.before.get(HELD_KERNEL, ()) if isinstance(word, str)]
        boot = kernel.read(self.host, held) if asked or held or self.host.at(kernel.DROP_IN).exists() else kernel.Boot("")
        if not boot.loader:
            for name, takes in asked.items():
                words = "there is no boot loader here that we know (GRUB, grubby); it takes %s" % " ".join(takes)
                settings[name] = replace(
                    settings[name], state=UNSUPPORTED, before=self._translates(), after=self._translates(), detail=words
                )
            return []
        kernel.refuse_conflicts(self.host, boot, wanted)
        right = kernel.settled(self.host, boot, wanted)
        if not right and not self.check:
            kernel.write(self.host, boot, wanted)
        for name, words in asked.items():
            settings[name] = self._booted(name, words, not all(kernel.given(word, boot.words) for word in words))
        if not right and not asked:
            self.notes.append("the kernel is no longer told %s, from the next boot on" % " ".join(boot.ours))
        self.kernel_changed = not right
        return kernel.added(boot, wanted)

    kernel_changed = False

    def _words(self, name: str) -> Tuple[str, ...]:
        return kernel.passthrough(self.host.translator()) if name == "iommu" else GRACE_PARAMETERS

    def _translates(self) -> str:
        cards = sorted({*live.cards(self.root, self.wish.gpus), *live.cards(self.root, self.wish.nics, rdma=True)})
        kinds = sorted({kind for kind in map(self.host.group_type, cards) if kind})
        return (
            "translated (%s)" % few([kind for kind in kinds if kind.startswith("DMA")])
            if any(kind.startswith("DMA") for kind in kinds)
            else ("passthrough" if kinds == ["identity"] else "not told" if not kinds else few(kinds))
        )

    def _booted(self, name: str, words: Tuple[str, ...], changed: bool) -> Setting:
        running = self.host.line("/proc/cmdline").split()
        lacking = [word for word in words if not kernel.given(word, running)]
        now = self._translates() if name == "iommu" else " ".join(word for word in words if word not in lacking) or "not told to the kernel"
        wanted = "%s (%s)" % (self.wish.values[name], " ".join(words))
        if lacking:
            detail = "the kernel that runs was not told %s; the next boot is" % " ".join(lacking)
            return Setting(wanted, now, now, PENDING, changed, applies=NEXT_BOOT, detail=detail)
        if now.startswith("translated"):
            detail = "the kernel was told %s and still translates; look at the firmware's settings (DMA protection)" % " ".join(words)
            return Setting(wanted, now, now, FAILED, changed, applies=NEXT_BOOT, detail=detail)
        return Setting(wanted, now, now, CHANGED if changed else OK, changed, applies=NEXT_BOOT)

    def _files(self, kept: Mapping[str, Any], held: Mapping[str, Any]) -> List[str]:
        """Ours, as they shall be now; the paths that had to be touched."""
        wanted = files.texts(kept, list(self.wish.gpus), list(self.wish.nics), python(), held)
        differing = files.differing(self.host, wanted)
        if differing and not self.check:
            files.write(self.host, wanted, differing)
        self.wanted_files = wanted
        return differing + [kernel.DROP_IN] * self.kernel_changed

    def _limits(self, settings: Dict[str, Setting], ready: Mapping[str, Any], written: List[str]) -> None:
        """Both ways: what a login gets by PAM's files, what a daemon gets by systemd's word."""
        touched = [path for path in written if path in (files.LIMITS, *files.MANAGERS)]
        asked = [item for item in files.LIMIT_ITEMS if item[0] in ready]
        before = {word: limits.daemons(self.host, word) for _, _, word in asked}
        if self.host.systemd and not self.check and (touched or any(before[word] != _told(ready[name]) for name, _, word in asked)):
            self.host.run(["systemctl", "daemon-reexec"], node.SERVICE_S)
        for name, item, word in asked:
            settings[name] = self._limit(_told(ready[name]), item, (before[word], limits.daemons(self.host, word)), touched)

    def _limit(self, wanted: str, item: str, daemons: Tuple[str, str], touched: List[str]) -> Setting:
        logins, before = limits.effective(limits.texts(self.host), item), self._both(self.logins[item], daemons[0])
        if self.check and (touched or daemons[0] not in ("", wanted)):
            changed = before != wanted
            return Setting(wanted, before, wanted, CHANGED if changed else OK, changed, applies=NEW_PROCESSES)
        after, problems = self._both(logins, daemons[1]), []
        if self.host.systemd and daemons[1] != wanted:
            problems.append(
                "systemd gives daemons %s, expected %s; see systemd-analyze cat-config systemd/system.conf" % (daemons[1], wanted)
            )
        if set(logins.values()) != {wanted}:
            problems.append("PAM gives logins %s, expected %s; see %s" % (limits.told(logins), wanted, limits.FOLDER))
        words = [*problems, *[NO_PAM] * (not limits.logins_have_pam(self.host))]
        state = FAILED if problems else CHANGED if before != after else OK
        return Setting(wanted, before, after, state, before != after, applies=NEW_PROCESSES, detail="; ".join(words))

    @staticmethod
    def _both(logins: Mapping[str, str], daemons: str) -> str:
        said = limits.told(logins)
        return said if daemons in ("", said) else "logins %s, daemons %s" % (said, daemons)

    def _boots_again(self, written: List[str], settings: Dict[str, Setting]) -> None:
        """Systemd knows the unit; where it is new it runs once, so that what will run at boot has been seen to."""
        if not self.host.systemd or files.UNIT not in self.wanted_files:
            return
        if not {files.UNIT, files.SCRIPT, files.STATE, files.WANTED_BY} & set(written):
            if services.units(self.host, [files.UNIT_NAME]).get(files.UNIT_NAME, {}).get("ActiveState") == "failed":
                self.notes.append("%s failed at boot; journalctl -u %s says why" % (files.UNIT_NAME, files.UNIT_NAME))
            return
        if self.check:
            return
        if {files.UNIT, files.WANTED_BY} & set(written):
            self.host.run(["systemctl", "daemon-reload"], node.SERVICE_S)
        done = self.host.run(["systemctl", "restart", "--", files.UNIT_NAME], node.SERVICE_S * 2)
        if done.returncode:
            words = "%s does not run: %s; journalctl -u %s says why" % (files.UNIT_NAME, node.last_words(done, 2), files.UNIT_NAME)
            for name in files.AT_BOOT:
                if name in settings and settings[name].state in (OK, CHANGED):
                    settings[name] = replace(settings[name], state=FAILED, detail=words)

    def _drifted(self, name: str, one: Setting) -> bool:
        """It had been set as it is wanted now, and was not so any more."""
        held = name in self.before and _told(self.before[name]) == _told(self.wish.values[name])
        return held and one.changed


def waits(settings: Mapping[str, Setting]) -> str:
    """Why a reboot is waited for; "" where none is."""
    waiting = [name for name in KERNEL_SETTINGS if name in settings and settings[name].state == PENDING]
    return "; ".join("%s: %s" % (name, settings[name].detail) for name in waiting)


def flag(host: Host, reason: str) -> None:
    """Ask the role reboot for one, as long as something waits for it. Gone with the boot, so no change of the node."""
    content, place = (reason + "\n").encode(), host.at(FLAG)  # the file's name says whose it is
    if reason and node.read(place) != content:
        node.replace(place, content, 0o644)
    elif not reason and place.exists():
        place.unlink()


def _told(value: Any) -> str:
    return "%(per_node)d of %(size_kib)d KiB on each NUMA node" % value if isinstance(value, dict) else str(value)


def python() -> str:
    """The interpreter of the unit: the distribution's own name for the one that we run on, which survives its updates."""
    system = "/usr/bin/python3"
    return system if os.path.realpath(system) == os.path.realpath(sys.executable) else os.path.realpath(sys.executable)


def refuse_amounts(host: Host, values: Mapping[str, Any]) -> None:
    """Raises Refusal TUNING_INPUT for what this node has not room for."""
    most = host.line("/proc/sys/fs/nr_open")
    if "open_files" in values and most.isdigit() and int(most) < values["open_files"]:
        raise Refusal(
            "TUNING_INPUT",
            "node_tuning_open_files is %d, more than fs.nr_open here (%s): no login would succeed. Nothing was changed; ask for at most that"
            % (values["open_files"], most),
        )
    for name in live.numbered(str(host.root), live.NODES, "node") if "huge_pages" in values else ():
        place = "%s/%s" % (live.NODES, name)
        said = host.line(place + "/meminfo").split("MemTotal:")
        total = said[1].split()[0] if len(said) > 1 else ""
        asked = values["huge_pages"]["size_kib"] * values["huge_pages"]["per_node"]
        if host.line(place + "/cpulist") and total.isdigit() and asked > MOST_OF_A_NODE * int(total):
            raise Refusal(
                "TUNING_INPUT",
                "huge pages of %d MiB are asked for on %s, which has %d MiB; expected at most three quarters. Nothing was changed"
                % (asked // 1024, name, int(total) // 1024),
            )
