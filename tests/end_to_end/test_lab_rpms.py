"""Stub RPMs under real dnf (Debian's) in an installroot: pin by epoch and version, versionlock, rename, module streams, signatures.

What it cannot show: an EL system's own packages, scriptlets, and a dnf of another version (EL 9 has 4.14 as well).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import rpms
from lab.rpms import Dnf, Published, private_dnf

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
OLD, FIRST, LATER, NEXT = "570.172.08", "580.126.09", "580.150.02", "590.48.01"
COMPUTE = (
    "nvidia-driver-cuda", "nvidia-driver-cuda-libs", "libnvidia-ml", "nvidia-persistenced", "kmod-nvidia-open-dkms",
)  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests: each says anew what is published, and the RPMs are made once."""
    done = subprocess.run([str(ROOT / "tests/lab/install"), "rpm"], check=False, capture_output=True, text=True, timeout=600)
    if done.returncode or os.geteuid():
        why = done.stderr.strip() or "only root can install packages, even under another root"
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have dnf: {why}")
        pytest.skip(why)
    return tmp_path_factory.mktemp("site")


@pytest.fixture
def dnf(tmp_path: Path) -> Iterator[Dnf]:
    yield private_dnf(tmp_path / "root")


def driver(site: Path, *versions: str, streams: bool = False) -> Published:
    return rpms.publish(site, {"driver": versions}, streams=streams)


def versions(dnf: Dnf) -> set[str]:
    return set(dnf.installed().values())


def test_a_meta_package_floats_and_the_whole_set_by_epoch_does_not(site: Path, dnf: Dnf) -> None:
    dnf.source(driver(site, FIRST, LATER, NEXT))

    dnf.do("install", *(f"{name}-3:{FIRST}-1.el9" for name in COMPUTE))
    exact = versions(dnf)
    dnf.do("remove", *COMPUTE)
    dnf.do("install", f"nvidia-open-3:{FIRST}-1.el9")

    assert exact == {f"3:{FIRST}-1.el9"}
    assert versions(dnf) == {f"3:{FIRST}-1.el9", f"3:{NEXT}-1.el9"}


def test_without_its_epoch_a_version_is_another_package(site: Path, dnf: Dnf) -> None:
    dnf.source(driver(site, FIRST))

    wrong = dnf.run("install", f"nvidia-persistenced-0:{FIRST}-1.el9")

    assert wrong.returncode == 1
    assert "Unable to find a match" in wrong.stdout


def test_an_older_version_by_name_is_a_downgrade_that_nobody_asked_for(site: Path, dnf: Dnf) -> None:
    dnf.source(driver(site, FIRST, LATER))
    dnf.do("install", "nvidia-persistenced")

    said = dnf.do("install", f"nvidia-persistenced-3:{FIRST}-1.el9")

    assert "Downgraded" in said  # apt refuses this, dnf does not
    assert dnf.installed() == {"nvidia-persistenced": f"3:{FIRST}-1.el9"}


def test_versionlock_keeps_an_upgrade_and_a_meta_package_away(site: Path, dnf: Dnf) -> None:
    dnf.source(driver(site, FIRST))
    dnf.do("install", *COMPUTE)
    unlocked = dnf.installed()
    dnf.do("versionlock", "add", *COMPUTE)
    dnf.source(driver(site, FIRST, LATER, NEXT))

    dnf.do("upgrade")
    kept = dnf.installed()
    refused = dnf.run("install", "nvidia-open")
    dnf.do("versionlock", "clear")
    dnf.do("upgrade")

    assert kept == unlocked
    assert refused.returncode == 1
    assert "is filtered out by exclude filtering" in refused.stdout
    assert versions(dnf) == {f"3:{NEXT}-1.el9"}


def test_at_580_the_fabric_manager_loses_a_hyphen(site: Path, dnf: Dnf) -> None:
    dnf.source(driver(site, OLD))
    dnf.do("install", "nvidia-fabric-manager", f"libnvidia-nscq-570-{OLD}-1")
    dnf.source(driver(site, OLD, FIRST))

    by_old_name = dnf.run("install", f"nvidia-fabric-manager-{FIRST}-1")
    dnf.do("upgrade")

    assert by_old_name.returncode == 1
    assert dnf.installed() == {"nvidia-fabricmanager": f"0:{FIRST}-1", "libnvidia-nscq": f"0:{FIRST}-1"}


def test_a_stream_holds_its_branch_and_is_not_changed_by_asking_for_another(site: Path, dnf: Dnf) -> None:
    dnf.source(driver(site, FIRST, LATER, NEXT, streams=True))
    dnf.do("module", "enable", "nvidia-driver:580-open")
    dnf.do("install", "nvidia-open")

    first = versions(dnf)
    other = dnf.run("module", "enable", "nvidia-driver:590-open")
    dnf.do("module", "reset", "nvidia-driver")
    dnf.do("module", "enable", "nvidia-driver:590-open")
    dnf.do("upgrade")

    assert first == {f"3:{LATER}-1.el9"}  # the newest of its branch: a stream is no pin
    assert other.returncode == 1
    assert "It is not possible to switch enabled streams" in other.stdout
    assert versions(dnf) == {f"3:{NEXT}-1.el9"}


def test_nccl_needs_its_headers_of_the_same_build(site: Path, dnf: Dnf) -> None:
    dnf.source(rpms.publish(site, {"nccl": rpms.builds()["nccl"]}))
    dnf.do("install", "libnccl-2.28.3-1+cuda12.9", "libnccl-devel-2.28.3-1+cuda12.9")

    refused = dnf.run("install", "libnccl-2.28.3-1+cuda13.0", "libnccl-devel-2.28.3-1+cuda12.9")

    assert refused.returncode == 1
    assert "requires libnccl = 2.28.3-1+cuda12.9" in refused.stdout
    assert set(dnf.installed().values()) == {"0:2.28.3-1+cuda12.9"}


def test_another_key_and_a_changed_package_are_refused(site: Path, dnf: Dnf) -> None:
    good = driver(site, FIRST)
    dnf.source(good)
    trusted = dnf.root / "etc/trusted.asc"
    trusted.write_bytes(good.key.read_bytes())
    repo = dnf.root / "etc/yum.repos.d/cuda.repo"
    repo.write_text(good.repo().replace(str(good.key), str(trusted)))
    file = good.folder / f"nvidia-persistenced-{FIRST}-1.el9.x86_64.rpm"
    whole = bytearray(file.read_bytes())
    whole[-1] ^= 1
    file.unlink()  # not the kept one, to which it is linked
    file.write_bytes(whole)

    changed = dnf.run("install", "nvidia-persistenced")
    rpms.publish(site, {"driver": [FIRST]}, key="stolen")
    stolen = dnf.run("install", "nvidia-persistenced")

    assert changed.returncode == 1
    assert "incorrect checksum" in changed.stdout
    assert stolen.returncode == 1
    assert "repomd.xml GPG signature verification error" in stolen.stdout
    assert dnf.installed() == {}
