"""burnin_group with apt on a node that has lived: hooks, a strict umask, dead sources, stale lists, a full disk, runs that broke off in between.

Real apt and dpkg under a root of their own; the node and how it is asked are those of test_group_apt.py.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from burnin.stack.bridge import resolve_plain
from burnin.stack.handing import repositories
from end_to_end import test_group_apt as base
from end_to_end.test_group_apt import FIRST, LATER, NEXT, Node
from lab.private_apt import private_apt
from lab.repository import publish

pytestmark = pytest.mark.slow

_apt = base._apt  # the session's look at what this machine has
OLD = "570.172.08"
PINNED_LATER = {"driver": {"version": LATER, "flavour": "open"}}
BROKEN_BUILD = "#!/bin/sh\nprintf 'Error! \\033[31mred\\007\\n' >&2\nexit 10\n"


@pytest.fixture
def node(tmp_path: Path, _apt: None) -> Node:
    """As in test_group_apt.py: one driver at the vendor's, Debian's own stubs known to the node."""
    made = Node(private_apt(tmp_path / "root"), tmp_path / "site")
    made.has("debian")
    made.apt.source("lab-debian", made.published["debian"].deb822())
    made.has("cuda", {"driver": [FIRST], "cuda": ["12.9.1", "13.0.2"], "nccl": ["2.28.3-1+cuda12.9"], "dcgm": ["4.5.2"]})
    return made


def asked_with(monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    """Have the module's process do this first."""
    monkeypatch.setattr(base, "PROGRAM", base.PROGRAM.replace("burnin_group.main()", f"{before}\nburnin_group.main()"))


def breaks_dkms(node: Node) -> str:
    """Its build fails from now on; what it was."""
    program = node.apt.root / "usr/sbin/dkms"
    real = program.read_text()
    program.write_text(BROKEN_BUILD)
    return real


# Looking changes nothing


def test_check_mode_does_not_run_what_a_site_hangs_onto_apt_get_update(node: Node) -> None:
    hooks = {"Pre-Invoke": "before", "Post-Invoke": "after", "Post-Invoke-Success": "well"}
    lines = [f'APT::Update::{hook} {{"touch {node.apt.root}/{name}";}};\n' for hook, name in hooks.items()]
    (node.apt.root / "etc/apt/apt.conf.d/50hook").write_text("".join(lines))
    before = node.digest()

    node.well("driver", check=True)

    assert node.digest() == before


def test_check_mode_tells_the_holds_that_a_changed_pin_sets_anew(node: Node) -> None:
    node.has("cuda", {"driver": [FIRST, LATER]})
    node.well("driver")

    told = node.well("driver", PINNED_LATER, check=True)
    done = node.well("driver", PINNED_LATER)

    assert told["burnin"]["held"] == done["burnin"]["held"] != []
    assert told["burnin"]["upgraded"] == done["burnin"]["upgraded"] != {}


def test_a_converged_group_asks_dpkg_once(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.well("driver")
    calls = node.apt.root / "calls"
    asked_with(
        monkeypatch,
        "from ansible.module_utils.burnin_group import node\nreal = node.run\n"
        f"node.run = lambda argv, *rest: (open({str(calls)!r}, 'a').write(argv[0] + '\\n'), real(argv, *rest))[1]",
    )

    assert node.well("driver")["changed"] is False
    assert calls.read_text().split() == ["apt-config", "dpkg-query"]


# What is around us is not ours, and does not stop us


def test_a_strict_umask_does_not_hide_keys_and_sources_from_apts_own_user(node: Node) -> None:
    before = os.umask(0o077)
    try:
        node.well("driver")
    finally:
        os.umask(before)

    etc = node.apt.root / "etc/apt"
    assert (etc / "keyrings").stat().st_mode & 0o777 == 0o755
    assert {path.stat().st_mode & 0o777 for path in etc.rglob("*burnin-*")} == {0o644}


def test_somebody_elses_dead_source_does_not_keep_ours_from_going_on(node: Node) -> None:
    node.apt.install("dkms")
    for name, place in (("down", "http://127.0.0.1:9/"), ("gone", "file:///nowhere/")):
        (node.apt.root / f"etc/apt/sources.list.d/{name}.sources").write_text(f"Types: deb\nURIs: {place}\nSuites: ./\n")

    node.well("driver")

    assert node.driver_versions() == {FIRST}


def test_a_distribution_that_moved_on_since_the_last_update_is_read_again_before_the_plan(node: Node) -> None:
    node.has("debian", {"kernel": ["6.1.0-40-amd64"], "tools": ["1"]})
    node.apt.do("apt-get", "update")
    node.has("debian", {"kernel": ["6.1.0-41-amd64"], "tools": ["1"]})
    group = {"name": "other", "packages": [{"name": "linux-headers-amd64", "version": "", "spec": "linux-headers-amd64"}]}

    told = node.well("driver", group=group, check=True)
    done = node.well("driver", group=group)

    assert "linux-headers-6.1.0-41-amd64" in told["burnin"]["installed"]
    assert told["burnin"]["installed"] == done["burnin"]["installed"]


def test_a_mirror_that_moves_between_the_plan_and_the_transaction_is_refused_and_the_next_run_is_well(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.well("nccl", reboot_after=True)  # so that the distribution's lists count as read
    node.has("cuda", {"driver": [FIRST, LATER]})
    lists = node.apt.root / "var/lib/apt/lists"
    with monkeypatch.context() as patched:
        # The node's own lists lack what the private ones had.
        asked_with(
            patched,
            "import pathlib\nfrom ansible.module_utils.burnin_group import apt\n"
            f"apt.Apt._read_own = lambda *told: [path.unlink() for path in pathlib.Path({str(lists)!r}).glob('*Packages')]",
        )
        answer = node.settle("driver", reboot_after=True)

    assert answer["burnin"]["code"] == "PLAN_CHANGED"
    assert "no package was touched" in answer["msg"]
    assert not any("nvidia" in name for name in node.apt.installed())
    assert not (node.apt.root / "run/burnin/reboot-required.d/driver").exists()
    node.well("driver")


def test_a_daemon_that_only_looks_does_not_keep_the_driver_from_being_changed(node: Node, tmp_path: Path) -> None:
    device = node.apt.root / "dev/nvidia0"
    device.parent.mkdir()
    device.touch()
    daemon = tmp_path / "nvidia-persistenced"
    daemon.symlink_to("/bin/sleep")  # its name in /proc is that of the link
    running = subprocess.Popen([str(daemon), "60"], stdin=device.open())
    try:
        node.well("driver", busy_devices=["/dev/nvidia[0-9]*"])
    finally:
        running.kill()
        running.wait()


# Keys


def test_a_second_key_in_the_file_is_not_trusted_for_the_fingerprint_of_the_first(node: Node, tmp_path: Path) -> None:
    thief = publish(tmp_path / "thief", "cuda", chosen={"driver": [FIRST]})
    both = tmp_path / "both.asc"
    both.write_bytes(node.published["cuda"].key.read_bytes() + thief.key.read_bytes())
    override = {**node.override("cuda"), "key_url": f"file://{both}", "key_sha256": ""}

    assert "2 keys" in node.refused("KEY_WRONG", "driver", {"repositories": {"cuda": override}})


def test_a_key_that_is_huge_or_trickles_is_not_read_to_its_end(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    huge = tmp_path / "huge.asc"
    huge.write_bytes(node.published["cuda"].key.read_bytes() + b"\n" * 1_000_000)
    override = {**node.override("cuda"), "key_url": f"file://{huge}", "key_sha256": ""}

    assert "is over 1000000 bytes" in node.refused("KEY_WRONG", "driver", {"repositories": {"cuda": override}})
    asked_with(monkeypatch, "from ansible.module_utils.burnin_group import keys\nkeys.FETCH_S = -1")
    assert "took longer than -1 s" in node.refused("MIRROR_DOWN", "driver")


# Refused before anything is written


def test_an_interrupted_dpkg_is_named(node: Node) -> None:
    node.apt.install("dkms")
    # Of a package that is whole: it is the journal that tells.
    journal = next(one for one in (node.apt.root / "var/lib/dpkg/status").read_text().split("\n\n") if one.startswith("Package: dkms\n"))
    (node.apt.root / "var/lib/dpkg/updates/0000").write_text(journal + "\n")

    message = node.refused("DPKG_BROKEN", "driver")

    assert "0000 in /var/lib/dpkg/updates" in message
    assert "dpkg --configure -a" in message


def test_a_package_database_that_cannot_be_read_is_named(node: Node) -> None:
    (node.apt.root / "var/lib/dpkg/status").write_text("no status\n")

    assert "dpkg's database cannot be read" in node.refused("DPKG_BROKEN", "driver")


def test_a_node_without_apt_is_told_so(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_with(
        monkeypatch,
        "from ansible.module_utils.burnin_group import node\nreal = node.run\nnode.run = lambda argv, *rest: real(['/nowhere/' + argv[0]], *rest)",
    )

    assert "apt does not answer" in node.refused("NO_MANAGER", "driver")


def test_a_repository_cannot_write_lines_of_its_own_into_the_source(node: Node) -> None:
    (one,) = repositories(node.resolution(), "driver")
    told = {**one, "deb822": {**one["deb822"], "Suites": "./\nTrusted: yes"}}

    assert "line break" in node.refused("BAD_GROUP", "driver", repositories=[told])


def test_a_kernel_is_not_removed_by_an_allowance_that_is_too_wide(node: Node) -> None:
    node.apt.install("linux-image-6.1.0-40-amd64")
    group = {"name": "other", "packages": [{"name": "dkms", "version": "", "spec": "dkms"}], "absent": ["^linux-image-6"]}

    assert "linux-image-6.1.0-40-amd64" in node.refused("KERNEL_WOULD_MOVE", "driver", group=group, allow_remove=["linux"])


def test_no_room_for_the_private_look_is_a_full_disk_and_no_crash(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(small)], capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    asked_with(monkeypatch, f"import tempfile; tempfile.tempdir = {str(small)!r}")
    try:
        node.refused("DISK_FULL", "driver")
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_folder_where_our_file_is_to_be_is_refused(node: Node) -> None:
    (node.apt.root / "etc/nccl.conf").mkdir()

    assert "is no file" in node.refused("NOT_A_FILE", "nccl", files=[{"path": "/etc/nccl.conf", "content": "A=1\n"}])


def test_a_pattern_that_apts_configuration_cannot_hold_is_refused(node: Node) -> None:
    group: dict[str, Any] = {**node.resolution()["groups"]["nccl"], "blacklist": ['^a"b']}

    node.refused("BAD_GROUP", "nccl", group=group)


def test_a_pattern_with_a_backslash_reaches_unattended_upgrades_as_it_is(node: Node) -> None:
    node.well("nccl", group={**node.resolution()["groups"]["nccl"], "blacklist": [r"^libnccl2\.x"]})

    shown = node.apt.do("apt-config", "dump", "--format", "%v%n", "Unattended-Upgrade::Package-Blacklist")

    assert shown.split() == [r"^libnccl2\.x"]


# Broken off in between


def test_a_failure_after_the_transaction_does_not_make_the_reboot_forgotten(node: Node) -> None:
    answer = node.settle("driver", reboot_after=True, alternatives={"nowhere": "/x"})

    assert answer["burnin"]["code"] == "ALTERNATIVE_MISSING"
    assert FIRST in (node.apt.root / "run/burnin/reboot-required.d/driver").read_text()


def test_a_transaction_that_breaks_leaves_what_is_there_held_and_the_next_run_ends_it(node: Node) -> None:
    node.has("cuda", {"driver": [FIRST, LATER]})
    node.well("driver")
    held = node.apt.held()
    real = breaks_dkms(node)

    answer = node.settle("driver", PINNED_LATER, reboot_after=True)

    assert answer["burnin"]["code"] == "TRANSACTION_FAILED"
    assert node.apt.held() == held
    assert LATER in (node.apt.root / "run/burnin/reboot-required.d/driver").read_text()
    (node.apt.root / "usr/sbin/dkms").write_text(real)
    node.well("driver", PINNED_LATER)
    assert node.driver_versions() == {LATER}
    assert node.apt.held() == held


@pytest.mark.parametrize(
    ("lie", "code", "said"),
    [
        pytest.param("apt.Apt.apply = lambda *told: None", "MIXED_VERSIONS", "afterwards nvidia-open is not installed", id="a transaction that did nothing"),
        pytest.param("apt.Apt.hold = lambda *told: None", "NOT_HELD", "afterwards firmware-nvidia-gsp", id="holds that were not set"),
        pytest.param(
            "real = apt.node.run; apt.node.run = lambda argv, *rest: real(['false'] if argv[0] == 'apt-mark' else argv, *rest)",
            "NOT_HELD", "apt-mark hold: exit 1", id="an apt-mark that fails",
        ),
    ],
)  # fmt: skip
def test_what_is_true_afterwards_is_looked_at_and_not_believed(
    node: Node, monkeypatch: pytest.MonkeyPatch, lie: str, code: str, said: str
) -> None:
    asked_with(monkeypatch, f"from ansible.module_utils.burnin_group import apt\n{lie}")

    answer = node.settle("driver")

    assert answer["burnin"]["code"] == code
    assert said in answer["msg"]
    assert "Changed until then: " in answer["msg"]


def test_what_a_build_prints_does_not_act_on_the_terminal_that_shows_the_message(node: Node) -> None:
    node.apt.install("dkms")
    breaks_dkms(node)

    message = node.settle("driver")["msg"]

    assert "Error! ?[31mred?" in message
    assert message.isprintable()


def test_a_transaction_outlives_the_connection_that_began_it(node: Node) -> None:
    """ssh goes, Ansible's module dies: apt goes on in its own session, and the next run finds it at work or done."""
    node.apt.install("dkms")
    (node.apt.root / "usr/sbin/dkms").write_text('#!/bin/sh\ntouch "${DPKG_ROOT:-}/building"; sleep 3; exit 0\n')
    done = subprocess.Popen(
        [base.sys.executable, "-c", base.PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=node.environment(), start_new_session=True,
    )  # fmt: skip
    assert done.stdin is not None
    done.stdin.write(node.request("driver"))
    done.stdin.close()
    until = time.monotonic() + 90
    while not (node.apt.root / "building").exists():
        assert time.monotonic() < until
        assert done.poll() is None, done.stdout.read() if done.stdout else ""
        time.sleep(0.1)
    done.kill()
    done.wait()

    assert node.well("driver", lock_timeout_s=60)["changed"] is True, "the holds were still to be set"
    assert node.driver_versions() == {FIRST}
    assert all(status == "installed" for status in node.apt.do("dpkg-query", "-W", "-f", "${db:Status-Status}\\n").split())


# What apt would do and nobody asked for


def test_a_downgrade_that_a_foreign_package_would_be_given_is_refused_until_it_is_allowed(node: Node) -> None:
    node.has("cuda", {"driver": [FIRST, LATER]})
    node.apt.source("foreign", node.published["cuda"].deb822())
    node.apt.install(f"nvidia-kernel-support={LATER}-1")
    (node.apt.root / "etc/apt/sources.list.d/foreign.sources").unlink()
    pin = f"Package: nvidia-kernel-support firmware-nvidia-gsp\nPin: version {FIRST}*\nPin-Priority: 1001\n"
    module = {"name": "nvidia-kernel-open-dkms", "version": f"{FIRST}-*", "spec": f"nvidia-kernel-open-dkms={FIRST}-*"}
    group = {"name": "other", "packages": [module], "pins": [{"path": "/etc/apt/preferences.d/burnin-other", "content": pin}]}

    message = node.refused("UNASKED_DOWNGRADE", "driver", group=group)
    done = node.well("driver", group=group, allow_downgrade=True)

    assert f"nvidia-kernel-support ({LATER}-1 -> {FIRST}-1)" in message
    assert done["burnin"]["downgraded"] == {"nvidia-kernel-support": [f"{LATER}-1", f"{FIRST}-1"]}


class Ubuntu(Node):
    """The same, with the vendor's packages for Ubuntu 24.04."""

    def has(self, repository: str, chosen: Mapping[str, Any] | None = None, **more: Any) -> None:
        self.published[repository] = publish(self.site, repository, "ubuntu2404" if repository == "cuda" else "debian12", chosen, **more)

    def resolution(self, stack: Mapping[str, Any] | None = None, sku: str = "H100-SXM5-80GB") -> dict[str, Any]:
        told = {"repositories": {"cuda": self.override("cuda")}, "driver": {"version": FIRST, "flavour": "open"}, **(stack or {})}
        return resolve_plain(told, "ubuntu2404", "x86_64", sku, kernel_running="6.1.0-40-amd64")


def test_ubuntus_driver_packages_lose_their_branch_with_590_in_one_transaction_and_get_it_back(tmp_path: Path, _apt: None) -> None:
    node = Ubuntu(private_apt(tmp_path / "root"), tmp_path / "site")
    node.has("debian")
    node.apt.source("lab-debian", node.published["debian"].deb822())
    node.has("cuda", {"driver": [FIRST, LATER, NEXT]})
    node.well("driver")
    numbered = node.apt.installed()

    for version in (NEXT, FIRST):
        log = node.apt.root / "var/log/apt/history.log"
        before = log.read_text().count("Commandline:")
        done = node.well("driver", {"driver": {"version": version, "flavour": "open"}})
        ours = {name: one for name, one in node.apt.installed().items() if "nvidia" in name}

        assert log.read_text().count("Commandline:") == before + 1, "one transaction"
        assert {one.partition("-")[0] for one in ours.values()} == {version}
        assert any(name.endswith("-580") for name in ours) is (version == FIRST)
        assert any(name.endswith("-580") for name in done["burnin"]["removed"]) is (version == NEXT)
        assert set(ours) <= node.apt.held()
    left = set(node.apt.installed().items()) ^ set(numbered.items())
    assert left <= {("nvidia-open", f"{FIRST}-1")}, "the one name that both branches have stays, at the pin"


def test_the_way_back_over_a_rename_takes_the_later_names_away(node: Node) -> None:
    node.has("cuda", {"driver": [OLD, FIRST]})
    node.well("driver")

    done = node.well("driver", {"driver": {"version": OLD, "flavour": "open"}})

    assert {"nvidia-fabricmanager", "libnvidia-nscq"} <= set(done["burnin"]["removed"])
    assert {"nvidia-fabricmanager-570", "libnvidia-nscq-570"} <= set(node.apt.installed())
    assert node.driver_versions() == {OLD}
