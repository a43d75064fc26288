"""ofed on two nodes, one with DOCA, one whose distribution keeps its own RDMA packages."""

from __future__ import annotations

import pytest

from lab import verify

KERNEL = "6.1.0-40-amd64"
OURS = ("doca-", "mlnx-", "ofed-", "mft", "rdma-core", "infiniband-diags", "openmpi")
VERSIONS = {
    "doca-ofed": "3.1.0-091000",
    "mlnx-ofed-kernel-dkms": "25.07.OFED.25.07.0.9.7.1-1",
    "rdma-core": "2507mlnx58-1.2507097",
    "mft": "4.33.0-169",
}
INSTALL, REBUILD = "Install | Put the pinned OFED in place", "Rebuild | Build the driver's modules again"


def tree(host) -> dict[str, str]:
    return {name: version for name, version in verify.installed(host).items() if name.startswith(OURS)}


def name_of(host) -> str:
    return host.backend.get_hostname()


def test_check_mode_changes_nothing_and_what_is_pinned_stays_when_newer_builds_come() -> None:
    verify.stays_put()


def test_a_dist_upgrade_would_move_nothing(host) -> None:
    assert verify.moved_by_dist_upgrade(host) == []


def test_the_pinned_doca_is_there_whole_and_held_or_nothing_of_it(host) -> None:
    packages = tree(host)

    if name_of(host) == "node-2":
        assert packages == {}
        return
    assert {name: packages[name] for name in VERSIONS} == VERSIONS
    assert set(packages) <= verify.held(host)


def test_the_distribution_keeps_its_own_dkms(host) -> None:
    if name_of(host) == "node-1":
        assert verify.installed(host)["dkms"].startswith("3.0.10")


def test_no_kernel_moved(host) -> None:
    assert [name for name in verify.installed(host) if name.startswith("linux-image-")] == [f"linux-image-{KERNEL}"]


def test_the_modules_are_built_for_the_kernel_that_will_boot_and_a_reboot_is_asked_for(host) -> None:
    doca = name_of(host) == "node-1"

    assert host.file("/run/burnin/reboot-required.d/ofed").exists is doca
    assert host.file(f"/lib/modules/{KERNEL}/updates/dkms/mlx5_core.ko").exists is doca


def test_a_changed_ofed_has_the_drivers_modules_built_again(host) -> None:
    if name_of(host) != "node-1":
        pytest.skip("once is enough: the play is on both nodes")

    driver = verify.play("driver.yml", OFED_VERSION="3.1.0")
    host.check_output("sleep 1.1")  # a build of the same second would not tell

    changed = verify.play("driver.yml", OFED_VERSION="3.2.1")
    again = verify.play("driver.yml", OFED_VERSION="3.2.1")

    assert driver["rc"] == 0, driver["failed"]
    assert changed["rc"] == 0, changed["failed"]
    assert [step["task"] for step in changed["changed"]] == [INSTALL, REBUILD]
    assert tree(host)["doca-ofed"].startswith("3.2.1-")
    assert (again["rc"], again["changed"]) == (0, [])
    built = host.check_output(f"stat -c %Y /var/lib/dkms/nvidia/580.126.09/{KERNEL}/x86_64/module/nvidia.ko")
    ofed = host.check_output("stat -c %Y /var/lib/dkms/mlnx-ofed-kernel/25.10*/*/x86_64/module/mlx5_core.ko")
    assert int(built) >= int(ofed)


def test_a_rebuild_that_a_run_did_not_come_to_is_made_by_the_next(host) -> None:
    if name_of(host) != "node-1":
        pytest.skip("once is enough: the play is on both nodes")

    host.check_output(f"touch -d '1 hour ago' /var/lib/dkms/nvidia/580.126.09/{KERNEL}/x86_64/module/nvidia.ko")
    host.check_output(f"touch -d '1 hour ago' $(find /var/lib/dkms/nvidia/580.126.09/{KERNEL}/x86_64/module -type f)")

    mended = verify.play("driver.yml", OFED_VERSION="3.2.1")

    assert mended["rc"] == 0
    assert [step["task"] for step in mended["changed"]] == [REBUILD]
