"""The role node_tuning on a virtual machine with an IOMMU, ports with ACS and two NUMA nodes: a real kernel, GRUB and systemd, and a real reboot.

Two NVMe drives stand for GPU and adapter: no other card of QEMU's is needed, for what is looked at are the ports above it and its IOMMU group.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from burnin.adapters.ansible import HostResult, HostState, PlayRequest, play
from lab import vms
from lab.vms import Drive, Machine, Vm

ROOT = Path(__file__).resolve().parents[2]
ROLE = "---\n- name: Tune\n  hosts: gpu_nodes\n  gather_facts: false\n  roles:\n    - node_tuning\n"
WORDS = (
    "-device", "intel-iommu", "-object", "memory-backend-ram,id=m0,size=512M", "-object", "memory-backend-ram,id=m1,size=512M",
    "-numa", "node,nodeid=0,memdev=m0,cpus=0", "-numa", "node,nodeid=1,memdev=m1,cpus=1",
)  # fmt: skip
CARDS = ["1b36:0108"]
# QEMU's cards take neither of the two that are off here; the last test says what comes of asking.
ASKED = {
    "node_tuning_gpu_cards": CARDS, "node_tuning_nic_cards": CARDS, "node_tuning_max_read_request": 0, "node_tuning_relaxed_ordering": False,
    "node_tuning_huge_pages_per_numa_node": 4, "node_tuning_transparent_huge_pages": "madvise",
    "node_tuning_require": ["acs_redirect", "iommu", "numa_balancing", "huge_pages", "memlock", "open_files"],
}  # fmt: skip
PATIENCE_S = 300

pytestmark = pytest.mark.slow


class Site:
    """One machine, and the role on it."""

    def __init__(self, place: Path, group: str, vm: Vm) -> None:
        self.place, self.vm = place, vm
        vms.inventory(group, place / "hosts.yml")
        (place / "tune.yml").write_text(ROLE)

    def role(self, *, check: bool = False, **asked: Any) -> HostResult:
        hosts = yaml.safe_load((self.place / "hosts.yml").read_text())
        hosts["gpu_nodes"]["vars"] |= {**ASKED, **asked}
        (self.place / "asked.yml").write_text(yaml.safe_dump(hosts))
        done = play(
            PlayRequest(
                project=ROOT, playbook=str(self.place / "tune.yml"), inventory=(self.place / "asked.yml",), hosts=(self.vm.name,),
                timeout_s=PATIENCE_S, forks=1, check=check, work_base=self.place / "work",
            )
        )  # fmt: skip
        assert done.status == "finished", done.detail
        return done.hosts[self.vm.name]

    def said(self, *argv: str) -> str:
        return self.vm.run(*argv, timeout=120).stdout.strip()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A machine that boots by its own GRUB; the tests go on from one another. In CI it must be there."""
    why = vms.missing()
    if why is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have virtual machines: {why}")
        pytest.skip(why)
    group = f"e2e-tune-{os.getpid()}"
    try:
        vm = vms.up(group, [Machine("tuned", (Drive("GPU"), Drive("NIC")), own_boot=True, qemu=WORDS)])["tuned"]
        vm.run("update-grub", timeout=120)  # a menu as every installed system has one
        yield Site(tmp_path_factory.mktemp("tune"), group, vm)
    finally:
        vms.down(group)


def states(told: HostResult) -> dict[str, str]:
    return {name: one["state"] for name, one in told.data["settings"].items()}  # type: ignore[attr-defined]


def ports(site: Site) -> set[str]:
    """The redirect bits of the ports above the two cards, as setpci reads them."""
    places = site.said("sh", "-c", "readlink -f /sys/class/nvme/*/device").split()
    above = [re.findall(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", place)[-2] for place in places]
    assert len(set(above)) == 2
    return {f"{int(site.said('setpci', '-s', port, 'ECAP_ACS+6.w'), 16) & 0x0C:#x}" for port in above}


def limits(site: Site) -> dict[str, list[str]]:
    """What a login and a daemon that start now may lock and open."""
    look = "ulimit -l; ulimit -n; ulimit -Hn"
    return {
        "login": site.said("su", "-", "ops", "-c", look).split(),
        "daemon": site.said("systemd-run", "--quiet", "--pipe", "--wait", "sh", "-c", look).split(),
    }


def live(site: Site) -> dict[str, object]:
    """All that the running kernel says, read past the module."""
    pages = "cat /sys/devices/system/node/node*/hugepages/hugepages-2048kB/nr_hugepages"
    return {
        "redirects": ports(site),
        "balancing": site.said("cat", "/proc/sys/kernel/numa_balancing"),
        "huge pages": site.said("sh", "-c", pages).split(),
        "transparent": re.findall(r"\[(\w+)\]", site.said("cat", "/sys/kernel/mm/transparent_hugepage/enabled")),
        **limits(site),
    }


TUNED = {
    "redirects": {"0x0"}, "balancing": "0", "huge pages": ["4", "4"], "transparent": ["madvise"],
    "login": ["unlimited", "1048576", "1048576"], "daemon": ["unlimited", "1048576", "1048576"],
}  # fmt: skip
FLAG = "/run/burnin/reboot-required.d/node_tuning"


def translation(site: Site) -> set[str]:
    return set(site.said("sh", "-c", "cat /sys/class/nvme/*/device/iommu_group/type").split())


def test_check_tells_what_would_be_done_and_leaves_the_machine_as_it_came(site: Site) -> None:
    before = live(site)
    assert (before["redirects"], before["balancing"], translation(site)) == ({"0xc"}, "1", {"DMA-FQ"}), "as the kernel sets them by itself"

    told = site.role(check=True)

    assert told.state is HostState.OK, told.message
    assert {name for name, state in states(told).items() if state == "unsupported"} == {
        "kernel_parameters", "cpu_governor", "time_sync", "persistence",
    }  # fmt: skip
    assert live(site) == before
    assert site.vm.run("test", "-e", "/etc/burnin", check=False).returncode == 1


def test_it_is_set_and_the_boot_that_is_needed_is_flagged(site: Site) -> None:
    told = site.role()

    assert told.state is HostState.OK, told.message
    assert states(told) == {
        "acs_redirect": "changed", "iommu": "pending_reboot", "kernel_parameters": "unsupported", "cpu_governor": "unsupported",
        "numa_balancing": "changed", "huge_pages": "changed", "transparent_huge_pages": "changed", "memlock": "changed",
        "open_files": "changed", "time_sync": "unsupported", "persistence": "unsupported",
    }  # fmt: skip
    assert live(site) == TUNED
    assert site.said("cat", FLAG).startswith("iommu: the kernel that runs was not told intel_iommu=on iommu=pt")


def test_the_second_converge_changes_nothing_and_still_waits_for_the_boot(site: Site) -> None:
    told = site.role()

    assert (told.state, told.changed, states(told)["iommu"]) == (HostState.OK, 0, "pending_reboot")
    assert site.said("cat", FLAG)


def test_after_a_real_reboot_all_of_it_is_there_before_anybody_looks(site: Site) -> None:
    site.vm.reboot()

    assert live(site) == TUNED
    assert translation(site) == {"identity"}
    assert "intel_iommu=on iommu=pt" in site.said("cat", "/proc/cmdline")
    journal = site.said("journalctl", "-b", "-u", "burnin-node-tuning.service", "-o", "cat")
    assert "acs_redirect: changed (ReqRedir+ CmpltRedir+ -> no redirect)" in journal, "the kernel had set the bits again"
    told = site.role()
    assert (told.state, told.changed) == (HostState.OK, 0)
    assert set(states(told).values()) == {"ok", "unsupported"}
    assert told.data["drift"] == []
    assert site.vm.run("test", "-e", FLAG, check=False).returncode == 1


def test_a_card_that_does_not_take_it_is_a_failure_that_names_it(site: Site) -> None:
    told = site.role(node_tuning_max_read_request=4096)

    assert told.state is HostState.FAILED
    assert told.data["code"] == "SETTING_FAILED"
    assert re.search(r"max_read_request: still 128 of 0000:[0-9a-f:.]+, 128 of 0000:[0-9a-f:.]+, expected 4096", told.message)
    assert live(site) == TUNED
