"""nvme_raid0 carrying out a plan: files stand for drives, the programs are recorded. And whose consent counts."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ansible.module_utils
import pytest

ROOT = Path(__file__).resolve().parents[3]
ansible.module_utils.__path__.append(str(ROOT / "plugins/module_utils"))
from ansible.module_utils.burnin_group import node  # noqa: E402
from ansible.module_utils.burnin_raid import planning, probing  # noqa: E402
from ansible.module_utils.burnin_raid.applying import Failed, Hands  # noqa: E402
from ansible.module_utils.burnin_raid.model import Plan, Step  # noqa: E402

import fake_raid as fake  # noqa: E402

SIZE = 4 * 2**20


def action() -> Any:
    spec = importlib.util.spec_from_file_location("nvme_raid0_action", ROOT / "plugins/action/nvme_raid0.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Node:
    """Four blank drives below a root, and what was run on them."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.ran: list[tuple[str, ...]] = []
        self.on: dict[str, Callable[[], int]] = {}
        self.drives = tuple(fake.drive(number, size=SIZE) for number in range(1, 5))
        for one in self.drives:
            self.tell(one.name, dev=one.dev, serial=one.serial + "   ", sectors=SIZE // 512, sequence=one.sequence)
            (root / "dev").mkdir(exist_ok=True)
            (root / "dev" / one.name).write_bytes(bytes(SIZE))
        (root / "etc").mkdir()
        (root / "etc/fstab").write_text("/dev/x / ext4\n")
        monkeypatch.setattr(node, "run", self.run)
        monkeypatch.setattr(probing, "signatures", lambda path: ())
        self.world = fake.world(self.drives)

    def tell(self, name: str, **facts: object) -> None:
        folder = self.root / "sys/class/block" / name
        (folder / "device").mkdir(parents=True, exist_ok=True)
        files = {"dev": "dev", "serial": "device/serial", "sectors": "size", "sequence": "diskseq"}
        for fact, value in facts.items():
            (folder / files[fact]).write_text(f"{value}\n")

    def run(self, argv: Sequence[str], _timeout_s: float = 0, _stdin: str = "") -> subprocess.CompletedProcess[str]:
        if argv[0] != "udevadm":
            self.ran.append(tuple(argv))
        code = self.on[argv[0]]() if argv[0] in self.on else 0
        if argv[:2] == ("mdadm", "--create") and not code:
            (self.root / "dev/md").mkdir()
            (self.root / "dev/md/scratch").touch()
        return subprocess.CompletedProcess(list(argv), code, "", "the reason\nits usage\n" if code else "")

    def plan(self) -> Plan:
        return planning.plan(self.world, fake.wanted(), fake.NEW)

    def fails(self, plan: Plan | None = None) -> Failed:
        with pytest.raises(Failed) as caught:
            Hands(self.root, self.world, plan or self.plan()).carry_out()
        return caught.value


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


def test_all_steps_are_done_in_their_order_and_files_are_written(machine: Node) -> None:
    Hands(machine.root, machine.world, machine.plan()).carry_out()

    assert [argv[0] for argv in machine.ran] == ["mdadm", "mkfs.xfs", "systemctl", "mount", "update-initramfs"]
    assert f"UUID={fake.NEW[1]} /scratch xfs nofail" in (machine.root / "etc/fstab").read_text()
    assert "/dev/md/scratch" in (machine.root / "etc/mdadm/mdadm.conf").read_text()
    assert (machine.root / "scratch").is_dir()


@pytest.mark.parametrize("fact", [{"dev": "259:77"}, {"serial": "S77"}, {"sequence": 77}, {"sectors": 77}])
def test_a_target_that_moved_ends_it_before_the_first_write(machine: Node, fact: dict[str, object]) -> None:
    plan = machine.plan()
    machine.tell("nvme2n1", **fact)

    failed = machine.fails(plan)

    assert failed.refusal.code == "TARGET_MOVED"
    assert "nvme2n1" in failed.refusal.message
    assert (machine.ran, failed.done) == ([], [])


def test_a_drive_that_was_written_to_in_between_ends_it(machine: Node) -> None:
    plan = machine.plan()
    (machine.root / "dev/nvme3n1").write_bytes(b"new data" + bytes(SIZE - 8))

    failed = machine.fails(plan)

    assert failed.refusal.code == "TARGET_MOVED"
    assert machine.ran == []


def test_a_drive_that_is_gone_ends_it_before_the_first_write(machine: Node) -> None:
    plan = machine.plan()
    (machine.root / "dev/nvme4n1").unlink()

    failed = machine.fails(plan)

    assert failed.refusal.code == "DRIVE_VANISHED"
    assert machine.ran == []


def test_a_drive_that_vanishes_in_the_middle_is_the_reason_and_what_was_done_is_told(machine: Node) -> None:
    def vanish() -> int:
        (machine.root / "dev/nvme4n1").unlink()
        return 1

    machine.on["mkfs.xfs"] = vanish

    failed = machine.fails()

    assert failed.refusal.code == "DRIVE_VANISHED"
    assert "S4" in failed.refusal.message
    assert [step[0] for step in failed.done] == ["mdadm"]
    assert failed.left[0][0] == "mkfs.xfs"


def test_a_command_that_fails_is_named_with_its_reason_first(machine: Node) -> None:
    machine.on["mdadm"] = lambda: 1

    failed = machine.fails()

    assert failed.refusal.code == "COMMAND_FAILED"
    assert "mdadm --create /dev/md/scratch" in failed.refusal.message
    assert "exited 1: the reason" in failed.refusal.message
    assert len(failed.left) == len(machine.plan().steps)


def test_a_file_that_somebody_changed_meanwhile_is_not_overwritten(machine: Node) -> None:
    plan = machine.plan()
    (machine.root / "etc/fstab").write_text("theirs\n")

    failed = machine.fails(plan)

    assert "/etc/fstab was changed" in failed.refusal.message
    assert (machine.root / "etc/fstab").read_text() == "theirs\n"


def test_wiping_that_leaves_something_is_a_failure(machine: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    left = fake.holding(fake.drive(1), "ext4").disk.signatures
    plan = Plan("adopted", machine.drives, (Step("wipe", ("wipefs", "--all", "/dev/nvme1n1"), drives=("nvme1n1",), area="nvme1n1"),))
    monkeypatch.setattr(probing, "signatures", lambda path: left)

    failed = machine.fails(plan)

    assert "still holds ext4" in failed.refusal.message
    assert machine.ran.count(("wipefs", "--all", "/dev/nvme1n1")) == 5


def test_no_drive_stays_open(machine: Node) -> None:
    machine.on["mdadm"] = lambda: 1
    hands = Hands(machine.root, machine.world, machine.plan())

    with pytest.raises(Failed):
        hands.carry_out()

    assert hands.held.open == {}


def test_a_consent_is_one_hosts_and_text() -> None:
    ours = action()

    assert ours.consent({"n1": {"S1": "ext4"}, "n2": {"S2": ""}}, "n1") == {"S1": "ext4"}
    assert ours.consent({"n2": {"S2": ""}}, "n1") == {}
    assert ours.consent({"n1": ["S1"]}, "n1") == {"S1": ""}
    assert ours.consent(None, "n1") == {}
    for wrong in ("S1", {"n1": "S1"}, {"n1": {1: "ext4"}}, {"n1": {"S1": None}}):
        with pytest.raises(ours.NotFromRun):
            ours.consent(wrong, "n1")


def test_a_consent_from_elsewhere_is_refused() -> None:
    ours = action()

    ours.refuse_others({}, {ours.NAME: {}}, {ours.NAME: {}})
    for arguments, variables in (({}, {ours.NAME: {"n1": {"S1": ""}}}), ({"erase": {"S1": ""}}, {})):
        with pytest.raises(ours.NotFromRun):
            ours.refuse_others(arguments, variables, {})
