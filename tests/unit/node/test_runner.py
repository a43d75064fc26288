"""Steps, starts and windows; and what happens when something goes away in between."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from burnin.node.backends.base import LoadProblem
from burnin.node.plan import Plan, check_plan
from burnin.node.records import SAMPLE_FIELDS, read_journal
from burnin.node.runner import Runner, cell, done_starts, elapsed_before
from fake_node import GPUS, FakeBackend

PLAN = check_plan(
    {
        "schema": "burnin.plan/1",
        "name": "p",
        "run_id": "r",
        "seed": 7,
        "steps": [
            {"name": "a", "test": "gemm_bf16", "starts": 2, "idle_s": 2, "warmup_s": 3, "window_s": 5, "windows": 2},
            {"name": "b", "test": "hbm_copy", "window_s": 4, "windows": 1},
        ],
    }
)


class Killed(BaseException):
    """What a kill -9 is to a process, as far as its files go."""


def run(out: Path, backend: FakeBackend, attempt: int = 1, stop: Any = None, plan: Plan = PLAN) -> bool:
    runner = Runner(plan, out, backend, attempt, stop or (lambda: None))
    try:
        return runner.run()
    finally:
        runner.close()


def measured(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "measurements.jsonl").read_text().splitlines()]


def events(out: Path, name: str) -> list[dict[str, Any]]:
    return [event for event in read_journal(out / "journal.jsonl") if event["event"] == name]


def sampled(out: Path) -> list[dict[str, str]]:
    with (out / "samples.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def kill_at(clock_s: float) -> FakeBackend:
    def tick(backend: FakeBackend) -> None:
        if backend.clock_s >= clock_s:
            raise Killed

    return FakeBackend(tick)


def test_a_whole_run_leaves_every_window_of_every_gpu(tmp_path: Path) -> None:
    assert run(tmp_path, FakeBackend())

    expected = [
        (step, start, window, gpu)
        for step, start, windows in (("a", 1, 2), ("a", 2, 2), ("b", 1, 1))
        for window in range(1, windows + 1)
        for gpu in GPUS
    ]
    assert expected == [(row["step"], row["start"], row["window"], row["gpu"]) for row in measured(tmp_path)]
    assert {10.0} == {row["value"] for row in measured(tmp_path)}
    assert [event["seed"] for event in events(tmp_path, "start_begun")] == [7001, 7002, 7001]
    assert tuple(sampled(tmp_path)[0]) == SAMPLE_FIELDS
    assert {"idle", "warmup", "window"} == {row["phase"] for row in sampled(tmp_path)}
    assert (PLAN.planned_s, events(tmp_path, "run_ended")[0]["elapsed_s"]) == (34.0, 34.0)


@pytest.mark.parametrize("clock_s", range(1, 35))
def test_killed_at_any_second_it_goes_on_with_the_first_start_not_finished(tmp_path: Path, clock_s: int) -> None:
    with pytest.raises(Killed):
        run(tmp_path, kill_at(clock_s))
    done = done_starts(read_journal(tmp_path / "journal.jsonl"))

    assert run(tmp_path, FakeBackend(), attempt=2)

    again = [(event["step"], event["start"]) for event in events(tmp_path, "start_begun") if event["attempt"] == 2]
    assert sorted({("a", 1), ("a", 2), ("b", 1)} - done) == again
    newest = {(row["step"], row["start"], row["window"], row["gpu"]) for row in measured(tmp_path)}
    assert len(newest) == 10
    elapsed = [float(row["elapsed_s"]) for row in sampled(tmp_path)]
    assert elapsed == sorted(elapsed)
    told = [event["elapsed_s"] for event in read_journal(tmp_path / "journal.jsonl")]
    assert told == sorted(told)


def test_samples_newer_than_the_journal_hold_the_clock(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        run(tmp_path, kill_at(4))
    with (tmp_path / "samples.csv").open("a") as file:
        file.write("9.0,a,1,warmup,GPU-a,,,,,,,,,\n9.5,a,1,torn")

    run(tmp_path, FakeBackend(), attempt=2)

    assert min(float(row["elapsed_s"]) for row in sampled(tmp_path)[-20:]) > 9
    assert events(tmp_path, "run_started")[1]["elapsed_s"] == 9.0


@pytest.mark.parametrize("left", [b"", b"elapsed_s,st"])
def test_samples_torn_in_their_header_get_it_again(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "samples.csv").write_bytes(left)

    run(tmp_path, FakeBackend())

    assert tuple(sampled(tmp_path)[0]) == SAMPLE_FIELDS


@pytest.mark.parametrize("clock_s", [1.0, 4.0, 8.0])
def test_a_signal_ends_it_in_good_order_in_every_phase(tmp_path: Path, clock_s: float) -> None:
    backend = FakeBackend()

    assert not run(tmp_path, backend, stop=lambda: "SIGTERM" if backend.clock_s >= clock_s else None)

    assert read_journal(tmp_path / "journal.jsonl")[-1]["event"] == "stopped"
    assert events(tmp_path, "stopped")[0]["reason"] == "SIGTERM"
    assert all(load.closed for load in backend.loads)
    assert json.loads((tmp_path / "progress.json").read_text())["state"] == "stopped"


def test_a_gpu_that_falls_off_is_named_once_and_hides_no_other(tmp_path: Path) -> None:
    def tick(backend: FakeBackend) -> None:
        if backend.clock_s >= 13:
            backend.gone.add("GPU-a")

    run(tmp_path, FakeBackend(tick))

    last = [row for row in measured(tmp_path) if row["gpu"] == "GPU-a"]
    assert [(row["window"], row["steady"]) for row in last] == [(1, True), (2, False)]
    assert [event["gpu"] for event in events(tmp_path, "gpu_silent")] == ["GPU-a"]
    assert len([row for row in measured(tmp_path) if row["gpu"] == "GPU-b"]) == 5
    after = json.loads((tmp_path / "identity.json").read_text())["after"]["gpus"]
    assert [gpu["health"]["lost"] for gpu in after] == [True, False]


def away(*spans: tuple[float, float], how: str = "gone") -> FakeBackend:
    """GPU-a is not there in these spans of the clock."""

    def tick(backend: FakeBackend) -> None:
        lost = any(begin <= backend.clock_s < end for begin, end in spans)
        (backend.gone if how == "gone" else backend.idle).update({"GPU-a"}) if lost else backend.gone.discard("GPU-a")
        if not lost:
            backend.idle.discard("GPU-a")

    return FakeBackend(tick)


def coming_and_going(out: Path) -> list[tuple[str, int, bool | None]]:
    found = [event for event in read_journal(out / "journal.jsonl") if event["event"] in ("gpu_silent", "gpu_back")]
    return [(event["event"], event["start"], event.get("answers")) for event in found]


def test_a_gpu_that_comes_back_and_falls_off_again_is_named_each_time(tmp_path: Path) -> None:
    run(tmp_path, away((5, 12), (24, 99)))

    assert coming_and_going(tmp_path) == [("gpu_silent", 1, False), ("gpu_back", 1, None), ("gpu_silent", 2, False)]


def test_a_gpu_whose_sensors_answer_is_silent_and_has_not_fallen_off(tmp_path: Path) -> None:
    run(tmp_path, away((5, 12), how="idle"))

    assert coming_and_going(tmp_path)[0] == ("gpu_silent", 1, True)


def test_a_gpu_that_stayed_away_is_not_named_again_by_the_next_attempt(tmp_path: Path) -> None:
    backend = away((5, 99))
    assert not run(tmp_path, backend, stop=lambda: "SIGTERM" if backend.clock_s >= 18 else None)

    assert run(tmp_path, away((0, 9), (15, 99)), attempt=2)

    assert coming_and_going(tmp_path) == [("gpu_silent", 1, False), ("gpu_back", 2, None), ("gpu_silent", 1, False)]


def test_a_wrong_result_in_the_warm_up_is_not_forgotten(tmp_path: Path) -> None:
    def tick(backend: FakeBackend) -> None:
        if backend.clock_s == 4:
            backend.wrong["GPU-b"] = 1

    run(tmp_path, FakeBackend(tick))

    rows = [
        (row["start"], row["window"], row["checked"], row["wrong"])
        for row in measured(tmp_path)
        if row["gpu"] == "GPU-b" and row["step"] == "a"
    ]
    assert rows == [(1, 1, 8, 1), (1, 2, 5, 0), (2, 1, 8, 0), (2, 2, 5, 0)]


def test_a_test_that_cannot_run_is_skipped_with_its_reason(tmp_path: Path) -> None:
    backend = FakeBackend()
    backend.lacks = {"gemm_bf16"}

    assert run(tmp_path, backend)

    assert [(event["step"], event["start"], event["reason"]) for event in events(tmp_path, "start_skipped")] == [
        ("a", 1, "no gemm_bf16 here"),
        ("a", 2, "no gemm_bf16 here"),
    ]
    assert {"b"} == {row["step"] for row in measured(tmp_path)}
    assert json.loads((tmp_path / "progress.json").read_text())["done_s"] == PLAN.planned_s


def test_a_load_that_breaks_in_the_middle_stops_no_other(tmp_path: Path) -> None:
    def tick(backend: FakeBackend) -> None:
        if 6 <= backend.clock_s < 7:
            raise LoadProblem("the kernel would not launch")

    assert run(tmp_path, FakeBackend(tick))

    assert [event["reason"] for event in events(tmp_path, "start_skipped")] == ["the kernel would not launch"]
    assert len(events(tmp_path, "start_ended")) == 2


def test_progress_only_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burnin.node.runner.PROGRESS_EVERY_S", 0.0)
    seen: list[float] = []

    def tick(_backend: FakeBackend) -> None:
        if (tmp_path / "progress.json").exists():
            seen.append(json.loads((tmp_path / "progress.json").read_text())["done_s"])

    run(tmp_path, FakeBackend(tick))

    assert seen == [float(second) for second in range(1, 34)]


@pytest.mark.parametrize("left", ["", "{", "[]", '{"before": 7}', '{"before": {"gpus": null}}'])
def test_a_damaged_identity_is_kept_aside_and_taken_again(tmp_path: Path, left: str) -> None:
    (tmp_path / "identity.json").write_text(left)

    assert run(tmp_path, FakeBackend())

    assert {"before", "after"} == set(json.loads((tmp_path / "identity.json").read_text()))
    assert left == (tmp_path / "identity.json.damaged").read_text()
    assert events(tmp_path, "identity_damaged")


def test_the_first_look_stays_the_first_look(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        run(tmp_path, kill_at(4))
    first = json.loads((tmp_path / "identity.json").read_text())["before"]

    run(tmp_path, FakeBackend(), attempt=2)

    assert first == json.loads((tmp_path / "identity.json").read_text())["before"]


def test_odd_events_neither_break_nor_set_the_clock() -> None:
    odd: list[dict[str, Any]] = [
        {"event": "start_ended"}, {"event": "start_ended", "step": ["a"], "start": 1}, {"event": "x", "elapsed_s": "9"},
        {"event": "x", "elapsed_s": float("inf")}, {"event": "x", "elapsed_s": 3},
    ]  # fmt: skip

    assert set() == done_starts(odd)
    assert elapsed_before(odd, ",".join(SAMPLE_FIELDS)) == 3
    assert elapsed_before(odd, "12.5,a") == 12.5


@pytest.mark.parametrize(("value", "text"), [(None, ""), (float("nan"), ""), (True, "1"), (False, "0"), (61.0, "61"), (699.4, "699.4")])
def test_a_cell_is_empty_where_the_device_would_not_say(value: Any, text: str) -> None:
    assert text == cell(value)
