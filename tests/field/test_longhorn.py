"""392 V100 of Longhorn (SC'22): the verdict and its cause on real data, read in place and never copied here."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path
from typing import Any

import pytest

from burnin.verdict.document import build, dump
from burnin.verdict.engine import judge
from burnin.verdict.policy import default_policy
from burnin.verdict.table import parse_columns, read_table

COLUMNS = "gpu=uuid,value=perf,temp_c=temp,power_w=pwr,sm_clock_mhz=freq,rack=cabinet,node=node"
SKUS = pytest.mark.parametrize("sku", [None, "V100-SXM2-16GB"], ids=["without --sku", "with --sku"])
POLICY = default_policy()


def document(content: bytes, test: str, sku: str | None) -> dict[str, Any]:
    columns = parse_columns(COLUMNS, "table")
    evidence = read_table(content, columns=columns, test=test, unit="ms", better="lower", sku=sku, policy=POLICY, where="table")
    return build(judge(evidence, POLICY))


@pytest.fixture(scope="session")
def data(shared: Path) -> Path:
    folder = shared / "data"
    if not (folder / "longhorn-v100-sgemm").is_dir():
        pytest.skip("the shared folder holds no data/longhorn-v100-sgemm")
    return folder


@pytest.fixture(scope="session")
def sgemm(data: Path) -> bytes:
    return (data / "longhorn-v100-sgemm" / "sgemm-longhorn-agg.csv").read_bytes()


@pytest.fixture(scope="session")
def expected(data: Path) -> dict[str, dict[str, str]]:
    with (data / "longhorn-v100-sgemm" / "expected.csv").open(encoding="utf-8", newline="") as file:
        return {row["uuid"]: row for row in csv.DictReader(file)}


def cause_of(gpu: dict[str, Any]) -> str:
    """The cause of a GPU's worst finding; '' for one that is good."""
    worst = gpu["findings"][0]
    return worst["cause"] or "" if worst["outcome"] != "PASS" else ""


@SKUS
def test_ten_of_ten_in_verdict_and_cause(sgemm: bytes, expected: dict[str, dict[str, str]], sku: str | None) -> None:
    gpus = {gpu["gpu"]: gpu for gpu in document(sgemm, "sgemm", sku)["gpus"]}

    told = {uuid: (gpus[uuid]["verdict"], cause_of(gpus[uuid])) for uuid in expected}

    assert len(expected) == 10
    assert told == {uuid: (row["expect"], row["cause"]) for uuid, row in expected.items()}


@SKUS
def test_nobody_else_is_flagged(sgemm: bytes, expected: dict[str, dict[str, str]], sku: str | None) -> None:
    found = document(sgemm, "sgemm", sku)

    assert found["summary"] == {"gpus": 392, "RMA": 4, "FAIL": 0, "RETEST": 0, "INCONCLUSIVE": 8, "REVIEW": 4, "PASS": 376}
    flagged = {gpu["gpu"] for gpu in found["gpus"] if gpu["verdict"] in ("RMA", "FAIL", "RETEST", "REVIEW")}
    assert flagged <= set(expected)
    assert {one["verdict"] for one in (*found["nodes"], *found["racks"], found["fleet"])} == {"PASS"}


@SKUS
def test_gpus_with_one_or_two_runs_are_inconclusive(sgemm: bytes, sku: str | None) -> None:
    rows = csv.DictReader(io.StringIO(sgemm.decode("utf-8")))
    runs: dict[str, int] = {}
    for row in rows:
        runs[row["uuid"]] = runs.get(row["uuid"], 0) + 1

    found = document(sgemm, "sgemm", sku)["gpus"]

    assert {gpu["gpu"] for gpu in found if gpu["verdict"] == "INCONCLUSIVE"} == {uuid for uuid, count in runs.items() if count < 3}
    assert {gpu["findings"][0]["code"] for gpu in found if gpu["verdict"] == "INCONCLUSIVE"} == {"TOO_FEW_WINDOWS"}


def test_the_medians_are_those_of_the_data_sets_own_table(sgemm: bytes, data: Path) -> None:
    with (data / "longhorn-v100-sgemm" / "per-gpu.csv").open(encoding="utf-8", newline="") as file:
        own = {row["uuid"]: row for row in csv.DictReader(file)}

    for gpu in document(sgemm, "sgemm", None)["gpus"]:
        speed = next(one for one in gpu["findings"] if one["test"] == "sgemm" and one["windows"] and one["unit"] == "ms")
        row = own[gpu["gpu"]]
        assert speed["value"] == pytest.approx(float(row["perf_ms_median"]), rel=1e-5)
        assert 1 + speed["deviation_pct"] / 100 == pytest.approx(float(row["rel_perf"]), abs=2e-4)
        assert speed["evidence"]["windows_over"] == int(row["runs_over_5pct_slow"])


@pytest.mark.parametrize("seed", range(3))
def test_shuffled_rows_give_the_same_bytes(sgemm: bytes, seed: int) -> None:
    header, *rows = sgemm.decode("utf-8").splitlines()
    random.Random(seed).shuffle(rows)

    mixed = document("\n".join([header, *rows]).encode(), "sgemm", None)

    assert dump(mixed) == dump(document(sgemm, "sgemm", None))


@SKUS
def test_in_the_negative_control_nothing_goes_back(data: Path, sku: str | None) -> None:
    found = document((data / "longhorn-v100-bert" / "bert-longhorn-agg.csv").read_bytes(), "bert", sku)

    assert tuple(found["summary"][name] for name in ("gpus", "RMA", "FAIL", "RETEST")) == (136, 0, 0, 0)
