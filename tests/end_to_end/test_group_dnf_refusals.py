"""burnin_group with dnf: what it refuses, each by name and with the node as it was. The root and its limits are test_group_dnf.py's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab import dnf_node, rpms
from lab.dnf_node import FIRST, LATER, OLD, Node, System, core

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dnf_node.site(tmp_path_factory)


@pytest.fixture
def node(tmp_path: Path, site: Path) -> Iterator[Node]:
    yield Node(tmp_path / "root", site)


def test_a_version_that_is_missing_names_those_that_are_there(node: Node) -> None:
    node.publish(FIRST, LATER)

    told = node.refused(node.wanted("580.105.08"), "VERSION_MISSING")

    assert f"there are: 3:{LATER}-1.el9, 3:{FIRST}-1.el9" in told


def test_a_stream_that_is_missing_names_those_that_are_there(node: Node) -> None:
    node.publish(OLD)

    assert "no stream 580-open of module nvidia-driver; there are: 570-dkms, 570-open" in node.refused(node.wanted(), "VERSION_MISSING")


def test_a_version_that_the_site_excludes_is_told_as_such(node: Node) -> None:
    node.publish(FIRST, LATER)
    with (node.root / "etc/dnf/dnf.conf").open("a") as file:
        file.write("excludepkgs=nvidia-persistenced\n")

    assert "hidden by an excludepkgs, a versionlock or a module stream" in node.refused(node.wanted(), "EXCLUDED")


@pytest.mark.parametrize("line", [f"nvidia-persistenced-3:{LATER}-*", "nvidia-pers*", f"nvidia-open-{LATER}"])
def test_a_line_of_somebody_else_that_would_let_another_version_through(node: Node, line: str) -> None:
    node.publish(FIRST, LATER)
    node.locks.write_text(f"{line}\n")

    assert line in node.refused(node.wanted(), "LOCK_CONFLICT")


def test_a_removal_that_nobody_asked_for(node: Node) -> None:
    node.publish(dcgm=["3.3.9", "4.5.2"])
    node.by_hand("datacenter-gpu-manager-4-core-1:4.5.2-1")
    wanted = node.wanted(group="dcgm", dcgm={"version": "4.5.2"})
    name, spec = "datacenter-gpu-manager", "datacenter-gpu-manager-1:3.3.9-*"
    older = replace(wanted, group=replace(wanted.group, packages=((name, "1:3.3.9-*", spec),), absent=(), same_version=(), locks=()))

    assert "would remove datacenter-gpu-manager-4-core" in node.refused(older, "UNASKED_REMOVAL")  # B06


def test_a_kernel_that_a_package_drags_in(node: Node) -> None:
    older, newer = rpms.builds()["kernel"]
    node.publish(kernel=[older, newer])
    wanted = node.wanted(group="kernel", kernel={"rhel9": newer})
    dragged = replace(wanted, repositories=(cuda(node),))

    assert "5.14.0-570.62.1.el9_6" not in node.versions().values()
    told = node.refused(
        replace(dragged, group=replace(dragged.group, packages=(("kernel-metapackage", "", "kernel"),))), "KERNEL_WOULD_MOVE"
    )
    assert "kernel-core" in told  # B05


def cuda(node: Node) -> Mapping[str, Any]:
    return next(one for one in node.resolution()["repositories"] if one["source"] == "cuda")


def test_a_mirror_that_is_down(node: Node) -> None:
    published = node.publish(FIRST)
    wanted = node.wanted()
    (published.folder / "repodata/repomd.xml").unlink()

    assert "burnin-cuda" in node.refused(wanted, "MIRROR_DOWN")


def test_a_foreign_mirror_that_is_down_is_not_our_affair(node: Node) -> None:
    node.publish(FIRST)
    (node.root / "etc/yum.repos.d/other.repo").write_text("[other]\nname=other\nbaseurl=file:///nowhere/\nskip_if_unavailable=0\n")

    assert node.settle(node.wanted())["changed"]


def test_a_key_that_is_another(node: Node) -> None:
    node.publish(FIRST)

    told = node.refused(node.wanted(source={"key_fingerprint": "0" * 40}), "KEY_WRONG")

    assert "expected 0000" in told


def test_packages_that_another_key_signed(node: Node, tmp_path: Path) -> None:
    good = node.publish(FIRST)
    key = tmp_path / "good.asc"
    key.write_bytes(good.key.read_bytes())
    rpms.publish(node.site, {"driver": [FIRST]}, streams=True, key="stolen")

    told = node.refused(node.wanted(source={"key_url": f"file://{key}", "key_fingerprint": good.fingerprint}), "KEY_WRONG")

    assert "is not signed by the key that was given" in told


def test_a_package_that_was_changed(node: Node) -> None:
    published = node.publish(FIRST)
    file = published.folder / f"nvidia-persistenced-{FIRST}-1.el9.x86_64.rpm"
    whole = bytearray(file.read_bytes())
    whole[-1] ^= 1
    file.unlink()  # not the kept one, to which it is linked
    file.write_bytes(whole)

    node.refused(node.wanted(), "DOWNLOAD_FAILED")


def test_a_disk_that_is_full(node: Node) -> None:
    node.publish(FIRST)
    limit = node.root / "usr"
    limit.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=2", "tmpfs", str(limit)], check=True)
    try:
        told = node.refused(node.wanted(), "DISK_FULL")
    finally:
        subprocess.run(["umount", str(limit)], check=True)

    assert "filesystem" in told


def test_somebody_who_holds_rpm_is_named(node: Node) -> None:
    node.publish(FIRST)
    base = subprocess.run(["rpm", "--eval", "%{_dbpath}"], check=True, capture_output=True, text=True).stdout.strip()
    lock = node.root / base.lstrip("/") / ".rpm.lock"
    holder = held_by(f"import fcntl,time\nf=open({str(lock)!r},'w')\nfcntl.lockf(f, fcntl.LOCK_EX)\n")
    try:
        told = node.refused(node.wanted(), "LOCKED")
    finally:
        holder.kill()
        holder.wait()

    assert f"process {holder.pid} (python" in told


def test_a_dnf_that_works_is_waited_for(node: Node) -> None:
    node.publish(FIRST)
    pid = node.root / "var/lib/dnf/rpmdb_lock.pid"
    pid.parent.mkdir(parents=True, exist_ok=True)
    holder = held_by(f"import os,time\nopen({str(pid)!r},'w').write(str(os.getpid()))\n")
    try:
        told = node.refused(node.wanted(), "LOCKED")
    finally:
        holder.kill()
        holder.wait()

    assert f"process {holder.pid} (python" in told
    assert node.settle(node.wanted())["changed"]  # the file is still there, its process is not


def test_a_dnf_that_begins_between_our_look_and_the_transaction_is_not_waited_for_unseen(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.publish(FIRST)
    monkeypatch.setattr(System, "holders", lambda system: [])
    pid = node.root / "var/lib/dnf/rpmdb_lock.pid"
    pid.parent.mkdir(parents=True, exist_ok=True)
    holder = held_by(f"import os,time\nopen({str(pid)!r},'w').write(str(os.getpid()))\n")
    try:
        with pytest.raises(core.Failed) as caught:
            core.settle(node.manager(), node.wanted(), check=False)
    finally:
        holder.kill()
        holder.wait()

    assert caught.value.code == "LOCKED"
    assert str(holder.pid) in caught.value.message
    assert not caught.value.changed["installed"]
    assert node.settle(node.wanted())["changed"]


def held_by(code: str) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", code + "print('held', flush=True)\ntime.sleep(60)\n"], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_two_versions_at_once_are_no_ground_to_build_on(node: Node) -> None:
    published = node.publish(FIRST, LATER)
    for version in (FIRST, LATER):
        file = published.folder / f"nvidia-persistenced-{version}-1.el9.x86_64.rpm"
        subprocess.run(["rpm", f"--root={node.root}", "-i", "--force", "--nodeps", "--nosignature", str(file)], check=True)

    assert f"nvidia-persistenced.x86_64 (3:{FIRST}-1.el9 and 3:{LATER}-1.el9)" in node.refused(node.wanted(), "RPMDB_DUPLICATES")


def test_an_rpm_database_that_is_broken(node: Node) -> None:
    node.publish(FIRST)
    base = subprocess.run(["rpm", "--eval", "%{_dbpath}"], check=True, capture_output=True, text=True).stdout.strip()
    for file in (node.root / base.lstrip("/")).glob("rpmdb.sqlite*"):
        file.write_bytes(b"no database")

    assert "rpm database cannot be read" in node.refused(node.wanted(), "RPMDB_BROKEN")


def test_another_owner_of_the_same_repository(node: Node) -> None:
    published = node.publish(FIRST)
    node.dnf.source(published)

    assert "/etc/yum.repos.d/cuda.repo names file://" in node.refused(node.wanted(), "SOURCE_CONFLICT")


def test_a_file_that_ours_replaces_goes(node: Node) -> None:
    published = node.publish(FIRST)
    theirs = node.root / "etc/yum.repos.d/cuda-rhel9.repo"
    theirs.write_text(published.repo())

    done = node.settle(node.wanted())

    assert "/etc/yum.repos.d/cuda-rhel9.repo" in done["files"]
    assert not theirs.exists()


@pytest.mark.parametrize("where", ["dnf.conf", "plugins/versionlock.conf"])
def test_locks_that_the_site_turned_off(node: Node, where: str) -> None:
    node.publish(FIRST)
    file = node.root / "etc/dnf" / where
    file.write_text(file.read_text().replace("plugins=1", "plugins=0").replace("enabled=1", "enabled=0"))

    assert "so nothing can be held" in node.refused(node.wanted(), "NOT_HELD")
