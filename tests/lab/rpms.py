"""A signed dnf repository of stub RPMs, and the machine's own dnf on a root of its own. Needs root, rpmbuild, createrepo_c, dnf and gpg.

rpmbuild makes one build's packages in one run (0.3 s); they are kept under `site`, so that publishing again makes only what is new.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lab.catalogue import HERE, fill
from lab.repository import keyring

PLACE, KEPT = "compute/cuda/repos/rhel9/x86_64", ".rpms"
RELEASE = "1.el9"
RELATIONS = ("requires", "recommends", "provides", "conflicts", "obsoletes")
MODULES = "modules.yaml"


@dataclass(frozen=True, slots=True)
class Published:
    """A repository in `folder`. `key`: its public key, armored, in the folder."""

    folder: Path
    key: Path
    fingerprint: str

    def repo(self) -> str:
        """A `.repo` file; packages and metadata are both checked."""
        return f"[cuda]\nname=cuda\nbaseurl=file://{self.folder}\ngpgcheck=1\nrepo_gpgcheck=1\ngpgkey=file://{self.key}\n"


@cache
def _things() -> dict[str, Any]:
    things: dict[str, Any] = yaml.safe_load((HERE / "rpms.yaml").read_text(encoding="utf-8"))
    return things


def builds() -> dict[str, tuple[str, ...]]:
    """Thing -> all its builds."""
    return {thing: tuple(entry["builds"]) for thing, entry in _things()["things"].items()}


def publish(site: Path, chosen: Mapping[str, Sequence[str]] | None = None, *, streams: bool = False, key: str = "rpm") -> Published:
    """Make what is to be found now (thing -> builds; None = everything). `streams`: the driver is modular, as on EL 8 and 9.

    Raises ValueError for builds that rpms.yaml lacks, CalledProcessError where a tool fails.
    """
    wanted = [(thing, build) for thing, some in (builds() if chosen is None else chosen).items() for build in some]
    if missing := [f"{thing} {build}" for thing, build in wanted if build not in builds().get(thing, ())]:
        raise ValueError(f"no {', '.join(missing)}; there are {builds()}")
    folder = site / PLACE
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with keyring(site, key) as (home, fingerprint):
        with ThreadPoolExecutor(2) as pool:
            made = list(pool.map(lambda one: _kept(site, one[0], one[1], home, fingerprint), wanted))
        for file in (file for files in made for file in files):
            (folder / file.name).hardlink_to(file)
        _run("createrepo_c", "--quiet", "--simple-md-filenames", str(folder))
        if streams:
            modules = folder.parent / MODULES
            modules.write_text("".join(_streams(wanted)))
            _run("modifyrepo_c", "--mdtype=modules", str(modules), str(folder / "repodata"))
        armor = ("gpg", "--homedir", home, "--batch", "--quiet", "--yes", "--armor")
        _run(*armor, "--detach-sign", str(folder / "repodata/repomd.xml"))
        public = folder / _things()["key_file"]
        _run(*armor, "--output", str(public), "--export", fingerprint)
    return Published(folder, public, fingerprint)


def _run(*argv: str) -> str:
    return subprocess.run(argv, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120).stdout


def _kept(site: Path, thing: str, build: str, home: str, fingerprint: str) -> list[Path]:
    """The signed files of one build."""
    folder = site / KEPT / fingerprint / f"{thing}-{build}"
    if not folder.is_dir():
        work = folder.with_name(f".{folder.name}")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        spec = work / "stub.spec"
        spec.write_text(_spec(thing, build))
        own = {
            "_topdir": str(work),
            "_rpmdir": str(work),
            "_rpmfilename": "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
            "_build_id_links": "none",
        }
        own |= {"__os_install_post": "%{nil}", "debug_package": "%{nil}", "_binary_payload": "w1.gzdio"}
        _run("rpmbuild", "--quiet", "-bb", *_defined(own), str(spec))
        _run(
            "rpmsign",
            *_defined({"_gpg_name": fingerprint, "_gpg_path": home, "__gpg": shutil.which("gpg") or "gpg"}),
            "--addsign",
            *map(str, work.glob("*.rpm")),
        )
        work.rename(folder)
    return sorted(folder.glob("*.rpm"))


def _defined(macros: Mapping[str, str]) -> Iterator[str]:
    for name, value in macros.items():
        yield from ("--define", f"{name} {value}")


def _packages(thing: str, build: str) -> Iterator[dict[str, Any]]:
    branch = build.partition(".")[0]
    filled = {"v": build, "branch": branch, "suffix": build.partition("-")[2], **_things()["things"][thing]["builds"][build]}
    for package in _things()["things"][thing]["packages"]:
        if package.get("from", 0) <= int(branch) < package.get("before", int(branch) + 1):
            told = {"version": "{v}", "release": RELEASE, **package}
            yield {
                name: fill(value, filled)
                if isinstance(value, str)
                else [fill(one, filled) for one in value]
                if isinstance(value, list)
                else value
                for name, value in told.items()
            }


def _spec(thing: str, build: str) -> str:
    """One source; each package in it has a version and an epoch of its own."""
    parts = [f"Name: burnin-lab-{thing}\nVersion: 1\nRelease: 1\nSummary: stub\nLicense: none\nAutoReqProv: no\n%description\nstub\n"]
    marks = []
    for package in _packages(thing, build):
        name, mark = package["name"], f"/usr/share/burnin-lab/{package.get('mark', package['name'])}"
        lines = [
            f"%package -n {name}",
            f"Version: {package['version']}",
            f"Release: {package['release']}",
            "Summary: stub",
            "AutoReqProv: no",
        ]
        lines += [f"Epoch: {package['epoch']}"] if "epoch" in package else []
        lines += [f"{relation.capitalize()}: {one}" for relation in RELATIONS for one in package.get(relation, ())]
        parts.append("\n".join([*lines, f"%description -n {name}", "stub", f"%files -n {name}", mark, ""]))
        marks.append(f"mkdir -p %{{buildroot}}/usr/share/burnin-lab && echo {build} > %{{buildroot}}{mark}")
    return "\n".join([*parts, "%install", *marks, ""])


def _streams(wanted: Sequence[tuple[str, str]]) -> Iterator[str]:
    """One document per branch and flavour, with all that a flavour does not share taken out of the other."""
    entry = _things()["things"]["driver"]
    drivers = [build for thing, build in wanted if thing == "driver"]
    for branch in dict.fromkeys(build.partition(".")[0] for build in drivers):
        for flavour in entry["streams"]:
            others = {name for other, names in entry["streams"].items() if other != flavour for name in names}
            inside = [package for build in drivers if build.startswith(f"{branch}.") for package in _packages("driver", build)]
            artifacts = [_nevra(package) for package in inside if package["name"] not in others]
            data = {"name": "nvidia-driver", "stream": f"{branch}-{flavour}", "version": 1, "context": "lab", "arch": "x86_64"}
            data |= {"summary": "stub", "description": "stub", "license": {"module": ["MIT"]}, "artifacts": {"rpms": artifacts}}
            yield "---\n" + yaml.safe_dump({"document": "modulemd", "version": 2, "data": data}, sort_keys=False) + "...\n"


def _nevra(package: Mapping[str, Any]) -> str:
    return f"{package['name']}-{package.get('epoch', 0)}:{package['version']}-{package['release']}.x86_64"


@dataclass(frozen=True, slots=True)
class Dnf:
    """A root with RPMs in it."""

    root: Path

    def run(self, *argv: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """dnf with these words. stderr is in stdout, as a person sees it."""
        command = [
            "dnf",
            f"--config={self.root / 'etc/dnf/dnf.conf'}",
            f"--installroot={self.root}",
            "--releasever=9",
            "--refresh",
            "--assumeyes",
            *argv,
        ]
        return subprocess.run(
            command,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
        )

    def do(self, *argv: str) -> str:
        """As `run`; AssertionError with the output where it does not end well."""
        done = self.run(*argv)
        assert done.returncode == 0, f"dnf {' '.join(argv)} exited {done.returncode}:\n{done.stdout}"
        return done.stdout

    def installed(self) -> dict[str, str]:
        """Package -> epoch:version-release (epoch 0 where it has none)."""
        shown = _run("rpm", f"--root={self.root}", "-qa", "--queryformat", "%{NAME} %{EPOCHNUM}:%{VERSION}-%{RELEASE}\\n")
        return {row[0]: row[1] for row in map(str.split, shown.splitlines()) if row[0] != "gpg-pubkey"}

    def source(self, published: Published) -> None:
        (self.root / "etc/yum.repos.d/cuda.repo").write_text(published.repo())


def private_dnf(root: Path) -> Dnf:
    """Make one under `root`, an empty folder. Plugins (versionlock) read their settings there too."""
    for folder in ("etc/yum.repos.d", "etc/dnf/plugins", "etc/dnf/modules.d", "var/cache/dnf", "var/log"):
        (root / folder).mkdir(parents=True)
    own = {"reposdir": "etc/yum.repos.d", "pluginconfpath": "etc/dnf/plugins", "cachedir": "var/cache/dnf", "logdir": "var/log"}
    lines = [f"{name}={root / path}" for name, path in own.items()] + ["plugins=1", "module_platform_id=platform:el9"]
    lines += ["install_weak_deps=True", "best=True", "clean_requirements_on_remove=True"]
    (root / "etc/dnf/dnf.conf").write_text("\n".join(["[main]", *lines, ""]))
    (root / "etc/dnf/plugins/versionlock.conf").write_text(f"[main]\nenabled=1\nlocklist={root / 'etc/dnf/plugins/versionlock.list'}\n")
    (root / "etc/dnf/plugins/versionlock.list").touch()
    return Dnf(root)
