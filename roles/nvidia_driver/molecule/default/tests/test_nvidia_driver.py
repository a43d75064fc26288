"""nvidia_driver on two nodes: NVSwitches, open modules and the defaults; no NVSwitch, proprietary modules and everything changed."""

from __future__ import annotations

import pytest

from lab import verify

DRIVER, LATER = "580.126.09", "580.150.02"
KERNEL = "6.1.0-40-amd64"
INSTALL = "Install | Put the pinned driver in place"
OURS = ("nvidia-", "libnvidia-", "libcuda", "cuda-drivers", "firmware-nvidia")
PERSISTENCE = "/etc/systemd/system/nvidia-persistenced.service.d/burnin.conf"
INITRAMFS_LOG = "/var/log/burnin-lab-initramfs.log"


def tree(host) -> dict[str, str]:
    return {name: version.partition("-")[0] for name, version in verify.installed(host).items() if name.startswith(OURS)}


def name_of(host) -> str:
    return host.backend.get_hostname()


def test_check_mode_changes_nothing_and_what_is_pinned_stays_when_newer_builds_come() -> None:
    verify.stays_put()


def test_a_dist_upgrade_would_move_nothing(host) -> None:
    assert verify.moved_by_dist_upgrade(host) == []


def test_the_whole_tree_has_the_pinned_version_and_is_held(host) -> None:
    packages = tree(host)

    assert len(packages) >= 12
    assert set(packages.values()) == {DRIVER}
    assert set(packages) <= verify.held(host)


def test_fabric_manager_is_where_the_switches_are(host) -> None:
    switched = name_of(host) == "node-1"
    service = host.service("nvidia-fabricmanager")

    assert {name for name in tree(host) if "fabricmanager" in name or "nscq" in name} == (
        {"nvidia-fabricmanager", "libnvidia-nscq"} if switched else set()
    )
    assert (service.is_enabled, service.is_running) == (switched, switched)


def test_the_flavour_is_the_stacks(host) -> None:
    there = {"nvidia-kernel-open-dkms", "nvidia-kernel-dkms"} & set(tree(host))

    assert there == ({"nvidia-kernel-open-dkms"} if name_of(host) == "node-1" else {"nvidia-kernel-dkms"})


def test_nouveau_is_off_also_in_the_initramfs_which_was_made_once(host) -> None:
    conf = host.file("/etc/modprobe.d/burnin-nouveau.conf").content_string

    assert "blacklist nouveau\noptions nouveau modeset=0\n" in conf
    assert conf in host.file(f"/boot/initrd.img-{KERNEL}").content_string
    assert host.file(INITRAMFS_LOG).content_string.splitlines() == [KERNEL]


def test_what_is_loaded_at_boot(host) -> None:
    lines = host.file("/etc/modules-load.d/burnin-nvidia.conf").content_string.splitlines()

    modules = [line for line in lines if not line.startswith("#")]
    assert modules == ["nvidia", "nvidia_uvm"] + ([] if name_of(host) == "node-1" else ["nvidia_peermem"])


def test_the_persistence_daemon_keeps_the_driver_loaded_where_that_is_wanted(host) -> None:
    if name_of(host) == "node-2":
        assert not host.file(PERSISTENCE).exists
        return

    assert host.service("nvidia-persistenced").is_running
    assert "--persistence-mode" in host.check_output("systemctl show -p ExecStart --value nvidia-persistenced")


def test_the_modules_are_built_for_the_kernel_that_will_boot(host) -> None:
    assert f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed" in host.check_output("dkms status").splitlines()
    assert host.file(f"/lib/modules/{KERNEL}/updates/dkms/nvidia.ko").exists


def test_a_reboot_is_asked_for_until_there_was_one(host) -> None:
    assert DRIVER in host.file("/run/burnin/reboot-required.d/driver").content_string


def test_unattended_upgrades_is_kept_off(host) -> None:
    told = host.check_output("apt-config dump Unattended-Upgrade::Package-Blacklist")

    assert '"^nvidia-"' in told
    assert '"^libnvidia-"' in told


def test_a_change_is_refused_while_a_process_has_a_gpu_open_and_told_by_name(host) -> None:
    if name_of(host) != "node-1":
        pytest.skip("once is enough: the play is on both nodes")

    host.check_output("touch /dev/nvidia0")
    host.check_output("systemd-run --quiet --unit=job sh -c 'exec sleep 600 </dev/nvidia0'")
    try:
        idle = verify.play("change.yml", DRIVER_VERSION=DRIVER)
        refused = verify.play("change.yml", DRIVER_VERSION=LATER, DRIVER_LIMIT="node-1")
    finally:
        host.run("systemctl stop job; rm /dev/nvidia0")

    assert (idle["rc"], idle["changed"]) == (0, []), "a run that has nothing to change does not mind"
    assert refused["rc"] == 2
    assert [failed["task"] for failed in refused["failed"]] == [INSTALL]
    assert "sleep" in refused["failed"][0]["message"]
    assert refused["changed"] == []
    assert verify.touched(idle, refused)["node-1"] == []
    assert set(tree(host).values()) == {DRIVER}


def test_a_build_that_fails_is_told_with_the_end_of_its_log(host) -> None:
    if name_of(host) != "node-1":
        pytest.skip("once is enough: the play is on both nodes")

    host.check_output(f"mkdir -p /etc/burnin-lab && echo {KERNEL} >/etc/burnin-lab/dkms-fail")
    host.check_output(f"dkms uninstall -m nvidia -v {DRIVER} -k {KERNEL} && rm -r /var/lib/dkms/nvidia/{DRIVER}/{KERNEL}")
    try:
        failed = verify.play("change.yml", DRIVER_VERSION=DRIVER, DRIVER_LIMIT="node-1")
    finally:
        host.run("rm /etc/burnin-lab/dkms-fail")
    mended = verify.play("change.yml", DRIVER_VERSION=DRIVER, DRIVER_LIMIT="node-1")

    assert failed["rc"] == 2
    assert "pci_resize_resource" in failed["failed"][0]["message"]
    assert "make.log" in failed["failed"][0]["message"]
    assert mended["rc"] == 0
    assert f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed" in host.check_output("dkms status").splitlines()


def test_a_changed_pin_is_one_transaction_and_flags_a_reboot(host) -> None:
    if name_of(host) != "node-1":
        pytest.skip("once is enough: the play is on both nodes")

    host.check_output("rm /run/burnin/reboot-required.d/driver")
    before = host.check_output("grep -c ^Start-Date /var/log/apt/history.log")

    changed = verify.play("change.yml", DRIVER_VERSION=LATER, DRIVER_LIMIT="node-1")

    assert changed["rc"] == 0, changed["failed"]
    assert {step["task"] for step in changed["changed"]} == {INSTALL}
    assert int(host.check_output("grep -c ^Start-Date /var/log/apt/history.log")) == int(before) + 1
    assert set(tree(host).values()) == {LATER}
    assert set(tree(host)) <= verify.held(host)
    assert LATER in host.file("/run/burnin/reboot-required.d/driver").content_string
    assert f"nvidia/{LATER}, {KERNEL}, x86_64: installed" in host.check_output("dkms status").splitlines()
    assert verify.moved_by_dist_upgrade(host) == []
