"""Run folders on the controller's disk: opened, locked, filled with what nodes sent, read back. Nothing in them is ever edited."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from burnin.adapters.clock import utc_now
from burnin.errors import RunFolderError
from burnin.node.records import mend_tail
from burnin.verdict.reading import LONGEST_LINE, Problems, records
from burnin.verdict.run_folder import NodeFiles, RunFiles

RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6}")
MANIFEST, LEDGER = "manifest.json", "controller.jsonl"
NODE_FILES = ("identity.json", "journal.jsonl", "measurements.jsonl", "samples.csv.gz", "collected.json", MANIFEST)
RAW_FILE = re.compile(r"raw(/[A-Za-z0-9][A-Za-z0-9._-]{0,99}){1,4}")
LARGEST_LINES_BYTES = 256 * 1024**2  # a week of 8 GPUs in windows of a minute is 50 MB
LARGEST_DOCUMENT_BYTES = 4 * 1024**2  # JSON takes up to 30 times its size in memory; an identity with all its packages is 0.5 MB
LONGEST_NAME = 80


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
    line = json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"
    if not _ends_whole(path):
        mend_tail(path)  # a controller that was killed while it wrote: the words before it are whole
    with path.open("ab+") as file:
        lacks_end = file.seek(0, os.SEEK_END) > 0 and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n"
        file.write((("\n" if lacks_end else "") + line).encode())
        file.flush()
        os.fsync(file.fileno())


def _ends_whole(path: Path) -> bool:
    """Whether the last line is JSON, with or without its line end."""
    if not path.is_file():
        return True
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - LONGEST_LINE))
        last = file.read().removesuffix(b"\n").rpartition(b"\n")[2]
    try:
        json.loads(last or b"{}")
    except (ValueError, RecursionError):
        return False
    return True


@contextmanager
def holding(folder: Path) -> Iterator[str]:
    """Hold the run's lock. Yields '' when it is ours, else in words why it is not."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context((folder / ".lock").open("a+", encoding="utf-8"))
        except OSError as problem:
            yield f"it cannot be written to ({problem.strerror})"
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read(40).strip() or "unknown"
            yield f"another burnin (process {holder}) drives this run"
            return
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield ""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """This controller alone drives the run. Raises RunFolderError when another one does."""
    with holding(folder) as other:
        if other:
            raise RunFolderError(f"{folder}: {other}; wait for it or end it first")
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


def _digest(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()


def check_manifest(folder: Path) -> tuple[list[str], list[str]]:
    """What in a node's folder is not as its own manifest says, and what the node left out of it."""
    listed, left_out, unread = _manifest(folder)
    if unread:
        return [unread], []
    here = {name for name in NODE_FILES if name != MANIFEST and (folder / name).is_file()}
    here |= {str(path.relative_to(folder)) for path in (folder / "raw").rglob("*") if path.is_file()}
    problems = []
    for name, digest in sorted(listed.items()):
        if not (name in NODE_FILES or RAW_FILE.fullmatch(name)):
            problems.append(f"manifest.json names {name[:80]!r}, which is no file of ours.")
        elif name not in here:
            problems.append(f"{name} is listed by the node and is not here.")
        elif _digest(folder / name) != digest:
            problems.append(f"{name} does not match its checksum: it was damaged after the node packed it.")
    problems += [f"{name} is here and not listed by the node: it came from somewhere else." for name in sorted(here - listed.keys())]
    return problems, [f"{name} was left out by the node: it is no plain file there." for name in sorted(left_out)]


def _manifest(folder: Path) -> tuple[dict[str, str], list[str], str]:
    """name -> digest, the names left out, and why the manifest cannot be used (or '')."""
    text, cut = _text(folder / MANIFEST, LARGEST_DOCUMENT_BYTES)
    if text is None:
        burned_in = any((folder / name).is_file() for name in NODE_FILES)
        return {}, [], "manifest.json is not there: nothing says whether this node's files are whole." if burned_in else ""
    try:
        found = json.loads(text)
        files, left_out = found["files"], found["left_out"]
    except (ValueError, KeyError, TypeError, RecursionError):
        files = left_out = None
    if cut or not isinstance(files, dict) or not isinstance(left_out, list):
        return {}, [], "manifest.json cannot be read; the checksums of this node's files are not known."
    return {name: str(digest) for name, digest in files.items()}, [str(name)[:LONGEST_NAME] for name in left_out], ""


def _text(path: Path, most: int) -> tuple[str | None, str]:
    """As much of the file as is read, None when there is none; and what was cut off, in words."""
    if not path.is_file():
        return None, ""
    with path.open("rb") as file:
        content, size = file.read(most), os.fstat(file.fileno()).st_size
    return content.decode("utf-8", errors="replace"), f"{path.name} has {size} bytes; the first {most} were read." if size > most else ""


def read_node(folder: Path) -> NodeFiles:
    """The files of one node as texts; a preflight's identity stands in where the burn-in left none."""
    texts: dict[str, str | None] = {}
    damaged, lacking = check_manifest(folder)
    for name in ("identity.json", "journal.jsonl", "measurements.jsonl", "collected.json", "preflight.json"):
        texts[name], cut = _text(folder / name, LARGEST_LINES_BYTES if name.endswith(".jsonl") else LARGEST_DOCUMENT_BYTES)
        lacking += [cut] if cut else []
    identity, early = texts["identity.json"], texts["preflight.json"]
    if identity is None and early is not None:
        identity = '{"before": ' + early + "}"
    return NodeFiles(
        identity=identity,
        journal=texts["journal.jsonl"],
        measurements=texts["measurements.jsonl"],
        collected=texts["collected.json"],
        preflight=early,
        problems=tuple(damaged),
        lacking=tuple(lacking),
    )


class _Nodes(Mapping[str, NodeFiles]):
    """folder name -> a node's files, read when they are asked for: a thousand nodes' texts do not fit into memory together."""

    def __init__(self, places: Mapping[str, Path]) -> None:
        self._places = places

    def __getitem__(self, name: str) -> NodeFiles:
        return read_node(self._places[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def read_run_files(folder: Path) -> RunFiles:
    """Everything of a run that the verdict looks at. Raises RunFolderError when run.json itself cannot be used.

    A run that a command drove has a ledger of what the controller saw; one made by playbooks alone has none.
    """
    run, problems = read_run_json(folder), Problems()
    text, cut = _text(folder / LEDGER, LARGEST_LINES_BYTES)
    controller = list(records(text, LEDGER, problems))
    if text is None and run.get("source"):
        problems.note(f"{LEDGER} is not there.")
    if cut:
        problems.note(cut)
    places = {str(node["folder"]): folder / "nodes" / PurePosixPath(node["folder"]).name for node in run["inventory"]["nodes"]}
    nodes = _Nodes({name: place for name, place in places.items() if place.is_dir()})
    return RunFiles(run, controller, nodes, problems.told())
