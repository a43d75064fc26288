"""What a resolution holds beside names: pins that apt takes, what must not be there, repositories, kernels, notes."""

from __future__ import annotations

import json
import re

import pytest

from burnin.errors import StackError
from burnin.stack.bridge import check_plain, resolve_plain
from burnin.stack.checking import RULES
from burnin.stack.hardware import hardware
from burnin.stack.model import Cuda, Dcgm, Driver, Nccl, Ofed, Override, Stack
from burnin.stack.resolution import Resolution
from burnin.stack.resolving import GROUPS, resolve

STACK = Stack(
    Driver("580.126.09", "open"),
    Cuda(("12.9.1", "13.0.2"), "12.9.1"),
    Nccl("2.28.9", "12.9"),
    Ofed("doca", "3.2.1"),
    Dcgm("4.4.1"),
    {"ubuntu2404": "6.8.0-87-generic", "rhel9": "5.14.0-570.12.1.el9_6"},
)


def made(distro: str = "ubuntu2404", sku: str = "H100-SXM5-80GB", stack: Stack = STACK, **more: str) -> Resolution:
    return resolve(stack, distro, more.pop("arch", "x86_64"), hardware(sku), **more)  # type: ignore[arg-type]


def test_groups_come_in_the_order_they_must_go_in() -> None:
    assert [group.name for group in made().groups] == ["kernel", "ofed", "driver", "cuda", "nccl", "dcgm"]
    assert len(GROUPS) == 6
    assert len(RULES) == 6


def test_pin_files_have_a_name_that_apt_reads() -> None:
    pins = [pin for group in made().groups for pin in group.pins]

    assert len(pins) == 5
    for pin in pins:
        assert re.fullmatch(r"[A-Za-z0-9_-]+", pin.name), "apt silently ignores a preferences file with another name"
        assert pin.path.endswith(f"/{pin.name}")
        for stanza in pin.content.strip().split("\n\n"):
            assert [line.partition(":")[0] for line in stanza.splitlines()] == ["Package", "Pin", "Pin-Priority"]


def test_the_drivers_whole_tree_is_pinned_by_source_and_not_only_what_is_named() -> None:
    content = made().group("driver").pins[0].content

    assert "src:*nvidia*:any" in content
    assert "Pin: version 580.126.09*\nPin-Priority: 1000" in content
    assert content.index("release o=Ubuntu") < content.index("version 580"), "the first stanza that fits wins"


def test_nccl_is_pinned_whole_and_with_its_headers() -> None:
    assert [package.spec for package in made().group("nccl").packages] == ["libnccl2=2.28.9-1+cuda12.9", "libnccl-dev=2.28.9-1+cuda12.9"]
    assert [package.spec for package in made("rhel9").group("nccl").packages] == [
        "libnccl-2.28.9-1+cuda12.9",
        "libnccl-devel-2.28.9-1+cuda12.9",
    ]


def test_toolkits_are_never_the_meta_package_that_pulls_a_driver() -> None:
    group = made().group("cuda")

    assert [package.spec for package in group.packages] == ["cuda-toolkit-12-9=12.9.1-*", "cuda-toolkit-13-0=13.0.2-*"]
    assert made().alternatives == {"cuda": "/usr/local/cuda-12.9"}
    assert any(re.search(pattern, "cuda-12-9") for pattern in group.unwanted)
    assert not any(re.search(pattern, "cuda-nvcc-12-9") for pattern in group.unwanted)


@pytest.mark.parametrize("name", ["libcurl3t64-gnutls", "libcups2", "libnvme1", "libnpth0", "linux-libc-dev", "linux-base", "openssl"])
def test_security_updates_of_others_are_not_kept_away(name: str) -> None:
    assert not any(re.match(pattern, name) for pattern in made().as_dict()["blacklist"])


@pytest.mark.parametrize(
    "name",
    ["libnvidia-compute-580", "nvidia-dkms-580-open", "cuda-nvcc-12-9", "libcublas-12-9", "libnccl2", "linux-image-6.8.0-90-generic",
     "linux-generic", "rdma-core", "datacenter-gpu-manager-4-core", "libcuda1", "firmware-nvidia-gsp", "libnvcuvid1", "libglx-nvidia0"],
)  # fmt: skip
def test_unattended_upgrades_keeps_off_what_is_pinned(name: str) -> None:
    assert any(re.match(pattern, name) for pattern in made().as_dict()["blacklist"])


@pytest.mark.parametrize(
    "name", ["libnvidia-common-580", "libnvidia-compute-580", "nvidia-utils-580", "nvidia-driver-580-open", "nvlsm", "nvidia-fabricmanager"]
)
def test_the_whole_tree_is_held_and_not_only_its_top(name: str) -> None:
    assert any(re.search(pattern, name) for pattern in made().group("driver").hold)


def test_container_tools_are_neither_held_nor_of_the_drivers_version() -> None:
    group = made().group("driver")
    for name in ("nvidia-container-toolkit", "libnvidia-container1", "libnvidia-egl-wayland1"):
        assert not any(re.search(pattern, name) for pattern in group.same_version)
    assert not any(re.search(pattern, "nvidia-container-toolkit") for pattern in group.hold)


@pytest.mark.parametrize(
    ("flavour", "name", "unwanted"),
    [
        ("open", "cuda-drivers-580", True),
        ("open", "nvidia-dkms-580", True),
        ("open", "nvidia-dkms-580-open", False),
        ("open", "nvidia-kernel-source-580-open", False),
        ("open", "libnvidia-compute-570", True),
        ("open", "libnvidia-compute-580", False),
        ("open", "libnvidia-compute-580-server", True),
        ("open", "nvidia-fabricmanager-570", True),
        ("open", "nvidia-driver-pinning-580", True),
        ("open", "nvidia-container-toolkit", False),
        ("proprietary", "nvidia-open-580", True),
        ("proprietary", "nvidia-dkms-580-open", True),
        ("proprietary", "nvidia-dkms-580", False),
    ],
)
def test_what_must_not_be_there(flavour: str, name: str, unwanted: bool) -> None:
    stack = Stack(Driver("580.126.09", flavour))

    group = made(stack=stack).group("driver")

    assert any(re.search(pattern, name) for pattern in group.unwanted) is unwanted


@pytest.mark.parametrize(
    ("distro", "version", "name", "unwanted"),
    [
        ("ubuntu2404", "580.126.09", "libnvidia-gl", True),
        ("ubuntu2404", "580.126.09", "nvidia-dkms-open", True),
        ("ubuntu2404", "580.126.09", "nvidia-settings", False),
        ("ubuntu2404", "580.126.09", "nvidia-fabricmanager", False),
        ("ubuntu2404", "590.48.01", "libnvidia-gl", False),
        ("ubuntu2404", "590.48.01", "nvidia-dkms-open", False),
        ("debian12", "580.126.09", "nvidia-driver", False),
        ("debian12", "580.126.09", "nvidia-fabricmanager", False),
        ("debian12", "570.172.08", "nvidia-fabricmanager", True),
        ("debian12", "570.172.08", "libnvidia-nscq", True),
        ("debian12", "570.172.08", "libnvidia-nscq-570", False),
    ],
)
def test_on_the_way_back_over_a_rename_the_later_names_must_go(distro: str, version: str, name: str, unwanted: bool) -> None:
    group = made(distro, stack=Stack(Driver(version, "open"))).group("driver")

    assert any(re.search(pattern, name) for pattern in group.unwanted) is unwanted


def test_dcgm_3_and_4_exclude_each_other() -> None:
    four, three = made().group("dcgm"), made(stack=Stack(Driver("570.124.06", "open"), dcgm=Dcgm("3.3.9"))).group("dcgm")

    assert any(re.search(pattern, "datacenter-gpu-manager") for pattern in four.unwanted)
    assert any(re.search(pattern, "datacenter-gpu-manager-4-cuda12") for pattern in four.unwanted)
    assert [package.spec for package in three.packages] == ["datacenter-gpu-manager=1:3.3.9"]
    assert any(re.search(pattern, "datacenter-gpu-manager-4-core") for pattern in three.unwanted)


def test_no_group_asks_for_what_it_forbids() -> None:
    for distro in ("ubuntu2404", "debian12", "rhel9"):
        for sku in ("H100-SXM5-80GB", "B200-SXM-180GB"):
            for group in made(distro, sku).groups:
                assert not [name for name in group.names for pattern in group.unwanted if re.search(pattern, name)]


def test_a_pinned_kernel_comes_with_its_headers_and_says_what_uname_must_say() -> None:
    assert made().group("kernel").names == (
        "linux-image-6.8.0-87-generic",
        "linux-modules-6.8.0-87-generic",
        "linux-headers-6.8.0-87-generic",
    )
    assert made().kernel == {"policy": "pinned", "version": "6.8.0-87-generic", "release": "6.8.0-87-generic"}
    assert made("rhel9").kernel["release"] == "5.14.0-570.12.1.el9_6.x86_64"


def test_a_kernel_that_stays_gets_headers_for_what_runs() -> None:
    held = made("debian12", kernel_running="6.1.0-40-amd64")

    assert held.kernel == {"policy": "hold", "version": "", "release": ""}
    assert held.group("kernel").names == ("linux-headers-6.1.0-40-amd64",)
    assert made("rhel10", kernel_running="6.12.0-55.el10.x86_64").group("kernel").names == ("kernel-devel-6.12.0-55.el10",)
    assert "KERNEL_UNKNOWN" in [note.code for note in made("debian12").notes]


def test_the_source_file_is_whole_and_the_key_is_the_distributions_own() -> None:
    doca, cuda = made().repositories
    debian13 = made("debian13").repositories[1]

    assert cuda.deb822 == {
        "Types": "deb",
        "URIs": "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/",
        "Suites": "/",
        "Signed-By": "/etc/apt/keyrings/burnin-cuda.asc",
    }
    assert cuda.key_fingerprint.endswith("A4B469963BF863CC")
    assert debian13.key_fingerprint.endswith("8793F200")
    assert debian13.key_url.endswith("/debian13/x86_64/8793F200.pub")
    assert doca.url == "https://linux.mellanox.com/public/repo/doca/3.2.1/ubuntu24.04/x86_64/"
    assert made(sku="H100-PCIe-80GB", arch="sbsa").repositories[0].url.endswith("/ubuntu24.04/arm64-sbsa/")


def test_doca_had_a_directory_per_minor_release_until_3_2() -> None:
    old, new = (
        made("rhel9", stack=Stack(Driver("580.126.09", "open"), ofed=Ofed("doca", one)), os_release="9.6") for one in ("3.1.0", "3.2.0")
    )

    assert old.repositories[0].url.endswith("/doca/3.1.0/rhel9.6/x86_64/")
    assert new.repositories[0].url.endswith("/doca/3.2.0/rhel9/x86_64/")
    assert "mlx5_core" in new.unsigned_modules
    assert "mlx5_core" not in old.unsigned_modules


def test_a_mirror_needs_no_code() -> None:
    override = Override("https://mirror.example.net/cuda/{distro}/{arch}", "", "AB" * 32)
    whole = made("ubuntu2204", stack=Stack(Driver("580.126.09", "open"), repositories={"cuda": override}))
    mirrored = whole.repositories[0]

    assert mirrored.url == "https://mirror.example.net/cuda/ubuntu2204/x86_64/"
    assert mirrored.key_url == "https://mirror.example.net/cuda/ubuntu2204/x86_64/3bf863cc.pub"
    assert mirrored.key_sha256 == "ab" * 32
    assert "KEY_SHA256_UNKNOWN" not in [note.code for note in whole.notes]
    assert "KEY_SHA256_UNKNOWN" in [note.code for note in made().notes]


def test_services_are_those_that_the_hardware_has() -> None:
    services = {
        sku: made(sku=sku, arch=hardware(sku).arches[0]).as_dict()["services"] for sku in ("H100-SXM5-80GB", "L40S", "GB200", "CPU")
    }

    assert "nvidia-fabricmanager.service" in services["H100-SXM5-80GB"]
    assert services["L40S"] == ["nvidia-persistenced.service", "nvidia-dcgm.service"]
    assert services["GB200"] == ["nvidia-persistenced.service", "nvidia-imex.service", "nvidia-dcgm.service"]
    assert services["CPU"] == []


def test_a_node_without_a_gpu_gets_no_driver() -> None:
    bare = made(sku="CPU")

    assert [group.name for group in bare.groups if group.packages] == ["kernel", "ofed"]
    assert "NO_GPU" in [note.code for note in bare.notes]


def test_peer_memory_is_dma_buf_with_open_modules() -> None:
    assert made().peer_memory == "dma-buf"
    closed = Stack(Driver("580.126.09", "proprietary"), ofed=Ofed("doca", "3.2.1"))
    assert made(stack=closed).peer_memory == "nvidia_peermem"


def test_guessed_names_are_said_to_be_guesses() -> None:
    old = made("debian12", stack=Stack(Driver("535.183.01", "open")))

    assert "NAME_LOW_CONFIDENCE" in [note.code for note in old.notes]
    assert "NAME_LOW_CONFIDENCE" not in [note.code for note in made().notes]
    assert "BRANCH_NOT_SEEN" in [note.code for note in made("ubuntu2604").notes]


@pytest.mark.parametrize(
    ("distro", "arch", "sku", "says"),
    [
        pytest.param("rhel11", "x86_64", "L40S", "rhel10", id="an unknown distribution names the nearest"),
        pytest.param("ubuntu2404", "aarch64", "L40S", "sbsa", id="aarch64 is no directory of the vendor"),
        pytest.param("ubuntu2404", "x86_64", "GB200", "sbsa", id="a GB200 is never x86_64"),
    ],
)
def test_what_cannot_be_resolved_is_refused(distro: str, arch: str, sku: str, says: str) -> None:
    with pytest.raises(StackError, match=says):
        resolve(STACK, distro, arch, hardware(sku))


def test_an_unknown_sku_names_the_nearest() -> None:
    with pytest.raises(StackError, match="did you mean 'H100-SXM5-80GB'"):
        hardware("H100-SXM5")


def test_roles_get_plain_data() -> None:
    from datetime import date

    value = {"driver": {"version": "580.126.09", "flavour": "open"}, "cuda": {"toolkits": ["12.9.1"], "default": "12.9.1"}}

    plain = resolve_plain(value, "ubuntu2404", "x86_64", "H100-SXM5-80GB", "6.8.0-87-generic")

    assert json.loads(json.dumps(plain)) == plain
    assert plain["schema"] == "burnin.stack.resolution/1"
    assert plain["order"] == ["kernel", "ofed", "driver", "cuda", "nccl", "dcgm"]
    assert plain["groups"]["driver"]["specs"][0] == "nvidia-open-580=580.126.09-*"
    assert check_plain(value, date(2026, 12, 1), ["GH200"])["ok"] is True
    assert check_plain({**value, "driver": {"version": 580.10, "flavour": "open"}}, date(2026, 12, 1))["errors"] == 1
    with pytest.raises(StackError, match="quotes"):
        resolve_plain({"driver": {"version": 580.10, "flavour": "open"}}, "ubuntu2404", "x86_64")


DEBIANS_OWN = Stack(Driver("535.261.03", "proprietary", "compute", "distribution"), nccl=Nccl("2.28.9", "12.9"))


def test_debians_own_driver_is_pinned_by_source_and_the_vendors_kept_out() -> None:
    resolution = made("debian12", "L40S", DEBIANS_OWN)
    driver = resolution.group("driver")

    assert driver.names == ("nvidia-kernel-dkms", "libcuda1", "libnvidia-ml1", "nvidia-smi", "nvidia-persistenced")
    assert driver.packages[0].spec == "nvidia-kernel-dkms=535.261.03-*"
    assert driver.packages[-1].spec == "nvidia-persistenced", "its version is its own"
    assert driver.sources == ()
    stanzas = driver.pins[0].content.split("\n\n")
    assert "Pin: release l=NVIDIA CUDA\nPin-Priority: -1" in stanzas[0]
    assert "Pin: version 535.261.03*\nPin-Priority: 1000" in stanzas[1]
    assert [one.source for one in resolution.repositories] == ["cuda"], "NCCL still comes from the vendor"
    assert "DEBIAN_NON_FREE" in {note.code for note in resolution.notes}


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("nvidia-smi", True), ("nvidia-alternative", True), ("libnvidia-ml1", True), ("libcuda1", True), ("nvidia-legacy-check", True),
        ("firmware-nvidia-gsp", True), ("nvidia-kernel-support", True), ("libnvidia-ptxjitcompiler1", True),
        ("nvidia-persistenced", False), ("nvidia-modprobe", False), ("nvidia-kernel-common", False), ("nvidia-support", False),
        ("nvidia-installer-cleanup", False), ("libnvidia-container1", False), ("nvidia-cuda-toolkit", False), ("libnvidia-egl-gbm1", False),
    ],
)  # fmt: skip
def test_which_of_debians_packages_have_the_drivers_version(name: str, same: bool) -> None:
    patterns = made("debian12", "L40S", DEBIANS_OWN).group("driver").same_version

    assert any(re.search(pattern, name) for pattern in patterns) is same


@pytest.mark.parametrize("distro", ["ubuntu2404", "rhel9"])
def test_no_other_distributions_own_driver_is_known(distro: str) -> None:
    with pytest.raises(StackError, match=f"driver.source distribution on {distro}.*expected nvidia"):
        made(distro, "L40S", DEBIANS_OWN)
