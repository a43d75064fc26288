"""What dnf would do, and does, asked of its own Python: this text is run by the interpreter that the node's dnf has, not by Ansible's.

A question is one JSON object on stdin, the answer one on stdout; dnf's own talk goes to stderr. Nothing of it is parsed: dnf's tables wrap with the
terminal and follow the language. Everything dnf writes (metadata, history, logs) is below folders that the question names.
"""

from __future__ import annotations

import fnmatch
import json
import os
import sys
from collections.abc import Iterable
from typing import Any

import dnf
import dnf.module.module_base
import dnf.subject
import dnf.yum.rpmtrans
import hawkey

Answer = dict[str, Any]
FORMS = [hawkey.FORM_NEVRA, hawkey.FORM_NEVR, hawkey.FORM_NEV, hawkey.FORM_NA, hawkey.FORM_NAME]
LISTED = 12  # versions told of a package whose pinned version is missing


class Cannot(Exception):
    """What stands in the way, by one of the module's codes."""

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.answer = {"code": code, "message": message, **details}


def opened(ask: Answer) -> dnf.Base:
    """dnf over the node's dnf.conf with the folders of the question, repositories read and loaded. Raises Cannot where a mirror is down."""
    conf = dnf.conf.Conf()
    conf.installroot = ask["root"]
    conf.read(ask["config"])
    for name in ("reposdir", "pluginconfpath"):
        setattr(conf, name, [ask[name]])
    for name in ("cachedir", "logdir"):
        setattr(conf, name, ask[name])
    if ask.get("persistdir"):
        conf.persistdir = ask["persistdir"]
    elif ask["root"] != "/":
        conf.prepend_installroot("persistdir")
    conf.exit_on_lock, conf.assumeyes, conf.keepcache = True, True, True
    conf.clean_requirements_on_remove, conf.installonly_limit = False, 0  # nothing goes that was not asked to
    conf.substitutions.update_from_etc(ask["root"], varsdir=conf.varsdir)
    release = dnf.rpm.detect_releasever(ask["root"])  # $releasever_major follows from it by itself
    if release is not None:
        conf.substitutions["releasever"] = release
    base = dnf.Base(conf)
    options(conf, ask["setopt"], None)
    if ask["action"] == "apply":
        base.init_plugins(disabled_glob=["show_leaves"])  # it asks for the command line
    else:  # one of them writes a cache for the shell below /var, another the repositories of a subscription
        base.init_plugins(disabled_glob=["*"], enable_plugins=["versionlock"])
    base.pre_configure_plugins()
    base.read_all_repos()
    for repo in base.repos.all():
        options(repo, ask["setopt"], repo.id)
        repo.retries = min(repo.retries or 2, 2)
        repo.timeout = min(repo.timeout or 30, 30)
        repo.excludepkgs = [*repo.excludepkgs, *(one for part, some in ask["excludes"].items() if same_repo(part, repo.id) for one in some)]
        if repo.id in ask["ours"]:
            repo.metadata_expire = 1 if ask["fresh"] else -1
        repo.skip_if_unavailable = repo.id not in ask["ours"]  # a foreign one that is down is not our affair, unless it is needed
    base.configure_plugins()
    try:
        base.fill_sack()
    except dnf.exceptions.RepoError as error:
        raise Cannot("MIRROR_DOWN", str(error)) from error
    return base


def options(target: Any, setopt: Iterable[str], repo: Any) -> None:
    """`--setopt`'s words: `name=value` is for dnf, `repo.name=value` for each repository that the glob `repo` fits."""
    for one in setopt:
        name, _sep, value = one.partition("=")
        part, dot, option = name.rpartition(".")
        if bool(dot) == (repo is not None) and (repo is None or fnmatch.fnmatchcase(repo, part)):
            target._set_value(option, value, dnf.conf.PRIO_COMMANDLINE)


def same_repo(part: str, repo: str) -> bool:
    """baseos is Rocky's baseos, Red Hat's rhel-9-for-x86_64-baseos-rpms and Oracle's ol9_baseos_latest."""
    return part == repo or part in repo.replace("_", "-").split("-")


def lock(base: dnf.Base, locks: Iterable[str]) -> None:
    """What dnf's plugin versionlock makes of such lines, for a node where the plugin comes with this very transaction."""
    for line in locks:
        sack = base.sack
        if line.startswith("!"):
            query = versions(base, line[1:])
        else:
            named = {nevra.name for nevra in possible(line) if sack.query().filterm(name__glob=nevra.name)}
            query = (
                sack.query().filterm(name__glob=sorted(named)).difference(versions(base, line))
                if named
                else sack.query().filterm(empty=True)
            )
        query.filterm(reponame__neq=hawkey.SYSTEM_REPO_NAME)
        if query:
            sack.add_excludes(query)


def possible(line: str) -> list[Any]:
    return list(dnf.subject.Subject(line).get_nevra_possibilities(forms=FORMS))


def versions(base: dnf.Base, line: str, **flags: Any) -> Any:
    """The packages that a line with a version fits, in the repositories and on the node."""
    for nevra in possible(line):
        query = base.sack.query(**flags)
        wanted = {"name": nevra.name, "version": nevra.version, "release": nevra.release, "arch": nevra.arch}
        for field, value in wanted.items():
            if value is not None:
                query.filterm(**{field + "__glob": value})
        if nevra.epoch is not None:
            query.filterm(epoch=nevra.epoch)
        if query:
            return query
    return base.sack.query().filterm(empty=True)


def evr(package: Any) -> str:
    return f"{package.epoch}:{package.version}-{package.release}"


def streams(base: dnf.Base, wanted: Iterable[str]) -> list[str]:
    """Enable each `module:stream`, also in place of another stream. Returns those that no repository knows at all. Raises Cannot for a stream of a known module."""
    modules, unknown = dnf.module.module_base.ModuleBase(base), []
    for spec in wanted:
        name, _sep, stream = spec.partition(":")
        there = sorted({one.getStream() for one in modules.get_modules(name)[0]})
        if not there:
            unknown.append(spec)
            continue
        if stream not in there:
            raise Cannot("VERSION_MISSING", "there is no stream {} of module {}; there are: {}".format(stream, name, ", ".join(there)))
        try:  # without a reset: only dnf's command line refuses to go from one stream to another
            modules.enable([spec])
        except dnf.exceptions.Error as error:
            raise Cannot("DEPENDENCIES", f"module {spec} cannot be enabled: {error}") from error
    return unknown


def best(base: dnf.Base, query: Any, arches: Iterable[str] = ()) -> Any:
    """The newest of the query that a repository has, of an architecture that fits; None where there is none."""
    fitting = [*arches] or [base.conf.substitutions["basearch"], base.conf.substitutions["arch"], "noarch"]
    found = sorted(query.filter(reponame__neq=hawkey.SYSTEM_REPO_NAME, arch=fitting))
    return found[-1] if found else None


def mark(base: dnf.Base, ask: Answer) -> None:
    """Tell dnf what is wanted. Raises Cannot with everything that is missing."""
    missing: list[str] = []
    code = "VERSION_MISSING"
    for spec in ask["specs"]:
        if versions(base, spec).filter(reponame=hawkey.SYSTEM_REPO_NAME):
            continue  # another release of a version that is there is no reason to touch it
        found = best(base, versions(base, spec))
        if found is None:
            one, text = absent(base, spec)
            code = one if not missing else code
            missing.append(text)
        else:
            base.package_install(found)
    if missing:
        raise Cannot(code, "; ".join(missing))
    follow(base, ask)
    for name in ask["remove"]:
        base.remove(name)


def follow(base: dnf.Base, ask: Answer) -> None:
    """Installed packages that a lock names at another version go to the lock's, so that nothing of the set stays behind."""
    for line in ask["locks"]:
        names = {nevra.name for nevra in possible(line) if nevra.version is not None}
        right = {(package.name, package.arch) for package in versions(base, line).filter(reponame=hawkey.SYSTEM_REPO_NAME)}
        for package in base.sack.query().installed().filterm(name__glob=sorted(names)) if names else ():
            if package.name in ask["remove"] or (package.name, package.arch) in right:
                continue
            found = best(base, versions(base, line).filter(name=package.name), (package.arch, "noarch"))
            if found is not None:
                base.package_install(found)


def absent(base: dnf.Base, spec: str) -> tuple[str, str]:
    """Code and sentence for a version that cannot be had: what there is of that name, and whether something hides it."""
    hidden = best(base, versions(base, spec, flags=hawkey.IGNORE_EXCLUDES))
    if hidden is not None:
        return "EXCLUDED", f"{spec} is in {hidden.reponame}, but hidden by an excludepkgs, a versionlock or a module stream"
    names = [nevra.name for nevra in possible(spec) if nevra.version is not None]
    every = base.sack.query(flags=hawkey.IGNORE_EXCLUDES).filterm(reponame__neq=hawkey.SYSTEM_REPO_NAME, name=names)
    there = list(dict.fromkeys(evr(package) for package in sorted(every, reverse=True)))
    if there:
        more = f", and {len(there) - LISTED} older" if len(there) > LISTED else ""
        return "VERSION_MISSING", "there is no {}; there are: {}{}".format(spec, ", ".join(there[:LISTED]), more)
    return "VERSION_MISSING", "there is no {}, and no package of that name in {}".format(
        spec,
        ", ".join(sorted(r.id for r in base.repos.iter_enabled())),
    )


def plan(base: dnf.Base, ask: Answer) -> Answer:
    """Resolve. Packages are [name, arch, epoch:version-release, repository, KiB on disk, KiB to fetch]. Raises Cannot where nothing fits."""
    unknown = streams(base, ask["streams"])
    lock(base, ask["locks"])
    mark(base, ask)
    try:
        base.resolve(allow_erasing=True)
    except dnf.exceptions.DepsolveError as error:
        raise Cannot("DEPENDENCIES", str(error)) from error
    gone = {(package.name, package.arch): package for package in base.transaction.remove_set}
    come = sorted(base.transaction.install_set)
    return {
        "install": [row(package) for package in come],
        "remove": [row(package) for package in sorted(gone.values())],
        "unknown_streams": unknown,
    }


def row(package: Any) -> list[Any]:
    repo = package.reponame if package.reponame != hawkey.SYSTEM_REPO_NAME else ""
    return [package.name, package.arch, evr(package), repo, package.installsize // 1024, package.downloadsize // 1024 if repo else 0]


def fetch(base: dnf.Base) -> list[str]:
    """Fetch what the plan installs; the files' paths. Raises Cannot."""
    packages = sorted(base.transaction.install_set)
    try:
        base.download_packages(packages)
    except dnf.exceptions.Error as error:
        raise Cannot("DOWNLOAD_FAILED", str(error)) from error
    return [[package.localPkg(), package.reponame] for package in packages]  # type: ignore[misc]


def signed(base: dnf.Base) -> None:
    """As the dnf of the command line does it: each package against the node's keys, with its repository's own key taken in. Raises Cannot."""
    for package in sorted(base.transaction.install_set):
        result, text = base.package_signature_check(package)
        try:
            if result == 1:
                base.package_import_key(package, fullaskcb=lambda told: True)
                result = 0
        except dnf.exceptions.Error as error:
            raise Cannot("KEY_WRONG", f"{package}: {error}") from error
        if result:
            raise Cannot("KEY_WRONG", f"{package} from {package.reponame}: {text}")


class Talk(dnf.yum.rpmtrans.TransactionDisplay):  # type: ignore[misc]
    """What scriptlets and rpm complain of: dnf ends well even where a %post failed."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def error(self, message: str) -> None:
        self.said.append(str(message)[:300])


def carry_out(base: dnf.Base) -> Answer:
    """The transaction. Raises Cannot with what dnf said; whether anything changed shows the rpm database alone."""
    talk = Talk()
    try:
        base.do_transaction(display=talk)
    except dnf.exceptions.LockError as error:  # taken since we looked
        raise Cannot("LOCKED", str(error)) from error
    except dnf.exceptions.Error as error:
        code = "DISK_FULL" if "needs" in str(error) and "filesystem" in str(error) else "TRANSACTION_FAILED"
        raise Cannot(code, "; ".join([str(error).strip(), *talk.said])[:2000]) from error
    return {"said": talk.said[:20]}


def movable(ask: Answer) -> Answer:
    """What `dnf upgrade` would move now, with the node's own versionlocks."""
    base = opened(ask)
    base.upgrade_all()
    try:
        base.resolve()
    except dnf.exceptions.DepsolveError as error:
        return {"upgrade": [], "problem": str(error)[:1000]}
    return {"upgrade": [row(package) for package in sorted(base.transaction.install_set) + sorted(base.transaction.remove_set)]}


def answer(ask: Answer) -> Answer:
    """`action`: plan, test (fetch, and rpm's own test of the transaction), apply, upgrade (see movable)."""
    if ask["action"] == "upgrade":
        return movable(ask)
    base = opened(ask)
    told = plan(base, ask)
    if ask["action"] == "plan":
        return told
    expected = ask["expected"]
    if [told["install"], told["remove"]] != expected:
        now, then = ({tuple(one[:3]) for rows in plan for one in rows} for plan in ([told["install"], told["remove"]], expected))
        moved = ", ".join("-".join((name, version)) for name, _arch, version in sorted(now ^ then)[:LISTED])
        raise Cannot(
            "PLAN_CHANGED", f"the packages of the node or the repositories changed while this was going on ({moved}); run it again"
        )
    told["files"] = fetch(base) if base.transaction else []
    if ask["action"] == "test":
        base.conf.tsflags = [*base.conf.tsflags, "test"]
    else:
        signed(base)
    return {**told, **(carry_out(base) if base.transaction or ask["action"] == "apply" else {})}


def main() -> None:
    """Read the question, answer it; exit 0 unless dnf itself broke."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # scriptlets write to stdout
    try:
        told = answer(json.load(sys.stdin))
    except Cannot as cannot:
        told = {"cannot": cannot.answer}
    except (
        dnf.exceptions.Error,
        hawkey.Exception,
        RuntimeError,
        OSError,
    ) as error:  # RuntimeError is libdnf's: its history, a module's file
        told = {"cannot": {"code": "DNF_FAILED", "message": f"{type(error).__name__}: {error}"}}
    with out:
        json.dump(told, out)


if __name__ == "__main__":
    main()
