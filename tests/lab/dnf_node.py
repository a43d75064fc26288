"""A root with an rpm database and the machine's own dnf, what the stack comes to for it, and burnin_group over it. Needs root, and what rpms.py needs."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ansible.module_utils
import pytest

from burnin.stack.bridge import resolve_plain
from lab import rpms
from lab.rpms import Published, private_dnf

ROOT = Path(__file__).resolve().parents[2]
ansible.module_utils.__path__.append(str(ROOT / "plugins/module_utils"))
from ansible.module_utils.burnin_group import core, dnf_ask  # noqa: E402
from ansible.module_utils.burnin_group.dnf import Dnf  # noqa: E402
from ansible.module_utils.burnin_group.dnf_ask import Place, System  # noqa: E402
from ansible.module_utils.burnin_group.model import Refusal  # noqa: E402

__all__ = ["Dnf", "Node", "Place", "Refusal", "System", "core", "dnf_ask"]  # the tests import these from here: the path above comes first

OLD, FIRST, LATER, NEXT = "570.172.08", "580.126.09", "580.150.02", "590.48.01"
SKU = "H100-SXM5-80GB"


def site(factory: pytest.TempPathFactory) -> Path:
    """Where a module's stub RPMs are made, once. Skips where they cannot be."""
    done = subprocess.run([str(ROOT / "tests/lab/install"), "rpm"], check=False, capture_output=True, text=True, timeout=600)
    if done.returncode or os.geteuid():
        why = done.stderr.strip() or "only root can install packages, even under another root"
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have dnf: {why}")
        pytest.skip(why)
    return factory.mktemp("site")


class Node:
    """A root with an rpm database, and what the stack comes to for it."""

    def __init__(self, root: Path, site: Path) -> None:
        self.dnf, self.site = private_dnf(root), site
        self.root = root
        subprocess.run(["rpm", f"--root={root}", "--initdb"], check=True)
        self.published: Published | None = None

    def publish(self, *drivers: str, streams: bool = True, **things: Sequence[str]) -> Published:
        chosen = {"driver": drivers, **things} if drivers else dict(things)
        self.published = rpms.publish(self.site, chosen, streams=streams and bool(drivers))
        return self.published

    def resolution(self, version: str = FIRST, distro: str = "rhel9", **more: Any) -> dict[str, Any]:
        assert self.published is not None
        source = {
            "url": f"file://{self.published.folder}/",
            "key_url": f"file://{self.published.key}",
            "key_fingerprint": self.published.fingerprint,
            **more.pop("source", {}),
        }
        stack = {"driver": {"version": version, "flavour": "open"}, "repositories": {"cuda": source}, **more}
        return resolve_plain(stack, distro, "x86_64", SKU)

    def wanted(self, version: str = FIRST, group: str = "driver", **more: Any) -> core.Wanted:
        options = {name: more.pop(name) for name in tuple(more) if name in core.Wanted.__dataclass_fields__}
        found = self.resolution(version, **more)
        told = found["groups"][group]
        repositories = [one for one in found["repositories"] if one["source"] in told["sources"]]
        return core.wanted_of({"group": told, "repositories": repositories, "services": [], "lock_timeout_s": 0, **options})

    def manager(self) -> Dnf:
        return Dnf(["*.module_hotfixes=true", "install_weak_deps=True"], str(self.root))

    def settle(self, wanted: core.Wanted, *, check: bool = False) -> dict[str, Any]:
        done, seconds = core.timed(self.manager(), wanted, check)
        return {"changed": done.changed, "seconds": seconds, "diff": done.diff, **done.plain()}

    def refused(self, wanted: core.Wanted, code: str) -> str:
        """The sentence; the node is as it was."""
        before = self.state()
        with pytest.raises(core.Failed) as caught:
            core.settle(self.manager(), wanted, check=False)
        assert caught.value.code == code, caught.value.message
        assert not any(caught.value.changed.values()), caught.value.changed
        assert self.state() == before
        return str(caught.value.message)

    def by_hand(self, *specs: str) -> None:
        """What somebody installed before we came."""
        assert self.published is not None
        self.dnf.source(self.published)
        self.dnf.do("install", *specs)
        (self.root / "etc/yum.repos.d/cuda.repo").unlink()

    def automatic(self) -> None:
        """dnf-automatic, which has no --installroot; the program is this module of dnf's Python."""
        etc = self.root / "etc/dnf"
        places = {
            "installroot": self.root,
            "reposdir": self.root / "etc/yum.repos.d",
            "pluginconfpath": etc / "plugins",
            "persistdir": self.root / "var/lib/dnf",
        }
        places |= {"cachedir": self.root / "var/cache/automatic", "logdir": self.root / "var/log"}
        base = "\n".join(f"{name} = {path}" for name, path in places.items())
        settings = self.root / "automatic.conf"
        settings.write_text(
            "[commands]\nupgrade_type = default\ndownload_updates = yes\napply_updates = yes\nnetwork_online_timeout = 0\n"
            f"[emitters]\nemit_via = stdio\n[base]\n{base}\nmodule_platform_id = platform:el9\n"
        )
        code = "import sys, dnf.rpm, dnf.automatic.main as automatic\n"
        code += "dnf.rpm.detect_releasever = lambda root: '9'\n"  # read from this machine, which is none of EL
        code += "sys.exit(automatic.main(sys.argv[1:]))"
        done = subprocess.run(
            ["/usr/bin/python3", "-c", code, "--installupdates", str(settings)],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def state(self) -> dict[str, str]:
        """Every file, but what rpm keeps beside its database while it is open."""
        files = (path for path in sorted(self.root.rglob("*")) if path.is_file() and path.suffix not in (".pid", ".lock"))
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files if not path.name.startswith("rpmdb.sqlite-")}

    def versions(self, *, epochs: bool = False) -> dict[str, str]:
        return {name: evr if epochs else evr.partition(":")[2].rpartition("-")[0] for name, evr in self.dnf.installed().items()}

    def kernels(self) -> list[str]:
        argv = ["rpm", f"--root={self.root}", "-q", "kernel", "--queryformat", "%{VERSION}-%{RELEASE}\\n"]
        return sorted(subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split())

    @property
    def locks(self) -> Path:
        return self.root / "etc/dnf/plugins/versionlock.list"
