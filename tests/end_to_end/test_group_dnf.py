"""burnin_group with dnf: the groups that the stack really comes to, over Debian's dnf 4 and rpm on a root of its own with stub RPMs.

What it cannot show: an EL system's own packages, scriptlets, dracut, systemd; dnf of another version (EL 9 has 4.14 as well, EL 10 4.20).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab import dnf_node, rpms
from lab.dnf_node import FIRST, LATER, NEXT, OLD, ROOT, Node, Place, Refusal, System, core, dnf_ask

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dnf_node.site(tmp_path_factory)


@pytest.fixture
def node(tmp_path: Path, site: Path) -> Iterator[Node]:
    yield Node(tmp_path / "root", site)


def test_the_pinned_one_of_three_versions_and_nothing_else_afterwards(node: Node) -> None:
    node.publish(FIRST, LATER, NEXT)

    done = node.settle(node.wanted())
    after = node.versions(epochs=True)
    upgraded = node.dnf.do("upgrade")
    again = node.settle(node.wanted())

    assert set(node.versions().values()) == {FIRST}
    assert {
        "nvidia-open",
        "nvidia-driver",
        "nvidia-persistenced",
        "nvidia-fabricmanager",
        "libnvidia-nscq",
        "kmod-nvidia-open-dkms",
    } <= set(after)
    assert after["nvidia-open"] == f"3:{FIRST}-1.el9"
    assert done["installed"] == after
    assert node.versions(epochs=True) == after, upgraded
    assert not again["changed"], again


def test_check_mode_on_a_virgin_root_tells_the_same_and_changes_nothing(node: Node) -> None:
    node.publish(FIRST, LATER)
    before = {**node.state(), **times()}

    told = node.settle(node.wanted(), check=True)
    untouched = {**node.state(), **times()}
    done = node.settle(node.wanted())

    assert untouched == before
    assert told["changed"]
    assert told["installed"] == done["installed"]
    assert {"/etc/yum.repos.d/burnin-cuda.repo", "/etc/pki/rpm-gpg/RPM-GPG-KEY-burnin-cuda"} <= set(told["files"])


def times() -> dict[str, str]:
    """What dnf and its plugins might write outside of the root, and what we might leave behind."""
    files = (file for place in ("/var/cache/dnf", "/var/lib/dnf", "/etc/dnf") for file in Path(place).rglob("*") if file.is_file())
    left = [str(path) for path in Path("/var/tmp").glob("burnin-dnf-*")]
    return {**{str(file): str(file.stat().st_mtime_ns) for file in files}, "left": str(left)}


def test_a_second_run_asks_dnf_nothing_even_where_the_stream_has_a_newer_build(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """B03: a rolling module stream."""
    node.publish(FIRST)
    node.settle(node.wanted())
    node.publish(FIRST, LATER)
    monkeypatch.setattr(core.node, "run", watched(core.node.run, said := []))

    again = node.settle(node.wanted())

    assert not again["changed"], again
    assert {Path(argv[0]).name for argv in said} == {"rpm"}
    assert again["seconds"] < 0.5 * patience()
    assert set(node.versions().values()) == {FIRST}


def watched(run: Any, said: list[Sequence[str]]) -> Any:
    def call(argv: Sequence[str], *more: Any, **named: Any) -> Any:
        said.append(argv)
        return run(argv, *more, **named)

    return call


def patience() -> float:
    """How much slower than asked this machine may be while others work on it."""
    return max(1.0, os.getloadavg()[0])


def test_a_new_pin_is_one_change_with_the_whole_set(node: Node) -> None:
    node.publish(FIRST, LATER)
    node.settle(node.wanted())

    done = node.settle(node.wanted(LATER, reboot_after=True))

    assert set(node.versions().values()) == {LATER}
    assert set(done["upgraded"]) == set(node.versions())
    assert done["reboot_required"]
    assert not node.settle(node.wanted(LATER))["changed"]


def test_a_pin_back_takes_the_whole_set_back(node: Node) -> None:
    node.publish(FIRST, LATER)
    node.settle(node.wanted(LATER))

    done = node.settle(node.wanted(FIRST))

    assert set(node.versions().values()) == {FIRST}
    assert set(done["downgraded"]) == set(node.versions())
    assert not node.settle(node.wanted(FIRST))["changed"]


def test_what_somebody_installed_of_the_set_follows_and_is_held(node: Node) -> None:
    node.publish(FIRST, LATER, streams=False)
    node.by_hand("nvidia-fabric-manager-devel")

    done = node.settle(node.wanted())
    node.dnf.do("upgrade")

    assert done["downgraded"] == {"nvidia-fabric-manager-devel": [f"0:{LATER}-1", f"0:{FIRST}-1"]}
    assert done["held"] == ["nvidia-fabric-manager-devel"]
    assert set(node.versions().values()) == {FIRST}
    assert not node.settle(node.wanted())["changed"]


def test_another_branch_is_another_stream_and_at_580_fabric_manager_is_renamed(node: Node) -> None:
    node.publish(OLD, FIRST, LATER)
    node.settle(node.wanted(OLD))
    before = node.versions()

    done = node.settle(node.wanted(FIRST))
    after = node.versions()
    node.dnf.do("upgrade")

    assert {"nvidia-fabric-manager", "libnvidia-nscq-570"} <= set(before)
    assert set(done["removed"]) == {"nvidia-fabric-manager", "libnvidia-nscq-570"}
    assert after["nvidia-fabricmanager"] == after["libnvidia-nscq"] == FIRST
    assert set(after.values()) == {FIRST}
    assert node.versions() == after
    assert [(one["before"].count("570-open"), one["after"].count("580-open")) for one in done["diff"] if "modules.d" in one["header"]] == [
        (1, 1)
    ]
    assert "/etc/dnf/modules.d/nvidia-driver.module" in done["files"]
    assert not node.settle(node.wanted(FIRST))["changed"]


def test_dnf_automatic_moves_nothing_of_it_and_without_the_locks_it_does(node: Node) -> None:
    node.publish(FIRST)
    node.settle(node.wanted())
    node.publish(FIRST, LATER)

    node.automatic()
    held = node.versions()
    node.locks.write_text("")
    node.automatic()

    assert set(held.values()) == {FIRST}
    assert set(node.versions().values()) == {LATER}


def test_the_other_flavour_goes_in_the_same_transaction(node: Node) -> None:
    node.publish(FIRST, LATER, streams=False)
    node.by_hand(f"cuda-drivers-0:{FIRST}-1.el9", f"kmod-nvidia-latest-dkms-3:{FIRST}-1.el9")
    before = node.dnf.installed()

    done = node.settle(node.wanted())

    assert {"cuda-drivers", "kmod-nvidia-latest-dkms"} <= set(before)
    assert set(done["removed"]) == {"cuda-drivers", "kmod-nvidia-latest-dkms"}
    assert set(node.versions().values()) == {FIRST}
    assert "kmod-nvidia-open-dkms" in node.versions()


def test_a_group_that_holds_nothing_leaves_no_lock_list(node: Node) -> None:
    node.publish(FIRST)
    node.locks.unlink()
    wanted = node.wanted(group="kernel")
    nothing = replace(wanted, group=replace(wanted.group, hold=(), locks=(), excludes={}))

    assert not node.settle(nothing)["changed"]
    assert not node.locks.exists()


def test_packages_that_change_meanwhile_are_told_before_anything_is_done(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.publish(FIRST, streams=False)
    wanted, waited = node.wanted(), System.holders
    file = node.published.folder / f"nvidia-persistenced-{FIRST}-1.el9.x86_64.rpm" if node.published else Path()

    looks: list[int] = []

    def meanwhile(system: System) -> list[str]:
        looks.append(1)
        if len(looks) == 1:  # before the plan: that is looked at again after the wait
            return waited(system)
        subprocess.run(["rpm", f"--root={node.root}", "-i", "--nosignature", "--replacepkgs", str(file)], check=True)
        return waited(system)

    monkeypatch.setattr(System, "holders", meanwhile)

    with pytest.raises(core.Failed) as caught:
        core.settle(node.manager(), wanted, check=False)

    assert caught.value.code == "PLAN_CHANGED"
    assert f"nvidia-persistenced-3:{FIRST}-1.el9" in caught.value.message
    assert not caught.value.changed["files"]


def test_without_module_streams_as_on_el_10(node: Node) -> None:
    node.publish(FIRST, LATER, NEXT, streams=False)

    node.settle(node.wanted(distro="rhel10"))
    node.dnf.do("upgrade")

    assert set(node.versions().values()) == {FIRST}
    assert not (node.root / "etc/dnf/modules.d/nvidia-driver.module").exists()


def test_a_mirror_that_lost_the_modules_is_no_trouble(node: Node) -> None:
    node.publish(FIRST, LATER, streams=False)

    node.settle(node.wanted())
    node.dnf.do("upgrade")

    assert set(node.versions().values()) == {FIRST}
    assert not node.settle(node.wanted())["changed"]


def test_lines_of_others_in_the_lock_list_stay(node: Node) -> None:
    node.publish(FIRST, LATER)
    node.locks.write_text("# the site's\nvim-enhanced-2:8.2*\n")

    node.settle(node.wanted())
    with node.locks.open("a") as file:
        file.write("emacs-1:27*\n")
    node.settle(node.wanted(LATER))

    assert node.locks.read_text().startswith("# the site's\nvim-enhanced-2:8.2*\n")
    assert "\nemacs-1:27*\n" in node.locks.read_text()


def test_nccl_is_held_to_its_build(node: Node) -> None:
    node.publish(nccl=rpms.builds()["nccl"])
    nccl: dict[str, Any] = {"cuda": {"toolkits": ["12.9.1"], "default": "12.9.1"}, "nccl": {"version": "2.28.3", "cuda": "12.9"}}

    done = node.settle(node.wanted(group="nccl", **nccl))
    node.dnf.do("upgrade")

    assert done["installed"] == {"libnccl": "0:2.28.3-1+cuda12.9", "libnccl-devel": "0:2.28.3-1+cuda12.9"}
    assert node.versions(epochs=True) == done["installed"]
    assert not node.settle(node.wanted(group="nccl", **nccl))["changed"]


def test_a_kernel_on_hold_stays_where_it_is(node: Node) -> None:
    older, newer = rpms.builds()["kernel"]
    node.publish(kernel=[older])
    node.by_hand("kernel")
    before = node.versions(epochs=True)
    node.dnf.source(node.publish(kernel=[older, newer]))

    node.settle(node.wanted(group="kernel"))
    node.dnf.do("upgrade")

    assert node.versions(epochs=True) == before
    assert not node.settle(node.wanted(group="kernel"))["changed"]


def test_with_the_kernel_on_hold_nobody_s_package_brings_one(node: Node) -> None:
    node.dnf.source(node.publish(kernel=rpms.builds()["kernel"]))

    node.settle(node.wanted(group="kernel"))
    told = node.dnf.run("install", "kernel")

    assert told.returncode == 1
    assert "filtered out by exclude filtering" in told.stdout
    assert node.versions() == {}


def test_a_pinned_kernel_comes_beside_the_old_one(node: Node) -> None:
    older, newer = rpms.builds()["kernel"]
    node.publish(kernel=[older])
    node.by_hand("kernel", "kernel-devel")
    node.dnf.source(node.publish(kernel=[older, newer]))
    wanted = node.wanted(group="kernel", kernel={"rhel9": newer}, allow_kernel=True, reboot_after=True)
    stubs = tuple(one for one in wanted.group.packages if "modules" not in one[0])
    wanted = replace(wanted, group=replace(wanted.group, packages=stubs))

    done = node.settle(wanted)
    before = node.state()
    node.dnf.do("upgrade")

    assert set(done["installed"]) == {"kernel", "kernel-core", "kernel-devel"}
    assert not done["removed"]
    assert done["reboot_required"]
    assert node.kernels() == [older, newer]
    assert {name for name in before if "burnin-lab" in name} == {name for name in node.state() if "burnin-lab" in name}
    assert not node.settle(wanted)["changed"]


def test_the_plugin_comes_with_the_first_transaction_which_is_exact_without_it(
    node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    node.publish(FIRST, LATER, NEXT)
    unlocked_source(node, tmp_path / "base", "python3-dnf-plugin-versionlock")
    monkeypatch.setattr(System, "has_versionlock", lambda system: "python3-dnf-plugin-versionlock" in node.dnf.installed())
    asked, none = dnf_ask.resolver(), '[] if ask["action"] != "upgrade" else'
    for old, new in (("enable_plugins=[", f"enable_plugins={none} ["), ('["show_leaves"]', '["show_leaves", "versionlock"]')):
        assert old in asked
        asked = asked.replace(old, new)
    monkeypatch.setattr(dnf_ask, "resolver", lambda: asked)

    done = node.settle(node.wanted())

    assert done["installed"].pop("python3-dnf-plugin-versionlock") == "0:1-1"
    assert {evr.partition(":")[2].partition("-")[0] for evr in done["installed"].values()} == {FIRST}
    assert not node.settle(node.wanted())["changed"]


def unlocked_source(node: Node, folder: Path, name: str, evr: tuple[str, str, str] = ("0", "1", "1")) -> None:
    """A repository of the distribution's with one package, which is empty."""
    folder.mkdir()
    spec = folder / "stub.spec"
    told = {"Name": name, **dict(zip(("Epoch", "Version", "Release"), evr, strict=True)), "Summary": "stub", "License": "none"}
    spec.write_text("\n".join([*(f"{key}: {value}" for key, value in told.items()), "%description", "stub", "%files", ""]))
    subprocess.run(
        ["rpmbuild", "--quiet", "-bb", "--define", f"_rpmdir {folder}", "--define", f"_topdir {folder}/top", str(spec)], check=True
    )
    subprocess.run(["createrepo_c", "--quiet", str(folder)], check=True)
    (node.root / "etc/yum.repos.d/base.repo").write_text(f"[base]\nname=base\nbaseurl=file://{folder}/\ngpgcheck=0\n")


def test_what_must_not_be_there_goes(node: Node, tmp_path: Path) -> None:
    node.publish(FIRST)
    unlocked_source(node, tmp_path / "base", "nvidia-driver-pinning-570")
    node.dnf.do("install", "nvidia-driver-pinning-570")

    done = node.settle(node.wanted())

    assert done["removed"] == {"nvidia-driver-pinning-570": "0:1-1"}
    assert "nvidia-driver-pinning-570" not in node.versions()


def test_a_rebuild_of_the_pinned_version_is_no_reason_to_touch_what_is_there(node: Node, tmp_path: Path) -> None:
    node.publish(FIRST, streams=False)
    node.settle(node.wanted())
    unlocked_source(node, tmp_path / "base", "nvidia-persistenced", ("3", FIRST, "2.el9"))
    subprocess.run(["rpm", f"--root={node.root}", "-e", "libnvidia-nscq"], check=True)

    done = node.settle(node.wanted())

    assert done["installed"] == {"libnvidia-nscq": f"0:{FIRST}-1"}
    assert done["upgraded"] == {}
    assert node.versions(epochs=True)["nvidia-persistenced"] == f"3:{FIRST}-1.el9"


def test_a_lock_that_holds_nothing_is_found_out(node: Node) -> None:
    """What `dnf upgrade` would do is asked of dnf, not of the list."""
    node.publish(FIRST)
    node.settle(node.wanted())
    node.publish(FIRST, LATER)
    (node.root / "etc/pki/rpm-gpg/RPM-GPG-KEY-burnin-cuda").unlink()
    manager = node.manager()
    manager._list = lambda group, whole: ""  # type: ignore[method-assign]

    with pytest.raises(core.Failed) as caught:
        core.settle(manager, node.wanted(), check=False)

    assert caught.value.code == "NOT_HELD"
    assert "`dnf upgrade` would still move" in caught.value.message
    assert "/etc/pki/rpm-gpg/RPM-GPG-KEY-burnin-cuda" in caught.value.changed["files"]


def test_a_transaction_that_breaks_tells_what_changed_and_what_was_held_stays_held(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.publish(FIRST, LATER, streams=False)
    node.by_hand("nvidia-fabric-manager-devel")
    node.settle(node.wanted())
    asked = Place.ask

    def breaks(place: Place, action: str, *more: Any, **named: Any) -> Any:
        if action == "apply":
            raise Refusal("TRANSACTION_FAILED", "a scriptlet failed")
        return asked(place, action, *more, **named)

    monkeypatch.setattr(Place, "ask", breaks)

    with pytest.raises(core.Failed) as caught:
        core.settle(node.manager(), node.wanted(LATER), check=False)

    assert caught.value.code == "TRANSACTION_FAILED"
    assert caught.value.changed["files"] == ["/etc/dnf/plugins/versionlock.list"]
    assert not caught.value.changed["changed"]
    assert any(line.startswith("nvidia-fabric-manager-devel-") for line in node.locks.read_text().splitlines())


def test_excludes_of_ofed_are_in_the_file_of_cuda(node: Node) -> None:
    node.publish(FIRST)
    ofed: dict[str, Any] = {"ofed": {"kind": "doca", "version": "3.2.1"}}
    wanted = node.wanted(group="ofed", **ofed)
    node.settle(replace(wanted, group=replace(wanted.group, packages=(), locks=()), repositories=()))

    node.settle(node.wanted(**ofed))

    assert "\nexcludepkgs=mft* kernel-mft*\n" in (node.root / "etc/yum.repos.d/burnin-cuda.repo").read_text()
    assert not node.settle(node.wanted(**ofed))["changed"]


def test_through_ansible_with_the_module_packed_as_on_a_node(node: Node) -> None:
    node.publish(FIRST, LATER)
    found = node.resolution()
    driver = found["groups"]["driver"]
    arguments = {
        "group": driver, "repositories": [one for one in found["repositories"] if one["source"] == "cuda"], "manager": "dnf",
        "setopt": found["setopt"], "services": [], "reboot_after": True,
    }  # fmt: skip
    environment = {
        **os.environ,
        "BURNIN_DNF_ROOT": str(node.root),
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_STDOUT_CALLBACK": "minimal",
    }
    ansible = Path(sys.executable).with_name("ansible")

    def module(*more: str) -> Any:
        argv = [
            str(ansible),
            "localhost",
            "-c",
            "local",
            "-i",
            "localhost,",
            "-m",
            "burnin_group",
            "-e",
            "ansible_python_interpreter=/usr/bin/python3",
            "-a",
            json.dumps(arguments),
            *more,
        ]
        done = subprocess.run(argv, env=environment, cwd=ROOT, check=False, capture_output=True, text=True, timeout=120)
        assert "=> {" in done.stdout, done.stdout + done.stderr
        return json.loads(done.stdout.partition("=> ")[2])

    told, done, again = module("--check"), module(), module()

    assert told["changed"], told
    assert told["burnin"]["installed"] == done["burnin"]["installed"]
    assert done["burnin"]["reboot_required"], done
    assert not again["changed"], again
    assert set(node.versions().values()) == {FIRST}
