"""dnf 4 as a manager: every transaction is resolved, fetched and rehearsed beside the node's own dnf before anything of the node is touched."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.burnin_group import dnf_files, node
from ansible.module_utils.burnin_group.dnf_ask import APPLY_S, Place, System, text
from ansible.module_utils.burnin_group.keys import key_of
from ansible.module_utils.burnin_group.model import File, Group, Installed, Plan, Refusal, any_match, few, of_version, unwanted

ROOT_VARIABLE = "BURNIN_DNF_ROOT"  # another root than /, as dnf's --installroot: how the tests use this machine's dnf
PLUGIN = "python3-dnf-plugin-versionlock"
MODULES = "/etc/dnf/modules.d"
TEMPORARY = Path("/var/tmp")  # noqa: S108  (a fresh folder of our own in it; /tmp may be memory, and a toolkit is 4 GB)
LOCKED_REMEDY = "wait for it (dnf-automatic, another person's dnf) or raise burnin_stack_lock_timeout_s; it is never killed"
NEXT = {
    "VERSION_MISSING": "Pin one that is there, or have the mirror fetch it",
    "EXCLUDED": "Look at excludepkgs in the .repo files and dnf.conf, at `dnf versionlock list` and at `dnf module list`",
    "MIRROR_DOWN": "Is the mirror up, and is its URL right (burnin_stack.repositories)",
    "DEPENDENCIES": "A repository is missing (EPEL, CRB?), or something installed needs another version",
}  # fmt: skip


class Dnf:
    """dnf and rpm of one root."""

    def __init__(self, setopt: Sequence[str] = (), root: str = "") -> None:
        self.root = Path(root or os.environ.get(ROOT_VARIABLE) or "/")
        self.system, self.setopt = System(self.root), list(setopt)
        self._rows: list[dnf_files.Installed] = []
        self._place: Place | None = None
        self._asked: dict[str, Any] = {}
        self._repositories: list[str] = []

    def newer(self, one: str, other: str) -> bool:
        return dnf_files.newer(one, other)

    # What is there

    def installed(self) -> dict[str, Installed]:
        self._rows = self.system.packages()
        halves, loose = dnf_files.twice(self._rows), {*dnf_files.unlocked(self._rows, text(self.system.lock_list))}
        found: dict[str, Installed] = {}
        for row in sorted(self._rows, key=lambda one: dnf_files.order(one.evr)):  # of several kernels the newest
            found[_name(row.name, row.arch)] = Installed(row.name, row.evr, row not in loose, f"{row.name}.{row.arch}" not in halves)
        return found

    # What we own

    def files(self, group: Group, repositories: Sequence[Mapping[str, Any]]) -> list[File]:
        if group.hold or group.locks:
            self._may_lock(group)
        self._repositories = [str(one["name"]) for one in repositories]
        found = [File(str(one["key_path"]), key_of(one, node.at(self.root, str(one["key_path"]))), what="key") for one in repositories]
        listed = self._list(group, whole=not self.unmet(group, {}))
        off = dnf_files.recorded(listed)
        for one in repositories:
            content = dnf_files.repository(str(one["name"]), str(one["label"]), one["yum"], off.get(str(one["source"]), ()))
            found.append(File(str(one["path"]), content.encode(), what="source"))
        if listed or self.system.lock_list.exists():
            path = self._told(self.system.lock_list)
            found.append(File(path, listed.encode("utf-8", "surrogateescape"), self._mode(path), what="pin"))
        for module, stream in _streams(group):
            path = f"{MODULES}/{module}.module"
            found.append(File(path, self._module(path, module, stream), self._mode(path), what="stream"))
        return found

    def _may_lock(self, group: Group) -> None:
        """Raises Refusal where a lock of ours would hold nothing."""
        self.system.may_lock()
        pinned = [dnf_files.wanted(name, version) for name, version, _spec in group.packages]
        names = {one.name for one in pinned}
        held = [row for row in self._rows if any_match(group.hold, row.name) and row.name not in names and not unwanted(group, row.name)]
        wrong = dnf_files.loosening(text(self.system.lock_list), [*pinned, *held])
        if wrong:
            raise Refusal(
                "LOCK_CONFLICT",
                f"{self.system.lock_list} has {few(wrong)}, which is none of burnin's lines: versionlock lets through what any line lets through, so "
                f"{group.name} could not be held. Take it out (dnf versionlock delete), or pin that version in the stack",
            )

    def _list(self, group: Group, whole: bool) -> str:
        """versionlock's list with the group's block. Not whole: exact locks of what a transaction is to move would hinder it."""
        now = text(self.system.lock_list)
        lines = dnf_files.block(group.locks, group.excludes)
        if not whole:
            return dnf_files.with_block(dnf_files.without(now, [row.name for row in self._rows if group.ours(row.name)]), group.name, lines)
        held = [row for row in self._rows if any_match(group.hold, row.name)]
        loose = dnf_files.unlocked(held, dnf_files.with_block(now, group.name, lines))
        return dnf_files.with_block(now, group.name, [*lines, *(row.lock for row in loose)])

    def _mode(self, path: str) -> int:
        """Of a file that is not ours alone, as it is."""
        there = node.at(self.root, path)
        return there.stat().st_mode & 0o7777 if there.exists() else 0o644

    def _module(self, path: str, module: str, stream: str) -> bytes:
        there = node.read(node.at(self.root, path)) or b""
        if dnf_files.stream(there.decode("utf-8", "replace"), module) == stream:
            return there
        return f"[{module}]\nname={module}\nstream={stream}\nprofiles=\nstate=enabled\n".encode()

    def superseded(self, repositories: Sequence[Mapping[str, Any]]) -> list[str]:
        there = self.system.repositories()
        own = {node.at(self.root, str(one["path"])) for one in repositories}
        patterns = [node.at(self.root, str(pattern)) for one in repositories for pattern in one["supersedes"]]
        gone = [path for path in there if path not in own and any(path.match(str(pattern)) for pattern in patterns)]
        ours = {str(one["url"]).rstrip("/"): str(one["path"]) for one in repositories}
        for path in (path for path in there if path not in own and path not in gone):
            for name, urls in dnf_files.sources(text(path)):
                same = [url for url in urls if url.rstrip("/") in ours]
                if same:
                    raise Refusal(
                        "SOURCE_CONFLICT",
                        f"{self._told(path)} names {same[0]} too (as {name}), which {ours[same[0].rstrip('/')]} owns: its packages would come past "
                        "our excludes and under its key. Remove that repository there or set enabled=0; the others in the file may stay",
                    )
        return sorted(self._told(path) for path in gone)

    def _told(self, path: Path) -> str:
        return "/" + str(path.relative_to(self.root))

    # What is to be done

    def unmet(self, group: Group, installed: Mapping[str, Installed]) -> list[str]:
        """By the rpm database as `installed` last read it: one name may be there several times (kernels)."""
        found = []
        for name, version, spec in group.packages:
            if not any(row.fits(spec) for row in self._rows):
                there = [row.evr for row in self._rows if row.name == name]
                found.append(f"{name} is {few(there)}, not {version}" if there else f"{name} is not installed")
        halves = dnf_files.twice(self._rows)
        for row in self._rows:
            if f"{row.name}.{row.arch}" in halves and group.ours(row.name):
                found.append(f"{row.name} is there twice")
            elif unwanted(group, row.name):
                found.append(f"{row.name} must not be there")
            elif any_match(group.same_version, row.name) and not of_version(row.evr, group.version):
                found.append(f"{row.name} is {row.evr}, not of {group.version}")
        if (group.hold or group.locks) and not self.system.has_versionlock():
            found.append(f"{PLUGIN} is not installed, and without it nothing is held")
        return found

    def unheld(self, group: Group, installed: Mapping[str, Installed]) -> list[str]:
        held = [row for row in self._rows if any_match(group.hold, row.name) and not unwanted(group, row.name)]
        return sorted({row.name for row in dnf_files.unlocked(held, text(self.system.lock_list))})

    def plan(self, group: Group, files: Sequence[File], gone: Sequence[str], installed: Mapping[str, Installed]) -> Plan:
        self._not_twice(group)
        listed = next((file.content for file in files if file.path == self._told(self.system.lock_list)), b"")
        self._place = self._staged(files, gone, listed)
        self._asked = {
            "specs": self._specs(group),
            "locks": [line for line in dnf_files.block(group.locks, group.excludes) if not line.startswith("#")],
            "streams": [f"{module}:{stream}" for module, stream in _streams(group)],
            "remove": sorted({row.name for row in self._rows if unwanted(group, row.name)}),
        }
        try:
            told = self._place.ask("plan", **self._asked)
        except Refusal as refusal:
            advice = f". {NEXT[refusal.code]}" if refusal.code in NEXT else ""
            raise Refusal(refusal.code, refusal.message.strip(" .") + advice) from refusal
        self._asked["expected"] = [told["install"], told["remove"]]
        plan = _plan(told["install"], told["remove"])
        self._complete(group, told)
        return plan

    def _specs(self, group: Group) -> list[str]:
        """What is asked for, and what else is installed of the set and must follow."""
        specs = [spec for _name, _version, spec in group.packages] + ([] if self.system.has_versionlock() else [PLUGIN])
        release = "" if "-" in group.version else "-*"
        stay = [row.name for row in self._rows if any_match(group.same_version, row.name) and not of_version(row.evr, group.version)]
        return specs + [f"{name}-{group.version}{release}" for name in stay if name not in group.names and not unwanted(group, name)]

    def _not_twice(self, group: Group) -> None:
        halves = {name: versions for name, versions in dnf_files.twice(self._rows).items() if group.ours(name.rpartition(".")[0])}
        if halves:
            told = few(f"{name} ({' and '.join(versions)})" for name, versions in sorted(halves.items()))
            raise Refusal(
                "RPMDB_DUPLICATES",
                f"two versions of one package are installed: {told}. An upgrade was cut off; `dnf remove --duplicates` mends it",
            )

    def _staged(self, files: Sequence[File], gone: Sequence[str], listed: bytes) -> Place:
        """A private dnf that lives as long as this manager: what is planned, fetched, rehearsed and done is about the same metadata."""
        top = Path(tempfile.mkdtemp(prefix="burnin-dnf-", dir=str(TEMPORARY) if TEMPORARY.is_dir() else None))
        self._clear = weakref.finalize(self, shutil.rmtree, str(top), ignore_errors=True)
        place = Place(self.system, top, self.setopt, dnf_files.recorded(listed.decode("utf-8", "surrogateescape")), self._repositories)
        (top / "keys").mkdir()
        keys = {file.path: top / "keys" / Path(file.path).name for file in files if file.what == "key"}
        for file in files:
            if file.path in keys:
                keys[file.path].write_bytes(file.content)
        sources = {}
        for file in (file for file in files if file.what == "source"):
            content = file.content
            for path, key in keys.items():
                content = content.replace(f"file://{path}\n".encode(), f"file://{key}\n".encode())
            sources[node.at(self.root, file.path)] = content
        place.build(sources, [node.at(self.root, path) for path in gone], listed)
        return place

    def _complete(self, group: Group, told: Mapping[str, Any]) -> None:
        """The plan must leave nothing of the set behind. Raises Refusal MIXED_VERSIONS."""
        left = {(row.name, row.arch, row.evr) for row in self._rows} - {(name, arch, evr) for name, arch, evr, *_ in told["remove"]}
        after = left | {(name, arch, evr) for name, arch, evr, *_ in told["install"]}
        mixed = [
            f"{name} ({evr})"
            for name, _arch, evr in sorted(after)
            if any_match(group.same_version, name) and not of_version(evr, group.version)
        ]
        if mixed:
            raise Refusal(
                "MIXED_VERSIONS",
                f"after the transaction {few(mixed)} would not be at {group.version}: the repository does not have all of that version, or something "
                "else that is installed needs another one",
            )

    # What is done

    def wait(self, timeout_s: float) -> None:
        """And, as the last thing before the node is changed, fetch and rehearse what was planned."""
        until = time.monotonic() + timeout_s
        while held := self.system.holders():
            if time.monotonic() >= until:
                raise Refusal("LOCKED", f"{', '.join(held)} kept dnf or rpm locked for longer than {timeout_s:g} s; {LOCKED_REMEDY}")
            time.sleep(min(1.0, max(0.05, until - time.monotonic())))
        if self._place and any(self._asked["expected"]):
            told = self._place.ask("test", **self._asked)
            self._signed(self._place, told["files"])

    def _signed(self, place: Place, fetched: Sequence[Sequence[str]]) -> None:
        """What comes from our repositories is signed by their keys: against a keyring of its own, so that nothing enters the node's before."""
        ours = [path for path, repository in fetched if repository in self._repositories]
        if not ours:
            return
        ring = place.top / "keyring"
        ring.mkdir()
        node.run(["rpmkeys", "--dbpath", str(ring), "--import", *map(str, sorted((place.top / "keys").iterdir()))])
        for path in ours:
            done = node.run(["rpmkeys", "--dbpath", str(ring), "--checksig", "--define", "_pkgverify_level signature", "--", path])
            if done.returncode:
                raise Refusal(
                    "KEY_WRONG",
                    f"{Path(path).name} is not signed by the key that was given: {node.last_words(done)}. Did the vendor change its key, or the mirror its packages",
                )

    def prepare(self, group: Group) -> None:
        """Nothing: the transaction uses the metadata and packages that were rehearsed."""

    def apply(self, group: Group, plan: Plan) -> None:
        if self._place is None:
            raise Refusal("TRANSACTION_FAILED", "there is no plan")
        before = self._rows
        try:
            self._place.ask("apply", APPLY_S, **self._asked, persistdir="")
        except Refusal as refusal:
            if refusal.code == "STILL_AT_WORK":
                self._clear.detach()  # the packages that it still installs lie there
            self._rows = self.system.packages()
            self._write(self._list(group, whole=True))  # what was held stays held
            raise
        self._rows = self.system.packages()
        now = {(row.name, row.arch, row.evr) for row in self._rows}
        missing = [f"{name}-{evr}" for name, arch, evr, *_ in self._asked["expected"][0] if (name, arch, evr) not in now]
        if missing:
            self._write(self._list(group, whole=True))
            raise Refusal(
                "TRANSACTION_FAILED",
                f"dnf says that it is done, but {few(missing)} is not there ({len(before)} packages before, {len(self._rows)} now): look at `dnf history info`",
            )
        if not self.unheld(group, {}):  # else it is asked when they are held
            self._stays(group)

    def hold(self, group: Group, names: Sequence[str]) -> None:
        self._write(self._list(group, whole=True))
        self._stays(group)

    def _stays(self, group: Group) -> None:
        """Asks dnf itself what it would upgrade now. Raises Refusal NOT_HELD."""
        if self._place is None:
            return
        self._place.lock(node.read(self.system.lock_list) or b"")
        versions: dict[str, set[str]] = {}
        for name, _arch, evr, *_more in self._place.ask("upgrade", setopt=[], excludes={})["upgrade"]:
            versions.setdefault(name, set()).add(evr.rpartition("-")[0])
        # A rebuild of the same version is let through by the stack's own lines, which end in -*.
        moved = [name for name, some in versions.items() if any_match(group.hold, name) and len(some) > 1]
        if moved:
            raise Refusal("NOT_HELD", f"`dnf upgrade` would still move {few(sorted(moved))}, although {self.system.lock_list} locks it")

    def _write(self, listed: str) -> None:
        node.replace(self.system.lock_list, listed.encode("utf-8", "surrogateescape"), self._mode(self._told(self.system.lock_list)))


def _streams(group: Group) -> list[tuple[str, str]]:
    return [(module, stream) for module, _colon, stream in (one.partition(":") for one in group.module_streams)]


def _name(name: str, arch: str) -> str:
    """With the architecture only where it is not this machine's (i686 beside x86_64)."""
    return name if arch in (os.uname().machine, "noarch", "(none)") else f"{name}.{arch}"


def _plan(come: Sequence[Sequence[Any]], go: Sequence[Sequence[Any]]) -> Plan:
    """From the resolver's rows: what goes and comes under one name and architecture is a change."""
    plan, old = Plan(), {(row[0], row[1]): row for row in go}
    for name, arch, evr, _repository, size, fetch in come:
        before = old.pop((name, arch), None)
        plan.disk_kib += size - (before[4] if before else 0)
        plan.fetch_kib += fetch
        if before is None:
            plan.install[_name(name, arch)] = evr
        else:
            plan.change[_name(name, arch)] = (before[2], evr)
    for (name, arch), row in old.items():
        plan.remove[_name(name, arch)] = row[2]
        plan.disk_kib -= row[4]
    plan.disk_kib = max(plan.disk_kib, 0)
    plan.downgrade = sorted(name for name, (before, after) in plan.change.items() if dnf_files.newer(before, after))
    return plan
