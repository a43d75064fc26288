"""A CSV as evidence: what can be wrong with the file is refused in one line, what is wrong with a value is a finding on its GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from burnin.errors import PolicyError, TableError
from burnin.verdict.document import build, dump
from burnin.verdict.engine import judge
from burnin.verdict.table import parse_columns, read_table
from unit.verdict.fleets import POLICY

Json = dict[str, Any]
HEADER = ("uuid", "serial", "cabinet", "node", "slot", "perf", "temp", "pwr", "freq")
COLUMNS = "gpu=uuid,serial=serial,rack=cabinet,node=node,slot=slot,value=perf,temp_c=temp,power_w=pwr,sm_clock_mhz=freq"
RUNS = 5


def rows(**changes: Mapping[str, object]) -> list[dict[str, object]]:
    """32 GPUs in 8 nodes, five runs each; `changes`: GPU -> cells that differ in all of its rows."""
    made: list[dict[str, object]] = []
    for number in range(32):
        name = f"G{number}"
        sound = {
            "uuid": name, "serial": f"00{number + 10}", "cabinet": "c1", "node": f"n{number // 4}", "slot": number % 4, "perf": 100.0,
            "temp": 60, "pwr": 300, "freq": 1400,
        }  # fmt: skip
        made += [{**sound, **changes.get(name, {})} for _ in range(RUNS)]
    return made


def csv_text(listed: Iterable[Mapping[str, object]], header: Iterable[str] = HEADER) -> str:
    names = list(header)
    return "\n".join([",".join(names), *(",".join(str(one[name]) for name in names) for one in listed)]) + "\n"


def judged(content: str | bytes, columns: str | None = COLUMNS, **more: Any) -> Json:
    raw = content.encode() if isinstance(content, str) else content
    asked = {"test": "sgemm", "unit": "ms", "better": "higher", "sku": None} | more
    evidence = read_table(raw, columns=parse_columns(columns, "t.csv"), policy=POLICY, where="t.csv", **asked)
    return build(judge(evidence, POLICY))


def gpu(document: Json, name: str) -> Json:
    return next(one for one in document["gpus"] if one["gpu"] == name)


def codes(document: Json, name: str) -> dict[str, str]:
    return {one["code"]: one["outcome"] for one in gpu(document, name)["findings"] if one["outcome"] != "PASS"}


def test_a_sound_table_passes() -> None:
    document = judged(csv_text(rows()))

    assert (document["summary"]["gpus"], document["summary"]["PASS"]) == (32, 32)
    assert document["fleet"]["verdict"] == "PASS"
    assert len(document["nodes"]) == 8


def test_in_a_table_each_row_is_a_start() -> None:
    document = judged(csv_text(rows(G7={"perf": 90})))

    finding = next(one for one in gpu(document, "G7")["findings"] if one["code"] == "PERF_BELOW_MEDIAN")
    assert (finding["outcome"], finding["windows"], finding["evidence"]["starts"]) == ("RMA", 5, 5)


def test_lower_is_better_where_it_is_said() -> None:
    document = judged(csv_text(rows(G7={"perf": 110}, G8={"perf": 90})), better="lower")

    assert (gpu(document, "G7")["verdict"], gpu(document, "G8")["verdict"]) == ("RMA", "PASS")


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        pytest.param(
            "gpu=uuid,value=pref",
            "no column 'pref' (wanted for 'value'); did you mean 'perf'? Columns: uuid, serial",
            id="a misspelt column",
        ),
        pytest.param("gpu=uuid,value=zzz", "no column 'zzz' (wanted for 'value'). Columns: uuid, serial", id="a column that is like none"),
        pytest.param("gpu=uuid", "no column for 'value'; name it with --columns", id="no value named"),
        pytest.param("value=perf", "no column for 'gpu'; name it with --columns", id="no GPU named"),
        pytest.param(None, "no column for 'gpu'; name it with --columns", id="no --columns, and the names are not ours"),
        pytest.param("gpu=uuid,value=uuid", "column 'uuid' holds no positive number in 160 rows", id="a column of names as value"),
        pytest.param("gpu=uuid,valeu=perf", "--columns: 'valeu' is no name of ours; did you mean 'value'?", id="a misspelt name of ours"),
        pytest.param("gpu=uuid,gpu=serial,value=perf", "'gpu' stands twice", id="a name twice"),
        pytest.param("gpu", "'gpu' is not OURS=THEIRS; for example gpu=uuid,value=perf", id="no equals sign"),
        pytest.param("", "'' is not OURS=THEIRS", id="nothing"),
        pytest.param("gpu=,value=perf", "'gpu=' is not OURS=THEIRS", id="no name behind the equals sign"),
    ],
)
def test_columns_that_cannot_be_used_are_refused(columns: str | None, told: str) -> None:
    with pytest.raises(TableError) as caught:
        judged(csv_text(rows()), columns)

    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_that_are_ours_need_no_columns() -> None:
    text = csv_text(rows()).replace("uuid", "gpu", 1).replace("perf", "value", 1)

    assert judged(text, None)["summary"]["PASS"] == 32


SOUND = csv_text(rows())
UTF8 = "t.csv: cannot be read as CSV"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b"\n\n", "is empty", id="blank lines only"),
        pytest.param(b"uuid,perf\n", "has a header and no rows", id="header only"),
        pytest.param(b"uuid,perf\n\n\n", "has a header and no rows", id="header and blank lines"),
        pytest.param(b"uuid,perf\nG1,1,2\n", UTF8, id="a row too long"),
        pytest.param(
            b"uuid,perf,temp\nG1,1,60\nG2,1\n", "line 3 has 2 fields where the header has 3; the row is cut off", id="a row cut off"
        ),
        pytest.param(b"uuid,perf\nG1,\xff\xfe\n", UTF8, id="a cell that is not UTF-8"),
        pytest.param(b"uuid,p\xe9rf\nG1,1\n", "the header line cannot be read as UTF-8 text", id="a header that is not UTF-8"),
        pytest.param("uuid,perf\nG1,1\n".encode("utf-16"), "UTF-8", id="UTF-16 with its mark"),
        pytest.param("uuid,perf\nG1,1\n".encode("utf-16-le"), "UTF-16", id="UTF-16 without its mark"),
        pytest.param(b"uuid,perf,perf\nG1,1,2\n", "column 'perf' stands twice", id="a column twice"),
        pytest.param(b"uuid;perf\nG1;1\n", "separated by semicolons; expected commas", id="semicolons"),
        pytest.param(b"uuid\tperf\nG1\t1\n", "separated by tabs; expected commas", id="tabs"),
        pytest.param(b'uuid,perf\n"G1,1\n', UTF8, id="a quote that is not closed"),
        pytest.param(b"uuid,perf\nG1,1\n,2\n", "row 3: column 'uuid' names no GPU", id="a row without a GPU"),
        pytest.param(b"uuid,perf\nG1,1\n   ,2\n", "row 3: column 'uuid' names no GPU", id="a row with blanks for a GPU"),
        pytest.param(b"uuid,perf\nG1,1\nN/A,2\n", "row 3: column 'uuid' names no GPU", id="a row with N/A for a GPU"),
        pytest.param(b"uuid,perf\nG1,fast\nG2,slow\n", "holds no positive number in 2 rows", id="words for values"),
        pytest.param(b"uuid,perf\nG1,-1\nG2,nan\n", "holds no positive number in 2 rows", id="not one value"),
        pytest.param(b"uuid,perf\nG1,1\n" + b"G" * 100_000 + b",2\n", "a name has more than 200 characters", id="a huge field"),
        pytest.param(b"\x00\x01\x02", "zero bytes", id="binary"),
        pytest.param(b"x" * 1_000_000, "the header line cannot be read", id="one endless line"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_short_line(content: bytes, told: str) -> None:
    with pytest.raises(TableError) as caught:
        judged(content, "gpu=uuid,value=perf")

    assert told in str(caught.value)
    assert str(caught.value).startswith("t.csv: ")
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("\ufeff" + SOUND, id="a byte order mark"),
        pytest.param(SOUND.replace("\n", "\r\n"), id="CRLF"),
        pytest.param(SOUND + "\n\n", id="blank lines at the end"),
        pytest.param(SOUND.rstrip("\n"), id="no line end at the end"),
        pytest.param(SOUND.replace("c1", '"c1, by the door"'), id="a quoted comma"),
        pytest.param(SOUND.replace("c1", '"c1 ""A"""'), id="quoted quotes"),
        pytest.param(SOUND.replace(",100.0,", ", 100.0 ,"), id="blanks around a value"),
        pytest.param(SOUND.replace(",100.0,", ",1e2,"), id="values as 1e2"),
    ],
)
def test_what_a_spreadsheet_makes_of_a_table_is_read_all_the_same(content: str) -> None:
    assert judged(content)["summary"]["PASS"] == 32


@pytest.mark.parametrize("value", ["nan", "NaN", "inf", "-inf", "1e400", "-100", "0", "", "N/A", "ERR!", "1 000"])
def test_a_value_that_is_no_measurement_makes_its_gpu_inconclusive(value: str) -> None:
    listed = rows()
    listed[0] = {**listed[0], "perf": value}

    document = judged(csv_text(listed))

    assert codes(document, "G0") == {"VALUE_INVALID": "INCONCLUSIVE"}
    assert f"1 of its values in column 'perf' are no positive number ({value!r})." in str(gpu(document, "G0")["findings"])
    assert document["summary"]["PASS"] == 31


def test_a_gpu_without_one_value_is_still_listed() -> None:
    document = judged(csv_text(rows(G0={"perf": "nan"})))

    assert document["summary"]["gpus"] == 32
    assert gpu(document, "G0")["verdict"] == "INCONCLUSIVE"


@pytest.mark.parametrize("temp", ["nan", "", "-1", "hot", "inf", "99999"])
def test_a_gpu_without_a_temperature_where_others_have_one_is_no_pass(temp: str) -> None:
    assert codes(judged(csv_text(rows(G0={"temp": temp}))), "G0") == {"HEAT_UNKNOWN": "INCONCLUSIVE"}


def test_a_table_without_any_temperature_was_never_meant_to_show_one() -> None:
    assert judged(csv_text(rows()), "gpu=uuid,value=perf")["summary"]["PASS"] == 32


@pytest.mark.parametrize("serial", ["1234e567", "00123456", "1.20", "0x1F", "1e5", "007"])
def test_serials_and_names_stay_the_text_that_they_are(serial: str) -> None:
    document = judged(csv_text(rows(G0={"serial": serial}, G1={"uuid": serial})))

    assert (serial, "0011") == (gpu(document, "G0")["serial"], gpu(document, serial)["serial"])
    assert f'"serial":"{serial}"' in dump(document)


def test_a_gpu_on_two_nodes_is_neither_condemned_nor_passed() -> None:
    listed = rows(G0={"perf": 50})
    listed[0] = {**listed[0], "node": "n7"}

    document = judged(csv_text(listed))

    assert gpu(document, "G0")["verdict"] == "INCONCLUSIVE"
    assert "DUPLICATE_ID" in codes(document, "G0")
    assert "n0, n7" in str(gpu(document, "G0")["findings"])


def test_one_serial_of_two_gpus_is_doubtful() -> None:
    document = judged(csv_text(rows(G0={"serial": "S-9"}, G31={"serial": "S-9"})))

    assert (codes(document, "G0"), codes(document, "G31")) == ({"DUPLICATE_ID": "INCONCLUSIVE"},) * 2


@pytest.mark.parametrize("mark", ["-1", "", "nan", "N/A", "unknown", "None"])
def test_marks_for_unknown_are_no_names(mark: str) -> None:
    document = judged(csv_text(rows(G0={"node": mark, "cabinet": mark, "slot": mark})))

    assert [gpu(document, "G0")[name] for name in ("node", "rack", "slot")] == [None, None, None]


def test_a_bare_number_names_a_node_only_with_its_rack() -> None:
    listed = [{**one, "node": int(str(one["node"])[1:]) % 4, "cabinet": f"c{int(str(one['node'])[1:]) // 4}"} for one in rows()]

    document = judged(csv_text(listed))

    assert [one["node"] for one in document["nodes"]] == [f"c{rack}/{node}" for rack in range(2) for node in range(4)]


def test_tests_are_told_apart_and_each_gpu_owes_each() -> None:
    listed = [{**one, "test": test} for test in ("gemm", "copy") for one in rows() if not (test == "copy" and one["uuid"] == "G0")]

    document = judged(csv_text(listed, (*HEADER, "test")), COLUMNS + ",test=test")

    assert codes(document, "G0") == {"TEST_MISSING": "INCONCLUSIVE"}
    assert document["summary"]["PASS"] == 31


def test_gpus_of_another_sku_are_another_cohort() -> None:
    listed = [{**one, "sku": "V100-SXM2-16GB" if str(one["node"]) < "n4" else "A100-SXM4-80GB"} for one in rows()]

    document = judged(csv_text(listed, (*HEADER, "sku")), COLUMNS + ",sku=sku")

    assert [one["cohort"] for one in document["cohorts"]] == ["A100-SXM4-80GB/sgemm", "V100-SXM2-16GB/sgemm"]


def test_an_unknown_sku_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(PolicyError, match="'V100-SMX2-16GB' is unknown; did you mean 'V100-SXM2-16GB'"):
        judged(csv_text(rows()), sku="V100-SMX2-16GB")


def test_a_direction_that_is_none_is_refused() -> None:
    with pytest.raises(TableError, match="expected higher or lower"):
        judged(csv_text(rows()), better="up")


def test_windows_of_one_named_start_do_not_confirm_themselves() -> None:
    listed = [{**one, "job": "j1" if one["uuid"] == "G7" else number} for number, one in enumerate(rows(G7={"perf": 90}))]

    document = judged(csv_text(listed, (*HEADER, "job")), COLUMNS + ",start=job")

    assert gpu(document, "G7")["verdict"] == "RETEST"


def test_a_slot_that_is_no_small_number_is_not_known() -> None:
    document = judged(csv_text(rows(G0={"slot": "99999"}, G1={"slot": "left"})))

    assert (gpu(document, "G0")["slot"], gpu(document, "G1")["slot"]) == (None, None)
