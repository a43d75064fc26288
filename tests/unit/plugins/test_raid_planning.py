"""nvme_raid0: what is refused, what is adopted, and the argv of what would be done. The reader's findings in, a plan or a refusal out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ansible.module_utils
import pytest

ROOT = Path(__file__).resolve().parents[3]
ansible.module_utils.__path__.append(str(ROOT / "plugins/module_utils"))
from ansible.module_utils.burnin_raid import core, planning, settling, texts  # noqa: E402
from ansible.module_utils.burnin_raid.model import Area, Mounted, Plan, Refused, Signature, Superblock, World  # noqa: E402

import fake_raid as fake  # noqa: E402
from fake_raid import drive, four, holding, member, running, used, wanted, world  # noqa: E402

STAMP = settling.digest(texts.mdadm_conf("", fake.ARRAY, "scratch"), "")


def plan(found: World, **asked: Any) -> Plan:
    return planning.plan(found, wanted(**asked), fake.NEW)


def refusal(found: World, **asked: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        plan(found, **asked)
    return caught.value


def settled(**more: Any) -> World:
    """An array that lacks nothing."""
    given = wanted()
    about = {
        "conf": texts.mdadm_conf("", fake.ARRAY, "scratch"), "fstab": texts.fstab("", fake.FS, given), "stamp": STAMP,
        "mounts": (Mounted("9:127", "/scratch", "xfs"),), "mount_holds": (),
    }  # fmt: skip
    return running(four(), **{**about, **more})


def put(kind: str) -> Callable[[Any], Any]:
    return lambda one: holding(one, kind)


def cut(one: Any) -> Any:
    return replace(one, disk=replace(one.disk, trouble="wipefs exited 1"))


def two_arrays() -> World:
    return world(four(*[lambda one, n=n: member(one, n, uuid=fake.ARRAY.replace("1", str(n % 2 + 5))) for n in range(4)]))


def reaching_out() -> World:
    return world((*four(lambda one: member(one, 0, devices=2)), member(drive(5, size=10**12), 1, devices=2)))


REFUSALS = [
    ("DRIVES_TOO_FEW", "a drive is missing", lambda: world(four()[:3]), {}, "S3"),
    ("DRIVES_TOO_FEW", "fewer are asked for than an array needs", lambda: world(four()), {"drives": 3}, "3 drives"),
    ("DRIVES_TOO_MANY", "more match", lambda: world((*four(), drive(5))), {}, "S5"),
    ("DRIVES_MIXED", "one is of another size", lambda: world((*four()[:3], drive(4, size=10**12))), {}, "S4"),
    ("DRIVES_MIXED", "one is of another model", lambda: world((*four()[:3], drive(4, model="PM1733"))), {}, "PM1733"),
    ("ID_UNKNOWN", "a serial that names nothing", lambda: world(four()), {"ids": ("S1", "S2", "S3", "S99")}, "S99"),
    ("ID_UNKNOWN", "a kernel's name", lambda: world(four()), {"ids": ("/dev/nvme1n1", "S2", "S3", "S4")}, "nvme1n1"),
    ("ID_AMBIGUOUS", "one drive by two ids", lambda: world(four()), {"ids": ("S1", "eui.001", "S2", "S3")}, "eui.001"),
    ("ID_AMBIGUOUS", "an id of two drives", lambda: world((*four(), replace(drive(5), ids=("S1",)))), {"ids": ("S1", "S2", "S3", "S4")}, "nvme5n1"),
    ("SYSTEM_DISK", "the system's drive by its id", lambda: world(four()), {"ids": ("S9", "S2", "S3", "S4")}, "S9"),
    ("SYSTEM_DISK", "a consent for the system's drive", lambda: world(four()), {"erase": (("S9", ""),)}, "S9"),
    ("CONSENT_UNKNOWN_SERIAL", "a consent for no drive", lambda: world(four()), {"erase": (("S77", ""),)}, "S77"),
    ("DISK_IN_USE", "a mount", lambda: world(four(lambda one: used(one, "mount", "/data"))), {"erase": (("S1", ""),)}, "/data"),
    ("DISK_IN_USE", "an open handle", lambda: world(four(lambda one: used(one, "handle", "process 7 (dd)"))), {"erase": (("S1", ""),)}, "dd"),
    ("DISK_NOT_BLANK", "a file system", lambda: world(four(put("ext4"))), {}, "ext4"),
    ("DISK_NOT_BLANK", "a consent for another", lambda: world(four(put("ext4"), put("swap"))), {"erase": (("S1", ""),)}, "S2"),
    ("DISK_NOT_BLANK", "bytes of no known kind", lambda: world(four(lambda one: holding(one, raw="abc"))), {}, "no known kind"),
    ("CONSENT_STALE", "other content than was read", lambda: world(four(put("ext4"))), {"erase": (("S1", "xfs uuid-xfs"),)}, "ext4"),
    ("READ_FAILED", "a drive that cannot be read", lambda: world(four(cut)), {"erase": (("S1", ""),)}, "wipefs exited 1"),
    ("READ_FAILED", "a write-protected drive", lambda: world(four(lambda one: replace(one, read_only=True))), {}, "write-protected"),
    ("ARRAY_DEGRADED", "a member is missing", lambda: world(four(*[lambda one, n=n: member(one, n) for n in range(3)])), {}, "3 of 4"),
    ("ARRAY_LAYOUT", "another chunk", lambda: running(four()), {"chunk_kib": 256}, "512 KiB"),
    ("ARRAY_LAYOUT", "another file system on it", lambda: running(four(), kind="ext4"), {}, "ext4"),
    ("ARRAY_HALF", "no file system and not empty", lambda: running(four(), kind="", raw="abc"), {}, "not empty"),
    ("ARRAY_TWICE", "members of two arrays", two_arrays, {}, "2 arrays"),
    ("ARRAY_FOREIGN_MEMBER", "an array that goes on elsewhere", reaching_out, {"size_gb": 3840}, "nvme5n1"),
    ("MOUNT_BUSY", "something else is mounted there", lambda: world(four(), mounts=(Mounted("8:1", "/scratch", "ext4"),)), {}, "/scratch"),
    ("MOUNT_BUSY", "files under the mount point", lambda: world(four(), mount_holds=("old",)), {}, "old"),
    ("MOUNT_BUSY", "another line of fstab", lambda: world(four(), fstab="nas:/x /scratch nfs\n"), {}, "nas:/x"),
    ("MOUNT_READ_ONLY", "a read-only mount", lambda: settled(mounts=(Mounted("9:127", "/scratch", "xfs", True),)), {}, "read-only"),
    ("MOUNT_READ_ONLY", "a read-only /etc", lambda: world(four(), read_only_folders=("/etc",)), {}, "/etc"),
    ("BOOT_SPACE", "no room for the initramfs", lambda: world(four(), boot_free_kib=1000), {}, "/boot"),
    ("TOOL_MISSING", "no mkfs", lambda: world(four(), tools=fake.TOOLS - {"mkfs.xfs"}), {}, "mkfs.xfs"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "found", "asked", "named"), [(c, f, a, n) for c, _, f, a, n in REFUSALS], ids=[f"{c}: {w}" for c, w, *_ in REFUSALS]
)
def test_is_refused(code: str, found: Callable[[], World], asked: dict[str, Any], named: str) -> None:
    problem = refusal(found(), **asked)

    assert problem.code == code, problem.message
    assert named in problem.message


def test_the_refusal_tells_which_consents_would_settle_it() -> None:
    problem = refusal(world(four(put("ext4"), put("swap"))))

    assert problem.erase == {"S1": "ext4 uuid-ext4", "S2": "swap uuid-swap"}
    consented = plan(world(four(put("ext4"), put("swap"))), erase=tuple(problem.erase.items()))
    assert consented.erase == problem.erase


def test_blank_drives_become_an_array_in_this_order() -> None:
    made = plan(world(four()))

    assert made.state == "created"
    assert [step.plain() for step in made.steps] == [
        ["mdadm", "--create", "/dev/md/scratch", "--run", "--metadata=1.2", "--homehost=node", "--name=scratch", "--level=0", "--chunk=512",
         "--raid-devices=4", "--uuid=55555555:66667777:88889999:99999999", "/dev/nvme1n1", "/dev/nvme2n1", "/dev/nvme3n1", "/dev/nvme4n1"],
        ["mkfs.xfs", "-f", "-q", "-m", "uuid=" + fake.NEW[1], "-d", "su=512k,sw=4", "-l", "su=32k", "/dev/md/scratch"],
        ["(folder)", "/scratch"],
        ["(write)", "/etc/mdadm/mdadm.conf"],
        ["(write)", "/etc/fstab"],
        ["systemctl", "daemon-reload"],
        ["mount", "--", "/scratch"],
        [*fake.INITRAMFS],
        ["(write)", settling.STAMP],
    ]  # fmt: skip


def test_ext4_is_told_stride_and_stripe_width() -> None:
    made = plan(world(four()), filesystem="ext4")

    assert ("mkfs.ext4", "-F", "-q", "-b", "4096", "-U", fake.NEW[1], "-E", "stride=128,stripe_width=512", "/dev/md/scratch") in [
        s.argv for s in made.steps
    ]


def test_partitions_are_erased_before_their_drive_and_no_other_drive_is_named() -> None:
    one = holding(drive(1), "PMBR", "gpt", "gpt")
    part = Area(
        "nvme1n1p1", "259:11", 10**12, 1, (Signature("linux_raid_member", 4096, "ab"),), (Superblock("ab" * 16, devices=1, role=0),)
    )
    found = world((replace(one, partitions=(part,)), *four()[1:]))
    with_array = refusal(found)

    made = plan(found, erase=(("S1", with_array.erase["S1"]),))

    erasing = [step for step in made.steps if step.kind in ("wipe", "gone") or "--zero-superblock" in step.argv]
    assert [step.plain()[-1] for step in erasing] == ["/dev/nvme1n1p1", "/dev/nvme1n1p1", "/dev/nvme1n1", "nvme1n1"]
    assert {name for step in erasing for name in step.drives} == {"nvme1n1"}


def test_an_array_to_erase_is_stopped_first() -> None:
    found = running(four(), kind="ext4")
    told = refusal(found)

    made = plan(found, erase=tuple(told.erase.items()))

    assert made.steps[0].argv == ("mdadm", "--stop", "/dev/md127")
    assert sorted(told.erase) == ["S1", "S2", "S3", "S4"]


def test_a_right_array_with_all_around_it_is_left_alone() -> None:
    told = plan(settled())

    assert (told.state, told.steps) == ("unchanged", ())
    assert told.filesystem["uuid"] == fake.FS


@pytest.mark.parametrize(
    ("lacking", "step"),
    [
        ({"conf": None}, ["(write)", "/etc/mdadm/mdadm.conf"]),
        ({"fstab": ""}, ["(write)", "/etc/fstab"]),
        ({"mounts": ()}, ["mount", "--", "/scratch"]),
        ({"stamp": ""}, [*fake.INITRAMFS]),
        ({"trim": "disabled"}, ["systemctl", "enable", "--now", "--", "fstrim.timer"]),
    ],
)
def test_an_array_is_adopted_and_what_lacks_is_put_right(lacking: dict[str, Any], step: list[str]) -> None:
    told = plan(settled(**lacking))

    assert told.state == "adopted"
    assert step in [one.plain() for one in told.steps]
    assert not any(one.drives for one in told.steps), "no drive is written"


def test_an_array_that_is_not_assembled_is_assembled_from_its_members_alone() -> None:
    told = plan(world(four(*[lambda one, n=n: member(one, n) for n in range(4)])))

    assert [step.argv for step in told.steps] == [
        ("mdadm", "--assemble", "/dev/md/scratch", "--uuid=" + fake.ARRAY, "/dev/nvme1n1", "/dev/nvme2n1", "/dev/nvme3n1", "/dev/nvme4n1")
    ]


def test_an_idle_array_under_another_name_is_assembled_anew_and_one_in_use_is_not() -> None:
    idle = plan(running(four(), link=""))
    mounted = running(tuple(used(one, "mount", "/scratch") for one in four()), link="", mounts=(Mounted("9:127", "/scratch", "xfs"),))

    assert [step.argv[1] for step in idle.steps] == ["--stop", "--assemble"]
    assert not any("--stop" in step.argv for step in plan(mounted).steps)


def test_an_empty_array_that_was_cut_off_gets_its_file_system_without_force() -> None:
    told = plan(running(four(), kind=""))

    assert [step.argv[:2] for step in told.steps if step.argv and step.argv[0] == "mkfs.xfs"] == [("mkfs.xfs", "-q")]


def test_one_drive_with_other_firmware_is_a_finding() -> None:
    found = world(four(lambda one: replace(one, firmware="F0")))
    done = core.Done(world=found, selected=("nvme1n1", "nvme2n1", "nvme3n1", "nvme4n1"))

    assert [(one["code"], one["serial"]) for one in core.findings(done)] == [("DISK_FIRMWARE", "S1")]
