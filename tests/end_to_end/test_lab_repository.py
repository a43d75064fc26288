"""The stub repositories behave as the vendors' do: each way in which a fleet lost its pin (facts F1 to F7 of provisioning) happens with real apt.

Where a test shows a *wrong* end (a floated library, a lost hold), that is the point: a role that prevents it is tested against the same stubs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import catalogue, repository
from lab.private_apt import Apt, private_apt
from lab.repository import Published, publish
from lab.serving import served, started

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
FIRST, LATER, NEXT = "580.126.09", "580.150.02", "590.48.01"
MAKE_CPU_S = 3.0  # all repositories; half a second on a machine that does nothing else

Root = Callable[[], Apt]


def needed(kind: str) -> None:
    """Skip where root or the programs are missing; with CI=true that is a failure."""
    done = subprocess.run([str(ROOT / "tests/lab/install"), kind], check=False, capture_output=True, text=True, timeout=600)
    why = done.stderr.strip() if done.returncode else "only root can install packages, even under another root"
    if done.returncode == 0 and os.geteuid() == 0:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must have {kind}: {why}")
    pytest.skip(why)


@pytest.fixture(scope="session")
def _apt() -> None:
    needed("apt")


@pytest.fixture
def site(tmp_path: Path, _apt: None) -> Path:
    return tmp_path / "site"


@pytest.fixture
def new_root(tmp_path: Path) -> Iterator[Root]:
    made: list[Path] = []

    def make() -> Apt:
        made.append(tmp_path / f"root{len(made)}")
        return private_apt(made[-1])

    yield make
    for root in made:
        shutil.rmtree(root)


def machine(new_root: Root, site: Path, *published: Published) -> Apt:
    """A root with these sources, and the stubs of dkms and kernels."""
    apt = new_root()
    for number, one in enumerate((*published, publish(site, "debian"))):
        apt.source(f"lab{number}", one.deb822())
    return apt


def nvidia(apt: Apt) -> set[str]:
    """The driver versions that are installed, without what a packager adds."""
    ours = ("nvidia-", "libnvidia-", "libcuda", "cuda-drivers", "firmware-nvidia")
    return {version.partition("-")[0] for name, version in apt.installed().items() if name.startswith(ours)}


def driver(site: Path, *builds: str, distro: str = "debian12") -> Published:
    return publish(site, "cuda", distro, {"driver": builds})


def test_all_repositories_are_made_quickly_and_twice_the_same(site: Path) -> None:
    began = sum(os.times()[:4])
    made = [
        publish(site, name, distro)
        for name, distro in (("cuda", "debian12"), ("cuda", "ubuntu2404"), ("doca", "debian12"), ("debian", "debian12"))
    ]
    took_cpu_s = sum(os.times()[:4]) - began
    before = {path: path.read_bytes() for path in site.rglob("*.deb")}

    again = publish(site, "cuda", "debian12")

    assert took_cpu_s < MAKE_CPU_S
    assert again.packages == made[0].packages
    assert again.key_sha256 == made[0].key_sha256
    assert before == {path: path.read_bytes() for path in site.rglob("*.deb")}


def test_every_package_is_one_that_dpkg_reads(site: Path) -> None:
    for distro in ("debian12", "ubuntu2404"):
        publish(site, "cuda", distro)
    publish(site, "doca")
    files = sorted(site.rglob("*.deb"))

    done = subprocess.run(
        ["dpkg-deb", "--show", "--showformat=${Package} ${Version}\\n", *map(str, files[:1])], check=True, capture_output=True
    )
    broken = [
        file.name
        for file in files[::10]
        if subprocess.run(["dpkg-deb", "--contents", str(file)], capture_output=True, check=False).returncode
    ]

    assert len(files) > 300
    assert done.stdout
    assert broken == []


def test_what_is_not_in_the_data_file_is_refused(site: Path) -> None:
    with pytest.raises(ValueError, match=r"no driver 580\.1; there are"):
        driver(site, "580.1")


@pytest.mark.parametrize(
    ("distro", "meta", "ends"),
    [
        pytest.param("ubuntu2404", f"nvidia-open-580={FIRST}-1", LATER, id="Ubuntu: to the newest of the branch"),
        pytest.param("debian12", f"nvidia-open={FIRST}-1", NEXT, id="Debian: into the next branch, its names have none"),
    ],
)
def test_f1_a_pinned_meta_package_floats(site: Path, new_root: Root, distro: str, meta: str, ends: str) -> None:
    apt = machine(new_root, site, driver(site, FIRST, LATER, NEXT, distro=distro))

    apt.install(meta, f"nvidia-fabricmanager={FIRST}-1")

    found = apt.installed()
    library = "libnvidia-compute-580" if distro == "ubuntu2404" else "libnvidia-ml1"
    assert found[library].startswith(ends)
    assert found["nvidia-fabricmanager"] == f"{FIRST}-1"  # it is not the driver's: error 802


@pytest.mark.parametrize(
    ("name", "holds"),
    [("nvidia-580.126.09", False), ("nvidia-580-126-09", True), ("nvidia-580.126.09.pref", True)],
    ids=["a dot: ignored", "no dot: read", "a dot, but .pref: read"],
)
def test_f2_a_pin_file_with_a_dot_in_its_name_is_ignored(site: Path, new_root: Root, name: str, *, holds: bool) -> None:
    apt = machine(new_root, site, driver(site, FIRST, LATER, NEXT))
    pin = f"Package: src:*nvidia*:any src:cuda-drivers:any src:cuda-compat:any\nPin: version {FIRST}*\nPin-Priority: 1000\n"
    (apt.root / "etc/apt/preferences.d" / name).write_text(pin)

    apt.install("nvidia-open")

    assert nvidia(apt) == ({FIRST} if holds else {NEXT})


@pytest.mark.parametrize("pinning", ["nvidia-driver-pinning-580.126.09", "nvidia-driver-pinning-580"])
def test_f3_a_pinning_package_works_from_the_next_transaction_on(site: Path, new_root: Root, pinning: str) -> None:
    repository_ = driver(site, FIRST, LATER, NEXT)
    together, before = machine(new_root, site, repository_), machine(new_root, site, repository_)

    together.install(pinning, "nvidia-driver-cuda", "nvidia-kernel-open-dkms")
    before.install(pinning)
    before.install("nvidia-driver-cuda", "nvidia-kernel-open-dkms", "nvidia-fabricmanager")

    assert NEXT in nvidia(together)
    assert nvidia(before) - {"580", FIRST} == (set() if pinning.endswith(FIRST) else {LATER})


def test_f4_a_downgrade_is_refused_until_it_is_allowed(site: Path, new_root: Root) -> None:
    apt = machine(new_root, site, driver(site, FIRST, LATER))
    apt.install("nvidia-persistenced")
    (apt.root / "etc/apt/preferences.d/pin").write_text(f"Package: src:*nvidia*:any\nPin: version {FIRST}*\nPin-Priority: 1001\n")

    refused = apt.run("apt-get", "install", "-y", "nvidia-persistenced")
    after = apt.installed()["nvidia-persistenced"]
    apt.install("--allow-downgrades", "nvidia-persistenced")

    assert refused.returncode == 100
    assert "Packages were downgraded and -y was used without --allow-downgrades" in refused.stdout
    assert after == f"{LATER}-1"
    assert apt.installed()["nvidia-persistenced"] == f"{FIRST}-1"


def test_f5_a_forced_change_loses_the_hold(site: Path, new_root: Root) -> None:
    driver(site, FIRST)
    apt = machine(new_root, site, driver(site, FIRST))
    apt.install("nvidia-persistenced")
    apt.do("apt-mark", "hold", "nvidia-persistenced")
    driver(site, FIRST, LATER)
    apt.do("apt-get", "update")

    kept = apt.do("apt-get", "dist-upgrade", "-y")
    refused = apt.run("apt-get", "install", "-y", f"nvidia-persistenced={LATER}-1")
    held_before = apt.held()
    apt.install("--allow-change-held-packages", f"nvidia-persistenced={LATER}-1")
    held_after = apt.held()
    driver(site, FIRST, LATER, NEXT)
    apt.do("apt-get", "update")
    apt.do("apt-get", "dist-upgrade", "-y")

    assert "have been kept back" in kept
    assert "Held packages were changed and -y was used without --allow-change-held-packages" in refused.stdout
    assert held_before == {"nvidia-persistenced"}
    assert held_after == set()
    assert apt.installed()["nvidia-persistenced"] == f"{NEXT}-1"


def test_f6_moving_libnccl2_alone_removes_libnccl_dev(site: Path, new_root: Root) -> None:
    old, new = "2.27.7-1+cuda12.9", "2.28.3-1+cuda12.9"
    apt = machine(new_root, site, publish(site, "cuda", "debian12", {"nccl": catalogue.builds("cuda")["nccl"]}))
    apt.install(f"libnccl2={old}", f"libnccl-dev={old}")

    forbidden = apt.run("apt-get", "install", "-y", "--no-remove", f"libnccl2={new}")
    apt.install(f"libnccl2={new}")

    assert forbidden.returncode == 100
    assert apt.installed() == {"libnccl2": new}


def test_unpinned_nccl_takes_the_highest_cuda(site: Path, new_root: Root) -> None:
    apt = machine(new_root, site, publish(site, "cuda", "debian12", {"nccl": ("2.28.3-1+cuda12.9", "2.28.3-1+cuda13.0")}))

    apt.install("libnccl2")

    assert apt.installed()["libnccl2"] == "2.28.3-1+cuda13.0"


def test_f7_a_glob_that_the_installed_version_fits_does_not_move_it_and_an_unknown_one_fails(site: Path, new_root: Root) -> None:
    apt = machine(new_root, site, driver(site, FIRST, LATER))
    apt.install(f"nvidia-persistenced={FIRST}-1")
    moved = apt.run("apt-get", "install", "--simulate", "nvidia-persistenced=580.*")
    absent = apt.run("apt-get", "install", "--simulate", "nvidia-persistenced=535.*")

    # apt itself takes the newest that fits; that ansible's apt module does not is the module's own doing (F7), tried in the roles' scenarios.
    assert f"Inst nvidia-persistenced [{FIRST}-1] ({LATER}-1" in moved.stdout
    assert absent.returncode == 100
    assert "Version '535.*' for 'nvidia-persistenced' was not found" in absent.stdout


def test_a_version_of_a_virtual_package_is_never_found(site: Path, new_root: Root) -> None:
    apt = machine(new_root, site, driver(site, "570.172.08", FIRST))

    virtual = apt.run("apt-get", "install", "-y", f"nvidia-fabricmanager-580={FIRST}-1")
    apt.install("nvidia-fabricmanager-570=570.172.08-1")
    apt.install("nvidia-fabricmanager")

    assert virtual.returncode == 100
    assert f"Version '{FIRST}-1' for 'nvidia-fabricmanager-580' was not found" in virtual.stdout
    assert {name for name in apt.installed() if "fabricmanager" in name} == {"nvidia-fabricmanager"}


def test_on_ubuntu_the_branch_590_moves_some_and_when_asked_takes_the_names_of_580_away(site: Path, new_root: Root) -> None:
    apt = machine(new_root, site, driver(site, FIRST, distro="ubuntu2404"))
    apt.install("nvidia-open")
    driver(site, FIRST, NEXT, distro="ubuntu2404")
    apt.do("apt-get", "update")

    apt.do("apt-get", "dist-upgrade", "-y")
    torn = apt.installed()
    apt.install("nvidia-open")
    renamed = apt.installed()

    # What has no branch in its name moves on alone, the rest is kept back: two branches on one machine.
    assert (torn["nvidia-persistenced"], torn["libnvidia-compute-580"]) == (f"{NEXT}-1ubuntu1", f"{FIRST}-0ubuntu1")
    assert renamed["libnvidia-compute"] == f"{NEXT}-0ubuntu1"
    assert {"libnvidia-compute-580", "nvidia-utils-580", "nvidia-dkms-580-open"} & set(renamed) == set()


def test_cuda_brings_a_driver_and_cuda_toolkit_does_not(site: Path, new_root: Root) -> None:
    repository_ = publish(site, "cuda")
    trap, right = machine(new_root, site, repository_), machine(new_root, site, repository_)

    trap.install("cuda-13-0")
    right.install("cuda-toolkit-12-9", "cuda-toolkit-13-0")

    assert "nvidia-kernel-dkms" in trap.installed()
    assert nvidia(right) == set()
    assert (right.root / "etc/alternatives/cuda").readlink() == Path("/usr/local/cuda-13.0")


def test_the_bare_name_of_dcgm_removes_the_new_one(site: Path, new_root: Root) -> None:
    apt = machine(new_root, site, publish(site, "cuda"))
    apt.install("datacenter-gpu-manager-4-cuda13=1:4.5.2-1", "datacenter-gpu-manager-4-core=1:4.5.2-1")

    apt.install("datacenter-gpu-manager")

    assert apt.installed() == {"datacenter-gpu-manager": "1:3.3.9"}


def test_modules_are_built_for_every_kernel_with_headers_and_their_failure_fails_apt(site: Path, new_root: Root) -> None:
    apt = machine(new_root, site, driver(site, FIRST))
    kernels = ("6.1.0-40-amd64", "6.1.0-41-amd64")
    dkms = ("env", f"DPKG_ROOT={apt.root}", str(apt.root / "usr/sbin/dkms"), "status")
    apt.install(f"linux-image-{kernels[0]}", f"linux-headers-{kernels[0]}", "nvidia-kernel-open-dkms")

    first = apt.do(*dkms)
    apt.install(f"linux-headers-{kernels[1]}", f"linux-image-{kernels[1]}")
    both = apt.do(*dkms)
    (apt.root / "etc/burnin-lab").mkdir()
    (apt.root / "etc/burnin-lab/dkms-fail").write_text(f"{kernels[1]}\n")
    driver(site, LATER)
    apt.do("apt-get", "update")
    failed = apt.run("apt-get", "install", "-y", "nvidia-kernel-open-dkms")

    assert first.splitlines() == [f"nvidia/{FIRST}, {kernels[0]}, x86_64: installed"]
    assert both.splitlines() == [f"nvidia/{FIRST}, {kernel}, x86_64: installed" for kernel in kernels]
    assert failed.returncode == 100
    assert f"Bad return status for module build on kernel: {kernels[1]} (x86_64)" in failed.stdout
    assert (apt.root / f"var/lib/dkms/nvidia/{LATER}/{kernels[0]}/x86_64/module/nvidia.ko").exists()


def test_doca_brings_a_dkms_of_its_own_unless_it_is_pinned_away(site: Path, new_root: Root) -> None:
    doca = publish(site, "doca", "debian12", {"doca": ("3.1.0", "3.2.1")})
    trap, right = machine(new_root, site, doca), machine(new_root, site, doca)
    (right.root / "etc/apt/preferences.d/doca").write_text("Package: dkms\nPin: release l=DOCA-HOST*\nPin-Priority: -1\n")

    trap.install("doca-ofed=3.1.0-091000")
    right.install("doca-ofed")

    assert trap.installed()["dkms"].startswith("1:3.2.0")
    assert trap.installed()["mlnx-ofed-kernel-dkms"].startswith("25.10")  # the meta package floats here too
    assert right.installed()["dkms"].startswith("3.0.10")
    said = subprocess.run([str(right.root / "usr/bin/ofed_info"), "-s"], check=True, capture_output=True, text=True).stdout
    assert said == "OFED-internal-25.10-1.7.1:\n"


def test_another_key_is_refused(site: Path, new_root: Root) -> None:
    good = driver(site, FIRST)
    apt = machine(new_root, site, good)
    kept = apt.root / "etc/apt/kept.asc"
    kept.write_bytes(good.key.read_bytes())
    (apt.root / "etc/apt/sources.list.d/lab0.sources").write_text(good.deb822(signed_by=kept))
    apt.do("apt-get", "update")

    bad = publish(site, "cuda", "debian12", {"driver": [LATER]}, key="stolen")
    refused = apt.run("apt-get", "-o", "APT::Update::Error-Mode=any", "update")

    assert bad.fingerprint != good.fingerprint
    assert refused.returncode == 100
    assert "NO_PUBKEY" in refused.stdout


def test_a_package_that_was_changed_on_the_way_is_refused(site: Path, new_root: Root) -> None:
    one = driver(site, FIRST)
    apt = machine(new_root, site, one)
    deb = one.folder / f"pool/nvidia-persistenced_{FIRST}-1_amd64.deb"
    changed = bytearray(deb.read_bytes())
    changed[-5] ^= 1
    deb.write_bytes(changed)

    refused = apt.run("apt-get", "install", "-y", "nvidia-persistenced")

    assert refused.returncode == 100
    assert "Hash Sum mismatch" in refused.stdout
    assert apt.installed() == {}


@pytest.mark.parametrize(
    ("names", "says"), [(("Packages", "Packages.gz"), "Hash Sum mismatch"), (("InRelease",), "BADSIG")], ids=["the list", "what is signed"]
)
def test_a_list_that_was_changed_after_it_was_signed_is_refused(site: Path, new_root: Root, names: tuple[str, ...], says: str) -> None:
    one = driver(site, FIRST)
    apt = new_root()
    for name in names:
        (one.folder / name).write_bytes((one.folder / name).read_bytes().replace(b"NVIDIA", b"MVIDIA").replace(b"nvidia", b"mvidia"))
    (apt.root / "etc/apt/sources.list.d/lab.sources").write_text(one.deb822())

    refused = apt.run("apt-get", "update")

    assert refused.returncode == 100
    assert says in refused.stdout


def test_over_http_a_repository_moves_on_and_a_secret_key_is_not_served(site: Path, new_root: Root) -> None:
    one = driver(site, FIRST)
    apt = new_root()
    with served(site) as url:
        apt.source("lab", one.deb822(site=url))
        apt.install("nvidia-persistenced")
        before = apt.installed()["nvidia-persistenced"]
        driver(site, FIRST, LATER)
        apt.do("apt-get", "update")
        apt.do("apt-get", "dist-upgrade", "-y")
        secret = apt.run("/usr/lib/apt/apt-helper", "download-file", f"{url}/{repository.KEYS}/cuda.asc", str(apt.root / "secret"))

    assert (site / repository.KEYS / "cuda.asc").exists()
    assert before == f"{FIRST}-1"
    assert apt.installed()["nvidia-persistenced"] == f"{LATER}-1"
    assert secret.returncode != 0


def test_a_server_of_its_own_ends_by_itself(site: Path, tmp_path: Path) -> None:
    driver(site, FIRST)
    seconds = 2.0

    url, pid = started(site, "127.0.0.1", seconds, tmp_path / "log")
    os.waitpid(pid, 0)  # a hang would be pytest's to end

    assert url.startswith("http://127.0.0.1:")
