"""burnin_group on real apt and dpkg under a root of their own, against signed repositories of stub packages with the vendors' names and relations.

Each field report that it exists for (B02, B03, B05, B06, B07) and each refusal is played out; what a refusal must not do is compared byte by byte.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from burnin.stack.bridge import resolve_plain
from burnin.stack.handing import repositories
from lab.private_apt import Apt, private_apt
from lab.repository import Published, publish

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = f"""
import sys
import ansible.module_utils
ansible.module_utils.__path__.append({str(ROOT / "plugins/module_utils")!r})
sys.path.insert(0, {str(ROOT / "plugins/modules")!r})
import burnin_group
burnin_group.main()
"""
FIRST, LATER, NEXT = "580.126.09", "580.150.02", "590.48.01"
STACK = {
    "driver": {"version": FIRST, "flavour": "open"},
    "cuda": {"toolkits": ["12.9.1", "13.0.2"], "default": "12.9.1"},
    "nccl": {"version": "2.28.3", "cuda": "12.9"},
    "ofed": {"kind": "doca", "version": "3.2.1"},
    "dcgm": {"version": "4.5.2"},
    "kernel": {"debian12": "6.1.0-40-amd64"},
}


@dataclass
class Node:
    """A root with apt, and the repositories it may be told of."""

    apt: Apt
    site: Path
    published: dict[str, Published] = field(default_factory=dict)

    def has(self, repository: str, chosen: Mapping[str, Any] | None = None, **more: Any) -> None:
        """The vendor publishes (again)."""
        self.published[repository] = publish(self.site, repository, chosen=chosen, **more)

    def resolution(self, stack: Mapping[str, Any] | None = None, sku: str = "H100-SXM5-80GB") -> dict[str, Any]:
        told = {"repositories": {name: self.override(name) for name in ("cuda", "doca") if name in self.published}, **STACK, **(stack or {})}
        return resolve_plain(told, "debian12", "x86_64", sku, kernel_running="6.1.0-40-amd64")

    def override(self, name: str) -> dict[str, str]:
        one = self.published[name]
        return {"url": one.url(), "key_url": f"file://{one.key}", "key_sha256": one.key_sha256, "key_fingerprint": one.fingerprint}

    def settle(self, group: str, stack: Mapping[str, Any] | None = None, *, check: bool = False, sku: str = "H100-SXM5-80GB", **more: Any) -> dict[str, Any]:
        """The module's own answer, as Ansible would have it."""
        resolution = self.resolution(stack, sku)
        arguments = {
            "group": resolution["groups"][group], "repositories": repositories(resolution, group), "manager": "apt", "lock_timeout_s": 1, **more,
            "_ansible_check_mode": check, "_ansible_diff": True,
        }  # fmt: skip
        environment = {
            "PATH": os.environ["PATH"], "APT_CONFIG": str(self.apt.root / "apt.conf"), "DPKG_ADMINDIR": str(self.apt.root / "var/lib/dpkg"),
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}), env=environment, check=False,
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.stdout.lstrip().startswith("{"), done.stdout + done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def well(self, group: str, stack: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        answer = self.settle(group, stack, **more)
        assert not answer.get("failed"), answer["msg"]
        return answer

    def refused(self, code: str, group: str, stack: Mapping[str, Any] | None = None, **more: Any) -> str:
        """It is refused with this code, and no byte of the node has changed; its message."""
        before = self.digest()
        answer = self.settle(group, stack, **more)
        assert answer.get("failed"), answer
        assert answer["burnin"]["code"] == code, answer["msg"]
        assert "Nothing was changed." in answer["msg"]
        assert self.digest() == before
        return str(answer["msg"])

    def digest(self) -> dict[str, str]:
        """Every file of the root but apt's binary caches and logs, and lists that were fetched."""
        found = {}
        for path in sorted(self.apt.root.rglob("*")):
            inside = str(path.relative_to(self.apt.root))
            if path.is_symlink():
                found[inside] = os.readlink(path)
            elif path.is_file() and not inside.endswith(("pkgcache.bin", "/lock", "lock-frontend")):
                found[inside] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found

    def driver_versions(self) -> set[str]:
        ours = ("nvidia-", "libnvidia-", "libcuda1", "firmware-nvidia")
        return {version.partition("-")[0] for name, version in self.apt.installed().items() if name.startswith(ours)}


@pytest.fixture(scope="session")
def _apt() -> None:
    done = subprocess.run([str(ROOT / "tests/lab/install"), "apt"], check=False, capture_output=True, text=True, timeout=600)
    if done.returncode == 0 and os.geteuid() == 0:
        return
    why = done.stderr.strip() if done.returncode else "only root can install packages, even under another root"
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture
def node(tmp_path: Path, _apt: None) -> Iterator[Node]:
    """Repositories with one driver; Debian's own stubs (dkms, kernels) are known to the node already."""
    made = Node(private_apt(tmp_path / "root"), tmp_path / "site")
    made.has("debian")
    made.apt.source("lab-debian", made.published["debian"].deb822())
    made.has("cuda", {"driver": [FIRST], "cuda": ["12.9.1", "13.0.2"], "nccl": ["2.28.3-1+cuda12.9"], "dcgm": ["4.5.2"]})
    yield made


def test_a_floating_meta_package_ends_at_the_pin_and_stays_there(node: Node) -> None:
    node.has("cuda", {"driver": [FIRST, LATER, NEXT]})

    answer = node.well("driver")

    assert node.driver_versions() == {FIRST}
    assert set(answer["burnin"]["installed"]) == set(node.apt.installed()) - {"dkms"} | ({"dkms"} & set(answer["burnin"]["installed"]))
    before = node.apt.installed()
    node.apt.do("apt-get", "update")
    node.apt.do("apt-get", "dist-upgrade", "-y")
    assert node.apt.installed() == before
    assert node.apt.held() >= {name for name in before if name.startswith(("nvidia-", "libnvidia-"))}
