"""1,000 random layouts and consents: nvme_raid0's decision, and every drive that its commands would name, held to a truth told another way.

Signatures are real, on sparse files, written by the real tools (or by hand where a few magic bytes are all there is), and read by wipefs and blkid.
"""

from __future__ import annotations

import random
import struct
import subprocess
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import ansible.module_utils
import pytest

ROOT = Path(__file__).resolve().parents[3]
ansible.module_utils.__path__.append(str(ROOT / "plugins/module_utils"))
from ansible.module_utils.burnin_raid import holding, planning, probing  # noqa: E402
from ansible.module_utils.burnin_raid.model import Area, Drive, Refused  # noqa: E402

import fake_raid as fake  # noqa: E402

LAYOUTS, SEED, SIZE = 1000, 20261207, 16 * 2**20
MIB = 2**20


def by_tool(*argv: str, stdin: str = "") -> None:
    subprocess.run(argv, input=stdin, text=True, check=True, capture_output=True, timeout=60)


def write(path: Path, kind: str) -> None:
    """One kind of content into a sparse file."""
    with path.open("wb") as file:
        file.truncate(SIZE)
    if kind == "ext4":
        by_tool("mke2fs", "-q", "-F", "-t", "ext4", str(path))
    elif kind == "swap":
        by_tool("mkswap", str(path))
    elif kind in ("gpt", "backup GPT only", "half-wiped"):
        wiped = {"gpt": 0, "half-wiped": 512, "backup GPT only": MIB}[kind]
        put(path, *gpt(), (0, bytes(wiped)))
    elif kind == "dos":
        put(path, (446, mbr_entry(0x83)), (510, b"\x55\xaa"))
    elif kind == "luks":
        put(path, (0, b"LUKS\xba\xbe" + struct.pack(">H", 1)))
    elif kind == "zfs":
        put(path, *[(128 * 1024 + 1024 * at, struct.pack("<Q", 0x00BAB10C)) for at in range(16)])
    elif kind == "unknown":
        put(path, (3 * MIB // 4, b"somebody's work"))
    elif kind == "0xff":
        put(path, (0, b"\xff" * SIZE))


def mbr_entry(kind: int) -> bytes:
    return struct.pack("<8B2I", 0, 0, 2, 0, kind, 255, 255, 255, 1, SIZE // 512 - 1)


def gpt() -> list[tuple[int, bytes]]:
    """Protective MBR, the table with its entries, and the same at the end (UEFI 2.10, 5.3)."""
    last = SIZE // 512 - 1
    entry = struct.pack("<16s16sQQQ72s", b"\xaf\x3d\xc6\x0f" * 4, b"one-partition-id", 2048, 4096, 0, b"")
    entries = entry.ljust(128 * 128, b"\0")

    def header(own: int, other: int, table: int) -> bytes:
        def packed(crc: int) -> bytes:
            about = (b"EFI PART", 0x10000, 92, crc, 0, own, other, 34, last - 34, b"the-disks-own-id", table, 128, 128, zlib.crc32(entries))
            return struct.pack("<8sIIIIQQQQ16sQIII", *about)

        return packed(zlib.crc32(packed(0)))

    return [
        (446, mbr_entry(0xEE)), (510, b"\x55\xaa"), (512, header(1, last, 2)), (1024, entries),
        ((last - 32) * 512, entries), (last * 512, header(last, 1, last - 32)),
    ]  # fmt: skip


def put(path: Path, *pieces: tuple[int, bytes]) -> None:
    with path.open("r+b") as file:
        for offset, content in pieces:
            file.seek(offset)
            file.write(content)


KINDS = ("ext4", "swap", "gpt", "backup GPT only", "half-wiped", "dos", "luks", "zfs", "unknown")
BLANK = ("zero", "0xff")


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Area]:
    """What the real programs find in each."""
    found = {}
    for kind in (*KINDS, *BLANK):
        path = tmp_path_factory.mktemp("drive") / "drive"
        write(path, kind)
        found[kind] = Area("drive", "1:1", SIZE, signatures=probing.signatures(str(path)), raw=probing.raw(str(path), SIZE))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_no_content_reads_as_blank(read: dict[str, Area], kind: str) -> None:
    one = fake.drive(1)

    assert holding.text(replace(one, disk=read[kind]), fake.world((one,)))


def made(read: dict[str, Area], chance: random.Random) -> tuple[list[tuple[Drive, str]], dict[str, str], bool]:
    """Four drives that are meant and up to two of another size, what is on each, consents, and whether one of these is stale."""
    drives = []
    for number in range(1, 5 + chance.randrange(3)):
        kind = chance.choice(KINDS) if chance.random() < 0.4 else chance.choice(BLANK)
        size = fake.SIZE if number <= 4 else 10**12
        one = fake.drive(number, size=size)
        disk = replace(read[kind], name=one.name, dev=one.dev, size_bytes=size)
        used = chance.random() < 0.04
        one = replace(one, disk=disk)
        drives.append((fake.used(one, "mount", "/data") if used else one, kind))
    given, stale = {}, False
    for one, kind in drives[: 4 if chance.random() < 0.9 else None]:
        if chance.random() < (0.8 if kind in KINDS else 0.1):
            old = kind in KINDS and chance.random() < 0.1
            text = "xfs 'other'" if old else "" if chance.random() < 0.5 else holding.text(one, fake.world((one,)))
            given[one.serial], stale = text, stale or old
    return drives, given, stale


def expected(drives: list[tuple[Drive, str]], given: dict[str, str], stale: bool) -> bool:
    """Whether anything may be written, told from what was put there and not from what was read."""
    meant = drives[:4]
    if set(given) - {one.serial for one, _kind in meant} or stale or any(one.uses for one, _kind in meant):
        return False
    return all(kind in BLANK or one.serial in given for one, kind in meant)


def test_nothing_that_was_not_consented_to_is_named_by_any_command(read: dict[str, Area], capsys: pytest.CaptureFixture[str]) -> None:
    chance, tried, lost = random.Random(SEED), Counter[str](), []
    for number in range(LAYOUTS):
        drives, given, stale = made(read, chance)
        asked = fake.wanted(size_gb=fake.SIZE / 1e9, erase=tuple(given.items()))
        try:
            steps = planning.plan(fake.world(tuple(one for one, _kind in drives)), asked, fake.NEW).steps
        except Refused as refusal:
            steps, outcome = (), refusal.code
        else:
            outcome = "created"
        tried[outcome] += 1
        named = {word for step in steps for word in step.argv if word.startswith("/dev/nvme")} | {
            f"/dev/{one}" for s in steps for one in s.drives
        }
        erased = {step.area for step in steps if step.kind == "wipe"}
        may = {f"/dev/{one.name}" for one, kind in drives[:4] if kind in BLANK or one.serial in given}
        holds = {one.name for one, kind in drives[:4] if kind in KINDS}
        if bool(steps) != expected(drives, given, stale) or not named <= may or not erased <= holds:
            lost.append((number, outcome, named - may))
    with capsys.disabled():
        print(f"\nnvme_raid0: {LAYOUTS} layouts tried, {len(lost)} lost ({dict(tried)})")

    assert lost == []
    assert tried["created"] > LAYOUTS // 10
    assert tried["DISK_NOT_BLANK"] > LAYOUTS // 10
