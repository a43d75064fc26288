"""What the package roles hand to their modules: narrowed by what was seen, never by what was not."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from burnin.stack import handing
from burnin.stack.bridge import check_plain, resolve_plain

DAY = date(2026, 12, 1)
STACK: dict[str, Any] = {
    "driver": {"version": "580.126.09", "flavour": "open"},
    "cuda": {"toolkits": ["12.9.1"], "default": "12.9.1"},
    "ofed": {"kind": "doca", "version": "3.2.1"},
    "kernel": {"debian12": "6.1.0-40-amd64"},
}
SYSTEM: dict[str, Any] = {
    "os": {"id": "debian", "version": "12", "pretty": "Debian GNU/Linux 12 (bookworm)"}, "machine": "x86_64", "kernel": "6.1.0-41-amd64",
    "kernels": ["6.1.0-41-amd64"], "headers": ["6.1.0-41-amd64"], "secure_boot": False, "dkms": [], "boot": {"loader": "grub", "kernel": "6.1.0-41-amd64"},
}  # fmt: skip
NONE_SEEN = {"gpus": 8, "nvswitches": 0, "nvlink5": False, "nics": []}


def made(sku: str = "H100-SXM5-80GB", **stack: Any) -> dict[str, Any]:
    return resolve_plain({**STACK, **stack}, "debian12", "x86_64", sku, "6.1.0-41-amd64")


def parts(group: dict[str, Any]) -> set[str]:
    return {package["why"].partition(":")[0] for package in group["packages"]}


@pytest.mark.parametrize(
    ("told", "distro", "arch"),
    [
        pytest.param(("debian", "12", "x86_64"), "debian12", "x86_64", id="Debian has its major only"),
        pytest.param(("debian", "12.15", "x86_64"), "debian12", "x86_64", id="Debian with a point release"),
        pytest.param(("ubuntu", "24.04", "aarch64"), "ubuntu2404", "sbsa", id="Ubuntu on Grace"),
        pytest.param(("rocky", "9.6", "x86_64"), "rhel9", "x86_64", id="Rocky is rhel"),
        pytest.param(("almalinux", "10.0", "x86_64"), "rhel10", "x86_64", id="Alma is rhel"),
        pytest.param(("ol", "9.6", "x86_64"), "rhel9", "x86_64", id="Oracle is rhel"),
    ],
)
def test_a_node_is_placed_by_its_os_release(told: tuple[str, str, str], distro: str, arch: str) -> None:
    found = handing.place({"os": {"id": told[0], "version": told[1], "pretty": ""}, "machine": told[2]})

    assert (found["distro"], found["arch"], found["release"], found["problem"]) == (distro, arch, told[1], "")


@pytest.mark.parametrize(
    ("system", "says"),
    [
        pytest.param({"os": {"id": "fedora", "version": "44", "pretty": "Fedora Linux 44"}}, "Fedora Linux 44", id="a distribution"),
        pytest.param({"os": {"id": "", "version": "", "pretty": ""}}, "no /etc/os-release", id="none at all"),
        pytest.param({"machine": "riscv64"}, "riscv64", id="an architecture"),
    ],
)
def test_a_node_that_is_none_of_ours_is_named(system: dict[str, Any], says: str) -> None:
    found = handing.problems(STACK, {**SYSTEM, **system}, "H100-SXM5-80GB", DAY)

    assert len(found) == 1
    assert says in found[0]


def test_a_stack_that_is_not_there_or_does_not_fit_is_a_problem_and_a_good_one_is_none() -> None:
    assert "There is no burnin_stack" in handing.problems(None, SYSTEM, "", DAY)[0]
    assert "open" in handing.problems(STACK, SYSTEM, "V100-SXM2-16GB", DAY)[0]
    assert "does not come with" in handing.problems(STACK, SYSTEM, "GH200", DAY)[0]
    assert "did you mean 'H100-SXM5-80GB'" in handing.problems(STACK, SYSTEM, "H100-SMX5", DAY)[0]
    assert handing.problems(STACK, SYSTEM, "H100-SXM5-80GB", DAY) == []


@pytest.mark.parametrize(
    ("sku", "host", "there"),
    [
        pytest.param("H100-SXM5-80GB", None, True, id="nobody looked: the SKU decides"),
        pytest.param("H100-SXM5-80GB", NONE_SEEN, False, id="looked, and there is none"),
        pytest.param("H100-SXM5-80GB", {**NONE_SEEN, "gpus": 0}, True, id="no GPU was seen either: a look that shows nothing"),
        pytest.param("H100-SXM5-80GB", {**NONE_SEEN, "nvswitches": 4}, True, id="four switches"),
        pytest.param("H100-SXM5-80GB", {**NONE_SEEN, "nvswitches": None}, True, id="could not be told"),
        pytest.param("B200-SXM-180GB", NONE_SEEN, True, id="NVLink5 is told by RDMA devices, and none is there"),
        pytest.param("B200-SXM-180GB", {**NONE_SEEN, "nics": [{"rdma": "mlx5_0"}]}, False, id="RDMA devices, none of them a bridge"),
        pytest.param("B200-SXM-180GB", {**NONE_SEEN, "nvlink5": True}, True, id="a bridge of NVLink5"),
        pytest.param("L40S", None, False, id="a SKU without switches"),
    ],
)
def test_fabric_manager_is_only_where_switches_are(sku: str, host: dict[str, Any] | None, there: bool) -> None:
    found = handing.group(made(sku), "driver", host)

    assert ("fabricmanager" in parts(found), "nscq" in parts(found)) == (there, there)
    assert ("nvidia-fabricmanager.service" in found["services"]) is there
    assert len(found["names"]) == len(found["specs"]) == len(found["packages"])
    assert any("nvidia-open=" in spec for spec in found["specs"])


def test_the_resolution_itself_is_not_changed_by_it() -> None:
    resolution = made()

    handing.group(resolution, "driver", NONE_SEEN)

    assert "fabricmanager" in parts(resolution["groups"]["driver"])


def test_a_group_gets_the_repositories_of_its_own_sources() -> None:
    resolution = made()

    assert [one["source"] for one in handing.repositories(resolution, "driver")] == ["cuda"]
    assert [one["source"] for one in handing.repositories(resolution, "ofed")] == ["doca"]
    assert handing.repositories(resolution, "kernel") == []


def test_the_pinned_kernel_boots_and_has_its_modules() -> None:
    assert handing.kernel_wanted(made(), SYSTEM) == "6.1.0-40-amd64"
    assert handing.modules_for(made(), SYSTEM) == ["6.1.0-40-amd64", "6.1.0-41-amd64"]
    assert handing.modules_for(made(), {**SYSTEM, "headers": []}) == ["6.1.0-40-amd64"]


def test_a_kernel_on_hold_boots_again_where_it_is_installed() -> None:
    hold = made(kernel={})

    assert handing.kernel_wanted(hold, SYSTEM) == "6.1.0-41-amd64"
    assert handing.kernel_wanted(hold, {**SYSTEM, "kernels": []}) == "", "a container runs the kernel of another machine"


@pytest.mark.parametrize(
    ("asked", "pin", "kernels", "more"),
    [
        pytest.param(True, "6.1.0-40-amd64", ["6.1.0-41-amd64"], ["linux-headers-6.1.0-41-amd64"], id="asked for"),
        pytest.param(False, "6.1.0-40-amd64", ["6.1.0-41-amd64"], [], id="not asked for"),
        pytest.param(True, "6.1.0-41-amd64", ["6.1.0-41-amd64"], [], id="the pinned one runs"),
        pytest.param(True, "6.1.0-40-amd64", [], [], id="not this node's own kernel"),
    ],
)
def test_headers_of_the_running_kernel_come_beside_those_of_the_pinned(asked: bool, pin: str, kernels: list[str], more: list[str]) -> None:
    resolution = made(kernel={"debian12": pin})

    found = handing.kernel_group(resolution, {**SYSTEM, "kernels": kernels}, asked)

    assert found["names"] == [f"linux-image-{pin}", f"linux-headers-{pin}", *more]
    assert [package["name"] for package in found["packages"]] == found["names"]


def test_modules_are_there_for_all_kernels_or_not() -> None:
    build = {"module": "nvidia", "version": "580.126.09", "kernel": "a", "installed": True, "built_s": 10.0}
    system = {**SYSTEM, "dkms": [build, {**build, "kernel": "b", "installed": False}]}

    assert handing.built(system, "nvidia", "580.126.09", ["a"])
    assert not handing.built(system, "nvidia", "580.126.09", ["a", "b"])
    assert not handing.built(system, "nvidia", "580.150.02", ["a"])


def test_a_driver_older_than_ofed_is_stale() -> None:
    driver = {"module": "nvidia", "version": "580.126.09", "kernel": "a", "installed": True, "built_s": 10.0}
    ofed = {"module": "mlnx-ofed-kernel", "version": "25.10", "kernel": "a", "installed": True, "built_s": 11.0}

    assert handing.stale({"dkms": [driver, ofed]}, "nvidia", "mlnx-ofed-kernel")
    assert not handing.stale({"dkms": [{**driver, "built_s": 11.0}, ofed]}, "nvidia", "mlnx-ofed-kernel")
    assert not handing.stale({"dkms": [driver]}, "nvidia", "mlnx-ofed-kernel")
    assert not handing.stale({"dkms": [ofed]}, "nvidia", "mlnx-ofed-kernel")


def test_debians_own_driver_has_another_name_in_dkms() -> None:
    theirs = {"version": "535.309.01", "flavour": "proprietary", "source": "distribution"}

    assert handing.dkms_name(made()) == "nvidia"
    assert handing.dkms_name(made("A100-SXM4-80GB", driver=theirs, cuda={"toolkits": ["12.2.2"], "default": "12.2.2"})) == "nvidia-current"


@pytest.mark.parametrize(("secure_boot", "told"), [(True, True), (None, True), (False, False)], ids=["on", "could not be told", "off"])
def test_the_note_on_secure_boot_is_said_unless_it_is_off(secure_boot: bool | None, told: bool) -> None:
    said = handing.said(made(), check_plain(STACK, DAY), {**SYSTEM, "secure_boot": secure_boot})

    assert any("Secure Boot" in text for text in said) is told
    assert said


def test_a_node_without_a_boot_loader_is_told_so() -> None:
    def told(loader: str) -> bool:
        return any(
            "no boot loader" in text for text in handing.said(made(), check_plain(STACK, DAY), {**SYSTEM, "boot": {"loader": loader}})
        )

    assert told("")
    assert not told("grub")
