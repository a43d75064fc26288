"""The role nvme_raid0 over the life of a virtual machine: NVMe drives (QEMU's), Debian's own md, mkfs and initramfs, real reboots."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from burnin.adapters.ansible import HostResult, HostState
from lab.vms import Drive, Machine
from raid_site import Site, machine

pytestmark = pytest.mark.slow

MIB = 160  # XFS wants 600 MiB in all, for the log of a striped one
MEMBERS = ("S1", "S2", "S3", "S4")
WANTED = {"nvme_raid0_drives": 4, "nvme_raid0_packages": {}}
TEXT = "what the training wrote"


def well(result: HostResult, state: str) -> dict[str, Any]:
    """The role came through, with this state; what it says."""
    assert result.state is HostState.OK, result.message
    assert result.data["state"] == state, result.data
    return result.data


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The tests go on from one another; each reboot takes the initramfs that is in the machine's own /boot."""
    group = f"e2e-raid-{os.getpid()}"
    with machine(group, Machine("own", tuple(Drive(serial, size_mib=MIB) for serial in MEMBERS))) as vm:
        vm.run("systemctl", "unmask", "fstrim.timer")  # the lab's image has none of the timers
        yield Site(tmp_path_factory.mktemp("own"), group, vm, WANTED)


def stands(site: Site, uuid: str) -> None:
    """The array under its name, alone, mounted by the file system's UUID, with its data."""
    told = site.said("mdadm", "--detail", "/dev/md/scratch")
    assert re.search(r"^ *UUID : (\S+)$", told, re.MULTILINE).group(1) == uuid  # type: ignore[union-attr]
    device = site.said("readlink", "-f", "/dev/md/scratch")
    assert site.said("findmnt", "--noheadings", "--output", "SOURCE,FSTYPE", "/scratch").split() == [device, "xfs"]
    assert site.said("cat", "/scratch/data") == TEXT
    assert len([line for line in site.said("cat", "/proc/mdstat").splitlines() if " : active " in line]) == 1


class Kept:
    """What a test leaves for those that follow."""

    uuid = filesystem = ""


def test_check_says_what_would_be_done_and_writes_nothing(own: Site) -> None:
    before = own.bytes(MEMBERS)

    told = own.role(check=True)

    assert well(told, "created")["steps"], "it says each step"
    assert told.changed == 1
    assert own.bytes(MEMBERS) == before
    assert own.vm.run("test", "-e", "/dev/md/scratch", check=False).returncode != 0


def test_check_also_says_which_packages_would_be_installed(own: Site) -> None:
    told = own.role(check=True, nvme_raid0_packages={"mdadm": "mdadm", "no-such-tool": "no-such-package"})

    assert told.state is HostState.OK, told.message
    assert told.changed == 2, "the array, and the package"
    assert own.vm.run("test", "-e", "/dev/md/scratch", check=False).returncode != 0


def test_blank_drives_become_the_array_and_its_mount(own: Site) -> None:
    told = own.role()

    data = well(told, "created")
    Kept.uuid, Kept.filesystem = data["array"]["uuid"], data["filesystem"]["uuid"]
    own.vm.run("sh", "-c", f"echo {shlex.quote(TEXT)} >/scratch/data && sync")
    stands(own, Kept.uuid)
    line = [line for line in own.said("cat", "/etc/fstab").splitlines() if "/scratch" in line]
    assert line == [f"UUID={Kept.filesystem} /scratch xfs nofail,x-systemd.device-timeout=10s,noatime 0 0"], "field report B14"
    assert own.said("lsblk", "--noheadings", "--output", "UUID", "/dev/md/scratch") == Kept.filesystem
    assert own.said("systemctl", "is-enabled", "fstrim.timer") == "enabled"


def test_the_initramfs_holds_mdadm_conf_with_the_arrays_uuid(own: Site) -> None:
    image = f"/boot/initrd.img-{own.said('uname', '-r')}"

    own.vm.run("unmkinitramfs", image, "/tmp/unpacked", timeout=120)
    found = own.said("find", "/tmp/unpacked", "-path", "*/etc/mdadm/mdadm.conf").splitlines()
    arrays = [line for path in found for line in own.said("cat", path).splitlines() if line.startswith("ARRAY")]
    assert len(arrays) == 1, "field report B09"
    assert f"UUID={Kept.uuid}" in arrays[0]
    assert "/dev/md/scratch" in arrays[0]


def test_the_second_converge_changes_nothing(own: Site) -> None:
    told = own.role()

    well(told, "unchanged")
    assert told.changed == 0
    assert own.vm.run("test", "-e", "/run/burnin/reboot-required.d", check=False).returncode != 0, "no reboot is asked for"


def test_after_a_real_reboot_it_stands_under_its_name_with_its_data_and_nothing_is_to_be_done(own: Site) -> None:
    boot = own.said("cat", "/proc/sys/kernel/random/boot_id")

    own.vm.reboot()

    assert own.said("cat", "/proc/sys/kernel/random/boot_id") != boot
    stands(own, Kept.uuid)
    told = own.role()
    well(told, "unchanged")
    assert told.changed == 0


def test_a_system_that_was_installed_again_gets_its_array_back(own: Site) -> None:
    own.vm.run("umount", "/scratch")
    own.vm.run("mdadm", "--stop", "/dev/md/scratch")
    own.vm.run("sed", "-i", "/scratch/d", "/etc/fstab")
    own.vm.run("rm", "-rf", "/etc/mdadm/mdadm.conf", "/var/lib/burnin")
    own.vm.run("mdadm", "--assemble", "/dev/md99", *[f"/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_{serial}" for serial in MEMBERS])

    told = own.role()

    assert well(told, "adopted")["array"]["uuid"] == Kept.uuid
    stands(own, Kept.uuid)
    again = own.role()
    well(again, "unchanged")
    assert again.changed == 0


def test_with_a_member_gone_the_node_boots_and_the_role_names_what_is_left_and_what_is_missed(own: Site) -> None:
    own.vm.run("umount", "/scratch")
    own.vm.run("mdadm", "--stop", "/dev/md/scratch")
    own.vm.unplug("S3")
    left = ("S1", "S2", "S4")
    before = own.bytes(left)

    own.vm.reboot()

    assert own.vm.run("mountpoint", "-q", "/scratch", check=False).returncode != 0, "field report B14: it came up without"
    told = own.roles({"any": {}, "named": {"nvme_raid0_ids": [f"QEMU_NVMe_Ctrl_{serial}" for serial in MEMBERS]}})
    assert (told["any"].state, told["any"].data["code"]) == (HostState.FAILED, "DRIVES_TOO_FEW")
    assert [serial for serial in left if f"(serial {serial})" in told["any"].message] == list(left)
    assert (told["named"].state, told["named"].data["code"]) == (HostState.FAILED, "ID_UNKNOWN")
    assert "QEMU_NVMe_Ctrl_S3 names no NVMe drive" in told["named"].message
    assert own.bytes(left) == before


def test_the_drive_that_came_back_brings_the_array_and_its_data(own: Site) -> None:
    own.vm.plug(Drive("S3", size_mib=MIB))

    told = own.role()

    assert told.state is HostState.OK, told.message
    stands(own, Kept.uuid)
