"""The node's dnf: where it keeps things, and the resolver asked in a private place beside it."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible.module_utils.burnin_group import dnf_files, node
from ansible.module_utils.burnin_group.model import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:  # never true: so that Ansible, which reads imports, packs the text that dnf's own Python is to run
    from ansible.module_utils.burnin_group import dnf_resolver  # noqa: F401

RESOLVER = "ansible.module_utils.burnin_group.dnf_resolver"
PLAN_S, APPLY_S = 900, 5400  # a mirror that trickles; kernel modules built in scriptlets
PLUGIN_PLACES = ("/usr/lib/python3*/site-packages/dnf-plugins", "/usr/lib/python3/dist-packages/dnf-plugins")


@dataclass
class System:
    """The dnf of one root. `program`: its first line names the interpreter that has its modules; Ansible's may be another."""

    root: Path
    program: Path = Path("/usr/bin/dnf")

    @property
    def config(self) -> Path:
        return self.root / "etc/dnf/dnf.conf"

    def at(self, path: str) -> Path:
        """A path of the node below the root, also where its settings already say it with the root."""
        return Path(path) if self.root in Path(path).parents else node.at(self.root, path)

    def folders(self, name: str, default: str) -> list[Path]:
        """A setting of dnf.conf that lists folders."""
        return [self.at(one) for one in dnf_files.setting(text(self.config), name, "").replace(",", " ").split() or [default]]

    def repositories(self) -> list[Path]:
        """The node's `.repo` files."""
        return sorted(file for folder in self.folders("reposdir", "/etc/yum.repos.d") for file in folder.glob("*.repo"))

    @property
    def plugins(self) -> Path:
        return self.folders("pluginconfpath", "/etc/dnf/plugins")[0]

    @property
    def state(self) -> Path:
        return self.folders("persistdir", "/var/lib/dnf")[0]

    @property
    def cache(self) -> Path:
        return self.folders("cachedir", "/var/cache/dnf")[0]

    @property
    def lock_list(self) -> Path:
        """versionlock's list, as the plugin's settings say."""
        told = dnf_files.setting(text(self.plugins / "versionlock.conf"), "locklist", "")
        return self.at(told or "/etc/dnf/plugins/versionlock.list")

    def may_lock(self) -> None:
        """Raises Refusal where the site turned plugins or versionlock off."""
        for file, name in ((self.config, "plugins"), (self.plugins / "versionlock.conf", "enabled")):
            if not dnf_files.true(dnf_files.setting(text(file), name, "1")):
                raise Refusal("NOT_HELD", f"{file} says {name}=0, so nothing can be held at its version; set it to 1 or take the line out")

    def has_versionlock(self) -> bool:
        """Whether the plugin is installed. It belongs to the dnf that runs, which for another root is this machine's."""
        return any(Path("/").glob(f"{place.lstrip('/')}/versionlock.py") for place in PLUGIN_PLACES)

    def interpreter(self) -> str:
        """From the first line of dnf. Raises Refusal where there is none, or a dnf that is not Python."""
        try:
            with self.program.open("rb") as file:
                words = file.readline(200).decode("ascii", "replace").lstrip("#!").split()
        except OSError as error:
            raise Refusal("NO_MANAGER", f"there is no dnf on this node ({error}); expected dnf 4, as EL 9 and 10 have it") from error
        found = [word for word in words[:2] if "python" in word and not word.startswith("-")]  # `env python3`, `python3 -s`
        if not found:
            raise Refusal("NO_MANAGER", f"{self.program} is not dnf 4, which is written in Python; expected the dnf of EL 9 or 10")
        return found[0]

    def packages(self) -> list[dnf_files.Installed]:
        """The rpm database. Raises Refusal where it cannot be read."""
        done = node.run(["rpm", "--root", str(self.root), "-qa", "--queryformat", dnf_files.QUERY])
        if done.returncode or "error:" in done.stderr:
            raise Refusal("RPMDB_BROKEN", f"the rpm database cannot be read ({node.last_words(done)}); rpmdb --rebuilddb mends an index")
        return dnf_files.installed(done.stdout)

    def holders(self) -> list[str]:
        """Who holds dnf or rpm now."""
        pids = [pid_of(self.state / "rpmdb_lock.pid"), pid_of(self.cache / "download_lock.pid"), pid_of(self.cache / "metadata_lock.pid")]
        base = node.run(["rpm", "--eval", "%{_dbpath}"]).stdout.strip() or "/var/lib/rpm"
        pids.append(node.lock_holder(self.at(base) / ".rpm.lock"))
        return [node.process(pid) for pid in dict.fromkeys(pids) if pid and pid != os.getpid()]


@dataclass
class Place:
    """A private dnf: repositories, plugins' settings, metadata, history and logs below `top`.

    `ours`: names of our repositories, looked at anew; `fresh`: until the first answer, for what follows must be about the same metadata.
    """

    dnf: System
    top: Path
    setopt: Sequence[str]
    excludes: Mapping[str, Sequence[str]]
    ours: Sequence[str]
    fresh: bool = field(default=True, init=False)

    def build(self, repositories: Mapping[Path, bytes], gone: Sequence[Path], locks: bytes) -> None:
        """`repositories`: those that we write (path on the node -> text); `gone`: those that we remove; the others are the node's own."""
        for name in ("repos", "plugins", "cache", "log", "state"):
            (self.top / name).mkdir(mode=0o700)
        for file in self.dnf.repositories():
            if file not in gone and file not in repositories:
                shutil.copy2(file, self.top / "repos" / file.name)
        for path, content in repositories.items():
            (self.top / "repos" / path.name).write_bytes(content)
        for file in self.dnf.plugins.glob("*.conf"):
            shutil.copy2(file, self.top / "plugins" / file.name)
        self.lock(locks)
        (self.top / "plugins/versionlock.conf").write_text(
            f"[main]\nenabled=1\nlocklist={self.top / 'versionlock.list'}\n", encoding="utf-8"
        )
        for file in self.dnf.state.glob("history.sqlite*"):
            shutil.copy2(file, self.top / "state" / file.name)
        self._known_metadata()

    def lock(self, content: bytes) -> None:
        """Have the private dnf lock by this list."""
        (self.top / "versionlock.list").write_bytes(content)

    def _known_metadata(self) -> None:
        """What the node has already fetched of other repositories, dated as it is: dnf itself decides whether it is too old."""
        for entry in sorted(self.dnf.cache.iterdir()) if self.dnf.cache.is_dir() else ():
            if (entry / "repodata").is_dir() and entry.name.rpartition("-")[0] not in self.ours:
                shutil.copytree(entry, self.top / "cache" / entry.name, ignore=shutil.ignore_patterns("packages"))
            elif entry.suffix in (".solv", ".solvx") and entry.stem not in self.ours:
                shutil.copy2(entry, self.top / "cache" / entry.name)

    def ask(self, action: str, timeout_s: float = PLAN_S, **more: Any) -> dict[str, Any]:
        """The resolver's answer. Raises Refusal with its code and sentence."""
        question = {
            "action": action, "root": str(self.dnf.root), "config": str(self.dnf.config), "reposdir": str(self.top / "repos"),
            "pluginconfpath": str(self.top / "plugins"), "cachedir": str(self.top / "cache"), "logdir": str(self.top / "log"),
            "persistdir": str(self.top / "state"), "setopt": list(self.setopt), "excludes": dict(self.excludes), "ours": list(self.ours),
            "fresh": self.fresh, "specs": [], "locks": [], "streams": [], "remove": [], **more,
        }  # fmt: skip
        argv, asked = [self.dnf.interpreter(), "-I", "-c", resolver()], json.dumps(question)
        # A transaction that is cut off leaves two versions of one package, or none that boots.
        done = node.run_to_its_end(argv, timeout_s, asked, apart=True) if action == "apply" else node.run(argv, timeout_s, asked)
        if done.returncode == 124 and action == "apply":
            raise Refusal("STILL_AT_WORK", done.stderr.replace(argv[0], "dnf", 1) + "; look again before the node is rebooted")
        if done.returncode == 124:
            raise Refusal("MIRROR_DOWN" if action == "plan" else "TRANSACTION_FAILED", f"dnf did not end within {timeout_s:g} s")
        try:
            told: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            raise Refusal("DNF_FAILED", f"dnf broke (exit {done.returncode}): {node.last_words(done)}") from None
        if "cannot" in told:
            raise Refusal(told["cannot"]["code"], told["cannot"]["message"])
        self.fresh = False
        return told


def resolver() -> str:
    """The text of dnf_resolver.py, from a file or from Ansible's archive."""
    spec = importlib.util.find_spec(RESOLVER)
    source = spec.loader.get_source(RESOLVER) if spec and spec.loader else None  # type: ignore[attr-defined]
    if source is None:
        raise Refusal("DNF_FAILED", f"{RESOLVER} was not sent with the module")
    return str(source)


def text(path: Path) -> str:
    """A file's text; "" where there is none."""
    return (node.read(path) or b"").decode("utf-8", "surrogateescape")


def pid_of(file: Path) -> int:
    """The living process that a pid file names; 0 where none does."""
    told = text(file).strip()
    return int(told) if told.isdigit() and Path(f"/proc/{told}").exists() else 0
