"""The verdict stage: a run folder or a table in, verdict.json and the reports out."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from burnin.adapters.arrivals import gather
from burnin.adapters.run_files import LEDGER, append_line, holding, read_run_files, write_text
from burnin.errors import PolicyError, RunFolderError, TableError
from burnin.node.catalog import TESTS
from burnin.stages.opening import load_policy
from burnin.verdict.document import build, dump
from burnin.verdict.engine import judge
from burnin.verdict.policy import SCHEMA as POLICY_SCHEMA
from burnin.verdict.policy import Policy, policy_of
from burnin.verdict.run_folder import read_run

MOST_SAMPLE_MIB = 256  # of one node, unpacked: a week of eight GPUs at 1 Hz; more is not drawn
LARGEST_TABLE_BYTES = 4 * 1024**3


def judge_run(folder: Path, policy_path: Path | None = None, reference: Path | None = None) -> dict[str, Any]:
    """Judge a run folder (what was fetched is unpacked first) and write verdict.json into it; the caller holds the run's lock."""
    problems = gather(folder)
    told = {entry.get("node"): entry for entry in read_run_files(folder).controller} if problems else {}
    for problem in problems:
        word = {"stage": "unpack", "node": problem.partition(":")[0], "state": "damaged", "why": problem}
        if told.get(word["node"]) != word:  # judged twice, it is told once
            append_line(folder / LEDGER, word)
    document = judge_as_it_is(folder, policy_path, reference)
    write_text(folder / "verdict.json", dump(document))
    return document


def judge_as_it_is(folder: Path, policy_path: Path | None = None, reference: Path | None = None) -> dict[str, Any]:
    """Judge what is in nodes/ now; writes nothing."""
    files = read_run_files(folder)
    policy = load_policy(policy_path) if policy_path else recorded_policy(files.run)
    return build(judge(read_run(files, policy), policy, read_reference(reference)))


@contextmanager
def judged(folder: Path, policy_path: Path | None = None, reference: Path | None = None) -> Iterator[tuple[dict[str, Any], str]]:
    """The document of a run that a person looks at again, and why nothing may be written into its folder (or '').

    The run's lock is held until the body is done. A run that another burnin drives is judged as it is: an archive may be under way.
    """
    with holding(folder) as other:
        if other:
            told = f"{folder}: {other}; what is there now is judged, and nothing is written into it"
            yield judge_as_it_is(folder, policy_path, reference), told
        else:
            yield judge_run(folder, policy_path, reference), ""


def recorded_policy(run: Mapping[str, Any]) -> Policy:
    """The policy that the run was opened with: a later burnin judges it by the same limits, checked as a site's own file is.

    A limit that this version no longer knows is left out. Raises PolicyError for a run.json whose policy is damaged.
    """
    recorded, current = run.get("policy"), load_policy(None)
    if not isinstance(recorded, dict):
        raise PolicyError(
            f"run.json: policy holds {type(recorded).__name__}; expected the limits that the run was opened with; give --policy FILE"
        )
    limits = recorded.get("limits")
    known = {name: entry for name, entry in limits.items() if name in current.limits} if isinstance(limits, dict) else limits
    document = {"schema": POLICY_SCHEMA, "name": str(recorded.get("name", "recorded")), "limits": known, "skus": recorded.get("skus")}
    return policy_of(document, "run.json: policy")


def read_reference(path: Path | None) -> dict[str, float]:
    """cohort -> median of an earlier verdict. Raises RunFolderError for a run without one."""
    if path is None:
        return {}
    file = path / "verdict.json" if path.is_dir() else path
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        return {str(cohort["cohort"]): float(cohort["median"]) for cohort in document["cohorts"]}
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise RunFolderError(
            f"--reference {path}: holds no verdict that can be read ({problem}); run `burnin verdict {path}` first"
        ) from None


def direction_of(test: str) -> str:
    """Which direction is good where nobody says: the catalog's, and higher for a test that is not in it."""
    known = TESTS.get(test)
    return known.better if known else "higher"


def assumed_direction(test: str) -> str:
    """What a person is told when --better was left out."""
    return f"burnin verdict: a {direction_of(test)} {test} is taken to be better; say --better lower or --better higher"


def judge_table(
    path: Path, *, columns: str | None, test: str, better: str | None, sku: str | None, policy_path: Path | None, reference: Path | None
) -> dict[str, Any]:
    """Judge a CSV of measurements; returns the document. Writes nothing."""
    from burnin.verdict.table import parse_columns, read_table

    policy = load_policy(policy_path)
    known = TESTS.get(test)
    direction = better or direction_of(test)
    mapping = parse_columns(columns, str(path))
    try:
        if path.stat().st_size > LARGEST_TABLE_BYTES:
            raise TableError(f"{path}: larger than {LARGEST_TABLE_BYTES} bytes; split it by test")
        content = path.read_bytes()
    except OSError as problem:
        raise TableError(f"{path}: cannot be read ({problem.strerror}); give --table FILE, a CSV with a header line") from None
    unit = known.unit if known else None
    evidence = read_table(content, columns=mapping, test=test, unit=unit, better=direction, sku=sku, policy=policy, where=str(path))
    return build(judge(evidence, policy, read_reference(reference)))


def samples_text(folder: Path, node_folder: str) -> str | None:
    """The telemetry of one node as CSV text, as far as it can be unpacked; None when there is none."""
    path = folder / "nodes" / node_folder / "samples.csv.gz"
    if not path.is_file():
        return None
    pieces: list[bytes] = []
    try:
        with gzip.open(path, "rb") as file:
            while len(pieces) < MOST_SAMPLE_MIB and (block := file.read(1 << 20)):
                pieces.append(block)
    except (OSError, EOFError, zlib.error):
        pass  # cut off: what came before stands, and the checksum has already been reported
    return b"".join(pieces).decode("utf-8", errors="replace")
