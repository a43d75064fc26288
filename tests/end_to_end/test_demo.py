"""`burnin demo`, once, the way a person runs it: real Ansible, the real role and node program, simulated GPUs."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from burnin.adapters.project import project
from burnin.stages.demo import differences
from burnin.stages.nodes import Target, resolve

pytestmark = pytest.mark.slow

BURNIN = Path(sys.executable).parent / "burnin"


@dataclass(frozen=True)
class Demo:
    code: int
    out: str
    err: str
    seconds: float
    folder: Path
    home: Path
    elsewhere: Path

    @property
    def document(self) -> dict:
        return json.loads((self.folder / "verdict.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    import time

    base = tmp_path_factory.mktemp("demo")
    home, elsewhere, temp, out = base / "home", base / "cwd", base / "tmp", base / "out"
    for folder in (home, elsewhere, temp):
        folder.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(temp), "LANG": "C.UTF-8"}
    begun = time.monotonic()
    done = subprocess.run(
        [str(BURNIN), "demo", "--out", str(out)], cwd=elsewhere, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    folders = [path for path in out.iterdir() if not path.name.startswith(".")] if out.exists() else []
    assert len(folders) == 1, done.stderr
    return Demo(done.returncode, done.stdout, done.stderr, time.monotonic() - begun, folders[0], home, elsewhere)


def hosts(demo: Demo) -> dict:
    return resolve(Target((str(demo.folder / "inventory"),), variables={"burnin_demo_root": str(demo.folder)}))


def test_exactly_the_planted_parts_were_found(demo: Demo) -> None:
    assert differences(hosts(demo), demo.document) == []
    assert demo.code == 10, demo.err


def test_every_kind_of_fault_was_planted_in_the_inventory(demo: Demo) -> None:
    kinds = Counter(fault["kind"] for variables in hosts(demo).values() for fault in variables.get("burnin_run_sim_faults", []))

    assert kinds == Counter(["slow_silicon", "heat", "hot", "wrong_result", "missing", "node_dies"])


def test_the_faults_are_stated_in_the_inventory_and_nowhere_else(demo: Demo) -> None:
    """The node program gets them; what it wrote down, and the verdict, do not know them."""
    for node in (demo.folder / "nodes").iterdir():
        for file in node.rglob("*"):
            if file.suffix in (".json", ".jsonl"):
                assert "slow_silicon" not in file.read_text(encoding="utf-8"), file
    assert "slow_silicon" not in (demo.folder / "verdict.json").read_text(encoding="utf-8")


def test_counts_equal_what_was_bought(demo: Demo) -> None:
    summary = demo.document["summary"]

    assert summary["gpus"] == len(demo.document["gpus"]) == 32
    assert sum(count for name, count in summary.items() if name != "gpus") == 32


def test_the_dead_nodes_journal_says_where(demo: Demo) -> None:
    node = next(node for node in demo.document["nodes"] if node["node"] == "gpu-n04")
    rebooted = next(finding for finding in node["findings"] if finding["code"] == "NODE_REBOOTED")

    assert "window" in rebooted["why"]
    assert "'soak'" in rebooted["why"]
    assert "s into the run" in rebooted["why"]


def test_nothing_outside_its_folder_was_touched(demo: Demo) -> None:
    touched = [path for place in (demo.home, demo.elsewhere, demo.home.parent / "tmp") for path in place.rglob("*")]

    assert touched == []
    assert [path.name for path in demo.folder.parent.iterdir()] == [demo.folder.name]


def test_no_load_is_left_running(demo: Demo) -> None:
    found = subprocess.run(["pgrep", "-f", str(demo.folder)], capture_output=True, text=True, check=False)

    assert found.stdout == ""


def test_the_log_is_plain_lines_and_the_result_ends_with_the_reports_path(demo: Demo) -> None:
    assert "\x1b" not in demo.err + demo.out
    assert any("gpu-n02: running" in line and "of 52 min" in line for line in demo.err.splitlines()), demo.err
    assert demo.out.rstrip().endswith(str(demo.folder / "report.html"))
    assert "RMA 3" in demo.out


def test_it_takes_a_minute_at_most(demo: Demo) -> None:
    shared = "PYTEST_XDIST_WORKER" in os.environ  # the other core belongs to another worker then

    assert demo.seconds <= (120 if shared else 60)


def test_the_verdict_is_a_pure_function_of_the_folder(demo: Demo) -> None:
    before = (demo.folder / "verdict.json").read_bytes()
    again = subprocess.run(
        [str(BURNIN), "verdict", str(demo.folder), "--json"], capture_output=True, check=False, env={**os.environ, "PYTHONHASHSEED": "7"}
    )

    assert again.returncode == 10
    assert again.stdout == before == (demo.folder / "verdict.json").read_bytes()


def test_measurements_in_another_order_give_the_same_findings(demo: Demo, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(demo.folder, copy)
    for node in (copy / "nodes").iterdir():
        lines = (node / "measurements.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
        (node / "measurements.jsonl").write_text("".join(reversed(lines)), encoding="utf-8")
        manifest = json.loads((node / "manifest.json").read_text(encoding="utf-8"))
        manifest["files"]["measurements.jsonl"] = hashlib.sha256((node / "measurements.jsonl").read_bytes()).hexdigest()
        (node / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")

    subprocess.run([str(BURNIN), "verdict", str(copy)], capture_output=True, check=False)

    assert (copy / "verdict.json").read_bytes() == (demo.folder / "verdict.json").read_bytes()


def test_without_its_manifest_a_node_is_no_pass(demo: Demo, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(demo.folder, copy)
    (copy / "nodes" / "gpu-n01" / "manifest.json").unlink()

    done = subprocess.run([str(BURNIN), "verdict", str(copy), "--json"], capture_output=True, text=True, check=False)

    assert "PASS" not in {gpu["verdict"] for gpu in json.loads(done.stdout)["gpus"] if gpu["node"] == "gpu-n01"}


@pytest.mark.parametrize("name", ["identity.json", "measurements.jsonl", "journal.jsonl"])
def test_a_file_damaged_on_the_way_is_no_pass(demo: Demo, tmp_path: Path, name: str) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(demo.folder, copy)
    file = copy / "nodes" / "gpu-n01" / name
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])

    done = subprocess.run([str(BURNIN), "verdict", str(copy), "--json"], capture_output=True, text=True, check=False)
    document = json.loads(done.stdout)
    node = next(node for node in document["nodes"] if node["node"] == "gpu-n01")

    assert "EVIDENCE_UNREADABLE" in {finding["code"] for finding in node["findings"]}
    assert node["verdict"] != "PASS"
    assert {gpu["verdict"] for gpu in document["gpus"] if gpu["node"] == "gpu-n01"} & {"PASS"} == set()


@pytest.mark.parametrize(("format_", "holds"), [("junit", "<testsuite"), ("prometheus", "# TYPE"), ("csv", "gpu-n03"), ("jsonl", '"gpu"')])
def test_the_other_reports(demo: Demo, format_: str, holds: str) -> None:
    done = subprocess.run([str(BURNIN), "report", str(demo.folder), "--format", format_], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert holds in done.stdout


def test_it_runs_the_real_playbooks(demo: Demo) -> None:
    stages = [json.loads(line)["stage"] for line in (demo.folder / "controller.jsonl").read_text(encoding="utf-8").splitlines()]

    assert Counter(stages) == Counter({"preflight": 4, "start": 4, "collect": 4})
    assert (project() / "playbooks" / "burnin_start.yml").is_file()
