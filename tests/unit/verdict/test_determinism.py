"""Same evidence, same bytes: whatever the order of its rows, files, nodes and hashes."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from burnin.verdict.document import build, dump
from burnin.verdict.engine import judge
from burnin.verdict.table import parse_columns, read_table
from unit.verdict.fleets import POLICY
from unit.verdict.folders import Folder, Node, folder
from unit.verdict.test_table import COLUMNS, csv_text, rows

TESTS = Path(__file__).resolve().parents[2]


def faulty(made: Node) -> Node:
    """A node that gives every rule something to say."""
    for one in made.measurements:
        if one["gpu"] == "GPU-n0-1":
            one["value"] *= 0.9
        if one["gpu"] == "GPU-n0-2":
            one["wrong"] = 1
        if one["gpu"] == "GPU-n0-3":
            one |= {"temp_c": 84.0, "hw_thermal_fraction": 0.2}
        if one["gpu"] == "GPU-n0-4" and one["window"] == 1:
            one["value"] = None
        if one["gpu"] == "GPU-n0-7":
            one |= {"temp_c": None, "hw_thermal_fraction": None, "checked": 0}
    for look in made.identity.values():
        look["gpus"][6]["power_limit_w"] = 600.0
        look["gpus"][7]["health"]["lost"] = None
    made.identity["before"]["gpus"][5]["health"]["recovery_action"] = "reset"
    made.measurements.extend([{**one, "attempt": 2} for one in made.measurements[:20]])
    return replace(made, journal=made.journal[:-1])


def shuffled(run: Folder, seed: int) -> Folder:
    """The same run, written in another order."""
    rng = random.Random(seed)

    def mixed(text: str | None) -> str:
        records = (text or "").splitlines(keepends=True)
        rng.shuffle(records)
        return "".join(records)

    nodes = {}
    for name in rng.sample(list(run.nodes), len(run.nodes)):
        files = run.nodes[name]
        identity = json.loads(files.identity or "")
        for look in identity.values():
            rng.shuffle(look["gpus"])
        nodes[name] = replace(files, identity=json.dumps(identity), measurements=mixed(files.measurements))
    entries = list(run.run["inventory"]["nodes"])
    rng.shuffle(entries)
    return replace(run, run={**run.run, "inventory": {"nodes": entries}}, nodes=nodes)


@pytest.mark.parametrize("seed", range(5))
def test_a_run_gives_the_same_bytes_in_any_order(seed: int) -> None:
    run = folder(faulty)

    assert shuffled(run, seed).dump() == run.dump()


@pytest.mark.parametrize("seed", range(5))
def test_a_table_gives_the_same_bytes_in_any_order(seed: int) -> None:
    listed = [*rows(G3={"perf": 90}, G4={"perf": "nan"}, G5={"temp": 90}, G6={"node": "-1"}), *rows(G3={"perf": 91}, G9={"node": "n7"})]

    mixed = list(listed)
    random.Random(seed).shuffle(mixed)

    assert table(csv_text(mixed)) == table(csv_text(listed))


def table(text: str) -> str:
    evidence = read_table(
        text.encode(), columns=parse_columns(COLUMNS, "t"), test="sgemm", unit="ms", better="higher", sku=None, policy=POLICY, where="t"
    )
    return dump(build(judge(evidence, POLICY)))


SCRIPT = """
import hashlib
from unit.verdict.folders import folder
from unit.verdict.test_determinism import faulty, table
from unit.verdict.test_table import csv_text, rows
print(hashlib.sha256((folder(faulty).dump() + table(csv_text(rows(G3={"perf": 90})))).encode()).hexdigest())
"""


def test_any_hash_seed_and_any_number_of_threads_give_the_same_bytes() -> None:
    mine = hashlib.sha256((folder(faulty).dump() + table(csv_text(rows(G3={"perf": 90})))).encode()).hexdigest()

    for seed, threads in (("0", "1"), ("1", "2"), ("4242", "7")):
        told = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "POLARS_MAX_THREADS": threads, "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent}"},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        assert told.strip() == mine


def test_other_evidence_has_another_digest() -> None:
    sound, other = folder().document(), folder(faulty).document()

    assert sound["digest"] != other["digest"]
    assert sound["policy"]["digest"] == other["policy"]["digest"]


def test_the_document_is_json_without_nan_and_with_sorted_lists() -> None:
    text = folder(faulty).dump()
    document = json.loads(text, parse_constant=lambda name: pytest.fail(f"holds {name}"))

    assert [(one["rack"], one["position"], one["node"]) for one in document["gpus"]] == sorted(
        (one["rack"], one["position"], one["node"]) for one in document["gpus"]
    )
    assert [one["node"] for one in document["nodes"]] == sorted(one["node"] for one in document["nodes"])
    cohorts = [(one["test"], one["cohort"]) for one in document["cohorts"]]
    assert cohorts == sorted(cohorts)
    assert text.endswith("}\n")
