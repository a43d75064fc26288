"""What is on one device or file: wipefs, blkid and mdadm asked, and samples read. Nothing is written.

Two programs, because each misses something: blkid tells one signature, wipefs all of them, and only mdadm tells what an array looks like.
Where blkid sees what wipefs does not, wiping would leave it: that is trouble, and not for a guess.
"""

from __future__ import annotations

import hashlib
import json
import os
import re

from ansible.module_utils.burnin_group import node
from ansible.module_utils.burnin_raid.holding import MD
from ansible.module_utils.burnin_raid.model import Signature, Superblock, clean
from ansible.module_utils.burnin_raid.texts import plain_uuid

LOOK_S = 60
MIB = 2**20
SAMPLES, SAMPLE = 62, 4096  # beside the first and the last MiB, evenly spread
BLKID_FOUND, BLKID_NONE, BLKID_SEVERAL = 0, 2, 8  # blkid(8)
MOST_SIGNATURES = 4096
LEVELS = {"level": "Raid Level", "metadata": "Version", "name": "Name", "uuid": "Array UUID"}


class Unreadable(Exception):
    """Why it cannot be told what is there."""


def signatures(path: str) -> tuple[Signature, ...]:
    """All of them. Raises Unreadable where the programs fail or do not agree."""
    seen = _wipefs(path)
    kinds, several = _blkid(path)
    unknown = sorted(kind for kind in kinds if not any(_same(kind, one.kind) for one in seen))
    if unknown or (several and not seen):
        raise Unreadable("blkid sees %s there and wipefs does not" % (", ".join(unknown) or "several signatures"))
    return tuple(
        Signature(
            one.kind, one.offset, one.uuid, one.label, ("wipefs", "blkid") if any(_same(kind, one.kind) for kind in kinds) else ("wipefs",)
        )
        for one in seen
    )


def _same(blkid: str, wipefs: str) -> bool:
    return blkid == wipefs or (blkid, wipefs) in (("dos", "PMBR"), ("gpt", "PMBR"), ("PMBR", "gpt"))


def _wipefs(path: str) -> list[Signature]:
    done = node.run(["wipefs", "--no-act", "--json", "--", path], LOOK_S)
    if done.returncode or done.stderr.strip():
        raise Unreadable("wipefs exited %d: %s" % (done.returncode, clean(node.last_words(done), 300)))
    if not done.stdout.strip():
        return []  # as some versions say "nothing"; blkid and the samples still have to agree
    try:
        told = json.loads(done.stdout)["signatures"]
        found = [
            Signature(clean(str(one["type"]), 60), int(str(one["offset"]), 16), clean(one["uuid"] or "", 80), clean(one["label"] or "", 80))
            for one in told[:MOST_SIGNATURES]
        ]
    except (ValueError, KeyError, TypeError) as problem:
        raise Unreadable("wipefs says what cannot be read (%s)" % clean(str(problem))) from None
    unique = {}
    for one in sorted(found, key=lambda one: (one.kind, one.offset)):
        # ZFS has a magic for each of its uberblocks: one is told, which is enough to know and to name it.
        unique.setdefault((one.kind, one.offset if one.kind != "zfs_member" else 0), one)
    return sorted(unique.values(), key=lambda one: (one.offset, one.kind))


def _blkid(path: str) -> tuple[list[str], bool]:
    """The kinds that it names, and whether there are several that it does not want to choose from."""
    done = node.run(["blkid", "--probe", "--output", "export", "--", path], LOOK_S)
    if done.returncode == BLKID_SEVERAL:
        return [], True
    if done.returncode == BLKID_NONE and not done.stdout.strip() and not done.stderr.strip():
        return [], False
    if done.returncode != BLKID_FOUND:
        raise Unreadable("blkid exited %d: %s" % (done.returncode, clean(node.last_words(done), 300)))
    told = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    return [clean(told[key], 60) for key in ("TYPE", "PTTYPE") if told.get(key)], False


def superblocks(path: str, seen: tuple[Signature, ...]) -> tuple[Superblock, ...]:
    """Of md, as mdadm reads them; asked by version where wipefs saw several. Raises Unreadable where mdadm does not know what wipefs saw."""
    wanted = {plain_uuid(one.uuid) for one in seen if one.kind == MD}
    found = {block.uuid: block for block in [_examine(path, [], bool(wanted))] if block}
    for version in ("0.90", "1.0", "1.1", "1.2") if len(wanted) > 1 else ():
        found.update({block.uuid: block for block in [_examine(path, ["--metadata=" + version], True)] if block})
    if wanted - {plain_uuid(uuid) for uuid in found if uuid}:
        raise Unreadable("it has an md superblock that mdadm does not read")
    return tuple(sorted(found.values(), key=lambda block: block.uuid))


def _examine(path: str, version: list[str], seen: bool) -> Superblock | None:
    """mdadm says yes to an MBR too, and then tells no UUID. `seen`: wipefs saw one there."""
    done = node.run(["mdadm", "--examine", *version, path], LOOK_S)
    if done.returncode == 127:
        if seen:
            raise Unreadable("mdadm is not here, and it has an md superblock")
        return None
    fields = {}
    for line in done.stdout.splitlines():
        key, colon, value = line.partition(" : ")
        if colon:
            fields.setdefault(key.strip(), value.strip())
    uuid = fields.get("Array UUID") or fields.get("UUID", "").partition(" ")[0]
    if done.returncode or not uuid:
        return None
    metadata = fields.get("Version", "")
    chunk = re.match(r"(\d+)K", fields.get("Chunk Size", ""))
    role = re.search(r"Active device (\d+)", fields.get("Device Role", ""))
    place = int(role.group(1)) if role else _old_place(done.stdout)
    return Superblock(
        uuid=clean(uuid, 60),
        name=clean(fields.get("Name", "").partition("  (")[0], 80),
        level=clean(fields.get("Raid Level", ""), 20),
        metadata="0.90" if metadata.startswith(("0.90", "00.90")) else metadata,
        chunk_kib=int(chunk.group(1)) if chunk else 0,
        devices=int(fields.get("Raid Devices", "0") or 0),
        role=place,
    )


def _old_place(said: str) -> int:
    """Of a 0.90 superblock: the line of "this" in its table."""
    found = re.search(r"^this\s+\d+\s+\d+\s+\d+\s+(\d+)\s+active", said, re.MULTILINE)
    return int(found.group(1)) if found else -1


def raw(path: str, size: int) -> str:
    """A digest of what is sampled; "" where every byte is 0x00, or every byte 0xff: both are how a drive returns what was never written.

    Raises Unreadable.
    """
    last = max(0, size - MIB)
    spread = [MIB + (last - MIB) * at // (SAMPLES + 1) // SAMPLE * SAMPLE for at in range(1, SAMPLES + 1)] if last > 2 * MIB else []
    places = [(0, min(MIB, size)), *((at, SAMPLE) for at in spread), (last, min(MIB, size))]
    digest, values = hashlib.sha256(), set()
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for at, length in places:
                got = os.pread(handle, length, at)
                if len(got) != length:
                    raise Unreadable("it ends at byte %d; the kernel says %d" % (at + len(got), size))
                digest.update(got)
                values |= {0} if not got.strip(b"\0") else ({255} if not got.strip(b"\xff") else {-1})
        finally:
            os.close(handle)
    except OSError as problem:
        raise Unreadable("reading it failed: %s" % problem.strerror) from None
    return "" if len(values) == 1 and values <= {0, 255} else digest.hexdigest()[:12]


def claimed(path: str) -> bool:
    """Whether the kernel refuses an exclusive open: a file system, md, dm, swap or a pool has it. Raises Unreadable."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except BlockingIOError:
        return True
    except OSError as problem:
        if problem.errno == 16:  # EBUSY
            return True
        raise Unreadable("opening it failed: %s" % problem.strerror) from None
    return False
