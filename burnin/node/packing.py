"""Packs a run's evidence for the way to the controller: plain files with checksums, and no link out of the folder followed."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import os
import shutil
import stat
import tarfile
from pathlib import Path
from typing import IO, Any, Dict, Iterator, List, Optional, Tuple

from burnin.node.backends import boot_id, read_options
from burnin.node.backends.base import BackendProblem
from burnin.node.records import now, write_whole
from burnin.node.supervise import LOG, SuperviseProblem, status

BLOCK = 1 << 20
LOG_BYTES = 1 << 20
LINE_FILES = ("journal.jsonl", "measurements.jsonl")


def pack(run: Path, backend: str) -> Dict[str, Any]:
    """Put the evidence into evidence.tar, with a manifest of checksums; samples compressed. Returns path, bytes, sha256 and status."""
    evidence, staging, packed = run / "evidence", run / "packed", run / "evidence.tar"
    if not evidence.is_dir():
        raise SuperviseProblem(f"{evidence} does not exist: this run never started here")
    with (run / "pack.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second pack waits for the first
        try:
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir()
            state = status(run)
            left_out = _stage(run, evidence, staging, _collected(run, backend, state))
            _tar(staging, packed, left_out)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            packed.with_name("evidence.tar.partial").unlink(missing_ok=True)
        return {**state, "path": str(packed), "bytes": packed.stat().st_size, "sha256": digest(packed)}


def _collected(run: Path, backend: str, state: Dict[str, Any]) -> Dict[str, Any]:
    """What the node says at packing. A backend that cannot be opened any more is no reason to lose the evidence."""
    options = run / "options.json"
    try:
        boot, why = boot_id(backend, read_options(options if options.exists() else None), run), None
    except BackendProblem as problem:
        boot, why = None, str(problem)[:300]
    return {"state": state["state"], "boot_id": boot, "boot_id_unknown": why, "packed": now(), "reason": state.get("reason", "")}


def _stage(run: Path, evidence: Path, staging: Path, collected: Dict[str, Any]) -> List[str]:
    """Copy what belongs to the evidence; returns the names left out because they are no plain files."""
    left_out: List[str] = []
    write_whole(staging / "collected.json", collected)
    for name in ("identity.json", *LINE_FILES):
        _copy(evidence / name, staging / name, left_out, whole_lines=name in LINE_FILES)
    _copy(evidence / "samples.csv", staging / "samples.csv.gz", left_out, whole_lines=True)
    (staging / "raw").mkdir()
    for path in _raw_files(evidence / "raw", left_out):
        target = staging / "raw" / path.relative_to(evidence / "raw")
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(path, target, left_out)
    _copy(run / LOG, staging / "raw" / LOG, left_out, last_bytes=LOG_BYTES)
    return sorted(left_out)


def _raw_files(folder: Path, left_out: List[str]) -> Iterator[Path]:
    if folder.is_symlink():
        left_out.append(folder.name)
        return
    for parent, folders, names in os.walk(folder, followlinks=False):
        left_out += [name for name in folders if (Path(parent) / name).is_symlink()]
        yield from (Path(parent) / name for name in sorted(names))


def _copy(source: Path, target: Path, left_out: List[str], whole_lines: bool = False, last_bytes: Optional[int] = None) -> None:
    """Copy a plain file, at most as long as it is now: the run may be writing it. No file, no copy; a link is not followed."""
    try:
        handle = os.open(str(source), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return
    except OSError:  # a symbolic link, or not for us
        left_out.append(source.name)
        return
    with os.fdopen(handle, "rb") as plain:
        if not stat.S_ISREG(os.fstat(plain.fileno()).st_mode):
            left_out.append(source.name)
            return
        begin, end = _range(plain, whole_lines, last_bytes)
        plain.seek(begin)
        with target.open("wb") as file:
            if target.suffix == ".gz":
                with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed:
                    _copy_bytes(plain, packed, end - begin)
            else:
                _copy_bytes(plain, file, end - begin)


def _range(file: IO[bytes], whole_lines: bool, last_bytes: Optional[int]) -> Tuple[int, int]:
    """From where to where to copy: no line that is being written, no more than the last bytes asked for."""
    end = file.seek(0, os.SEEK_END)
    if whole_lines:
        while end > 0:
            begin = max(0, end - BLOCK)
            file.seek(begin)
            cut = file.read(end - begin).rfind(b"\n")
            if cut >= 0:
                return 0, begin + cut + 1
            end = begin
    return max(0, end - last_bytes) if last_bytes is not None else 0, end


def _copy_bytes(source: IO[bytes], target: Any, left: int) -> None:
    while left > 0:
        block = source.read(min(left, BLOCK))
        if not block:
            return
        target.write(block)
        left -= len(block)


def digest(path: Path) -> str:
    """The file's sha256."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(BLOCK), b""):
            total.update(block)
    return total.hexdigest()


def _tar(staging: Path, packed: Path, left_out: List[str]) -> None:
    names = sorted(str(path.relative_to(staging)) for path in staging.rglob("*") if path.is_file())
    manifest = {"schema": "burnin.manifest/1", "files": {name: digest(staging / name) for name in names}, "left_out": left_out}
    write_whole(staging / "manifest.json", manifest)
    partial = packed.with_name("evidence.tar.partial")
    with tarfile.open(partial, "w") as tar:
        for name in ["manifest.json", *names]:
            tar.add(staging / name, arcname=name, recursive=False, filter=_nobody)
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(packed)


def _nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
