"""Run folders on the controller's disk: opened, locked, filled with what nodes sent, read back. Nothing in them is ever edited."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from burnin.adapters.clock import utc_now
from burnin.errors import RunFolderError
from burnin.verdict.run_folder import NodeFiles, RunFiles

RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6}")
NODE_FILES = ("identity.json", "journal.jsonl", "measurements.jsonl", "samples.csv.gz", "collected.json", "manifest.json")
RAW_FILE = re.compile(r"raw/[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
LARGEST_MEMBER_BYTES = 2 * 1024**3  # a week of samples of 8 GPUs at 1 Hz, compressed, is 60 MB
LARGEST_TEXT_BYTES = 256 * 1024**2
MOST_MEMBERS = 200


def new_run_id() -> str:
    """UTC time + random: sorts by time, never collides."""
    return f"{utc_now():%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def write_text(path: Path, text: str) -> None:
    """Replace the file at once and on the disk."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """As write_text, for a document."""
    write_text(path, json.dumps(document, sort_keys=True, ensure_ascii=False, allow_nan=False, indent=1) + "\n")


def append_line(path: Path, record: Mapping[str, Any]) -> None:
    """One more line of a JSON-lines file, on the disk before the call returns."""
    with path.open("ab+") as file:
        torn = file.seek(0, os.SEEK_END) > 0 and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n"
        file.write((("\n" if torn else "") + json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n").encode())
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """This controller alone drives the run. Raises RunFolderError when another one does."""
    with (folder / ".lock").open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read(40).strip() or "unknown"
            raise RunFolderError(f"{folder}: another burnin (process {holder}) drives this run; wait for it or end it first") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def find_run(run: str | None, runs: Path) -> Path:
    """The run folder by path or run id; the newest under `runs` when none is given."""
    if run is None:
        known = (
            sorted(path for path in runs.glob("*") if RUN_ID.fullmatch(path.name) and (path / "run.json").is_file())
            if runs.is_dir()
            else []
        )
        if not known:
            raise RunFolderError(
                f"{runs}: holds no run; expected folders like 20260101T120000Z-a1b2c3; start one with `burnin run -i INVENTORY`"
            )
        return known[-1].resolve()
    for candidate in (Path(run), runs / run):
        if (candidate / "run.json").is_file():
            return candidate.resolve()
    raise RunFolderError(
        f"{run}: is no run folder (no run.json in it) and no run id under {runs}; `burnin status` without RUN takes the newest"
    )


def read_run_json(folder: Path) -> dict[str, Any]:
    """run.json of the folder. Raises RunFolderError when it is no run of a kind that this version knows."""
    path = folder / "run.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise RunFolderError(f"{path}: cannot be read ({problem}); without it the run cannot be judged or resumed") from None
    if not isinstance(document, dict) or document.get("schema") != "burnin.run/1":
        found = document.get("schema") if isinstance(document, dict) else type(document).__name__
        raise RunFolderError(f"{path}: schema is {found!r}; expected 'burnin.run/1'")
    nodes = document.get("inventory", {}).get("nodes") if isinstance(document.get("inventory"), dict) else None
    if not isinstance(nodes, list) or not all(isinstance(node, dict) and node.get("node") and node.get("folder") for node in nodes):
        raise RunFolderError(f"{path}: inventory.nodes lists no nodes with name and folder; the file is damaged")
    return document


def gather(folder: Path) -> list[str]:
    """Unpack what was fetched (incoming/<node>/...) into nodes/<node>/; returns problems in words. Harmless when there is nothing."""
    problems = []
    for arrived in sorted((folder / "incoming").glob("*/")):
        target = folder / "nodes" / arrived.name
        for tar in sorted(arrived.glob("evidence.tar")):
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
    """Only plain files with names of ours, bounded in size and number: the archive comes from a node and is hostile.

    Everything is unpacked beside first and takes its place whole. A journal that does not go on from the one collected before is another
    story of this node: the earlier evidence stays (what was shown once is not replaced by a run that began anew).
    """
    staging = target.with_name(f".{target.name}.incoming")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    try:
        names = _extract(tar, staging)
        before, now = target / "journal.jsonl", staging / "journal.jsonl"
        if before.is_file() and (not now.is_file() or not _goes_on(before, now)):
            raise ValueError(
                "its journal does not go on from the one that was collected before: the node was emptied; the earlier evidence is kept"
            )
        target.mkdir(parents=True, exist_ok=True)
        for name in names:
            (target / name).parent.mkdir(exist_ok=True)
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
            place.parent.mkdir(exist_ok=True)
            with place.open("wb") as file:
                while block := source.read(1 << 20):
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())
            names.append(name)
    return names


def _digest(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()


def _checked(folder: Path) -> list[str]:
    """What does not match the node's own manifest."""
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        burned_in = any((folder / name).is_file() for name in NODE_FILES)
        return ["manifest.json is not there: nothing says whether this node's files are whole."] if burned_in else []
    try:
        listed = json.loads(manifest.read_text(encoding="utf-8"))["files"]
        items = sorted((str(name), str(digest)) for name, digest in listed.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ["manifest.json cannot be read; the checksums of this node's files are not known."]
    problems = []
    for name, digest in items:
        if not (name in NODE_FILES or RAW_FILE.fullmatch(name)):
            problems.append(f"manifest.json names {name[:80]!r}, which is no file of ours.")
        elif not (folder / name).is_file():
            problems.append(f"{name} is listed by the node and is not here.")
        elif _digest(folder / name) != digest:
            problems.append(f"{name} does not match its checksum: it was damaged after the node packed it.")
    return problems


def _text(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return file.read(LARGEST_TEXT_BYTES).decode("utf-8", errors="replace")


def read_node(folder: Path) -> NodeFiles:
    """The files of one node as texts; a preflight's identity stands in where the burn-in left none."""
    identity = _text(folder / "identity.json")
    if identity is None and (early := _text(folder / "preflight.json")) is not None:
        identity = '{"before": ' + early + "}"
    return NodeFiles(
        identity=identity,
        journal=_text(folder / "journal.jsonl"),
        measurements=_text(folder / "measurements.jsonl"),
        collected=_text(folder / "collected.json"),
        problems=tuple(_checked(folder)),
    )


def read_run_files(folder: Path) -> RunFiles:
    """Everything of a run that the verdict looks at. Raises RunFolderError when run.json itself cannot be used."""
    run = read_run_json(folder)
    controller = []
    for line in (_text(folder / "controller.jsonl") or "").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            controller.append(entry)
    nodes = {}
    for node in run["inventory"]["nodes"]:
        place = folder / "nodes" / PurePosixPath(node["folder"]).name
        if place.is_dir():
            nodes[node["folder"]] = read_node(place)
    return RunFiles(run, controller, nodes)
