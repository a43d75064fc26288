"""kernel on two nodes: an older kernel pinned than the one that runs, with GRUB; and one on hold, without a boot loader."""

from __future__ import annotations

import pytest

from lab import verify

PINNED, NEWEST = "6.1.0-40-amd64", "6.1.0-41-amd64"
DROP_IN = "/etc/default/grub.d/zz-burnin-kernel.cfg"
DEFAULT = "gnulinux-advanced-3f0c2f0e-6f6a-4b7e-9d0b-8a1c52a0f1de>gnulinux-6.1.0-40-amd64-advanced-3f0c2f0e-6f6a-4b7e-9d0b-8a1c52a0f1de"
HEADERS = {"node-1": {f"linux-headers-{PINNED}", f"linux-headers-{NEWEST}"}, "node-2": {f"linux-headers-{PINNED}"}}


def kernels(host) -> set[str]:
    return {name for name in verify.installed(host) if name.startswith(("linux-image-", "linux-headers-", "linux-kbuild-"))}


def name_of(host) -> str:
    return host.backend.get_hostname()


def test_check_mode_changes_nothing_and_what_is_pinned_stays_when_newer_builds_come() -> None:
    verify.stays_put()


def test_a_dist_upgrade_would_move_nothing(host) -> None:
    assert verify.moved_by_dist_upgrade(host) == []


def test_the_kernel_and_its_headers_are_there_and_a_newer_one_was_not_removed(host) -> None:
    images = {f"linux-image-{PINNED}"} | ({f"linux-image-{NEWEST}"} if name_of(host) == "node-1" else set())

    assert {name for name in kernels(host) if name.startswith("linux-image-")} == images
    assert {name for name in kernels(host) if name.startswith("linux-headers-") and not name.endswith("-common")} == HEADERS[name_of(host)]
    assert host.file(f"/lib/modules/{PINNED}/build").is_symlink


def test_all_of_it_is_held_and_unattended_upgrades_is_kept_off(host) -> None:
    assert kernels(host) <= verify.held(host)
    assert '"^linux-(image|headers|kbuild|compiler)-"' in host.check_output("apt-config dump Unattended-Upgrade::Package-Blacklist")


def test_the_pinned_kernel_is_the_one_that_boots_where_there_is_a_boot_loader(host) -> None:
    if name_of(host) == "node-2":
        assert not host.file(DROP_IN).exists
        return
    assert f'GRUB_DEFAULT="{DEFAULT}"' in host.file(DROP_IN).content_string
    assert f'set default="{DEFAULT}"' in host.file("/boot/grub/grub.cfg").content_string
    assert host.file("/var/log/burnin-lab-grub.log").content_string == "update-grub\n", "once, not at every converge"


def test_a_reboot_is_asked_for_where_another_kernel_runs(host) -> None:
    assert host.file("/run/burnin/reboot-required.d/kernel").exists is (name_of(host) == "node-1")


def test_a_kernel_that_nobody_has_is_refused_by_name_and_nothing_changes(host) -> None:
    if name_of(host) != "node-1":
        pytest.skip("once is enough: the play is on both nodes")
    before = verify.now()

    refused = verify.play("refuse.yml")

    assert refused["rc"] == 2
    assert refused["changed"] == []
    assert {failed["host"] for failed in refused["failed"]} == {"node-1", "node-2"}
    for failed in refused["failed"]:
        assert failed["task"] == "Install | Put the kernel and its headers in place"
        assert "linux-image-6.1.0-99-amd64" in failed["message"]
    assert verify.touched(before, refused) == {"node-1": [], "node-2": []}
