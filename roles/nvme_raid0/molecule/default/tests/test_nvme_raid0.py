"""The array on a virtual machine's four drives. Its whole life, reboots and each refusal are in tests/end_to_end/test_raid_*.py."""

from __future__ import annotations

from lab import verify

ARRAY = "/dev/md/scratch"


def test_check_mode_tells_and_the_second_converge_changes_nothing() -> None:
    first_check, first, second_check, second = verify.converges()

    for record in (first_check, first, second_check, second):
        assert verify.sound(record), record["failed"]
        assert sorted(record["hosts"]) == ["drives"]
    assert [record["check"] for record in (first_check, first, second_check, second)] == [True, False, True, False]
    assert {step["host"] for step in first_check["changed"]} == {"drives"}, "check mode must tell what would change"
    assert {step["host"] for step in first["changed"]} == {"drives"}
    assert (second_check["changed"], second["changed"]) == ([], [])


def test_the_array_is_striped_over_all_four_and_mounted_by_its_file_systems_uuid(host) -> None:
    detail = host.check_output(f"mdadm --detail {ARRAY}")
    assert "Raid Level : raid0" in detail
    assert "Raid Devices : 4" in detail
    assert "Chunk Size : 512K" in detail
    mount = host.mount_point("/scratch")
    assert mount.exists
    assert mount.filesystem == "xfs"
    assert "noatime" in mount.options
    uuid = host.check_output(f"lsblk --noheadings --output UUID {ARRAY}")
    line = [line for line in host.file("/etc/fstab").content_string.splitlines() if "/scratch" in line]
    assert line == [f"UUID={uuid} /scratch xfs nofail,x-systemd.device-timeout=10s,noatime 0 0"]


def test_mdadm_conf_names_the_array_once_and_the_initramfs_has_it(host) -> None:
    arrays = [line for line in host.file("/etc/mdadm/mdadm.conf").content_string.splitlines() if line.startswith("ARRAY")]
    assert len(arrays) == 1
    assert "etc/mdadm/mdadm.conf" in host.check_output("lsinitramfs /boot/initrd.img-$(uname -r)").splitlines()


def test_a_drive_that_holds_something_is_refused_by_name_and_keeps_it(host) -> None:
    before = host.check_output("sha256sum /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_KEPT")

    record = verify.play("refuse.yml")

    assert record["rc"] != 0
    assert [failure["host"] for failure in record["failed"]] == ["drives"]
    assert "KEPT" in record["failed"][0]["message"]
    assert host.check_output("sha256sum /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_KEPT") == before
