"""samples.csv: read what can be read, say what could not."""

from __future__ import annotations

import pytest

from burnin.report import series as module
from burnin.report.envelope import Buckets, intervals, pieces, spread
from burnin.report.series import Step, parse_samples, read_samples
from unit.report import documents

HEADER = ",".join(("elapsed_s", "step", "start", "phase", "gpu", *module.VALUES)) + "\n"
ROW = "{at},gemm,1,window,GPU-a,61,70,699.5,1755,2619,0,0,0,1\n"


def test_a_whole_file() -> None:
    one = parse_samples(HEADER + ROW.format(at=0) + ROW.format(at=1.5))["GPU-a"]

    assert one.elapsed_s == (0.0, 1.5)
    assert one.temp_c == (61.0, 61.0)
    assert one.power_w == (699.5, 699.5)
    assert one.sw_power_cap == (1.0, 1.0)
    assert one.steps == (Step(0.0, "gemm", "1"),)
    assert one.notes == ()


def test_an_empty_cell_is_unknown_and_never_zero() -> None:
    assert parse_samples(HEADER + "0,gemm,1,window,GPU-a,,,,,,,,,\n")["GPU-a"].temp_c == (None,)


@pytest.mark.parametrize("cell", ["nan", "inf", "-inf", "[N/A]", "1_000", "0x10", "1e999"])
def test_a_cell_that_is_no_number_is_unknown(cell: str) -> None:
    assert parse_samples(HEADER + f"0,gemm,1,window,GPU-a,{cell},,,,,,,,\n")["GPU-a"].temp_c == (None,)


def test_a_file_that_ends_in_the_middle_of_a_line_keeps_the_rest() -> None:
    read = read_samples(HEADER + ROW.format(at=0) + ROW.format(at=1)[:20])

    assert read.series["GPU-a"].elapsed_s == (0.0,)
    assert read.notes == ("samples.csv ends in the middle of line 3",)
    assert read.series["GPU-a"].notes == read.notes


def test_every_cut_of_a_file_is_read_without_a_crash() -> None:
    text = HEADER + "".join(ROW.format(at=at) for at in range(3))

    for length in range(len(text)):
        found = read_samples(text[:length])
        assert len(found.series.get("GPU-a", module.Series(*((),) * 10)).elapsed_s) <= 3


def test_broken_lines_in_the_middle_are_counted() -> None:
    read = read_samples(HEADER + ROW.format(at=0) + "rubbish\n\x00\x00,,\n" + ROW.format(at=1))

    assert read.series["GPU-a"].elapsed_s == (0.0, 1.0)
    assert read.notes == ("samples.csv: 2 of 4 lines could not be read, the first is line 3",)


def test_time_that_goes_back_is_not_believed() -> None:
    assert parse_samples(HEADER + ROW.format(at=5) + ROW.format(at=4) + ROW.format(at=6))["GPU-a"].elapsed_s == (5.0, 6.0)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        pytest.param("", "samples.csv is empty", id="empty"),
        pytest.param("time,card\n1,2\n", "samples.csv: not a header we know: 'time,card'", id="another header"),
        pytest.param("elapsed_s,gpu,gpu\n", "samples.csv: not a header we know: 'elapsed_s,gpu,gpu'", id="a column twice"),
    ],
)
def test_an_unknown_header_gives_no_series_and_a_note(text: str, note: str) -> None:
    assert read_samples(text) == module.Samples({}, (note,))


def test_a_header_without_samples_is_said() -> None:
    assert read_samples(HEADER).notes == ("samples.csv holds no samples",)


def test_a_column_that_is_not_there_is_said() -> None:
    read = read_samples("elapsed_s,gpu,temp_c\n0,GPU-a,61\n")

    assert read.series["GPU-a"].temp_c == (61.0,)
    assert read.series["GPU-a"].power_w == (None,)
    assert "no column mem_temp_c, power_w" in read.notes[0]


def test_only_the_wanted_gpus_are_kept() -> None:
    assert set(parse_samples(documents.samples_csv(1), only={documents.uuid(1, 2)})) == {documents.uuid(1, 2)}


def test_the_number_of_gpus_and_samples_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_GPUS", 3)
    monkeypatch.setattr(module, "MAX_SAMPLES", 2)
    text = HEADER + "".join(ROW.format(at=at).replace("GPU-a", f"GPU-{gpu}") for at in range(4) for gpu in range(5))
    read = read_samples(text)

    assert [len(one.elapsed_s) for one in read.series.values()] == [2, 2, 2]
    assert read.notes == (
        "samples.csv names more than 3 GPUs; 2 were left out",
        "samples.csv: only the first 2 samples of a GPU were read",
    )


def test_a_line_without_end_does_not_matter() -> None:
    assert read_samples(HEADER + ROW.format(at=0) + "9" * 10_000_000).series["GPU-a"].elapsed_s == (0.0,)


@pytest.mark.parametrize("odd", [93.0, 12.0], ids=["a peak", "a dip"])
def test_thinning_keeps_the_peak_of_one_sample(odd: float) -> None:
    values: list[float | None] = [60.0] * 5000
    values[3217] = odd
    found = pieces(range(5000), values, Buckets(0, 4999, 100))

    assert len(found) == 1
    assert len(found[0]) <= 200
    assert {value for _at, value in found[0]} == {60.0, odd}
    assert [at for at, _value in found[0]] == sorted(at for at, _value in found[0])


def test_a_gap_is_a_gap_and_a_slow_sampler_is_none() -> None:
    with_gap: list[float | None] = [1.0] * 400 + [None] * 200 + [1.0] * 400

    assert len(pieces(range(1000), with_gap, Buckets(0, 999, 100))) == 2
    assert len(pieces(range(0, 1000, 15), [1.0] * 67, Buckets(0, 999, 100))) == 1


def test_the_spread_of_peers_is_lowest_to_highest() -> None:
    found = spread([((0, 1), (5.0, 7.0)), ((0, 1), (6.0, None))], Buckets(0, 1, 1))

    assert found == [[(0.5, 5.0, 7.0)]]


def test_throttling_becomes_stretches() -> None:
    assert intervals((0, 1, 2, 3, 4, 5), (0, 1, 1, None, 0, 1)) == [(1, 3), (5, 5)]
