"""junit.xml, burnin.prom, gpus.csv and the lines of JSON, each read back with a reader of its kind."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest

from burnin import report
from burnin.errors import RunFolderError
from burnin.report import jsonl, junit, prometheus, table
from unit.report import documents

Json = dict[str, Any]
DOCUMENTS: dict[str, Callable[[], Json]] = {
    "demo": documents.demo,
    "hostile": documents.hostile,
    "empty": lambda: documents.document([], []),
}

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)")
LABEL = re.compile(rf'(?:^|,)({NAME})="((?:[^"\\\n]|\\["\\n])*)"')


def strictly_parsed(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Series -> value; raises for anything the text exposition format does not allow, and for a series given twice."""
    assert text.endswith("\n")
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    typed: list[str] = []
    helped: set[str] = set()
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            helped.add(line.split(" ")[2])
        elif line.startswith("# TYPE "):
            _hash, _type, name, kind = line.split(" ")
            assert kind == "gauge"
            assert name in helped
            assert name not in typed
            typed.append(name)
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            name, labels, value = match[1], match[2] or "", float(match[3])
            assert name == typed[-1]
            assert "".join(entry[0] for entry in LABEL.finditer(labels)) == labels, line
            key = (name, tuple(LABEL.findall(labels)))
            assert key not in found
            assert value == value
            found[key] = value
    return found


@pytest.mark.parametrize("name", DOCUMENTS)
def test_prometheus_text_is_well_formed(name: str) -> None:
    strictly_parsed(prometheus.render(DOCUMENTS[name]()))


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed")
@pytest.mark.parametrize("name", DOCUMENTS)
def test_promtool_finds_nothing(name: str) -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=prometheus.render(DOCUMENTS[name]()).encode(), capture_output=True, timeout=30, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_prometheus_values_in_base_units() -> None:
    samples = {
        (name, dict(labels).get("serial"), dict(labels).get("test")): value
        for (name, labels), value in strictly_parsed(prometheus.render(documents.demo())).items()
    }
    serial = documents.serial(1, 3)

    assert samples["burnin_gpu_deviation_ratio", serial, "gemm_bf16"] == pytest.approx(-0.08057)
    assert samples["burnin_gpu_sm_clock_hertz", serial, None] == 1.59e9
    assert samples["burnin_gpu_power_watts", serial, None] == 699.2
    assert samples["burnin_gpu_temperature_celsius", documents.serial(1, 7), None] == 84.1


def test_prometheus_counts_every_verdict_and_every_gpu() -> None:
    samples = strictly_parsed(prometheus.render(documents.demo()))

    assert {labels[0][1]: value for (name, labels), value in samples.items() if name == "burnin_gpus"} == {
        "RMA": 3, "FAIL": 1, "RETEST": 0, "INCONCLUSIVE": 8, "REVIEW": 1, "PASS": 19,
    }  # fmt: skip
    assert sum(name == "burnin_gpu_verdict" for name, _labels in samples) == 32


def test_prometheus_tells_a_nodes_own_verdict_from_whether_it_is_ready() -> None:
    nodes: list[Json] = [{"node": name, "rack": "A1", "verdict": "PASS", "findings": []} for name in ("demo-01", "demo-02")]
    gpus = [documents.gpu(1, 0, [], "RMA"), documents.gpu(2, 0, [], "REVIEW")]
    samples = strictly_parsed(prometheus.render(documents.document(gpus, nodes)))
    ready = {labels: value for (name, labels), value in samples.items() if name == "burnin_node_ready"}

    assert ready == {(("node", "demo-01"), ("rack", "A1")): 0, (("node", "demo-02"), ("rack", "A1")): 1}
    assert samples["burnin_node_verdict", (("node", "demo-01"), ("rack", "A1"), ("verdict", "PASS"))] == 1


@pytest.mark.parametrize("simulated", [True, False, None])
def test_every_format_tells_a_simulated_rack(simulated: bool | None) -> None:
    judged = documents.demo() if simulated is None else {**documents.demo(), "simulated": simulated}
    suites = ElementTree.fromstring(junit.render(judged))
    told = [one.attrib for one in suites.iter("property")]

    assert strictly_parsed(prometheus.render(judged))["burnin_simulated", ()] == bool(simulated)
    assert {row["simulated"] for row in rows(table.render(judged))} == {"yes" if simulated else "no"}
    assert list(rows(table.render(judged))[0])[-1] == "simulated"
    assert {json.loads(line)["simulated"] for line in jsonl.render(judged).splitlines()} == {bool(simulated)}
    assert suites.attrib["name"].endswith("(simulated)") == bool(simulated)
    assert told == [{"name": "simulated", "value": "yes"}] * (5 if simulated else 0)


def test_two_parts_that_nothing_tells_apart_stay_two_series() -> None:
    lost = {
        "gpu": None,
        "serial": None,
        "node": "n1",
        "slot": None,
        "verdict": "FAIL",
        "findings": [documents.finding("GPU_MISSING", "FAIL")],
    }
    samples = strictly_parsed(prometheus.render(documents.document([lost, lost], [])))

    assert sum(name == "burnin_gpu_verdict" for name, _labels in samples) == 2


@pytest.mark.parametrize("name", DOCUMENTS)
def test_junit_is_xml_and_its_totals_are_true(name: str) -> None:
    root = ElementTree.fromstring(junit.render(DOCUMENTS[name]()))

    for holder in (root, *root.iter("testsuite")):
        assert int(holder.attrib["tests"]) == len(list(holder.iter("testcase")))
        assert int(holder.attrib["failures"]) == len(list(holder.iter("failure")))
        assert int(holder.attrib["errors"]) == len(list(holder.iter("error")))


def test_junit_of_the_demo() -> None:
    root = ElementTree.fromstring(junit.render(documents.demo()))
    suites = {suite.attrib["name"]: suite for suite in root}

    assert list(suites) == ["fleet", "demo-01", "demo-02", "demo-03", "demo-04"]
    assert len(suites["demo-03"]) == 9  # the node and 8 GPUs, the missing one too
    assert root.attrib == {"name": "burnin 20261201T101500Z-4f9a1c", "tests": "38", "failures": "5", "errors": "9"}
    failure = next(case for case in suites["demo-01"] if documents.serial(1, 3) in case.attrib["name"]).find("failure")
    assert failure is not None
    assert failure.attrib["type"] == "PERF_BELOW_MEDIAN"
    assert failure.attrib["message"].startswith("RMA: gemm_bf16 ran 8.06 % below")
    error = suites["demo-04"].find("testcase/error")
    assert error is not None
    assert error.attrib["message"].startswith("INCONCLUSIVE: nothing was shown: The node went silent")


def test_junit_review_passes_with_a_word() -> None:
    root = ElementTree.fromstring(junit.render(documents.demo()))
    case = next(case for case in root.iter("testcase") if documents.serial(1, 7) in case.attrib["name"])

    assert [child.tag for child in case] == ["system-out"]
    assert "REVIEW HEAT_NEAR_LIMIT" in (case[0].text or "")


def test_junit_of_a_run_that_judged_nothing_is_not_green() -> None:
    root = ElementTree.fromstring(junit.render({**documents.document([], []), "fleet": {}, "racks": []}))

    assert root.attrib["errors"] == "1"


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_csv_has_every_gpu_the_missing_too() -> None:
    found = rows(table.render_csv(documents.demo()))

    assert len(found) == 32
    assert [(row["node"], row["slot"], row["serial"], row["gpu"]) for row in found if row["code"] == "GPU_MISSING"] == [
        ("demo-03", "5", "", "")
    ]
    slow = next(row for row in found if row["serial"] == documents.serial(1, 3))
    assert (slow["verdict"], slow["cause"], float(slow["gemm_bf16 deviation_pct"])) == ("RMA", "silicon", -8.057)


@pytest.mark.parametrize("serial", ["00123456", "1234e567", "1.20", "0", "TRUE", "1-2-3"])
def test_csv_keeps_serials_as_quoted_text_and_gives_a_label(serial: str) -> None:
    entry = {**documents.gpu(1, 0, []), "serial": serial}
    text = table.render_csv(documents.document([entry], []))

    assert f'"{serial}","S/N {serial}"' in text
    assert rows(text)[0]["serial"] == serial


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-dash", "@sum", "\tTAB", "\rCR", "=HYPERLINK(1)"])
def test_csv_cells_that_would_run_get_an_apostrophe(text: str) -> None:
    entry = {**documents.gpu(1, 0, [], name=text), "serial": text, "rack": text}
    row = rows(table.render_csv(documents.document([entry], [])))[0]

    assert row["node"] == row["serial"] == row["rack"] == "'" + text


def test_csv_negative_numbers_stay_numbers() -> None:
    assert ",-8.057," in table.render_csv(documents.demo())


def test_csv_of_hostile_names_keeps_its_columns() -> None:
    found = list(csv.reader(io.StringIO(table.render_csv(documents.hostile()), newline="")))

    assert len(found) == 1 + len(documents.HOSTILE)
    assert {len(row) for row in found} == {len(found[0])}


def test_jsonl_has_the_run_and_every_part() -> None:
    lines = [json.loads(line) for line in jsonl.render(documents.demo()).splitlines()]

    assert [line["kind"] for line in lines] == ["run", "fleet"] + ["gpu"] * 32 + ["node"] * 4 + ["rack"]
    assert {line["run_id"] for line in lines} == {"20261201T101500Z-4f9a1c"}


def test_jsonl_knows_no_nan_and_keeps_the_names_as_they_are() -> None:
    broken = documents.hostile()
    broken["gpus"][0]["findings"][0]["value"] = float("nan")
    text = jsonl.render(broken)
    lines = [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]

    assert text.isascii()
    assert [line["node"] for line in lines if line["kind"] == "gpu"] == list(documents.HOSTILE)


@pytest.mark.parametrize("name", report.FORMATS)
def test_every_format_renders_and_refuses_another_schema(name: str) -> None:
    module = report.module(name)

    assert module.FILE_NAME
    assert not re.search(r"(?i)\bnan\b", module.render(documents.demo()))
    with pytest.raises(RunFolderError):
        module.render({"schema": "burnin.verdict/99"})
