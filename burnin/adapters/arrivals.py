"""What was fetched from the nodes takes its place in the run folder: whole, by its own manifest, or not at all. It is hostile until then."""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path, PurePosixPath

from burnin.adapters.run_files import NODE_FILES, RAW_FILE, check_manifest

LARGEST_MEMBER_BYTES = 2 * 1024**3  # a week of samples of 8 GPUs at 1 Hz, compressed, is 60 MB
MOST_MEMBERS = 200


def gather(folder: Path) -> list[str]:
    """Unpack what was fetched (incoming/<node>/...) into nodes/<node>/; returns problems in words. Harmless when there is nothing.

    The caller holds the run's lock: whoever fetches holds it too. An archive that is not whole stays where it is.
    """
    problems = []
    for arrived in sorted((folder / "incoming").glob("*/")):
        target = folder / "nodes" / arrived.name
        tar = arrived / "evidence.tar"
        if tar.is_file():
            try:
                _unpack(tar, target)
                tar.unlink()
            except (OSError, tarfile.TarError, ValueError, EOFError, RecursionError) as problem:
                problems.append(f"{arrived.name}: evidence.tar cannot be unpacked ({problem})")
        early = arrived / "preflight.json"
        if early.is_file():
            target.mkdir(parents=True, exist_ok=True)
            early.replace(target / "preflight.json")
    return problems


def _unpack(tar: Path, target: Path) -> None:
    """Only plain files with names of ours, bounded in size and number, each as the node's manifest has it.

    Everything is unpacked beside first and takes its place whole. A journal that does not go on from the one collected before is another
    story of this node: the earlier evidence stays (what was shown once is not replaced by a run that began anew).
    """
    staging = target.with_name(f".{target.name}.incoming")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    try:
        names = _extract(tar, staging)
        if not names:
            raise ValueError("it is empty: it was not fetched whole")
        damaged, _left_out = check_manifest(staging)
        if damaged:
            raise ValueError(damaged[0])
        before, now = target / "journal.jsonl", staging / "journal.jsonl"
        if before.is_file() and (not now.is_file() or not _goes_on(before, now)):
            raise ValueError(
                "its journal does not go on from the one that was collected before: the node was emptied; the earlier evidence is kept"
            )
        target.mkdir(parents=True, exist_ok=True)
        for name in names:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (staging / name).replace(target / name)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _goes_on(before: Path, now: Path) -> bool:
    """Whether the newer file begins with all of the older one."""
    with before.open("rb") as old, now.open("rb") as new:
        while block := old.read(1 << 20):
            if new.read(len(block)) != block:
                return False
    return True


def _extract(tar: Path, staging: Path) -> list[str]:
    names: list[str] = []
    left = tar.stat().st_size
    with tarfile.open(tar, "r:") as archive:
        for member in archive:
            name = str(PurePosixPath(member.name))
            plain = member.type in (tarfile.REGTYPE, tarfile.AREGTYPE)  # no sparse file: it would fill the disk from nothing
            if len(names) >= MOST_MEMBERS or name in names or not plain or not (name in NODE_FILES or RAW_FILE.fullmatch(name)):
                raise ValueError(f"member {len(names) + 1} {name[:80]!r} is not one of the files that a node sends")
            left -= member.size
            if member.size > LARGEST_MEMBER_BYTES or left < 0:
                raise ValueError(
                    f"{name} has {member.size} bytes; expected at most {LARGEST_MEMBER_BYTES}, and no more than the archive has"
                )
            source = archive.extractfile(member)
            if source is None:
                raise ValueError(f"{name} cannot be read")
            place = staging / name
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("wb") as file:
                while block := source.read(1 << 20):
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())
            names.append(name)
    return names
