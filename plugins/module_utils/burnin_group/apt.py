"""apt as a manager: every transaction is tried in a private copy of apt's configuration before the node's own is touched."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Sequence, Set

from ansible.module_utils.burnin_group import node
from ansible.module_utils.burnin_group.apt_sources import uris
from ansible.module_utils.burnin_group.keys import key_of
from ansible.module_utils.burnin_group.model import (
    File,
    Group,
    Installed,
    Plan,
    Refusal,
    any_match,
    few,
    fits,
    of_version,
    unmet,
    unwanted,
    upstream,
)  # fmt: skip

UPDATE_S, SIMULATE_S, TRANSACTION_S = 600, 120, 3600  # a mirror that trickles; a driver's DKMS build in its scripts
INSTALL = re.compile(r"^Inst (\S+)(?: \[(\S+)\])? \((\S+) ")
REMOVE = re.compile(r"^(?:Remv|Purg) (\S+)(?: \[(\S+)\])?")
KEY_TROUBLE = re.compile(
    r"NO_PUBKEY|EXPKEYSIG|REVKEYSIG|BADSIG|ERRSIG|is not signed|no longer signed|signatures? (?:couldn't be verified|were invalid)|sqv|Signed-By"
)
MISSING = re.compile(
    r"Version '.*' for '.*' was not found|Unable to locate package|has no installation candidate|Couldn't find any package"
)
QUERY = "${Package}\\t${Architecture}\\t${Version}\\t${db:Status-Want}\\t${db:Status-Status}\\t${Installed-Size}\\n"
BLACKLIST = "/etc/apt/apt.conf.d/52burnin-%s"
# ignore-hold: ours hold what they drag in as well; what others hold is judged by core.py.
SIMULATE = ["-s", "-q", "-y", "--no-install-recommends", "--allow-downgrades", "--allow-change-held-packages", "--ignore-hold"]
# What a site hangs onto `apt-get update` (caches, stamps, notifiers) is for the node's own, not for a private look.
NO_HOOKS = "#clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n#clear APT::Update::Post-Invoke-Success;\n"
FRESH, FRESH_S = "/run/burnin/apt-lists-read", 900  # when all sources were last read for real: not again for each group of a run
SPARE_KIB = 32 * 1024
LOCKED_REMEDY = "wait for it (unattended-upgrades, another person's apt) or raise burnin_stack_lock_timeout_s; it is never killed"


class Apt:
    """apt and dpkg of one root. The root is what apt's own configuration says (APT_CONFIG may name another)."""

    def __init__(self) -> None:
        told = self._config(("Dir", "d"), ("APT::Architecture", ""))
        self.root, self.arch = Path(told["Dir"] or "/"), told["APT::Architecture"]
        self._sizes: Dict[str, int] = {}
        self._own: List[Path] = []
        self._plan = Plan()

    def _config(self, *names: Any) -> Dict[str, str]:
        words = [word for number, (name, kind) in enumerate(names) for word in ("V%d" % number, name + ("/" + kind if kind else ""))]
        done = node.run(["apt-config", "shell", *words])
        if done.returncode:
            raise Refusal("NO_MANAGER", "apt does not answer on this node: %s" % node.last_words(done))
        told = dict(re.findall(r"^V(\d+)='(.*)'$", done.stdout, re.MULTILINE))
        return {name: told.get(str(number), "") for number, (name, _kind) in enumerate(names)}

    def at(self, path: str) -> Path:
        return node.at(self.root, path)

    def newer(self, one: str, other: str) -> bool:
        return node.run(["dpkg", "--compare-versions", one, "gt", other]).returncode == 0

    def installed(self) -> Dict[str, Installed]:
        done = node.run(["dpkg-query", "--show", "--showformat", QUERY])
        if done.returncode and "no packages found" not in done.stderr:
            raise Refusal("DPKG_BROKEN", "dpkg's database cannot be read: %s" % node.last_words(done))
        found: Dict[str, Installed] = {}
        for line in done.stdout.splitlines():
            name, arch, version, want, status, size = line.split("\t")
            if status in ("not-installed", "config-files"):
                continue
            key = name if arch in (self.arch, "all") else "%s:%s" % (name, arch)  # as apt-get itself names them
            found[key] = Installed(name, version, want == "hold", status in ("installed", "triggers-pending", "triggers-awaited"))
            self._sizes[key] = int(size or 0)
        return found

    # What we own

    def files(self, group: Group, repositories: Sequence[Mapping[str, Any]]) -> List[File]:
        found = []
        self._own = [self.at(str(one["path"])) for one in repositories]
        for one in repositories:
            found.append(File(str(one["key_path"]), key_of(one, self.at(str(one["key_path"]))), what="key"))
            fields = {**one["deb822"], "Signed-By": str(self.at(str(one["key_path"])))}
            lines = ["# Written by burnin, which owns this file.", *("%s: %s" % (name, value) for name, value in fields.items())]
            if any("\n" in line for line in lines):
                raise Refusal("BAD_GROUP", "repository %s: a field has a line break" % one["name"])
            found.append(File(str(one["path"]), ("\n".join(lines) + "\n").encode(), what="source"))
        found += [File(path, content.encode(), what="pin") for path, content in group.pins]
        if group.blacklist:
            if any('"' in pattern or "\n" in pattern for pattern in group.blacklist):
                raise Refusal("BAD_GROUP", "blacklist %r: apt's configuration cannot hold a quotation mark" % (group.blacklist,))
            listed = "".join('    "%s";\n' % pattern for pattern in group.blacklist)  # as they are: apt.conf knows no escapes
            text = (
                "// Written by burnin: unattended-upgrades leaves the pinned set %s alone.\nUnattended-Upgrade::Package-Blacklist {\n%s};\n"
                % (group.name, listed)
            )
            found.append(File(BLACKLIST % group.name, text.encode(), what="blacklist"))
        return found

    def superseded(self, repositories: Sequence[Mapping[str, Any]]) -> List[str]:
        own = {self.at(str(one["path"])) for one in repositories}
        gone = {
            path
            for one in repositories
            for pattern in one["supersedes"]
            for path in self.at(str(pattern)).parent.glob(Path(str(pattern)).name)
        } - own
        ours = {str(one["url"]).rstrip("/"): str(one["path"]) for one in repositories}
        for path in [self.at("/etc/apt/sources.list"), *sorted(self.at("/etc/apt/sources.list.d").glob("*"))]:
            if path in own or path in gone or path.suffix not in (".list", ".sources"):
                continue
            same = [uri for uri in uris(path) if uri.rstrip("/") in ours]
            if same:
                raise Refusal(
                    "SOURCE_CONFLICT",
                    "%s names %s too, which %s owns: two entries of one place make apt refuse both (Signed-By). Remove it there; its other lines may stay"
                    % (self._told(path), same[0], ours[same[0].rstrip("/")]),
                )
        return sorted(self._told(path) for path in gone)

    def _told(self, path: Path) -> str:
        return "/" + str(path.relative_to(self.root))

    # What is to be done

    def unmet(self, group: Group, installed: Mapping[str, Installed]) -> List[str]:
        return unmet(group, installed)

    def unheld(self, group: Group, installed: Mapping[str, Installed]) -> List[str]:
        return sorted(name for name, one in installed.items() if not one.held and any_match(group.hold, one.name))

    def plan(self, group: Group, files: Sequence[File], gone: Sequence[str], installed: Mapping[str, Installed]) -> Plan:
        self._whole(group, installed)
        with self._staged(files, gone) as place:
            own = [file for file in files if file.what == "source"]
            if own:
                place.update([place.sources / Path(file.path).name for file in own])
            if not self._fresh():
                place.update_all()
            words = self._words(group, installed)
            plan = place.simulate(words)
            if plan is None and not place.updated_all:
                place.update_all()
                plan = place.simulate(words)
            if plan is None:
                raise place.why_not(group)
            self._complete(group, plan, installed)
            plan.finish = sorted(name for name, one in installed.items() if not one.whole and name not in plan.touched)
            plan.downgrade = sorted(name for name, (old, new) in plan.change.items() if self.newer(old, new))
            place.measure(plan, self._sizes)
        self._plan = plan
        return plan

    def _whole(self, group: Group, installed: Mapping[str, Installed]) -> None:
        journal = [path.name for path in self.at("/var/lib/dpkg/updates").glob("[0-9]*")]
        if journal:
            raise Refusal(
                "DPKG_BROKEN",
                "dpkg was interrupted before we came (%s in /var/lib/dpkg/updates); expected none. Run `dpkg --configure -a` on the node"
                % few(sorted(journal)),
            )
        broken = sorted(name for name, one in installed.items() if not one.whole)
        others = [name for name in broken if not group.ours(installed[name].name)]
        if others:
            raise Refusal(
                "DPKG_BROKEN",
                "dpkg left %s half-installed before we came; expected a whole set of packages. Run `dpkg --configure -a` and `apt-get -f install` on the node"
                % few(others),
            )

    def _words(self, group: Group, installed: Mapping[str, Installed]) -> List[str]:
        """For apt-get install: the specs, what must follow to the same version, and what must go (`name-`)."""
        words = [spec for _name, _version, spec in group.packages]
        same = {
            name
            for name, one in installed.items()
            if any_match(group.same_version, one.name) and not of_version(one.version, group.version)
        }
        # What has the old version and is only held (nvidia-modprobe) goes along: a `>=` would leave it behind on the way back.
        old = {upstream(installed[name].version) for name in same}
        for name, one in sorted(installed.items()):
            if unwanted(group, one.name):
                words.append(name + "-")
            elif name not in group.names and (name in same or (upstream(one.version) in old and any_match(group.hold, one.name))):
                words.append(name)
        return words

    def _complete(self, group: Group, plan: Plan, installed: Mapping[str, Installed]) -> None:
        """The plan must leave nothing behind. Raises Refusal MIXED_VERSIONS or VERSION_MISSING."""
        after = {name: one.version for name, one in installed.items() if name not in plan.remove}
        after.update(plan.install)
        after.update({name: new for name, (_old, new) in plan.change.items()})
        wrong = [name for name, version, _spec in group.packages if not fits(after.get(name, ""), version) or name not in after]
        mixed = [
            "%s (%s)" % (name, version)
            for name, version in sorted(after.items())
            if any_match(group.same_version, name) and not of_version(version, group.version)
        ]
        if wrong or mixed:
            raise Refusal(
                "MIXED_VERSIONS",
                "after the transaction %s would not be at %s: the repository does not have all of it, or another pin is stronger (apt-cache policy)"
                % (few([*wrong, *mixed]), group.version or "the version asked for"),
            )

    @contextmanager
    def _staged(self, files: Sequence[File], gone: Sequence[str]) -> "Iterator[Place]":
        top = Path(tempfile.mkdtemp(prefix="burnin-apt-"))
        try:
            yield Place(self, top, files, gone)
        finally:
            shutil.rmtree(str(top), ignore_errors=True)

    # What is done

    def wait(self, timeout_s: float) -> None:
        places = [
            self.at(path)
            for path in ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock")
        ]
        node.wait_for_locks(places, timeout_s, LOCKED_REMEDY)

    def _fresh(self) -> bool:
        try:
            return 0 <= time.time() - self.at(FRESH).stat().st_mtime < FRESH_S
        except OSError:
            return False

    def prepare(self, group: Group) -> None:
        """All sources where that is due, then what could be read is what there is: a foreign source that is down is not ours to mend.

        Ours were read in the private place a moment ago; where they cannot be now, apt comes to another plan, and that is refused.
        """
        argv = ["apt-get", "-qq", "-o", "Acquire::Languages=none"]
        if self._fresh():
            self._read_own(argv)
        else:
            node.run([*argv, "update"], UPDATE_S)
            node.replace(self.at(FRESH), b"", 0o644)
        self._same(self._plan)

    def _read_own(self, argv: Sequence[str]) -> None:
        with tempfile.TemporaryDirectory(prefix="burnin-apt-") as only:
            for path in self._own:
                shutil.copy2(str(path), only)
            alone = {"Dir::Etc::sourcelist": "/dev/null", "Dir::Etc::sourceparts": only, "APT::Get::List-Cleanup": "0"}
            node.run([*argv, *(word for name, value in alone.items() for word in ("-o", "%s=%s" % (name, value))), "update"], UPDATE_S)

    def apply(self, group: Group, plan: Plan) -> None:
        argv = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "--allow-change-held-packages"]
        argv += ["-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold", "-o", "DPkg::Lock::Timeout=60"]
        argv += [] if plan.remove else ["--no-remove"]
        argv += ["--allow-downgrades"] if plan.downgrade else []
        done = node.run_to_its_end([*argv, "--", *_exactly(plan)], TRANSACTION_S)
        if done.returncode:
            self.at(FRESH).unlink(missing_ok=True)  # a file that is gone from a mirror must not be asked for again
            full = "No space left" in done.stdout + done.stderr
            raise Refusal("DISK_FULL" if full else "TRANSACTION_FAILED", "apt-get install exited %d: %s" % (done.returncode, _why(done)))

    def _same(self, plan: Plan) -> None:
        """The node's own apt must come to the plan that was judged, or between then and now something moved. Raises Refusal PLAN_CHANGED."""
        done = node.run(["apt-get", *SIMULATE, "install", "--", *_exactly(plan)], SIMULATE_S)
        now = planned(done.stdout) if done.returncode == 0 else Plan()
        if done.returncode or (now.install, now.change, set(now.remove)) != (plan.install, plan.change, set(plan.remove)):
            self.at(FRESH).unlink(missing_ok=True)
            other = sorted({*now.touched} ^ {*plan.touched} - {*plan.finish})
            raise Refusal(
                "PLAN_CHANGED",
                "what was judged is not what apt would do now (%s): the mirror or the node changed meanwhile; no package was touched. Run it again"
                % (few(other) if done.returncode == 0 else node.last_words(done)),
            )

    def hold(self, group: Group, names: Sequence[str]) -> None:
        done = node.run(["apt-mark", "-qq", "hold", "--", *names])
        if done.returncode:
            raise Refusal("NOT_HELD", "apt-mark hold: %s" % node.last_words(done))


def _why(done: Any) -> str:
    """apt's E: lines last, dpkg's own error before them: they name the package and the script."""
    if done.returncode == 124:  # a warning must not hide that it is still at work
        return str(done.stderr)
    said = [line.strip() for line in (done.stdout + "\n" + done.stderr).splitlines()]
    return " | ".join(
        [line for line in said if re.match(r"(dpkg: error|E:|W: )|.*(No space left|exit status|Error!|Bad return status)", line)][-8:]
    )[-1500:] or node.last_words(done)


def _exactly(plan: Plan) -> List[str]:
    """The plan in words for apt-get install; what is half-configured is finished by naming it."""
    exact = {**plan.install, **{name: new for name, (_old, new) in plan.change.items()}}
    return ["%s=%s" % one for one in sorted(exact.items())] + [name + "-" for name in sorted(plan.remove)] + plan.finish


def planned(said: str) -> Plan:
    """What `apt-get -s` says that it would do."""
    plan = Plan()
    for line in said.splitlines():
        come, go = INSTALL.match(line), REMOVE.match(line)
        if come and come[2]:
            plan.change[come[1]] = (come[2], come[3])
        elif come:
            plan.install[come[1]] = come[3]
        elif go:
            plan.remove[go[1]] = go[2] or ""
    for name in set(plan.remove) & {*plan.change, *plan.install}:
        del plan.remove[name]
    return plan


class Place:
    """A private apt: the node's configuration with our files in it, lists and cache of its own. dpkg's status is the node's."""

    def __init__(self, apt: Apt, top: Path, files: Sequence[File], gone: Sequence[str]) -> None:
        self.apt, self.top, self.updated_all = apt, top, False
        self.sources, self.preferences = top / "sources.list.d", top / "preferences.d"
        self.said: Any = None
        for name, own in (("sources.list.d", self.sources), ("preferences.d", self.preferences), ("lists/partial", top / "lists/partial")):
            own.mkdir(parents=True)
            if "/" not in name:
                self._copy(sorted(apt.at("/etc/apt/" + name).glob("*")), own, gone)
        (top / "archives/partial").mkdir(parents=True)
        (top / "apt.conf").write_text(NO_HOOKS)
        self._copy(sorted(apt.at("/var/lib/apt/lists").glob("*_*")), top / "lists", ())
        keys = {}
        for file in files:
            name = Path(file.path).name
            if file.what == "key":
                (top / name).write_bytes(file.content)
                keys[str(apt.at(file.path)).encode()] = str(top / name).encode()
        for file in files:
            if file.what in ("source", "pin"):
                content = file.content
                for real, ours in keys.items():
                    content = content.replace(b"Signed-By: " + real, b"Signed-By: " + ours)
                ((self.sources if file.what == "source" else self.preferences) / Path(file.path).name).write_bytes(content)

    def _copy(self, paths: Iterable[Path], to: Path, gone: Sequence[str]) -> None:
        for path in paths:
            if path.is_file() and self.apt._told(path) not in gone:
                # A copy, never a link: what is written here must not reach the node's own file.
                shutil.copy2(str(path), str(to / path.name))

    def _options(self) -> List[str]:
        told = {
            "Dir::Etc::sourceparts": self.sources, "Dir::Etc::preferencesparts": self.preferences, "Dir::State::lists": self.top / "lists",
            "Dir::Cache::archives": self.top / "archives", "Dir::Cache::pkgcache": "", "Dir::Cache::srcpkgcache": "", "Dir::Log": self.top,
            "Acquire::Languages": "none", "APT::Sandbox::User": "root",
        }  # fmt: skip
        return ["-c", str(self.top / "apt.conf"), *(word for name, value in told.items() for word in ("-o", "%s=%s" % (name, value)))]

    def update(self, sources: Sequence[Path]) -> None:
        """Read these sources alone. Raises Refusal: KEY_WRONG or MIRROR_DOWN."""
        only = self.top / "only"
        only.mkdir()
        for path in sources:
            shutil.copy2(str(path), str(only / path.name))
        done = node.run(
            [
                "apt-get",
                *self._options(),
                "-o",
                "Dir::Etc::sourcelist=/dev/null",
                "-o",
                "Dir::Etc::sourceparts=%s" % only,
                "-o",
                "APT::Get::List-Cleanup=0",
                "-o",
                "APT::Update::Error-Mode=any",
                "-q",
                "update",
            ],
            UPDATE_S,
        )
        if done.returncode:
            said = _update_words(done)
            if KEY_TROUBLE.search(said):
                raise Refusal("KEY_WRONG", "the repository is not signed by the key that was given: %s" % said)
            raise Refusal("MIRROR_DOWN", "the repository cannot be read: %s. Is the mirror up, and does it have this distribution?" % said)

    def update_all(self) -> None:
        """Read every source; foreign ones that fail are left out."""
        self.updated_all = True
        node.run(["apt-get", *self._options(), "-q", "update"], UPDATE_S)

    def simulate(self, words: Sequence[str]) -> Any:
        """The plan, or None where apt finds none; its words stay in `said`."""
        self.said = node.run(["apt-get", *self._options(), *SIMULATE, "install", "--", *words], SIMULATE_S)
        return None if self.said.returncode else planned(self.said.stdout)

    def why_not(self, group: Group) -> Refusal:
        """What stands in the way, with what there is of each version that is missing."""
        missing = [(name, version) for name, version, _spec in group.packages if not self._has(name, version)]
        if missing or MISSING.search(self.said.stdout + self.said.stderr):
            told = ["no %s %s (there are: %s)" % (name, version, few(self._versions(name)) or "none") for name, version in missing]
            return Refusal(
                "VERSION_MISSING",
                "%s. Put a version that the mirror has into burnin_stack, or the version into the mirror"
                % ("; ".join(told) or node.last_words(self.said)),
            )
        return Refusal("DEPENDENCIES", "apt finds no way to install %s: %s" % (few(group.names), " ".join(self.said.stdout.split())[-900:]))

    def _versions(self, name: str) -> List[str]:
        done = node.run(["apt-cache", *self._options(), "madison", "--", name], SIMULATE_S)
        return list(dict.fromkeys(row.split("|")[1].strip() for row in done.stdout.splitlines() if row.count("|") >= 2))

    def _has(self, name: str, version: str) -> bool:
        return any(fits(one, version) for one in self._versions(name))

    def measure(self, plan: Plan, sizes: Mapping[str, int]) -> None:
        """What it needs on the disk. Raises Refusal DISK_FULL."""
        new = {**plan.install, **{name: new for name, (_old, new) in plan.change.items()}}
        if not new:
            return
        done = node.run(
            ["apt-cache", *self._options(), "show", "--no-all-versions", "--", *("%s=%s" % one for one in new.items())], SIMULATE_S
        )
        seen: Set[str] = set()
        for block in done.stdout.split("\n\n"):
            fields = dict(re.findall(r"^(Package|Installed-Size|Size): (\S+)", block, re.MULTILINE))
            if fields.get("Package") and fields["Package"] not in seen:
                seen.add(fields["Package"])
                plan.disk_kib += int(fields.get("Installed-Size", 0)) - sizes.get(fields["Package"], 0)
                plan.fetch_kib += int(fields.get("Size", 0)) // 1024
        usr, archives = self.apt.at("/usr"), self.apt.at("/var/cache/apt/archives")
        for path, needed in ((usr, plan.disk_kib + plan.fetch_kib), (archives, plan.fetch_kib)):
            free = node.free_kib(path)
            if needed and free < needed + SPARE_KIB:
                raise Refusal(
                    "DISK_FULL",
                    "%s has %d MiB free, %d MiB are needed. Make room (apt-get clean, old kernels) or enlarge the file system"
                    % (self.apt._told(path), free // 1024, (needed + SPARE_KIB) // 1024 + 1),
                )


def _update_words(done: Any) -> str:
    said = [line.strip() for line in (done.stdout + "\n" + done.stderr).splitlines()]
    return " | ".join(dict.fromkeys(line for line in said if line.startswith(("E:", "W:", "Err:"))))[:1200] or node.last_words(done)
