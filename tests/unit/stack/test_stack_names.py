"""Every branch from 535 to 620 x distribution x flavour x contents x hardware: the names, written out here a second time by hand."""

from __future__ import annotations

import itertools
import re

import pytest

from burnin.stack.compat import compat
from burnin.stack.distros import arch_of, distro_of
from burnin.stack.hardware import by_pci_id, hardware, known
from burnin.stack.model import DISTROS, Dcgm, Driver, Nccl, Stack
from burnin.stack.resolution import Resolution
from burnin.stack.resolving import resolve
from burnin.verdict.policy import default_policy

BRANCHES = (535, 545, 550, 555, 560, 565, 570, 575, 580, 590, 595, 610, 615, 620)
SKUS = ("H100-SXM5-80GB", "H100-PCIe-80GB", "B200-SXM-180GB", "GB200", "GH200", "V100-SXM2-16GB", "L40S", "CPU")
BASE = {
    # (family, numbered names, has nvidia-open): (full open, full proprietary, compute open, compute proprietary)
    ("ubuntu", True, False): ("nvidia-driver-B-open", "cuda-drivers-B"),
    ("ubuntu", True, True): ("nvidia-open-B", "cuda-drivers-B"),
    ("ubuntu", False, True): ("nvidia-open", "cuda-drivers"),
    ("debian", False, False): ("nvidia-kernel-open-dkms cuda-drivers", "cuda-drivers"),
    ("debian", False, True): ("nvidia-open", "cuda-drivers"),
    ("el", False, True): ("nvidia-open", "cuda-drivers"),
}
COMPUTE = {
    ("ubuntu", True): (
        "libnvidia-compute-B nvidia-dkms-B-open nvidia-compute-utils-B nvidia-utils-B",
        "libnvidia-compute-B nvidia-dkms-B nvidia-compute-utils-B nvidia-utils-B",
    ),
    ("ubuntu", False): ("libnvidia-compute nvidia-dkms-open", "libnvidia-compute nvidia-dkms"),
    ("debian", False): ("nvidia-driver-cuda nvidia-kernel-open-dkms", "nvidia-driver-cuda nvidia-kernel-dkms"),
    ("el", False): ("nvidia-driver-cuda kmod-nvidia-open-dkms", "nvidia-driver-cuda kmod-nvidia-latest-dkms"),
}
FAMILY = {name: re.sub("[0-9]", "", name).replace("rhel", "el") for name in DISTROS}


def expected(branch: int, distro: str, flavour: str, contents: str, sku: str, arch: str) -> set[str]:
    if sku == "CPU":
        return set()
    family, place = FAMILY[distro], 0 if flavour == "open" else 1
    numbered = family == "ubuntu" and branch < 590
    text = COMPUTE[family, numbered][place] if contents == "compute" else BASE[family, numbered, family == "el" or branch >= 560][place]
    names = set(text.replace("B", str(branch)).split())
    if family != "ubuntu" or branch >= 570:
        names.add("nvidia-persistenced")
    old = f"-{branch}" if branch < 580 else ""
    if sku in ("H100-SXM5-80GB", "B200-SXM-180GB"):
        names.add("nvidia-fabric-manager" if family == "el" and branch < 580 else f"nvidia-fabricmanager{'' if family == 'el' else old}")
        names.add(f"libnvidia-nscq{old}")
    if sku == "B200-SXM-180GB":
        names |= {f"libnvsdm{old}"} if branch >= 560 and arch == "x86_64" else set()
        names |= {"nvlsm", "infiniband-diags"} if branch >= 570 else set()
    if sku == "GB200" and branch >= 550:
        names.add(f"nvidia-imex{old}")
    return names


def resolved(
    branch: int, distro: str = "ubuntu2404", flavour: str = "open", contents: str = "full", sku: str = "H100-SXM5-80GB", **more: str
) -> Resolution:
    found = hardware(sku)
    version = f"{branch}.65.06"
    stack = Stack(Driver(version, flavour, contents), dcgm=Dcgm("4.4.1"), nccl=Nccl("2.28.9", "12.9"))
    return resolve(stack, distro, more.get("arch", found.arches[0]), found)


@pytest.mark.parametrize("distro", DISTROS)
@pytest.mark.parametrize("branch", BRANCHES)
def test_each_branch_has_the_names_of_its_time(branch: int, distro: str) -> None:
    tried = 0
    for flavour, contents, sku in itertools.product(("open", "proprietary"), ("full", "compute"), SKUS):
        for arch in hardware(sku).arches:
            made = resolved(branch, distro, flavour, contents, sku, arch=arch).group("driver")
            tried += 1
            case = (flavour, contents, sku, arch)

            assert set(made.names) == expected(branch, distro, flavour, contents, sku, arch), case
            assert len(made.names) == len(set(made.names)), case
            for package in made.packages:
                free = package.name in ("nvlsm", "infiniband-diags")
                assert (f"{branch}.65.06-*" in package.spec) is not free, case

    assert tried == 2 * 2 * (len(SKUS) + 3)  # H100-PCIe, L40S and CPU come with both architectures


def test_the_table_knows_every_branch_we_promise() -> None:
    assert tuple(compat().branches) == BRANCHES


@pytest.mark.parametrize(
    ("branch", "name", "gone"),
    [
        pytest.param(575, "nvidia-fabricmanager-575", "nvidia-fabricmanager", id="575: fabric manager is numbered"),
        pytest.param(580, "nvidia-fabricmanager", "nvidia-fabricmanager-580", id="580: the numbered fabric manager is only virtual"),
        pytest.param(580, "nvidia-open-580", "nvidia-open", id="580: the driver still carries its branch on Ubuntu"),
        pytest.param(590, "nvidia-open", "nvidia-open-590", id="590: the branch has left the names on Ubuntu"),
    ],
)
def test_both_sides_of_each_rename(branch: int, name: str, gone: str) -> None:
    names = resolved(branch).group("driver").names

    assert name in names
    assert gone not in names


def test_el_packages_carry_epoch_3_and_come_from_the_branch_stream() -> None:
    group = resolved(610, "rhel9").group("driver")

    assert "nvidia-open-3:610.65.06-*" in [package.spec for package in group.packages]
    assert group.module_streams == ("nvidia-driver:610-open",)
    assert "libnvidia-ml-3:610.65.06-*" in group.locks
    assert resolved(580, "rhel9", "proprietary").group("driver").module_streams == ("nvidia-driver:580-dkms",)


def test_el_10_has_no_module_streams() -> None:
    made = resolved(610, "rhel10")

    assert made.group("driver").module_streams == ()
    assert made.setopt == ("install_weak_deps=True",)


@pytest.mark.parametrize(("branch", "cuda"), [(535, "12"), (575, "12"), (580, "13"), (620, "13")])
def test_dcgm_follows_the_cuda_of_the_driver(branch: int, cuda: str) -> None:
    specs = [package.spec for package in resolved(branch).group("dcgm").packages]

    assert f"datacenter-gpu-manager-4-cuda{cuda}=1:4.4.1-*" in specs
    assert len(specs) == 4
    assert not any(spec.startswith("datacenter-gpu-manager=") for spec in specs)


def test_v100_has_dcgm_for_both_cudas() -> None:
    names = resolved(580, flavour="proprietary", sku="V100-SXM2-16GB").group("dcgm").names

    assert {"datacenter-gpu-manager-4-cuda12", "datacenter-gpu-manager-4-cuda13"} <= set(names)


def test_debians_directory_has_the_major_only_and_arm_servers_are_sbsa() -> None:
    assert distro_of("Debian", "12.15") == "debian12"
    assert distro_of("Ubuntu", "24.04") == "ubuntu2404"
    assert distro_of("Rocky", "9.6") == "rhel9"
    assert arch_of("aarch64") == "sbsa"
    assert resolved(580, "debian12").repositories[0].url.endswith("/repos/debian12/x86_64/")
    assert resolved(580, "ubuntu2404", sku="GH200").repositories[0].url.endswith("/repos/ubuntu2404/sbsa/")


def test_every_sku_of_the_verdict_is_known_to_the_stack() -> None:
    assert set(default_policy().skus) <= set(known())


def test_every_pci_id_names_one_sku() -> None:
    ids = [device for one in known().values() for device in one.pci_ids]

    assert len(ids) == len(set(ids)) > 20
    found = by_pci_id("10de:2330")
    assert found is not None and found.sku == "H100-SXM5-80GB"
    assert by_pci_id("10de:ffff") is None
