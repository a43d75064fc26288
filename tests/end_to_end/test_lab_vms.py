"""The virtual machines themselves: NVMe drives by their serials, drives that come and go, reboots, and an NVMe drive under the root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab import vms
from lab.vms import Drive, Machine, Unavailable, Vm

pytestmark = pytest.mark.slow

SERIALS = ("LAB0", "LAB1", "LAB2", "LAB3", "LAB4")


@contextmanager
def group(*machines: Machine) -> Iterator[dict[str, Vm]]:
    """A group that is gone afterwards, whatever happened."""
    name = f"e2e-vms-{os.getpid()}-{machines[0].name}"
    try:
        yield vms.up(name, machines)
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have virtual machines: {why}")
        pytest.skip(str(why))
    finally:
        vms.down(name)


@pytest.fixture(scope="module")
def clone() -> Iterator[Vm]:
    """A clone of the saved template with five drives."""
    with group(Machine("one", tuple(Drive(serial) for serial in SERIALS))) as machines:
        yield machines["one"]


def by_id(serial: str) -> str:
    return f"/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_{serial}"


def serials(vm: Vm) -> list[str]:
    return sorted(vm.run("sh", "-c", "cat /sys/class/nvme/*/serial").stdout.split())


def test_a_clone_has_its_drives_and_what_is_written_to_one_is_in_its_file_and_in_no_other(clone: Vm) -> None:
    clone.run("sh", "-c", f"printf marked | dd of={by_id('LAB3')} conv=fsync status=none")

    assert serials(clone) == list(SERIALS)
    assert {serial: clone.image(serial).read_bytes()[:6] for serial in SERIALS} == {serial: bytes(6) for serial in SERIALS} | {
        "LAB3": b"marked"
    }
    assert {clone.image(serial).stat().st_size for serial in SERIALS} == {64 << 20}
    assert clone.run("hostname").stdout == "one\n"


def test_a_drive_that_is_pulled_is_gone_and_comes_back_with_its_bytes(clone: Vm) -> None:
    clone.run("sh", "-c", f"printf keep | dd of={by_id('LAB1')} conv=fsync status=none")

    clone.unplug("LAB1")
    without = serials(clone)
    clone.plug(Drive("LAB1"))

    assert without == [serial for serial in SERIALS if serial != "LAB1"]
    assert serials(clone) == list(SERIALS)
    assert clone.run("head", "-c4", by_id("LAB1")).stdout == "keep"


def test_a_reboot_is_a_real_one_and_keeps_disk_and_drives(clone: Vm) -> None:
    before = clone.run("cat", "/proc/sys/kernel/random/boot_id").stdout
    clone.run("touch", "/etc/mark", "/run/mark")

    clone.reboot()

    assert clone.run("cat", "/proc/sys/kernel/random/boot_id").stdout != before
    assert clone.run("ls", "/etc/mark", "/run/mark", check=False).stdout == "/etc/mark\n"
    assert serials(clone) == list(SERIALS)
    assert clone.run("hostname").stdout == "one\n"


def test_a_machine_that_boots_from_an_nvme_drive_boots_the_kernel_of_its_own_disk(clone: Vm) -> None:
    del clone  # both may run at once
    with group(Machine("boot", (Drive("LAB0"),), boot_on_nvme=True)) as machines:
        vm = machines["boot"]

        assert serials(vm) == ["BOOT", "LAB0"]
        root = vm.run("findmnt", "-no", "SOURCE", "/").stdout.strip()
        assert vm.run("readlink", "-f", f"{by_id('BOOT')}-part1").stdout.strip() == root
        assert vm.run("uname", "-r").stdout.strip() in vm.run("ls", "/lib/modules").stdout.split()


def test_what_fails_ends_its_machines_and_says_what_to_read(clone: Vm) -> None:
    name = f"e2e-bad-{os.getpid()}"
    try:
        with pytest.raises(vms.VmProblem, match=r"(?s)QEMU has ended.*no-such-device"):
            vms.up(name, [Machine("bad", qemu=("-device", "no-such-device"))])
        assert vms.qemu.running(vms.STATE / name / "bad") is None
    finally:
        vms.down(name)

    assert not (vms.STATE / name).exists()
    assert serials(clone) == list(SERIALS)
