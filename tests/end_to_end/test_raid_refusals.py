"""What nvme_raid0 refuses, each on real drives of a virtual machine whose root is on an NVMe drive too: no byte of any drive may change.

One machine under many names, all played in one go.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from burnin.adapters.ansible import HostResult, HostState
from lab.vms import Drive, Machine
from raid_site import Site, machine

pytestmark = pytest.mark.slow

SPACES = 19  # namespaces of the drive K, numbered as below
SINGLES = ("E1", "E2", "BIG")
BLANK = ("K_18", "K_19")
WANTED = {"nvme_raid0_drives": 2, "nvme_raid0_least": 2, "nvme_raid0_packages": {}, "nvme_raid0_filesystem": "ext4"}
PREPARE = """\
set -e
d() { readlink -f "/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_$1"; }
md() { name=$1; chunk=$2; shift 2; mdadm --quiet --create "/dev/md/$name" --run --metadata=1.2 --level=0 --chunk="$chunk" --raid-devices=2 "$@"; }
sgdisk --new 1:0:0 "$(d K_1)" >/dev/null
mkfs.ext4 -q -L keep "$(d K_2)"
mkfs.xfs -q --unsupported "$(d K_3)"
pvcreate -q "$(d K_4)"
printf secret | cryptsetup luksFormat --batch-mode --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$(d K_5)" -
md foreign 64 "$(d K_6)" "$(d K_7)"
mkswap "$(d K_8)" >/dev/null
swapon "$(d K_8)"
mkfs.ext4 -q "$(d K_9)"
mkdir -p /mnt/data
mount -o ro "$(d K_9)" /mnt/data  # mounted to be written, ext4 itself fills its tables in the background
vgcreate -q held "$(d K_10)"
lvcreate -q --name one --size 8M --wipesignatures n held
sh -c 'exec setsid sleep 100000 <"$1" >/dev/null 2>&1 &' sh "$(d K_11)"
md half 512 "$(d K_12)" "$(d K_13)"
head -c 100000 /dev/urandom | dd of=/dev/md/half conv=fsync status=none
md other 64 "$(d K_14)" "$(d K_15)"
md broken 512 "$(d K_16)" "$(d K_17)"
mdadm --stop /dev/md/broken
wipefs -q --all "$(d K_17)"
dd if=/dev/zero of="$(d K_17)" bs=1M oflag=direct status=none || true
for single in E1 E2; do mkfs.ext4 -q -L "$single" "$(d "$single")"; done
mkdir -p /busy /ro /full /elsewhere
mount -t tmpfs tmpfs /busy
mount -t tmpfs -o ro tmpfs /ro
touch /full/file
echo '/dev/vdz1 /elsewhere ext4 noauto 0 0' >>/etc/fstab
mount -t tmpfs -o size=32M tmpfs /boot
head -c 31M /dev/zero >/boot/initrd.img-full
udevadm settle
"""


@dataclass(frozen=True, slots=True)
class Case:
    """What is asked for, and the answer. `names`: drives that the message must name, each by its kernel name and serial."""

    code: str
    names: tuple[str, ...]
    says: str
    asked: dict[str, Any]
    consent: dict[str, str] | None = None


def of(*drives: str, **asked: Any) -> dict[str, Any]:
    return {"nvme_raid0_ids": [f"QEMU_NVMe_Ctrl_{drive}" for drive in drives], "nvme_raid0_drives": len(drives), **asked}


FULL = of("K_1", "K_2", "K_3", "K_4", "K_5", "K_18")
BUSY = of("K_9", "K_10", "K_11", "K_18")
EVEN_SO = {"K_9": "", "K_10": "", "K_11": ""}

CASES = {
    "a partition table": Case("DISK_NOT_BLANK", ("K_1",), "(serial K) holds GPT partition table; partition 1", FULL),
    "ext4": Case("DISK_NOT_BLANK", ("K_2",), "(serial K) holds ext4 'keep'", FULL),
    "xfs": Case("DISK_NOT_BLANK", ("K_3",), "(serial K) holds xfs", FULL),
    "LVM": Case("DISK_NOT_BLANK", ("K_4",), "(serial K) holds LVM2_member", FULL),
    "LUKS": Case("DISK_NOT_BLANK", ("K_5",), "(serial K) holds crypto_LUKS", FULL),
    "a member of an array with members elsewhere, with consent": Case(
        "ARRAY_FOREIGN_MEMBER", (), "erasing one would break the other", of("K_6", "K_18"), {"K_6": ""}
    ),
    "swap in use": Case("SYSTEM_DISK", ("K_8",), "swap", of("K_8", "K_18")),
    "a mount, with consent": Case("DISK_IN_USE", ("K_9",), "mounted at /mnt/data", BUSY, EVEN_SO),
    "a holder, with consent": Case("DISK_IN_USE", ("K_10",), "part of dm-", BUSY, EVEN_SO),
    "an open handle, with consent": Case("DISK_IN_USE", ("K_11",), "(sleep", BUSY, EVEN_SO),
    "an array that was cut off while it was made": Case("ARRAY_HALF", (), "no file system, and is not empty", of("K_12", "K_13")),
    "an array of another layout": Case("ARRAY_LAYOUT", (), "chunk 64 KiB, expected 512 KiB", of("K_14", "K_15")),
    "two arrays": Case("ARRAY_TWICE", (), "carry 2 arrays", of("K_12", "K_13", "K_14", "K_15")),
    "an array without a member": Case("ARRAY_DEGRADED", ("K_17",), "1 of 2 members", of("K_16", "K_17")),
    "drives of two sizes": Case("DRIVES_MIXED", ("BIG", "K_18"), "134217728 bytes", of("BIG", "K_18")),
    "too few": Case("DRIVES_TOO_FEW", ("BIG",), "2 drives are asked for and 1 are here", {"nvme_raid0_size_gb": 0.134}),
    "fewer asked for than the least": Case("DRIVES_TOO_FEW", (), "at least 4", of(*BLANK, nvme_raid0_least=4)),
    "too many": Case("DRIVES_TOO_MANY", ("K_1",), "2 are asked for", {"nvme_raid0_size_gb": 0.067}),
    "an id that is none": Case("ID_UNKNOWN", (), "QEMU_NVMe_Ctrl_GONE names no NVMe drive", of("GONE", "K_18")),
    "an id of many": Case("ID_AMBIGUOUS", ("K_1",), "QEMU_NVMe_Ctrl_K names", of("K", "K_18")),
    "a kernel's name": Case("ID_UNKNOWN", (), "another boot gives to another drive", {"nvme_raid0_ids": ["/dev/nvme0n1", "K_18"]}),
    "the system's drive": Case("SYSTEM_DISK", ("BOOT",), "mounted at /", of("BOOT", "K_18")),
    "the system's drive, with consent": Case("SYSTEM_DISK", ("BOOT",), "never erased", of(*BLANK), {"BOOT": ""}),
    "consent for another drive": Case("CONSENT_UNKNOWN_SERIAL", ("E2",), "none of the drives of this array", of("E1", "K_18"), {"E2": ""}),
    "consent for one of two": Case("DISK_NOT_BLANK", ("E2",), "ext4 'E2'", of("E1", "E2"), {"E1": ""}),
    "consent that is stale": Case("CONSENT_STALE", ("E1",), "for a drive that held xfs", of("E1", "K_18"), {"E1": "xfs"}),
    "something else at the mount point": Case("MOUNT_BUSY", (), "tmpfs", of(*BLANK, nvme_raid0_mount="/busy")),
    "something else in its line of fstab": Case("MOUNT_BUSY", (), "/dev/vdz1", of(*BLANK, nvme_raid0_mount="/elsewhere")),
    "files where the mount would hide them": Case("MOUNT_BUSY", (), "holds file", of(*BLANK, nvme_raid0_mount="/full")),
    "a read-only mount": Case("MOUNT_READ_ONLY", (), "/ro is on a read-only file system", of(*BLANK, nvme_raid0_mount="/ro/scratch")),
    "no space for the initramfs": Case("BOOT_SPACE", (), "MiB free", of(*BLANK)),
}
# What is asked for once is played once: one name in the inventory for it.
PLAYED = list(dict.fromkeys(json.dumps([case.asked, case.consent]) for case in CASES.values()))
HOSTS = {title: f"n{PLAYED.index(json.dumps([case.asked, case.consent])):02}" for title, case in CASES.items()}


@dataclass(frozen=True, slots=True)
class Played:
    site: Site
    results: dict[str, HostResult]
    before: dict[str, str]
    after: dict[str, str]
    kernel: dict[str, str]  # drive -> kernel name


def all_bytes(site: Site) -> dict[str, str]:
    return site.bytes(["K"], SPACES) | site.bytes(SINGLES)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    group = f"e2e-refuse-{os.getpid()}"
    drives = (Drive("K", namespaces=SPACES), *(Drive(serial, size_mib=128 if serial == "BIG" else 64) for serial in SINGLES))
    with machine(group, Machine("refused", drives, boot_on_nvme=True)) as vm:
        vm.run("sh", "-c", PREPARE, timeout=300)
        yield Site(tmp_path_factory.mktemp("refused"), group, vm, WANTED)


@pytest.fixture(scope="module")
def played(site: Site) -> Played:
    drives = ["BOOT", *SINGLES, *(f"K_{number}" for number in range(1, SPACES + 1))]
    links = site.said("readlink", "-f", *(f"/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_{drive}" for drive in drives)).splitlines()
    consents = {HOSTS[title]: case.consent for title, case in CASES.items() if case.consent}
    before = all_bytes(site)
    results = site.roles({HOSTS[title]: case.asked for title, case in CASES.items()}, nvme_raid0_erase=consents)
    return Played(site, results, before, all_bytes(site), {drive: Path(link).name for drive, link in zip(drives, links, strict=True)})


@pytest.mark.parametrize("title", CASES)
def test_it_is_refused_by_name_and_no_byte_has_changed(played: Played, title: str) -> None:
    case, told = CASES[title], played.results[HOSTS[title]]

    assert told.state is HostState.FAILED, told
    assert told.data["code"] == case.code, told.message
    assert case.says in told.message
    for drive in case.names:
        assert f"{played.kernel[drive]} (serial {drive.partition('_')[0]})" in told.message
    assert told.changed == 0
    assert played.after == played.before


def test_a_consent_from_the_inventory_is_refused(played: Played) -> None:
    told = played.site.role(**of("E1", "K_18", nvme_raid0_erase={"n1": {"E1": ""}}))

    assert (told.state, told.data["code"]) == (HostState.FAILED, "CONSENT_NOT_FROM_RUN")
    assert "give it with -e for one call" in told.message
    assert all_bytes(played.site) == played.before
