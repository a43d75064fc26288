"""The settings on a virtual machine's own kernel. Those that wait for a boot are followed over one in tests/end_to_end/test_tuning_role.py."""

from __future__ import annotations

from lab import verify


def test_check_mode_tells_and_the_second_converge_changes_nothing() -> None:
    first_check, first, second_check, second = verify.converges()

    for record in (first_check, first, second_check, second):
        assert verify.sound(record), record["failed"]
        assert sorted(record["hosts"]) == ["tuned"]
    assert {step["host"] for step in first_check["changed"]} == {"tuned"}, "check mode must tell what would change"
    assert {step["host"] for step in first["changed"]} == {"tuned"}
    assert (second_check["changed"], second["changed"]) == ([], [])


def test_no_port_above_the_cards_redirects(host) -> None:
    for card in host.check_output("readlink -f /sys/class/nvme/*/device").splitlines():
        port = card.rpartition("/")[0].rpartition("/")[2]
        assert int(host.check_output(f"setpci -s {port} ECAP_ACS+6.w"), 16) & 0x0C == 0


def test_passthrough_waits_for_the_boot_and_says_so(host) -> None:
    assert "iommu=pt" in host.check_output("grep -m 1 vmlinuz /boot/grub/grub.cfg")
    assert "iommu=pt" not in host.file("/proc/cmdline").content_string
    assert host.file("/run/burnin/reboot-required.d/node_tuning").exists


def test_numa_balancing_is_off_and_the_next_boot_keeps_it(host) -> None:
    assert host.file("/proc/sys/kernel/numa_balancing").content_string.strip() == "0"
    assert host.service("burnin-node-tuning").is_enabled


def test_a_daemon_may_lock_memory_and_open_files(host) -> None:
    told = host.check_output("systemd-run --wait --pipe --quiet sh -c 'ulimit -l; ulimit -n'").split()
    assert told == ["unlimited", "1048576"]
