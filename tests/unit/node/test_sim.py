"""The physical model: sound parts are sound, planted faults look like themselves, and the clock of a node that dies."""

from __future__ import annotations

import functools
import os
import signal
import statistics
from pathlib import Path
from typing import Any

import pytest

from burnin.node.backends import sim
from burnin.node.backends.base import LoadProblem
from burnin.node.backends.sim import SimBackend
from burnin.node.backends.sim_model import model
from burnin.node.window import Window

NOWHERE = Path("/nonexistent")
SEEDS = range(31)
# The acceptance plan's heat soak and one restart, with fewer windows: idle, warm-up, window, windows.
STARTS = ((30, 300, 120, 2), (120, 180, 60, 3))
Record = dict[str, Any]


def backend(seed: int = 1, node: str = "n", attempt: int = 1, state: Path = NOWHERE, **options: Any) -> SimBackend:
    return SimBackend({"node": node, "seed": seed, **options}, state, attempt)


def burn(node: SimBackend, test: str = "gemm_bf16") -> dict[int, list[Record]]:
    """The windows of every slot."""
    slots = {gpu.uuid: gpu.slot for gpu in node.gpus}
    found: dict[int, list[Record]] = {slot: [] for slot in slots.values()}
    for start, (idle_s, warmup_s, window_s, windows) in enumerate(STARTS, 1):
        for _ in range(idle_s):
            node.rest(1.0)
        load = node.load(test, 1000 + start, start)
        for _ in range(warmup_s):
            load.run_for(1.0)
        for number in range(1, windows + 1):
            load.begin_window(number)
            gathered = {uuid: Window() for uuid in slots}
            for _ in range(window_s):
                for uuid, work in load.run_for(1.0).items():
                    gathered[uuid].add(work)
                for sample in node.samples():
                    gathered[sample.gpu].samples.append(sample)
            for uuid, window in gathered.items():
                found[slots[uuid]].append({"start": start, **window.record(window_s)})
    return found


@functools.cache
def rack(seed: int) -> dict[tuple[int, int], list[Record]]:
    """A sound rack of 4 nodes of 8."""
    return {(node, slot): rows for node in range(4) for slot, rows in burn(backend(seed, f"n{node}")).items()}


def value(rows: list[Record], name: str = "value") -> float:
    return statistics.median(row[name] for row in rows)


def deviation_pct(seed: int, rows: list[Record]) -> float:
    """Of a GPU that stands in for one of a sound rack of that seed."""
    return (value(rows) / statistics.median(value(other) for other in rack(seed).values()) - 1) * 100


def planted(seed: int, kind: str, slot: int, **fields: Any) -> list[Record]:
    return burn(backend(seed, faults=[{"kind": kind, "slot": slot, **fields}]))[slot]


@pytest.mark.parametrize("seed", SEEDS[::3])
def test_no_sound_gpu_is_slow_hot_or_throttling(seed: int) -> None:
    for rows in rack(seed).values():
        assert -4.5 < deviation_pct(seed, rows) < 4.5
        assert all(row["margin_c"] > 10 for row in rows)
        assert all(row["hw_thermal_fraction"] == 0 for row in rows)
        assert all(row["steady"] and row["wrong"] == 0 for row in rows)
        assert all(row["sw_power_cap_fraction"] == 1 for row in rows)


@pytest.mark.parametrize("seed", SEEDS[::6])
def test_slow_silicon_is_slow_at_full_power_without_heat(seed: int) -> None:
    rows = planted(seed, "slow_silicon", seed % 8, deficit_pct=8)

    assert -9.5 < deviation_pct(seed, rows) < -6.5
    assert value(rows, "power_w") >= 0.99 * 700
    assert value(rows, "temp_c") < 75
    assert all(row["hw_thermal_fraction"] == 0 for row in rows)


@pytest.mark.parametrize("seed", SEEDS[::3])
def test_heat_is_a_cycle_that_every_window_shows(seed: int) -> None:
    rows = planted(seed, "heat", 3 + seed % 3, resistance_factor=2.1)

    assert deviation_pct(seed, rows) < -5
    assert all(0.05 < row["hw_thermal_fraction"] < 0.6 for row in rows)
    assert all(row["steady"] for row in rows)
    assert all(88 <= row["temp_c"] <= 90 for row in rows)
    assert value(rows, "power_w") < 0.95 * 700


@pytest.mark.parametrize("seed", SEEDS[::6])
def test_hot_is_near_its_limit_at_full_speed(seed: int) -> None:
    rows = planted(seed, "hot", seed % 8, temp_c=84)

    assert deviation_pct(seed, rows) > -5
    assert all(0 < row["margin_c"] < 5 and row["hw_thermal_fraction"] == 0 for row in rows)


@pytest.mark.parametrize("seed", SEEDS[::6])
def test_wrong_results_are_seen_on_two_seeds(seed: int) -> None:
    rows = planted(seed, "wrong_result", seed % 8, chance=0.03)

    assert {1, 2} == {row["start"] for row in rows if row["wrong"]}


def test_slots_differ_by_eleven_degrees() -> None:
    by_slot = [statistics.median(value(rack(seed)[node, slot], "temp_c") for seed in SEEDS[::3] for node in range(4)) for slot in range(8)]

    assert by_slot == sorted(by_slot)
    assert by_slot[-1] - by_slot[0] == pytest.approx(11, abs=2)


def test_noise_and_its_correlation_are_near_their_parameters() -> None:
    node, parameters = backend(gpus=64), model()
    pairs: list[tuple[float, float, float]] = []
    for gpu in node.gpus:
        for start in range(100):
            drawn = []
            for at, window in ((start, 1), (start, 2), (start + 1000, 1)):
                gpu.draw_noise("t", at, window)
                drawn.append(gpu._noise)
            pairs.append((drawn[0], drawn[1], drawn[2]))
    first, same_start, other_start = zip(*pairs, strict=True)

    assert statistics.pstdev(first) * 100 == pytest.approx(parameters["window_noise_pct"]["value"], rel=0.05)
    assert statistics.correlation(first, same_start) == pytest.approx(parameters["window_correlation"]["value"], abs=0.05)
    assert abs(statistics.correlation(first, other_start)) < 0.05


def test_no_draw_makes_a_sound_part_a_fault() -> None:
    parameters = model()
    most_pct = parameters["sound_most_sigma"]["value"] * parameters["silicon_sigma_pct"]["value"]
    off_pct = [abs(gpu.silicon - 1) * 100 for seed in range(200) for gpu in backend(seed, gpus=64).gpus]

    assert max(off_pct) == pytest.approx(most_pct)
    assert most_pct < 4


def test_every_parameter_says_what_it_is() -> None:
    parameters = model()
    entries = [*((name, entry) for name, entry in parameters.items() if name != "tests"), *parameters["tests"].items()]

    assert len(entries) > 20
    assert not [name for name, entry in entries if not {"value", "unit", "why", "source"} <= set(entry)]


def test_one_seed_gives_one_rack_and_another_another() -> None:
    assert [gpu.identity() for gpu in backend(1).gpus] == [gpu.identity() for gpu in backend(1).gpus]
    assert not {gpu.uuid for gpu in backend(1).gpus} & {gpu.uuid for gpu in backend(2).gpus}
    assert len({gpu.identity()["serial"] for seed in SEEDS for gpu in backend(seed).gpus}) == 31 * 8


def test_a_missing_gpu_is_not_there_and_a_lost_one_goes() -> None:
    node = backend(faults=[{"kind": "missing", "slot": 5}, {"kind": "lost", "slot": 2, "at_s": 3}])
    load = node.load("gemm_bf16", 1, 1)
    load.run_for(2.0)
    before = {gpu.slot for gpu in node.present()}
    work = load.run_for(1.0)

    assert {0, 1, 2, 3, 4, 6, 7} == before
    assert {0, 1, 3, 4, 6, 7} == {gpu.slot for gpu in node.gpus if gpu.uuid in work}
    assert {0, 1, 3, 4, 6, 7} == {gpu.slot for gpu in node.gpus if gpu.uuid in {sample.gpu for sample in node.samples()}}
    assert [gpu["slot"] for gpu in node.identity()["gpus"] if gpu["health"]["lost"]] == [2]


def test_a_node_dies_once_and_comes_back_with_another_boot_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(sim.os, "kill", lambda pid, number: killed.append((pid, number)))
    first = backend(faults=[{"kind": "node_dies", "at_s": 10}], state=tmp_path)
    before = first.boot_id()
    first.pass_time(9.9)
    assert (killed, list(tmp_path.iterdir())) == ([], [])

    first.pass_time(0.1)
    second = backend(faults=[{"kind": "node_dies", "at_s": 10}], state=tmp_path, attempt=2)
    second.pass_time(100)

    assert [(os.getpid(), signal.SIGKILL)] == killed
    assert before != second.boot_id()
    assert second.boot_id() == backend(state=tmp_path, attempt=3).boot_id()


def test_a_test_that_it_has_not_is_skipped() -> None:
    with pytest.raises(LoadProblem, match="backend sim has no mem_copy; it has gemm_bf16"):
        backend().load("mem_copy", 1, 1)
