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
        told = {
            "repositories": {name: self.override(name) for name in ("cuda", "doca") if name in self.published},
            **STACK,
            **(stack or {}),
        }
        return resolve_plain(told, "debian12", "x86_64", sku, kernel_running="6.1.0-40-amd64")

    def override(self, name: str) -> dict[str, str]:
        one = self.published[name]
        return {"url": one.url(), "key_url": f"file://{one.key}", "key_sha256": one.key_sha256, "key_fingerprint": one.fingerprint}

    def environment(self) -> dict[str, str]:
        """What makes apt and dpkg those of the root."""
        root = self.apt.root
        return {"PATH": os.environ["PATH"], "APT_CONFIG": str(root / "apt.conf"), "DPKG_ADMINDIR": str(root / "var/lib/dpkg")}

    def request(
        self, group: str, /, stack: Mapping[str, Any] | None = None, *, check: bool = False, sku: str = "H100-SXM5-80GB", **more: Any
    ) -> str:
        """As Ansible hands it to the module."""
        resolution = self.resolution(stack, sku)
        arguments = {
            "group": resolution["groups"][group], "repositories": repositories(resolution, group), "manager": "apt", "lock_timeout_s": 1, **more,
            "_ansible_check_mode": check, "_ansible_diff": True,
        }  # fmt: skip
        return json.dumps({"ANSIBLE_MODULE_ARGS": arguments})

    def settle(
        self, group: str, /, stack: Mapping[str, Any] | None = None, *, check: bool = False, sku: str = "H100-SXM5-80GB", **more: Any
    ) -> dict[str, Any]:
        """The module's own answer, as Ansible would have it."""
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], input=self.request(group, stack, check=check, sku=sku, **more), env=self.environment(), check=False,
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.stdout.lstrip().startswith("{"), done.stdout + done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def well(self, group: str, /, stack: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        answer = self.settle(group, stack, **more)
        assert not answer.get("failed"), answer["msg"]
        return answer

    def refused(self, code: str, group: str, /, stack: Mapping[str, Any] | None = None, **more: Any) -> str:
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
                found[inside] = str(path.readlink())
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


def test_check_mode_on_a_virgin_node_says_what_then_happens_and_touches_nothing(node: Node) -> None:
    before = node.digest()

    told = node.well("driver", check=True)

    assert node.digest() == before
    done = node.well("driver")
    assert told["changed"] is done["changed"] is True
    for what in ("installed", "upgraded", "removed", "held", "files", "reboot_required"):
        assert told["burnin"][what] == done["burnin"][what], what
    assert [one["header"] for one in told["diff"]] == [one["header"] for one in done["diff"]]


def test_the_second_run_changes_nothing_and_does_not_even_ask_apt_although_the_mirror_moved_on(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    for group in ("driver", "nccl", "dcgm"):
        node.well(group, reboot_after=True)
    node.has("cuda", {"driver": [FIRST, LATER, NEXT], "nccl": ["2.28.3-1+cuda12.9", "2.29.2-1+cuda13.1"], "dcgm": ["4.5.2", "4.6.0"]})
    node.apt.do("apt-get", "update")
    before = node.digest()
    # An apt-get that must not be called.
    trap = node.apt.root / "trap"
    trap.write_text('#!/bin/sh\necho called >> "${0%/*}/called"\nexit 1\n')
    trap.chmod(0o755)
    monkeypatch.setattr(sys.modules[__name__], "PROGRAM", PROGRAM.replace("burnin_group.main()", TRAPPED.format(trap=str(trap))))

    for group in ("driver", "nccl", "dcgm"):
        answer = node.well(group, reboot_after=True)
        assert answer["changed"] is False, answer
        assert answer["burnin"]["reboot_required"] is False

    assert not (node.apt.root / "called").exists()
    trap.unlink()
    assert node.digest() == before


TRAPPED = """
from ansible.module_utils.burnin_group import node
real = node.run
node.run = lambda argv, *rest, **more: real([{trap!r} if argv[0] in ("apt-get", "apt-mark", "apt-cache") else argv[0], *argv[1:]], *rest, **more)
burnin_group.main()
"""


def test_a_changed_pin_is_one_transaction_up_and_down_and_held_again(node: Node) -> None:
    node.has("cuda", {"driver": [FIRST, LATER]})
    node.well("driver", reboot_after=True)
    flag = node.apt.root / "run/burnin/reboot-required.d/driver"
    flag.unlink()

    for version in (LATER, FIRST):
        log = node.apt.root / "var/log/apt/history.log"
        before = log.read_text().count("Commandline:")
        answer = node.well("driver", {"driver": {"version": version, "flavour": "open"}}, reboot_after=True)

        assert node.driver_versions() == {version}
        assert log.read_text().count("Commandline:") == before + 1, "one transaction"
        assert answer["burnin"]["reboot_required"] is True
        assert bool(answer["burnin"]["upgraded"]) is (version == LATER)
        assert bool(answer["burnin"]["downgraded"]) is (version == FIRST)
        assert version in flag.read_text()
        assert {name for name in node.apt.installed() if "nvidia" in name} <= node.apt.held()


def test_a_hold_that_somebody_released_is_set_again_without_a_transaction(node: Node) -> None:
    node.well("driver")
    node.apt.do("apt-mark", "unhold", "libnvidia-ml1", "nvidia-open")

    answer = node.well("driver", reboot_after=True)

    assert answer["changed"] is True
    assert answer["burnin"]["held"] == ["libnvidia-ml1", "nvidia-open"]
    assert answer["burnin"]["upgraded"] == answer["burnin"]["installed"] == {}
    assert answer["burnin"]["reboot_required"] is False
    assert {"libnvidia-ml1", "nvidia-open"} <= node.apt.held()


def test_one_library_that_moved_alone_comes_back_to_the_pin(node: Node) -> None:
    node.has("cuda", {"driver": [FIRST, LATER]})
    node.well("driver")
    (node.apt.root / "etc/apt/preferences.d/burnin-nvidia-driver").unlink()
    node.apt.do("apt-get", "install", "-y", "--allow-change-held-packages", f"libnvidia-ml1={LATER}-1")

    answer = node.well("driver")

    assert answer["burnin"]["downgraded"] == {"libnvidia-ml1": [f"{LATER}-1", f"{FIRST}-1"]}
    assert "/etc/apt/preferences.d/burnin-nvidia-driver" in answer["burnin"]["files"]
    assert node.driver_versions() == {FIRST}


def test_a_library_whose_version_the_mirror_lost_is_told_and_not_left_mixed(node: Node) -> None:
    node.has("cuda", {"driver": [FIRST, LATER]})
    node.well("driver")
    (node.apt.root / "etc/apt/preferences.d/burnin-nvidia-driver").unlink()
    node.apt.do("apt-get", "install", "-y", "--allow-change-held-packages", f"libnvidia-ml1={LATER}-1")
    node.has("cuda", {"driver": [LATER]})
    node.apt.do("apt-get", "update")

    message = node.refused("MIXED_VERSIONS", "driver")

    assert f"libnvidia-ml1 ({LATER}-1) would not be at {FIRST}" in message


def test_nccl_comes_as_a_pair_and_a_half_of_it_is_refused(node: Node) -> None:
    node.has("cuda", {"driver": [FIRST], "nccl": ["2.28.3-1+cuda12.9", "2.28.3-1+cuda13.0"]})
    node.well("nccl")
    assert node.apt.installed() == {"libnccl2": "2.28.3-1+cuda12.9", "libnccl-dev": "2.28.3-1+cuda12.9"}

    message = node.refused("VERSION_MISSING", "nccl", {"nccl": {"version": "2.25.1", "cuda": "12.8"}})

    assert "no libnccl2 2.25.1-1+cuda12.8 (there are: 2.28.3-1+cuda13.0, 2.28.3-1+cuda12.9)" in message
    assert "no libnccl-dev 2.25.1-1+cuda12.8" in message


def test_a_removal_that_nobody_asked_for_is_refused_until_it_is_allowed_by_name(node: Node) -> None:
    node.has("cuda", {"driver": [FIRST], "nccl": ["2.28.3-1+cuda12.9", "2.29.2-1+cuda13.1"]})
    node.apt.source("foreign", node.published["cuda"].deb822())
    node.apt.install("libnccl2=2.28.3-1+cuda12.9", "libnccl-dev=2.28.3-1+cuda12.9")
    (node.apt.root / "etc/apt/sources.list.d/foreign.sources").unlink()
    alone = {
        "packages": [{"name": "libnccl2", "version": "2.29.2-1+cuda13.1", "spec": "libnccl2=2.29.2-1+cuda13.1"}],
        "hold": [],
        "same_version": [],
    }
    # Only half of the pair is pinned to move (fact F6).
    pins = "Package: libnccl2\nPin: version 2.29.2*\nPin-Priority: 1000\n\nPackage: libnccl-dev\nPin: version 2.28.3*\nPin-Priority: 1001\n"
    group = {**node.resolution()["groups"]["nccl"], **alone, "pins": [{"path": "/etc/apt/preferences.d/burnin-nccl", "content": pins}]}

    message = node.refused("UNASKED_REMOVAL", "nccl", group=group)
    assert "would remove libnccl-dev, which nobody asked for" in message
    assert node.well("nccl", group=group, allow_remove=["^libnccl-dev$"])["burnin"]["removed"] == {"libnccl-dev": "2.28.3-1+cuda12.9"}


def test_the_old_dcgm_is_replaced_as_its_group_says_and_never_comes_instead_of_the_new(node: Node) -> None:
    node.has("cuda", {"driver": [FIRST], "dcgm": ["3.3.9", "4.5.2"]})
    node.apt.source("foreign", node.published["cuda"].deb822())
    node.apt.install("datacenter-gpu-manager")
    (node.apt.root / "etc/apt/sources.list.d/foreign.sources").unlink()

    answer = node.well("dcgm")

    assert list(answer["burnin"]["removed"]) == ["datacenter-gpu-manager"]
    assert set(answer["burnin"]["installed"].values()) == {"1:4.5.2-1"}
    # And the other way round: the bare name, asked for by another group, does not take the 4.x series away.
    bare = {"name": "other", "packages": [{"name": "datacenter-gpu-manager", "version": "", "spec": "datacenter-gpu-manager"}]}
    assert "datacenter-gpu-manager-4-core" in node.refused("UNASKED_REMOVAL", "dcgm", group=bare)


def test_a_kernel_that_a_transaction_would_bring_along_is_refused(node: Node) -> None:
    kernel = next(name for name, _version in node.published["debian"].packages if name.startswith("linux-image-6"))
    bringing = {"name": "ofed", "packages": [{"name": "linux-image-amd64", "version": "", "spec": "linux-image-amd64"}]}

    message = node.refused("KERNEL_WOULD_MOVE", "ofed", group=bringing, repositories=[])

    assert "linux-image-6" in message
    assert node.well("ofed", group=bringing, repositories=[], allow_kernel=True)["burnin"]["installed"]
    assert kernel


def test_a_kernel_pin_installs_exactly_that_kernel_and_holds_it(node: Node) -> None:
    answer = node.well("kernel", allow_kernel=True, reboot_after=True)

    assert {"linux-image-6.1.0-40-amd64", "linux-headers-6.1.0-40-amd64"} <= set(answer["burnin"]["installed"])
    assert answer["burnin"]["reboot_required"] is True
    node.apt.do("apt-get", "dist-upgrade", "-y")
    assert {name for name in node.apt.installed() if name.startswith("linux-image-6")} == {"linux-image-6.1.0-40-amd64"}


def test_the_rename_of_the_fabric_manager_at_580_is_one_transaction(node: Node) -> None:
    node.has("cuda", {"driver": ["570.172.08", FIRST]})
    node.well("driver", {"driver": {"version": "570.172.08", "flavour": "open"}})
    assert "nvidia-fabricmanager-570" in node.apt.installed()

    answer = node.well("driver")

    assert "nvidia-fabricmanager-570" in answer["burnin"]["removed"]
    assert "nvidia-fabricmanager" in answer["burnin"]["installed"]
    assert node.driver_versions() == {FIRST}


def test_the_other_flavour_replaces_the_modules_and_nothing_else(node: Node) -> None:
    node.well("driver")

    answer = node.well("driver", {"driver": {"version": FIRST, "flavour": "proprietary"}})

    assert set(answer["burnin"]["removed"]) == {"nvidia-open", "nvidia-kernel-open-dkms"}
    assert {"cuda-drivers", "nvidia-kernel-dkms"} <= set(answer["burnin"]["installed"])


@pytest.mark.parametrize(
    ("wrong", "code", "said"),
    [
        pytest.param({"key_fingerprint": "0" * 40}, "KEY_WRONG", "expected 0000", id="fingerprint"),
        pytest.param({"key_sha256": "0" * 64}, "KEY_WRONG", "sha256", id="sha256"),
        pytest.param({"key_url": "file:///nowhere/key.asc"}, "MIRROR_DOWN", "could not be fetched", id="no key"),
        pytest.param({"url": "file:///nowhere/"}, "MIRROR_DOWN", "cannot be read", id="no mirror"),
        pytest.param({"url": "http://127.0.0.1:9/"}, "MIRROR_DOWN", "cannot be read", id="mirror down"),
    ],
)
def test_a_mirror_or_key_that_is_not_right_changes_nothing(node: Node, wrong: dict[str, str], code: str, said: str) -> None:
    stack = {"repositories": {"cuda": {**node.override("cuda"), **wrong}}}

    assert said in node.refused(code, "driver", stack)


def test_a_repository_that_another_key_signs_now_is_refused(node: Node) -> None:
    override = {"repositories": {"cuda": node.override("cuda")}}
    key = Path(node.published["cuda"].key)
    kept = key.read_bytes()
    node.has("cuda", {"driver": [FIRST]}, key="stolen")
    old = key.with_name("old.asc")
    old.write_bytes(kept)
    override["repositories"]["cuda"]["key_url"] = f"file://{old}"

    assert "not signed by the key" in node.refused("KEY_WRONG", "driver", override)


def test_no_key_at_all_is_refused(node: Node, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<html>Please sign in to the proxy</html>")
    override = {**node.override("cuda"), "key_url": f"file://{tmp_path}/page.html", "key_sha256": "", "key_fingerprint": ""}

    assert "no OpenPGP public key" in node.refused("KEY_WRONG", "driver", {"repositories": {"cuda": override}})


def test_an_own_source_of_the_vendor_is_replaced_and_a_foreign_one_refused(node: Node) -> None:
    lists = node.apt.root / "etc/apt/sources.list.d"
    (lists / "cuda-debian12-x86_64.list").write_text(f"deb [signed-by=/elsewhere.gpg] {node.published['cuda'].url()} ./\n")

    answer = node.well("driver")

    assert "/etc/apt/sources.list.d/cuda-debian12-x86_64.list" in answer["burnin"]["files"]
    assert sorted(path.name for path in lists.iterdir()) == ["burnin-cuda.sources", "lab-debian.sources"]
    (lists / "site.sources").write_text(f"Types: deb\nURIs: {node.published['cuda'].url()}\nSuites: ./\n")
    message = node.refused("SOURCE_CONFLICT", "driver")
    assert "/etc/apt/sources.list.d/site.sources names file:" in message


def test_a_disabled_source_of_the_same_place_is_no_conflict(node: Node) -> None:
    (node.apt.root / "etc/apt/sources.list.d/site.sources").write_text(
        f"Types: deb\nURIs: {node.published['cuda'].url()}\nSuites: ./\nEnabled: no\n"
    )

    node.well("driver")


def test_a_lock_is_waited_for_and_then_named(node: Node) -> None:
    path = node.apt.root / "var/lib/dpkg/lock-frontend"
    holder = subprocess.Popen(
        [sys.executable, "-c", f"import fcntl,time; f=open({str(path)!r},'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); time.sleep(60)"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == "held"
    try:
        message = node.refused("LOCKED", "driver")
    finally:
        holder.kill()
        holder.wait()
    assert f"process {holder.pid} (python" in message
    assert "longer than 1 s" in message
    path.unlink()
    node.well("driver")


def test_a_dpkg_that_was_left_half_way_is_named_and_left_to_a_person(node: Node) -> None:
    node.apt.install("dkms")
    status = node.apt.root / "var/lib/dpkg/status"
    status.write_text(status.read_text().replace("Status: install ok installed", "Status: install ok half-configured"))

    message = node.refused("DPKG_BROKEN", "driver")

    assert "dkms half-installed before we came" in message
    assert "dpkg --configure -a" in message


def test_a_script_that_fails_half_way_is_told_with_what_changed_and_the_next_run_goes_on(node: Node) -> None:
    folder = node.apt.root / "usr/sbin"
    folder.mkdir(parents=True, exist_ok=True)
    node.apt.install("dkms")
    real = (folder / "dkms").read_text()
    (folder / "dkms").write_text("#!/bin/sh\necho 'Error! Bad return status for module build' >&2\nexit 10\n")

    answer = node.settle("driver")

    assert answer["failed"]
    assert answer["burnin"]["code"] == "TRANSACTION_FAILED"
    assert "Bad return status" in answer["msg"] or "exit status" in answer["msg"]
    assert "Changed until then: installed" in answer["msg"]
    assert any("half-installed" in version for version in answer["burnin"]["changed"]["installed"].values())
    (folder / "dkms").write_text(real)
    node.well("driver")
    assert node.driver_versions() == {FIRST}
    assert node.settle("driver")["changed"] is False


def test_a_disk_that_is_too_small_is_told_before_anything_is_written(node: Node, tmp_path: Path) -> None:
    usr = node.apt.root / "usr"
    usr.mkdir(exist_ok=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(usr)], capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    try:
        message = node.refused("DISK_FULL", "driver")
    finally:
        subprocess.run(["umount", str(usr)], check=True)
    assert "/usr has 1 MiB free" in message or "/usr has 0 MiB free" in message


def test_a_process_with_a_gpu_open_keeps_the_driver_where_it_is(node: Node) -> None:
    device = node.apt.root / "dev/nvidia0"
    device.parent.mkdir()
    device.touch()
    holder = subprocess.Popen(["sleep", "60"], stdin=device.open())
    try:
        message = node.refused("GPU_BUSY", "driver", busy_devices=["/dev/nvidia[0-9]*"])
        assert f"process {holder.pid} (sleep) has a GPU open" in message
        node.well("driver", busy_devices=["/dev/nvidia[0-9]*"], busy_ok=True)
        assert node.well("driver", busy_devices=["/dev/nvidia[0-9]*"])["changed"] is False, "nothing would change under it"
    finally:
        holder.kill()
        holder.wait()


def test_cuda_toolkits_stand_side_by_side_and_the_alternative_is_the_default(node: Node) -> None:
    answer = node.well("cuda", alternatives={"cuda": "/usr/local/cuda-12.9"})

    assert answer["burnin"]["alternatives"] == ["cuda -> /usr/local/cuda-12.9"]
    assert not any(name.startswith(("cuda-drivers", "nvidia-")) for name in node.apt.installed()), "a toolkit brings no driver"
    assert (node.apt.root / "etc/alternatives/cuda").readlink() == Path("/usr/local/cuda-12.9")
    assert node.well("cuda", alternatives={"cuda": "/usr/local/cuda-12.9"})["changed"] is False
    moved = node.well("cuda", alternatives={"cuda": "/usr/local/cuda-13.0"})
    assert moved["changed"] is True
    assert moved["burnin"]["installed"] == {}


def test_files_are_owned_whole_and_mended_and_removed(node: Node) -> None:
    files = [
        {"path": "/etc/modprobe.d/burnin.conf", "content": "blacklist nouveau\n", "initramfs": True},
        {"path": "/etc/nccl.conf", "content": "A=1\n", "mode": "0640"},
    ]
    (node.apt.root / "etc/old.conf").write_text("x")
    answer = node.well("nccl", files=files, absent_files=["/etc/old.conf"])

    assert {"/etc/modprobe.d/burnin.conf", "/etc/nccl.conf", "/etc/old.conf"} <= set(answer["burnin"]["files"])
    assert (node.apt.root / "etc/nccl.conf").stat().st_mode & 0o777 == 0o640
    assert not (node.apt.root / "etc/old.conf").exists()
    assert node.well("nccl", files=files, absent_files=["/etc/old.conf"])["changed"] is False
    (node.apt.root / "etc/nccl.conf").chmod(0o644)
    assert node.well("nccl", files=files)["burnin"]["files"] == ["/etc/nccl.conf"]


def test_unattended_upgrades_is_told_which_packages_to_leave(node: Node) -> None:
    node.well("driver")

    shown = node.apt.do("apt-config", "dump", "--format", "%v%n", "Unattended-Upgrade::Package-Blacklist").split()

    assert shown == node.resolution()["groups"]["driver"]["blacklist"]
