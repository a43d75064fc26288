"""The built node program as real processes, under this Python and under the oldest one that nodes may have."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from burnin.adapters.zipapp import build

PLAN: dict[str, Any] = {
    "schema": "burnin.plan/1", "name": "short", "run_id": "run-1", "seed": 7,
    "steps": [
        {"name": "soak", "test": "gemm_bf16", "starts": 1, "idle_s": 20, "warmup_s": 60, "window_s": 40, "windows": 3},
        {"name": "restart", "test": "gemm_bf16", "starts": 2, "idle_s": 20, "warmup_s": 30, "window_s": 20, "windows": 3},
        {"name": "memory", "test": "hbm_copy", "starts": 1, "idle_s": 5, "warmup_s": 10, "window_s": 10, "windows": 3},
    ],
}  # fmt: skip
WINDOWS = 3 + 6 + 3


@functools.cache
def _oldest() -> str:
    """A Python 3.9 that runs (a shim on PATH may not), from PATH or pyenv; empty when there is none."""
    found = [shutil.which("python3.9"), *sorted(str(path) for path in Path.home().glob(".pyenv/versions/3.9*/bin/python3"))]
    ask = "import sys; sys.exit(sys.version_info[:2] != (3, 9))"
    return next(
        (path for path in found if path and subprocess.run([path, "-c", ask], capture_output=True, check=False).returncode == 0), ""
    )


OLD = pytest.param(
    _oldest(), id="Python 3.9", marks=pytest.mark.skipif(not _oldest(), reason="no python3.9 on PATH or in ~/.pyenv/versions")
)
PYTHONS = [pytest.param(sys.executable, id="this Python"), OLD]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "burnin-node.pyz"
    build(path)
    return path


class Node:
    """A run folder on a node, and the program in it."""

    def __init__(self, run: Path, program: Path, python: str = sys.executable) -> None:
        self.run, self.python, self.evidence = run, python, run / "evidence"
        run.mkdir(exist_ok=True)
        shutil.copy(program, run / "burnin-node.pyz")
        self.plan(PLAN)
        self.options({"node": "n1", "gpus": 2, "seed": 3})

    def plan(self, document: Any) -> None:
        (self.run / "plan.json").write_text(json.dumps(document))

    def options(self, document: Any) -> None:
        (self.run / "options.json").write_text(json.dumps(document))

    def argv(self, *arguments: str) -> list[str]:
        return [self.python, str(self.run / "burnin-node.pyz"), *arguments]

    def call(self, *arguments: str, **how: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.argv(*arguments), capture_output=True, text=True, timeout=60, check=False, **how)

    def begin(self, backend: str = "sim") -> list[str]:
        return ["run", "--plan", str(self.run / "plan.json"), "--out", str(self.evidence), "--backend", backend] + (
            ["--options", str(self.run / "options.json")] if backend == "sim" else []
        )

    def verb(self, name: str) -> dict[str, Any]:
        done = self.call(name, "--run-dir", str(self.run), "--backend", "sim", "--supervisor", "process", "--unit", "burnin-test-none")
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    def events(self) -> list[dict[str, Any]]:
        path = self.evidence / "journal.jsonl"
        return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []

    def measured(self) -> set[tuple[Any, ...]]:
        rows = [json.loads(line) for line in (self.evidence / "measurements.jsonl").read_text().splitlines()]
        return {(row["gpu"], row["step"], row["start"], row["window"]) for row in rows}

    def elapsed(self) -> list[float]:
        return [float(line.split(",", 1)[0]) for line in (self.evidence / "samples.csv").read_text().splitlines()[1:]]

    def wait_for(self, what: Any) -> None:
        deadline = time.monotonic() + 20
        while not what():
            assert time.monotonic() < deadline, self.events()[-3:]
            time.sleep(0.02)


@pytest.fixture
def node(tmp_path: Path, program: Path) -> Iterator[Node]:
    made = Node(tmp_path / "run", program)
    yield made
    if made.evidence.is_dir():
        made.verb("stop")


def one_line(text: str) -> str:
    """The one line that a refusal is."""
    (line,) = text.splitlines()
    return line


@pytest.mark.parametrize("python", PYTHONS)
def test_identity_needs_nothing_but_python(tmp_path: Path, program: Path, python: str) -> None:
    done = subprocess.run(
        [python, "-S", str(program), "identity", "--backend", "cpu"], capture_output=True, text=True, cwd=tmp_path, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["schema"] == "burnin.identity/1"
    assert told["gpus"][0]["gpu"].startswith("CPU-")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("python", PYTHONS)
def test_a_whole_simulated_run(tmp_path: Path, program: Path, python: str) -> None:
    node = Node(tmp_path / "run", program, python)

    done = node.call(*node.begin())

    assert (done.returncode, done.stderr) == (0, "")
    assert len(node.measured()) == 2 * WINDOWS
    assert node.events()[-1]["event"] == "run_ended"
    assert not (node.evidence / "agent.reserve").exists()
    before = (node.evidence / "journal.jsonl").read_bytes()
    again = node.call(*node.begin())
    assert (again.returncode, before) == (0, (node.evidence / "journal.jsonl").read_bytes())
    assert "is complete; nothing was done" in again.stderr


def test_both_pythons_measure_the_same(tmp_path: Path, program: Path) -> None:
    if not _oldest():
        pytest.skip("no python3.9 on PATH or in ~/.pyenv/versions")
    values = []
    for name, python in (("new", sys.executable), ("old", _oldest())):
        node = Node(tmp_path / name, program, python)
        node.call(*node.begin())
        values.append([json.loads(line)["value"] for line in (node.evidence / "measurements.jsonl").read_text().splitlines()])

    assert values[0] == values[1]
    assert len(values[0]) == 2 * WINDOWS


@pytest.mark.parametrize("patience_s", [0.05, 0.3, 0.6, 0.9, 1.2])
def test_killed_at_any_moment_it_goes_on_and_every_file_stays_readable(node: Node, patience_s: float) -> None:
    node.options({"node": "n1", "gpus": 2, "seed": 3, "compress": 300})
    with subprocess.Popen(node.argv(*node.begin())) as process:
        time.sleep(patience_s)
        process.kill()
    node.options({"node": "n1", "gpus": 2, "seed": 3})
    ended = {(event["step"], event["start"]) for event in node.events() if event["event"] == "start_ended"}

    done = node.call(*node.begin())

    assert done.returncode == 0, done.stderr
    attempt = max(event["attempt"] for event in node.events())
    begun = [(event["step"], event["start"]) for event in node.events() if event["event"] == "start_begun" and event["attempt"] == attempt]
    assert [one for one in (("soak", 1), ("restart", 1), ("restart", 2), ("memory", 1)) if one not in ended] == begun
    assert len(node.measured()) == 2 * WINDOWS
    assert node.elapsed() == sorted(node.elapsed())


def test_a_node_that_dies_says_where_and_dies_once(node: Node) -> None:
    node.options({"gpus": 2, "faults": [{"kind": "node_dies", "at_s": 250}]})

    first = node.call(*node.begin())
    where = node.events()[-1]
    second = node.call(*node.begin())

    assert (first.returncode, second.returncode) == (-signal.SIGKILL, 0)
    assert (where["event"], where["step"], where["start"]) == ("start_begun", "restart", 1)
    boots = [event["boot_id"] for event in node.events() if event["event"] == "run_started"]
    assert len(set(boots)) == 2
    assert len(node.measured()) == 2 * WINDOWS


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_in_good_order_also_while_it_rests(node: Node, number: signal.Signals) -> None:
    node.options({"gpus": 2, "compress": 1})
    with subprocess.Popen(node.argv(*node.begin())) as process:
        node.wait_for(lambda: any(event["event"] == "start_begun" for event in node.events()))
        process.send_signal(number)

        assert process.wait(5) == 4

    assert ("stopped", number.name) == (node.events()[-1]["event"], node.events()[-1]["reason"])
    assert node.verb("status")["state"] == "stopped"


def test_start_status_stop_and_start_again(node: Node) -> None:
    assert node.verb("status") == {"state": "absent"}
    node.options({"node": "n1", "gpus": 2, "seed": 3, "compress": 120})

    told = node.verb("start")
    again = node.verb("start")
    node.wait_for(lambda: node.verb("status").get("elapsed_s", 0) > 30)
    stopped = node.verb("stop")

    assert (told["state"], told["changed"], again["state"], again["changed"]) == ("running", True, "running", False)
    assert (stopped["state"], stopped["changed"], stopped["reason"]) == ("stopped", True, "SIGTERM")
    assert node.verb("stop")["changed"] is False
    assert node.verb("start")["attempt"] == 2
    node.wait_for(lambda: node.verb("status")["state"] == "finished")
    assert node.verb("stop")["state"] == "finished"
    assert node.verb("start")["changed"] is False
    assert len(node.measured()) == 2 * WINDOWS


def test_of_two_starts_at_once_one_runs(node: Node) -> None:
    node.options({"gpus": 2, "compress": 50})

    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(lambda _: node.verb("start"), range(4)))

    assert {"running"} == {answer["state"] for answer in told}
    assert [event["attempt"] for event in node.events() if event["event"] == "run_started"] == [1]


@pytest.mark.slow
def test_a_stop_fired_just_after_a_start_is_never_missed(tmp_path: Path, program: Path) -> None:
    """Whoever comes first on the node: the stop was asked for later, so nothing runs afterwards."""
    chance = random.Random(5)
    for number in range(20):
        node = Node(tmp_path / f"run{number}", program)
        node.options({"node": "n1", "gpus": 2, "seed": 3, "compress": 20})
        rest = ["--run-dir", str(node.run), "--backend", "sim", "--supervisor", "process", "--unit", "burnin-test-none"]
        offset_s = chance.uniform(0, 0.1)
        with subprocess.Popen(node.argv("start", *rest), stdout=subprocess.DEVNULL) as starting:
            time.sleep(offset_s)
            stopped = node.verb("stop")
            starting.wait(30)

        stood = node.verb("status")
        node.verb("stop")
        assert (stood["state"], stood["pid"]) == ("stopped", None), f"start and {offset_s * 1000:.0f} ms later stop: {stopped}"
        assert not (node.evidence / "measurements.jsonl").read_bytes()


def test_a_second_run_by_hand_is_refused_and_leaves_the_first_alone(node: Node) -> None:
    node.options({"gpus": 2, "compress": 50})
    node.verb("start")

    done = node.call(*node.begin())

    assert done.returncode == 3
    assert "already going on" in one_line(done.stderr)
    assert node.verb("status")["state"] == "running"


def test_the_evidence_of_two_runs_never_mixes(node: Node) -> None:
    node.call(*node.begin())
    before = {path.name: path.read_bytes() for path in node.evidence.iterdir() if path.name != "agent.lock"}

    for change, told in (({"run_id": "run-2"}, "'run-1', this is 'run-2'"), ({"seed": 8}, "plan")):
        node.plan({**PLAN, **change})
        for done in (
            node.call(*node.begin()),
            node.call("start", "--run-dir", str(node.run), "--backend", "sim", "--supervisor", "process"),
        ):
            assert done.returncode == 2
            assert told in one_line(done.stderr)

    assert before == {path.name: path.read_bytes() for path in node.evidence.iterdir() if path.name != "agent.lock"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(
            lambda node: node.plan({**PLAN, "steps": [{"test": "gem_bf16", "windows": 1, "window_s": 1}]}),
            "did you mean 'gemm_bf16'?",
            id="plan",
        ),
        pytest.param(lambda node: (node.run / "plan.json").unlink(), "cannot read", id="no plan"),
        pytest.param(lambda node: (node.run / "options.json").write_text("{"), "not JSON", id="options that are no JSON"),
    ],
)
def test_what_cannot_be_run_touches_nothing(node: Node, change: Any, told: str) -> None:
    change(node)

    done = node.call(*node.begin())

    assert done.returncode == 2
    assert told in one_line(done.stderr)
    assert not node.evidence.exists()


def test_a_fault_that_cannot_be_planted_is_refused_and_start_says_so(node: Node) -> None:
    node.options({"gpus": 2, "faults": [{"kind": "hot", "slot": 2}]})

    done = node.call(*node.begin())
    begun = node.call("start", "--run-dir", str(node.run), "--backend", "sim", "--supervisor", "process")

    assert (done.returncode, begun.returncode) == (2, 2)
    assert "faults[0].slot is '2'; expected a whole number from 0 to 1" in one_line(done.stderr)
    assert "faults[0].slot" in one_line(begun.stderr)
    assert node.verb("status")["state"] == "failed"
    node.options({"node": "n1", "gpus": 2, "seed": 3})
    assert node.call(*node.begin()).returncode == 0


@contextmanager
def tiny_disk(folder: Path, kib: int) -> Iterator[Path]:
    """A file system of so many KiB. Skips where nobody may mount one."""
    folder.mkdir()
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        pytest.skip("a full disk is made with a tmpfs, which only root can mount")
    done = subprocess.run([mount, "-t", "tmpfs", "-o", f"size={kib}k", "none", str(folder)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no tmpfs here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_told_in_the_journal_and_destroys_nothing(tmp_path: Path, program: Path) -> None:
    with tiny_disk(tmp_path / "disk", 120) as disk:
        node = Node(tmp_path / "run", program)
        node.evidence = disk / "evidence"

        done = node.call(*node.begin())

        assert done.returncode == 12
        assert "No space left on device" in one_line(done.stderr)
        assert node.events()[-1]["event"] == "failed"
        assert "No space left" in node.events()[-1]["reason"]
        json.loads((node.evidence / "identity.json").read_text())
        kept, samples = node.measured(), (node.evidence / "samples.csv").read_bytes()
        assert samples.endswith(b"\n")
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        assert node.call(*node.begin()).returncode == 0
        assert kept <= node.measured()
        assert len(node.measured()) == 2 * WINDOWS
        assert (node.evidence / "samples.csv").read_bytes().startswith(samples)


def test_a_disk_without_any_room_is_told_on_stderr(tmp_path: Path, program: Path) -> None:
    with tiny_disk(tmp_path / "disk", 16) as disk:
        node = Node(tmp_path / "run", program)
        node.evidence = disk / "evidence"
        node.evidence.mkdir()
        (disk / "filler").write_bytes(b"x" * 12288)

        done = node.call(*node.begin())

        assert done.returncode == 12
        assert "No space left on device" in done.stderr


def test_a_read_only_disk_is_refused(tmp_path: Path, program: Path) -> None:
    with tiny_disk(tmp_path / "disk", 200) as disk:
        node = Node(tmp_path / "run", program)
        node.evidence = disk / "evidence"
        node.evidence.mkdir()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)

        done = node.call(*node.begin())
        deeper = node.call(*node.begin()[:4], str(node.evidence / "deeper"), *node.begin()[5:])

        assert (done.returncode, deeper.returncode) == (2, 2)
        assert "cannot be written" in one_line(done.stderr)
        assert "cannot be made" in one_line(deeper.stderr)


def test_evidence_is_packed_while_the_run_goes_on_and_after_it(node: Node) -> None:
    node.options({"node": "n1", "gpus": 2, "seed": 3, "compress": 400})
    node.verb("start")
    node.wait_for(lambda: any(event["event"] == "window" for event in node.events()))

    for state in ("running", "finished"):
        node.wait_for(lambda state=state: node.verb("status")["state"] == state)
        with ThreadPoolExecutor(2) as pool:
            told, _ = pool.map(lambda _: node.verb("pack"), range(2))
        with tarfile.open(node.run / "evidence.tar") as tar:
            files = {entry.name: tar.extractfile(entry).read() for entry in tar.getmembers()}  # type: ignore[union-attr]
        manifest = json.loads(files.pop("manifest.json"))
        assert manifest["files"] == {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        assert {"identity.json", "journal.jsonl", "measurements.jsonl", "samples.csv.gz", "collected.json"} <= set(files)
        assert told["state"] == json.loads(files["collected.json"])["state"] == state
        assert all(json.loads(line) for name in ("journal.jsonl", "measurements.jsonl") for line in files[name].splitlines())


def test_the_hosts_processor_does_real_work(tmp_path: Path, program: Path) -> None:
    pytest.importorskip("numpy", reason="the cpu backend's loads need NumPy")
    node = Node(tmp_path / "run", program)
    step = {"starts": 2, "idle_s": 0.1, "warmup_s": 0.1, "window_s": 0.1, "windows": 2}
    node.plan({**PLAN, "steps": [{"test": test, **step} for test in ("gemm_fp32", "gemm_fp64", "mem_copy", "gemm_bf16")]})

    done = node.call(*node.begin("cpu"))

    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (node.evidence / "measurements.jsonl").read_text().splitlines()]
    assert len(rows) == 3 * 2 * 2
    assert all(row["value"] > 0 and row["checked"] > 0 and row["wrong"] == 0 for row in rows)
    assert all(row["temp_c"] is None for row in rows)
    skipped = [event for event in node.events() if event["event"] == "start_skipped"]
    assert [(event["test"], event["start"]) for event in skipped] == [("gemm_bf16", 1), ("gemm_bf16", 2)]


def test_without_numpy_the_loads_are_skipped_with_the_reason(tmp_path: Path, program: Path) -> None:
    node = Node(tmp_path / "run", program)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "numpy.py").write_text("raise ImportError('none here')")
    node.plan({**PLAN, "steps": [{"test": "gemm_fp32", "windows": 1, "window_s": 1}]})

    done = node.call(*node.begin("cpu"), env={**os.environ, "PYTHONPATH": str(tmp_path / "empty")})

    assert done.returncode == 0, done.stderr
    assert [event["reason"] for event in node.events() if event["event"] == "start_skipped"] == [
        "gemm_fp32 on the cpu backend needs NumPy; install python3-numpy on the node"
    ]
    assert (node.evidence / "measurements.jsonl").read_bytes() == b""


def test_a_run_of_fifty_virtual_minutes_costs_little(tmp_path: Path, program: Path) -> None:
    node = Node(tmp_path / "run", program)
    node.options({"gpus": 8, "seed": 1})
    node.plan({**PLAN, "steps": [{"test": "gemm_bf16", "starts": 3, "idle_s": 30, "warmup_s": 300, "window_s": 220, "windows": 3}]})
    before = os.times()

    done = node.call(*node.begin())

    after = os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    assert done.returncode == 0
    assert len(node.elapsed()) == 8 * 2970
    assert cpu_s < 1.5


def test_an_answer_that_nobody_reads_is_no_crash(node: Node) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)

    done = subprocess.run(node.argv("identity", "--backend", "cpu"), stdout=write_end, stderr=subprocess.PIPE, text=True, check=False)

    os.close(write_end)
    assert done.returncode == 12
    assert "Traceback" not in done.stderr
