"""The command on real cluster data (392 V100 of Longhorn): the known ten, the same bytes for any order, and in time."""

from __future__ import annotations

import csv
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

BURNIN = Path(sys.executable).parent / "burnin"
COLUMNS = "gpu=uuid,value=perf,temp_c=temp,power_w=pwr,sm_clock_mhz=freq,rack=cabinet,node=node"
BUDGET_S = 1.5


def verdict(table: Path, *more: str, hash_seed: str = "0") -> subprocess.CompletedProcess[bytes]:
    command = [str(BURNIN), "verdict", "--table", str(table), "--columns", COLUMNS, "--better", "lower", "--json", *more]
    return subprocess.run(command, capture_output=True, check=False, env={**os.environ, "PYTHONHASHSEED": hash_seed})


@pytest.fixture(scope="module")
def sgemm(shared: Path) -> Path:
    return shared / "data" / "longhorn-v100-sgemm" / "sgemm-longhorn-agg.csv"


@pytest.mark.parametrize("more", [(), ("--sku", "V100-SXM2-16GB")], ids=["limits unknown", "max operating 83 C"])
def test_ten_of_ten_and_nobody_else(shared: Path, sgemm: Path, more: tuple[str, ...]) -> None:
    with (shared / "data" / "longhorn-v100-sgemm" / "expected.csv").open(encoding="utf-8") as file:
        expected = {row["uuid"]: (row["expect"], row["cause"] or None) for row in csv.DictReader(file)}

    done = verdict(sgemm, *more)
    document = json.loads(done.stdout)

    found = {gpu["gpu"]: (gpu["verdict"], gpu["findings"][0]["cause"]) for gpu in document["gpus"]}
    assert done.returncode == 10
    assert len(expected) == 10
    assert {uuid: found[uuid] for uuid in expected} == expected
    assert {uuid for uuid, (outcome, _) in found.items() if outcome in ("RMA", "REVIEW")} <= set(expected)
    assert document["summary"] == {"gpus": 392, "RMA": 4, "FAIL": 0, "RETEST": 0, "INCONCLUSIVE": 8, "REVIEW": 4, "PASS": 376}


def test_the_same_bytes_for_shuffled_rows_and_any_hash_seed(sgemm: Path, tmp_path: Path) -> None:
    head, *rows = sgemm.read_text(encoding="utf-8").splitlines()
    random.Random(3).shuffle(rows)
    shuffled = tmp_path / "shuffled.csv"
    shuffled.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")

    assert verdict(sgemm).stdout == verdict(shuffled, hash_seed="12345").stdout


def test_in_time_for_the_whole_process(sgemm: Path) -> None:
    def once() -> float:
        begun = time.monotonic()
        verdict(sgemm)
        return time.monotonic() - begun

    assert min(once() for _ in range(3)) <= BUDGET_S


def test_the_negative_control_has_no_rma(shared: Path) -> None:
    done = verdict(shared / "data" / "longhorn-v100-bert" / "bert-longhorn-agg.csv")

    summary = json.loads(done.stdout)["summary"]
    assert (summary["gpus"], summary["RMA"]) == (136, 0)
