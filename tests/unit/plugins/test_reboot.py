"""Whether a node must be rebooted: read from a root, decided from what was read; and what a person's reboot would not mend."""

from __future__ import annotations

import fcntl
import importlib.util
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ansible.module_utils
import pytest

from lab import fake_root

ROOT = Path(__file__).resolve().parents[3]
ansible.module_utils.__path__.append(str(ROOT / "plugins/module_utils"))
from ansible.module_utils.burnin_reboot import deciding, state  # noqa: E402
from ansible.module_utils.burnin_reboot.deciding import Wanted, decide  # noqa: E402

K1, K2 = "5.14.0-362.el9.x86_64", "5.14.0-503.el9.x86_64"
RUNS = Path("/var/lib/burnin")
WELL: dict[str, Any] = {
    "boot_id": "AAAA", "kernel": K1, "kernels": [K1], "next_kernel": K1, "gpus": ["0000:18:00.0"], "module": "580.126.09", "nouveau": False,
    "module_for": [K1], "flags": {}, "processes": [], "burn_ins": [], "booting": False,
}  # fmt: skip
PINNED = Wanted(K1, "580.126.09")


def codes(facts: list[dict[str, str]]) -> list[str]:
    return [fact["code"] for fact in facts]


@pytest.mark.parametrize(
    ("wanted", "found", "reasons"),
    [
        pytest.param(PINNED, {}, [], id="all is as it shall be"),
        pytest.param(Wanted(), {"kernel": "anything", "module": None}, [], id="nothing is pinned"),
        pytest.param(
            Wanted(K2), {"kernels": [K1, K2], "next_kernel": K2}, ["KERNEL_OTHER"], id="B05: 503 is installed, 362 runs, no marker file"
        ),
        pytest.param(Wanted(K2), {"kernels": [K1, K2], "next_kernel": None}, ["KERNEL_OTHER"], id="the boot loader is none that we know"),
        pytest.param(PINNED, {"module": "570.86.15"}, ["MODULE_OTHER"], id="the old driver is still loaded"),
        pytest.param(PINNED, {"module": None}, ["MODULE_OTHER"], id="no driver is loaded"),
        pytest.param(PINNED, {"nouveau": True}, ["NOUVEAU_LOADED"], id="nouveau"),
        pytest.param(
            PINNED, {"nouveau": True, "module": None, "gpus": [], "module_for": []}, [], id="no GPU on the bus, so no driver is owed"
        ),
        pytest.param(Wanted(K1), {"nouveau": True, "module": None}, [], id="the driver is not ours"),
        pytest.param(PINNED, {"flags": {"driver": "570 to 580"}}, ["FLAGGED"], id="a role asked for it"),
        pytest.param(Wanted(K1, "580.126.09", force=True), {}, ["FORCED"], id="a person asked for it"),
        # B19, second case: current and next value are as desired, and the tool advises a reboot all the same.
        pytest.param(
            PINNED, {"advice": "Please reboot machine to load new configurations."}, [], id="B19: what a tool always says is no reason"
        ),
    ],
)
def test_the_nodes_state_decides(wanted: Wanted, found: dict[str, Any], reasons: list[str]) -> None:
    decision = decide({**WELL, **found}, wanted)

    assert codes(decision.reasons) == reasons
    assert decision.faults == []
    assert decision.required is bool(reasons)
    assert all(all(fact.values()) for fact in decision.reasons), "each says what was found, what was expected and what to do"


@pytest.mark.parametrize(
    ("wanted", "found", "faults"),
    [
        pytest.param(Wanted(K2), {}, ["KERNEL_NOT_INSTALLED"], id="the pinned kernel is not installed"),
        pytest.param(
            Wanted(K2), {"kernels": [K1, K2], "next_kernel": K1}, ["KERNEL_NOT_DEFAULT"], id="the boot loader would start the old one again"
        ),
        pytest.param(
            PINNED, {"next_kernel": K2, "module": None}, ["KERNEL_NOT_DEFAULT"], id="the reboot for the driver would move the kernel"
        ),
        pytest.param(
            PINNED, {"module": None, "module_for": [K2]}, ["MODULE_NOT_BUILT"], id="B05: dkms built nvidia for 503 alone, 362 runs"
        ),
        pytest.param(
            Wanted(K2, "580.126.09"), {"kernels": [K1, K2], "next_kernel": K2}, ["MODULE_NOT_BUILT"], id="not built for the kernel to come"
        ),
    ],
)
def test_what_no_reboot_mends_is_a_fault_and_not_rebooted_for(wanted: Wanted, found: dict[str, Any], faults: list[str]) -> None:
    decision = decide({**WELL, **found}, wanted)

    assert codes(decision.faults) == faults
    assert decision.required is False


def test_a_newer_kernel_that_would_boot_is_no_fault_while_nothing_asks_for_a_reboot() -> None:
    decision = decide({**WELL, "next_kernel": K2}, PINNED)

    assert (decision.reasons, decision.faults) == ([], [])


def test_the_module_for_the_kernel_to_come_is_what_counts() -> None:
    found = {"kernels": [K1, K2], "next_kernel": K2, "module_for": [K2], "module": None}

    decision = decide({**WELL, **found}, Wanted(K2, "580.126.09"))

    assert codes(decision.reasons) == ["KERNEL_OTHER", "MODULE_OTHER"]
    assert decision.required


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Path]:
    """A bare H100 node, with a boot id."""
    root = fake_root.build(tmp_path / "node")
    put(root, state.BOOT_ID, "AAAA\n")
    put(root, "proc/sys/kernel/osrelease", K1 + "\n")
    put(root, f"boot/vmlinuz-{K1}")
    put(root, f"lib/modules/{K1}/updates/dkms/nvidia.ko.xz")
    yield root


def put(root: Path, path: str, text: str = "") -> Path:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


def test_one_look_reads_it_all(node: Path) -> None:
    put(node, f"boot/vmlinuz-{K2}")
    put(node, "sys/module/nouveau/initstate", "live")
    for name, text in (("vendor", "0x1a03"), ("class", "0x030000")):  # the board's own VGA
        put(node, f"sys/bus/pci/devices/0000:03:00.0/{name}", text + "\n")
    put(node, "run/burnin/reboot-required.d/driver", "570.86.15 to 580.126.09\nmore\n")
    put(node, "run/burnin/reboot-required.d/kernel")

    found = state.read(node, RUNS)

    assert {name: found[name] for name in ("boot_id", "kernel", "kernels", "module", "nouveau", "module_for", "booting", "burn_ins")} == {
        "boot_id": "AAAA", "kernel": K1, "kernels": sorted([K1, K2, *(set(found["kernels"]) - {K1, K2})]), "module": None, "nouveau": True,
        "module_for": [K1], "booting": False, "burn_ins": [],
    }  # fmt: skip
    assert len(found["gpus"]) == 8
    assert found["flags"] == {"driver": "570.86.15 to 580.126.09\nmore", "kernel": "it gave no reason"}


@pytest.mark.parametrize(
    ("file", "there"),
    [
        ("updates/dkms/nvidia.ko", True), ("extra/nvidia.ko.zst", True), ("updates/dkms/nvidia-current.ko", True),
        ("kernel/nvidia-580-open/nvidia.ko.gz", True), ("updates/dkms/nvidia-uvm.ko", False), ("updates/dkms/nvidia_peermem.ko", False),
        ("build/nvidia.ko", False), ("updates/dkms/nvidia.ko.old", False),
    ],
)  # fmt: skip
def test_the_module_counts_where_modprobe_finds_it(tmp_path: Path, file: str, there: bool) -> None:
    put(tmp_path, f"lib/modules/{K1}/{file}")

    assert state.on_disk(tmp_path, K1) is there


def test_who_uses_a_gpu_is_named_and_the_drivers_own_daemons_are_not(node: Path) -> None:
    for pid, comm, target in ((10, "python3", "/dev/nvidia3"), (11, "nvidia-persiste", "/dev/nvidia0"), (12, "sshd", "/dev/null")):
        put(node, f"proc/{pid}/comm", comm + "\n")
        (node / f"proc/{pid}/fd").mkdir()
        (node / f"proc/{pid}/fd/5").symlink_to(target)
    (node / "proc/13").mkdir()

    assert state.read(node, RUNS)["processes"] == [{"pid": 10, "name": "python3", "device": "/dev/nvidia3"}]


def test_a_burn_in_is_under_way_while_somebody_holds_its_lock(node: Path) -> None:
    lock = put(node, "var/lib/burnin/20260101T000000Z-aaaaaa/evidence/agent.lock")
    put(node, "var/lib/burnin/20260101T000000Z-bbbbbb/evidence/agent.lock")

    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        during = state.read(node, RUNS)["burn_ins"]

    assert during == ["20260101T000000Z-aaaaaa"]
    assert state.read(node, RUNS)["burn_ins"] == []


LOCKER = "import fcntl, sys; file = open(sys.argv[1], 'rb+'); fcntl.lockf(file, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"


@pytest.mark.parametrize(
    "place", ["var/lib/dpkg/lock-frontend", "var/lib/dpkg/lock", "var/lib/rpm/.rpm.lock", "usr/lib/sysimage/rpm/.rpm.lock"]
)
def test_who_changes_packages_is_named_and_not_rebooted_under_even_when_gpu_work_may_be(node: Path, place: str) -> None:
    lock = put(node, place)

    before = state.read(node, RUNS)["packagers"]
    with subprocess.Popen([sys.executable, "-c", LOCKER, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        put(node, f"proc/{holder.pid}/comm", "apt-get")
        during = state.read(node, RUNS)
        holder.communicate()

    assert (before, during["packagers"]) == ([], [{"pid": holder.pid, "name": "apt-get"}])
    action = _action()
    with pytest.raises(action.Refused, match=rf"packages are being changed on it: process {holder.pid} \(apt-get\)") as refusal:
        action.ActionModule._refuse_busy(None, during, {"busy_ok": True})
    assert refusal.value.code == "NODE_BUSY"
    action.ActionModule._refuse_busy(None, {**during, "packagers": []}, {"busy_ok": True})


def _action() -> Any:
    spec = importlib.util.spec_from_file_location("burnin_reboot_action", ROOT / "plugins/action/burnin_reboot.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_empty_root_knows_nothing_and_asks_for_nothing(tmp_path: Path) -> None:
    found = state.read(tmp_path, RUNS)

    assert found["boot_id"] is None
    assert decide({**found, "kernel": K1}, Wanted("", "580.126.09")).required is False


class Ended(Exception):
    """What exit_json and fail_json do."""


class Module:
    """As much of an AnsibleModule as the reboot needs."""

    def __init__(self, act_on: str, command: list[str]) -> None:
        self.params = {"act_on": act_on, "command": command}

    def get_bin_path(self, name: str) -> str:
        return name

    def exit_json(self, **told: Any) -> None:
        raise Ended(told)


@pytest.mark.parametrize(("seen", "started"), [("AAAA", True), ("BBBB", False)], ids=["still that boot", "ssh repeated it after the boot"])
def test_a_repeated_command_does_not_reboot_the_next_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: str, started: bool
) -> None:
    spec = importlib.util.spec_from_file_location("burnin_reboot_module", ROOT / "plugins/modules/burnin_reboot.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "DELAY_S", 0)
    mark = tmp_path / "rebooted"

    with pytest.raises(Ended) as ended:
        module.reboot(Module("AAAA", ["/usr/bin/touch", str(mark)]), {"boot_id": seen})

    deadline = time.monotonic() + 5
    while started and not mark.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert ended.value.args[0]["started"] is started
    assert mark.exists() is started


def test_a_fact_names_what_was_found_expected_and_to_be_done() -> None:
    told = deciding.decide({**WELL, "module": "570.86.15"}, PINNED).reasons[0]

    assert told["found"] == "the module nvidia 570.86.15 is loaded"
    assert told["expected"] == "version 580.126.09"
    assert "modinfo" in told["remedy"]
