"""Run folders, sound and broken: nothing missing, cut off, foreign or doubled is ever a pass, and nothing in them raises."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from burnin.errors import RunFolderError
from burnin.outcome import Outcome, exit_code
from burnin.verdict import journal, reading
from burnin.verdict.document import build, outcomes
from burnin.verdict.engine import judge
from burnin.verdict.policy import default_policy
from burnin.verdict.run_folder import read_run
from unit.verdict.folders import PLAN, Folder, Node, folder, gpu_codes, lines, node, node_codes, preflight, verdicts

Change = Callable[[Node], Node | None]
LIKE = {"identity": "identity.json", "journal": "journal.jsonl", "measurements": "measurements.jsonl", "collected": "collected.json"}


def test_a_sound_run_passes() -> None:
    document = folder().document()

    assert document["summary"] == {"gpus": 32, "RMA": 0, "FAIL": 0, "RETEST": 0, "INCONCLUSIVE": 0, "REVIEW": 0, "PASS": 32}
    assert exit_code(outcomes(document)) == 0
    assert [(one["node"], one["verdict"]) for one in document["nodes"]] == [(f"n{number}", "PASS") for number in range(4)]
    assert [one["verdict"] for one in document["racks"]] == ["PASS"]
    assert document["fleet"]["verdict"] == "PASS"


def test_each_gpu_has_one_finding_on_speed_per_test_and_one_on_heat_also_when_it_is_good() -> None:
    found = folder().document()["gpus"][0]["findings"]

    assert [(one["code"], one["test"]) for one in found] == [("HEAT_OK", "gemm_bf16"), ("PERF_OK", "gemm_bf16"), ("PERF_OK", "hbm_copy")]


@pytest.mark.parametrize("name", LIKE)
@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="cut off"),
        pytest.param("\x00\x01\ufffd\n" * 3, id="binary"),
        pytest.param("[]\n", id="a list"),
        pytest.param("null\n", id="null"),
        pytest.param('"text"\n', id="a string"),
        pytest.param("[" * 100_000, id="nested without end"),
        pytest.param('{"a":' * 100_000 + "\n", id="nested without end, as mappings"),
        pytest.param("9" * 5000 + "\n", id="a number too long"),
        pytest.param("{}\n", id="a mapping with nothing in it"),
    ],
)
def test_a_broken_file_is_never_a_pass(name: str, content: str) -> None:
    document = folder().changed("n0", **{name: content}).document()

    if name == "collected" and content == "{}\n":
        assert set(verdicts(document)) == {"PASS"}  # the journal alone says that the run was complete
    else:
        assert len(verdicts(document)) == 8
        assert set(verdicts(document)) == {"INCONCLUSIVE"}
        assert {"RMA", "FAIL"}.isdisjoint(node_codes(document).values())
    assert set(verdicts(document, "n1")) == {"PASS"}


@pytest.mark.parametrize("name", ["identity", "journal", "measurements"])
def test_a_file_that_is_not_there_is_never_a_pass(name: str) -> None:
    document = folder().changed("n0", **{name: None}).document()

    assert verdicts(document) == ["INCONCLUSIVE"] * 8
    expected = {"identity": "EVIDENCE_UNREADABLE", "journal": "PLAN_ENDED_EARLY", "measurements": "NODE_OK"}
    assert expected[name] in node_codes(document)


def test_of_a_broken_identity_the_reason_is_told_and_not_its_every_consequence() -> None:
    document = folder().changed("n0", identity="{").document()

    (found,) = (one for entry in document["nodes"] if entry["node"] == "n0" for one in entry["findings"])
    assert found["why"].startswith("identity.json is not JSON")


@pytest.mark.parametrize("share", [0.1, 0.35, 0.5, 0.75, 0.95])
@pytest.mark.parametrize("name", ["identity", "journal", "measurements"])
def test_a_file_that_was_cut_off_is_never_a_pass(name: str, share: float) -> None:
    text = getattr(folder().nodes["n0"], name)

    document = folder().changed("n0", **{name: text[: int(len(text) * share)]}).document()

    assert verdicts(document)[-1] == "INCONCLUSIVE"  # the last to be written, of each window
    assert len(verdicts(document)) == 8


def test_a_torn_last_line_was_never_finished_and_is_no_damage() -> None:
    sound = folder().nodes["n0"]

    document = folder().changed("n0", measurements=f'{sound.measurements}{{"gpu": "GPU-n0-', journal=sound.journal).document()

    assert set(verdicts(document)) == {"PASS"}


def test_damage_in_the_middle_names_file_and_line() -> None:
    text = folder().nodes["n0"].measurements or ""
    broken = text.replace("\n", "\nxx\n", 1)

    document = folder().changed("n0", measurements=broken).document()

    assert set(verdicts(document)) == {"INCONCLUSIVE"}
    why = next(one["why"] for entry in document["nodes"] for one in entry["findings"] if one["code"] == "EVIDENCE_UNREADABLE")
    assert why == "measurements.jsonl, line 2: not JSON."


def test_problems_are_counted_not_listed_without_end() -> None:
    document = folder().changed("n0", measurements="xx\n" * 10_000).document()

    findings = next(entry["findings"] for entry in document["nodes"] if entry["node"] == "n0")
    assert [one["why"] for one in findings][-1] == "measurements.jsonl, line 5: not JSON."
    assert "9995 more problems of this kind." in [one["why"] for one in findings]


def test_what_a_node_left_out_passes_nobody_and_lets_what_is_there_condemn() -> None:
    def change(made: Node) -> None:
        for one in made.measurements:
            one["wrong"] = int(one["gpu"] == "GPU-n0-0")

    document = folder(change).changed("n0", lacking=("samples.csv was left out by the node.",)).document()

    assert verdicts(document) == ["RMA", *["INCONCLUSIVE"] * 7]
    assert node_codes(document) == {"EVIDENCE_UNREADABLE": "INCONCLUSIVE"}


@pytest.mark.parametrize(
    ("limit", "value", "told"),
    [
        pytest.param("MOST_LINES", 7, "journal.jsonl has more than 7 lines; the rest was not read", id="events without end"),
        pytest.param("MOST_LINES", 60, "measurements.jsonl has more than 60 lines; the rest was not read", id="measurements without end"),
        pytest.param("LONGEST_LINE", 60, "journal.jsonl, line 1: longer than 60 characters", id="an event without end"),
        pytest.param("LONGEST_LINE", 300, "measurements.jsonl, line 1: longer than 300 characters", id="a measurement without end"),
    ],
)
def test_a_file_without_end_is_cut_and_the_cut_is_told(limit: str, value: int, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = folder()
    monkeypatch.setattr(reading, limit, value)
    document = run.document()

    assert set(verdicts(document)) == {"INCONCLUSIVE"}
    assert told in str(document["nodes"][0]["findings"])


def test_a_window_that_is_there_without_end_is_not_kept_without_end() -> None:
    def change(made: Node) -> None:
        made.measurements.extend([{**made.measurements[0], "attempt": 2 + number} for number in range(8 * 11 * 20)])

    document = folder(change).document()

    assert set(verdicts(document)) == {"INCONCLUSIVE"}
    assert "more than 20 times what the plan asks for" in str(document["nodes"][0])


def test_a_million_empty_records_take_no_gigabyte() -> None:
    """As a list of lines and mappings 400 MB of them took 10 GB."""
    problems, text = reading.Problems(), "{}\n" * reading.MOST_LINES
    tracemalloc.start()
    try:
        count = sum(1 for _ in reading.records(text, "measurements.jsonl", problems))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert (count, problems) == (reading.MOST_LINES, [])
    assert peak < 1_000_000


def test_a_journal_keeps_of_each_event_what_is_read() -> None:
    assert journal.kept([{"event": "window", "step": "a", "filler": [[]] * 1000, "gpu": [[]], "attempt": 1}]) == [
        {"event": "window", "step": "a", "attempt": 1}
    ]


@pytest.mark.parametrize("ledger", [("controller.jsonl is not there.",), ("controller.jsonl, line 3: not JSON.",)])
def test_a_ledger_that_is_not_whole_keeps_the_fleet_from_a_pass(ledger: tuple[str, ...]) -> None:
    made = folder()
    document = build(judge(read_run(replace(made.files(), ledger=ledger), default_policy()), default_policy()))

    assert [(one["code"], one["outcome"]) for one in document["fleet"]["findings"]] == [("LEDGER_UNREADABLE", "INCONCLUSIVE")]
    assert ledger[0] in document["fleet"]["findings"][0]["why"]
    assert exit_code(outcomes(document)) == 11


HOSTILE = [
    None, True, -1, 1.5, 10**400, 1e308, float("nan"), float("inf"), "3", "x" * 10_000, "<b>\ud800\u202e\x00", [[]], {"a": []},
]  # fmt: skip


def broken_everywhere(value: Any) -> dict[str, Change]:
    """One change per field of everything that a node writes."""

    def at(get: Callable[[Node], Any], key: str) -> Change:
        def change(made: Node) -> None:
            get(made)[key] = value

        return change

    sound = node("n0")
    return {
        **{f"identity.{key}": at(lambda made: made.identity, key) for key in ("before", "after")},
        **{f"before.{key}": at(lambda made: made.identity["before"], key) for key in ("fingerprint", "gpus")},
        "after.gpus": at(lambda made: made.identity["after"], "gpus"),
        **{f"gpu.{key}": at(lambda made: made.identity["before"]["gpus"][0], key) for key in sound.identity["before"]["gpus"][0]},
        **{
            f"health.{key}": at(lambda made: made.identity["before"]["gpus"][0]["health"], key)
            for key in sound.identity["before"]["gpus"][0]["health"]
        },
        **{f"later.{key}": at(lambda made: made.identity["after"]["gpus"][0], key) for key in ("gpu", "health")},
        **{f"measured.{key}": at(lambda made: made.measurements[0], key) for key in sound.measurements[0]},
        **{f"run_started.{key}": at(lambda made: made.journal[0], key) for key in sound.journal[0]},
        **{f"window.{key}": at(lambda made: made.journal[2], key) for key in sound.journal[2]},
        **{f"run_ended.{key}": at(lambda made: made.journal[-1], key) for key in sound.journal[-1]},
        **{f"collected.{key}": at(lambda made: made.collected, key) for key in sound.collected},
    }


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
def test_whatever_a_node_writes_is_judged_and_never_raises(value: Any) -> None:
    """Each field of each file in turn holds nonsense. What it may never do: raise, make an RMA, lose a GPU, break the document."""
    for name, change in broken_everywhere(value).items():
        made = folder(change, gpus=6)

        document = json.loads(made.dump())

        assert len(verdicts(document)) == 6, name
        flagged = name.startswith("health.") and value is True
        assert "RMA" not in verdicts(document) or flagged, name
        assert set(verdicts(document, "n1")) <= {"PASS"}, name


@pytest.mark.parametrize("records", [[None, 3, "x", [], {}, {"event": []}, {"event": {}}, {"event": "window", "elapsed_s": "soon"}]])
def test_a_journal_of_nonsense_is_no_complete_run(records: list[Any]) -> None:
    def change(made: Node) -> Node:
        return replace(made, journal=[*made.journal, *records])

    assert set(verdicts(folder(change).document())) == {"INCONCLUSIVE"}


def test_gpus_null_is_not_the_same_as_no_gpu() -> None:
    def no_list(made: Node) -> None:
        made.identity["before"]["gpus"] = None

    def no_gpu(made: Node) -> None:
        made.identity["before"]["gpus"] = []

    assert verdicts(folder(no_list).document()) == ["INCONCLUSIVE"] * 8
    assert verdicts(folder(no_gpu).document()) == ["FAIL"] * 8


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("value", float("nan"), "no positive number"),
        ("value", float("inf"), "no positive number"),
        ("value", -730.0, "no positive number"),
        ("value", 0, "no positive number"),
        ("value", None, "no positive number"),
        ("value", "730", "no positive number"),
        ("unit", "GFLOPS", "unit is 'GFLOPS'; expected 'TFLOPS'"),
        ("unit", None, "unit is NoneType; expected 'TFLOPS'"),
        ("better", "lower", "better is 'lower'; expected 'higher'"),
        ("wrong", -524288000, "expected a count"),
        ("wrong", "0", "expected a count"),
        ("wrong", None, "expected a count"),
        ("checked", None, "expected a count"),
    ],
)
def test_one_number_that_cannot_be_makes_its_gpu_inconclusive(field: str, value: object, told: str) -> None:
    def change(made: Node) -> None:
        made.measurements[0][field] = value

    document = folder(change).document()

    assert gpu_codes(document) == {"VALUE_INVALID": "INCONCLUSIVE"}
    assert told in str(document["gpus"][0]["findings"])
    assert verdicts(document)[1:] == ["PASS"] * 7


@pytest.mark.parametrize("seed", [1002, 0, -1001, 1001.0, None, "1001"])
def test_a_window_with_another_seed_than_the_plans_is_no_window(seed: object) -> None:
    """Else a load that ignores its seed computes the same thing in every start, and no second seed was ever tried."""

    def change(made: Node) -> None:
        made.measurements[0]["seed"] = seed

    document = folder(change).document()

    assert gpu_codes(document) == {"VALUE_INVALID": "INCONCLUSIVE"}
    assert "expected 1001, the plan's for start 1" in str(document["gpus"][0]["findings"])
    assert verdicts(document)[1:] == ["PASS"] * 7


def test_wrong_results_on_seeds_that_are_not_the_plans_are_not_wrong_on_two_seeds() -> None:
    def change(made: Node) -> None:
        for number, one in enumerate(made.measurements):
            if one["gpu"] == "GPU-n0-0" and one["test"] == "gemm_bf16":
                one |= {"seed": number, "wrong": 1}

    assert gpu_codes(folder(change).document())["WRONG_RESULT"] == "RETEST"


@pytest.mark.parametrize("flag", ["row_remap_failure", "lost", "row_remap_pending", "sram_threshold_exceeded"])
def test_a_health_flag_that_is_neither_yes_nor_no_is_not_a_pass(flag: str) -> None:
    def change(made: Node) -> None:
        made.identity["after"]["gpus"][0]["health"][flag] = "yes"

    assert gpu_codes(folder(change).document()) == {"VALUE_INVALID": "INCONCLUSIVE"}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_flag_that_was_up_at_one_look_counts(moment: str) -> None:
    def change(made: Node) -> None:
        other = json.loads(json.dumps(made.identity[moment]["gpus"]))
        other[0]["health"]["row_remap_failure"] = True
        made.identity[moment]["gpus"] = other

    assert gpu_codes(folder(change).document()) == {"ROW_REMAP_FAILURE": "RMA"}


def test_a_gpu_that_is_gone_at_the_second_look_fell_off_the_bus() -> None:
    def change(made: Node) -> None:
        made.identity["after"]["gpus"] = made.identity["after"]["gpus"][1:]

    assert gpu_codes(folder(change).document()) == {"GPU_LOST": "RETEST"}


def test_results_that_nobody_checked_are_not_a_pass() -> None:
    def change(made: Node) -> None:
        for one in made.measurements:
            if one["gpu"] == "GPU-n0-0" and one["test"] == "hbm_copy":
                one["checked"] = 0

    assert gpu_codes(folder(change).document()) == {"TEST_MISSING": "INCONCLUSIVE"}


def test_a_wrong_result_in_an_older_attempt_is_not_replaced_by_a_pass() -> None:
    def change(made: Node) -> Node:
        again = [{**one, "attempt": 2} for one in made.measurements]
        for one in made.measurements:
            if one["gpu"] == "GPU-n0-0" and one["step"] == "restart":
                one["wrong"] = 1
        return replace(made, measurements=again + made.measurements)

    assert gpu_codes(folder(change).document()) == {"WRONG_RESULT": "RMA"}


@pytest.mark.parametrize("newest_first", [True, False])
def test_of_repeated_attempts_the_newest_counts(newest_first: bool) -> None:
    def change(made: Node) -> Node:
        old = [{**one, "value": one["value"] / 2} for one in made.measurements]
        new = [{**one, "attempt": 2} for one in made.measurements]
        return replace(made, measurements=new + old if newest_first else old + new)

    assert set(verdicts(folder(change).document())) == {"PASS"}


def test_one_window_written_twice_with_different_numbers_is_no_window() -> None:
    def change(made: Node) -> None:
        made.measurements.append({**made.measurements[0], "value": 500.0})

    assert gpu_codes(folder(change).document()) == {"VALUE_INVALID": "INCONCLUSIVE"}


def test_one_window_written_twice_alike_is_one_window() -> None:
    def change(made: Node) -> None:
        made.measurements.append(dict(made.measurements[0]))

    assert folder(change).document()["gpus"][0]["findings"][1]["windows"] == 7


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"gpu": "GPU-of-nobody"}, id="a GPU that the identity does not list"),
        pytest.param({"step": "another"}, id="a step that the plan does not have"),
        pytest.param({"test": "hbm_copy"}, id="a test that this step does not run"),
        pytest.param({"start": 2}, id="a start too many"),
        pytest.param({"window": 4}, id="a window too many"),
        pytest.param({"window": 0}, id="a window before the first"),
    ],
)
def test_measurements_that_nobody_asked_for_do_not_count_and_are_named(change: dict[str, object]) -> None:
    """Else windows of another plan could stand in for the missing ones of this one."""

    def changed(made: Node) -> None:
        made.measurements.append({**made.measurements[0], "attempt": 9, "value": 1.0} | change)

    document = folder(changed).document()

    assert node_codes(document) == {"EVIDENCE_UNREADABLE": "INCONCLUSIVE"}
    assert set(verdicts(document)) == {"INCONCLUSIVE"}
    assert document["gpus"][0]["findings"][1]["deviation_pct"] in (0.0, None)


@pytest.mark.parametrize("field", ["run_id", "plan"])
def test_evidence_of_another_run_or_plan_counts_for_nothing(field: str) -> None:
    def change(made: Node) -> None:
        made.journal[0][field] = "another"
        for one in made.measurements:
            one["value"] = 100.0

    document = folder(change).document()

    assert node_codes(document) == {"EVIDENCE_UNREADABLE": "INCONCLUSIVE"}
    assert verdicts(document) == ["INCONCLUSIVE"] * 8
    assert document["cohorts"][0]["size"] == 24


def test_a_resumed_run_is_the_same_run() -> None:
    def change(made: Node) -> None:
        made.journal.insert(5, {**made.journal[0], "attempt": 2})

    assert set(verdicts(folder(change).document())) == {"PASS"}


def test_measurements_without_a_journal_belong_to_no_run() -> None:
    def change(made: Node) -> None:
        for one in made.measurements:
            one["value"] = 100.0

    assert verdicts(folder(change).changed("n0", journal=None).document()) == ["INCONCLUSIVE"] * 8


def test_files_that_do_not_match_their_checksums_condemn_and_pass_nobody() -> None:
    def change(made: Node) -> None:
        for one in made.measurements:
            one["wrong"] = int(one["gpu"] == "GPU-n0-0")

    document = folder(change).changed("n0", problems=("measurements.jsonl does not match its checksum.",)).document()

    assert verdicts(document) == ["RETEST", *["INCONCLUSIVE"] * 7]


def two_nodes_with_one(field: str) -> Folder:
    """Node n1's slot 0 carries the UUID or serial of n0's slot 0; both are slow enough for an RMA."""
    made = [node(f"n{number}") for number in range(4)]
    name = made[0].identity["before"]["gpus"][0][field]
    text = made[1].files()
    old = made[1].identity["before"]["gpus"][0][field]
    swapped = {part: getattr(text, part).replace(f'"{old}"', f'"{name}"') for part in ("identity", "measurements")}
    return folder().changed("n1", **swapped)


@pytest.mark.parametrize("field", ["gpu", "serial"])
def test_one_uuid_or_serial_on_two_nodes_keeps_both_and_condemns_and_passes_neither(field: str) -> None:
    document = two_nodes_with_one(field).document()

    assert document["summary"]["gpus"] == 32
    assert gpu_codes(document, "n0") == {"DUPLICATE_ID": "INCONCLUSIVE"}
    assert gpu_codes(document, "n1") == {"DUPLICATE_ID": "INCONCLUSIVE"}
    assert "n0 slot 0, n1 slot 0" in str(document["gpus"][0]["findings"])
    assert document["cohorts"][0]["size"] == 30


def test_one_uuid_twice_on_one_node_is_one_part_and_one_missing() -> None:
    def change(made: Node) -> None:
        made.identity["before"]["gpus"][1]["gpu"] = made.identity["before"]["gpus"][0]["gpu"]

    document = folder(change).document()

    assert len(verdicts(document)) == 8
    assert sorted(verdicts(document)) == ["FAIL", *["INCONCLUSIVE"] * 7]
    assert node_codes(document)["PARTS_MISSING"] == "FAIL"
    assert "RMA" not in verdicts(document)


def test_one_serial_twice_on_one_node_is_doubtful() -> None:
    def change(made: Node) -> None:
        made.identity["before"]["gpus"][1]["serial"] = made.identity["before"]["gpus"][0]["serial"]

    assert verdicts(folder(change).document())[:3] == ["INCONCLUSIVE", "INCONCLUSIVE", "PASS"]


@pytest.mark.parametrize("serial", ["1234567890", "To Be Filled By O.E.M.", "", "0", 0, "N/A", "00000000", None, True, 1.5, ["x"]])
def test_a_placeholder_is_no_serial_and_makes_no_twins(serial: object) -> None:
    def change(made: Node) -> None:
        for one in made.identity["before"]["gpus"]:
            one["serial"] = serial

    document = folder(change).document()

    assert {one["serial"] for one in document["gpus"] if one["node"] == "n0"} == {None}
    assert set(verdicts(document)) == {"PASS"}


@pytest.mark.parametrize("serial", ["1234e567", "00123456", "1.20"])
def test_serials_stay_the_text_that_they_are(serial: str) -> None:
    def change(made: Node) -> None:
        made.identity["before"]["gpus"][0]["serial"] = serial

    assert folder(change).document()["gpus"][0]["serial"] == serial


def test_seven_of_eight_gpus_fail_the_node_and_name_the_slot() -> None:
    def change(made: Node) -> Node:
        for moment in ("before", "after"):
            made.identity[moment]["gpus"] = [one for one in made.identity[moment]["gpus"] if one["slot"] != 5]
        return replace(made, measurements=[one for one in made.measurements if one["gpu"] != "GPU-n0-5"])

    document = folder(change).document()

    assert verdicts(document) == ["PASS"] * 5 + ["FAIL"] + ["PASS"] * 2
    assert node_codes(document) == {"PARTS_MISSING": "FAIL"}
    missing = document["gpus"][5]
    assert (
        missing["gpu"],
        missing["slot"],
        missing["node"],
        missing["rack"],
        missing["findings"][0]["code"],
    ) == (None, 5, "n0", "A", "GPU_MISSING")
    assert exit_code(outcomes(document)) == 10


@pytest.mark.parametrize(
    ("slots", "named"),
    [
        pytest.param([1, 2, 3, 4, 5, 6, 7], [0], id="slot 0 is empty"),
        pytest.param([2, 3, 4, 5, 6, 7, 8], [None], id="counted from 1: which is empty is not known"),
        pytest.param([0, 0, 1, 2, 3, 4, 5], [None], id="a slot stands twice"),
        pytest.param([None] * 7, [None], id="no slot is known"),
        pytest.param(["0", 1, 2, 3, 4, 5, 6], [None], id="a slot is no number"),
    ],
)
def test_the_empty_slot_is_named_only_where_it_is_known(slots: list[Any], named: list[int | None]) -> None:
    def change(made: Node) -> None:
        gpus = made.identity["before"]["gpus"][:7]
        for one, slot in zip(gpus, slots, strict=True):
            one["slot"] = slot
        made.identity["before"]["gpus"] = gpus

    assert [one["slot"] for one in folder(change).document()["gpus"] if one["node"] == "n0" and one["gpu"] is None] == named


def test_a_gpu_too_many_is_shown_to_a_person() -> None:
    run = folder()
    run.run["inventory"]["nodes"][0]["expected_gpus"] = 7

    document = run.document()

    assert node_codes(document) == {"PARTS_UNEXPECTED": "REVIEW"}
    assert document["summary"]["gpus"] == 32


def test_without_an_expectation_a_missing_gpu_cannot_be_seen() -> None:
    run = folder()
    run.run["inventory"]["nodes"][0]["expected_gpus"] = None

    assert node_codes(run.document()) == {"EXPECTATION_MISSING": "INCONCLUSIVE"}


def test_the_sku_says_how_many_were_bought_where_the_inventory_does_not() -> None:
    run = folder()
    run.run["inventory"]["nodes"][0] |= {"expected_gpus": None, "sku": "A100-SXM4-80GB"}

    assert node_codes(run.without("n0").document()) == {"NODE_UNREACHABLE": "INCONCLUSIVE"}
    assert run.without("n0").document()["summary"]["gpus"] == 32


@pytest.mark.parametrize(
    ("entry", "code", "outcome"),
    [
        pytest.param(None, "NODE_UNREACHABLE", "INCONCLUSIVE", id="nothing came, and nobody said why"),
        pytest.param({"stage": "poll", "state": "unreachable"}, "NODE_UNREACHABLE", "INCONCLUSIVE", id="unreachable"),
        pytest.param({"stage": "preflight", "state": "failed", "why": "7 of 8"}, "PREFLIGHT_FAILED", "FAIL", id="preflight failed"),
        pytest.param({"stage": "provision", "state": "failed", "why": "held lock"}, "PROVISION_FAILED", "FAIL", id="provisioning failed"),
        pytest.param({"stage": "provision", "state": "reboot_required"}, "REBOOT_REQUIRED", "RETEST", id="it waits for a reboot"),
        pytest.param({"stage": "start", "state": "failed", "why": "no disk"}, "RUN_FAILED", "INCONCLUSIVE", id="the run did not start"),
        pytest.param(
            {"stage": "unpack", "state": "damaged", "why": "cut off"}, "EVIDENCE_UNREADABLE", "INCONCLUSIVE", id="a damaged archive"
        ),
    ],
)
def test_a_node_that_sent_nothing_lists_all_that_was_bought(entry: dict[str, str] | None, code: str, outcome: str) -> None:
    run = replace(folder().without("n0"), controller=[{"node": "n0", **entry}] if entry else [])

    document = run.document()

    assert document["summary"] | {"gpus": 32, "INCONCLUSIVE": 8, "PASS": 24} == document["summary"]
    assert [(one["slot"], one["findings"][0]["code"]) for one in document["gpus"] if one["node"] == "n0"] == [
        (slot, code) for slot in range(8)
    ]
    assert node_codes(document) == {code: outcome}


def test_the_controllers_newest_word_counts() -> None:
    words = [{"stage": "start", "node": "n0", "state": "unreachable"}, "nonsense", {"stage": "collect", "node": "n0", "state": "ok"}]

    assert node_codes(replace(folder(), controller=words).document()) == {"NODE_OK": "PASS"}


@pytest.mark.parametrize("stage", ["preflight", "provision"])
def test_what_a_stage_refused_stands_until_that_stage_goes_well(stage: str) -> None:
    refused, later, mended = [
        {"stage": one, "node": "n0", "state": state} for one, state in ((stage, "failed"), ("stop", "ok"), (stage, "ok"))
    ]

    assert node_codes(replace(folder(), controller=[refused, later]).document()) == {f"{stage.upper()}_FAILED": "FAIL"}
    assert node_codes(replace(folder(), controller=[refused, mended, later]).document()) == {"NODE_OK": "PASS"}


def test_a_damaged_archive_is_forgotten_once_it_was_collected_again() -> None:
    damaged = {"stage": "unpack", "node": "n0", "state": "damaged", "why": "cut off"}
    again = {"stage": "collect", "node": "n0", "state": "ok"}

    assert node_codes(replace(folder(), controller=[damaged, again]).document()) == {"NODE_OK": "PASS"}
    assert set(verdicts(replace(folder(), controller=[again, damaged]).document())) == {"INCONCLUSIVE"}


def died(made: Node) -> Node:
    """The node went down after window 2 of the soak: another boot id when it was asked again."""
    kept = made.measurements[:16]
    return replace(made, journal=made.journal[:4], measurements=kept, collected={"state": "died", "boot_id": "boot-again"})


def test_a_node_that_dies_fails_and_its_journal_says_where() -> None:
    document = folder(died).document()

    assert node_codes(document) == {"NODE_REBOOTED": "FAIL", "PLAN_ENDED_EARLY": "INCONCLUSIVE"}
    assert verdicts(document) == ["INCONCLUSIVE"] * 8
    assert "after window 2 of start 1 of 'soak' (gemm_bf16), 100 s into the run" in str(document["nodes"][0])


def test_a_node_that_went_down_and_was_resumed_passes_nobody() -> None:
    def change(made: Node) -> None:
        made.journal[-1]["boot_id"] = "boot-again"

    document = folder(change).document()

    assert node_codes(document) == {"NODE_REBOOTED": "FAIL"}
    assert set(verdicts(document)) == {"RETEST"}


def test_a_run_that_was_stopped_says_by_what_and_where() -> None:
    def change(made: Node) -> Node:
        return replace(made, journal=[*made.journal[:4], {"event": "stopped", "reason": "SIGTERM"}], measurements=made.measurements[:16])

    document = folder(change).document()

    assert node_codes(document) == {"NODE_STOPPED": "INCONCLUSIVE"}
    assert "SIGTERM" in str(document["nodes"][0])
    assert exit_code(outcomes(document)) == 11


def test_a_run_that_could_not_go_on_says_why() -> None:
    def change(made: Node) -> Node:
        return replace(made, journal=[*made.journal[:4], {"event": "failed", "reason": "no space left"}])

    assert node_codes(folder(change).document()) == {"RUN_FAILED": "INCONCLUSIVE", "PLAN_ENDED_EARLY": "INCONCLUSIVE"}


def test_a_test_that_was_skipped_is_missing_with_its_reason() -> None:
    def change(made: Node) -> Node:
        skipped = {"event": "start_skipped", "step": "memory", "test": "hbm_copy", "start": 1, "reason": "no such load"}
        return replace(
            made,
            journal=[*made.journal[:-1], skipped, made.journal[-1]],
            measurements=[one for one in made.measurements if one["test"] != "hbm_copy"],
        )

    document = folder(change).document()

    assert gpu_codes(document) == {"TEST_MISSING": "INCONCLUSIVE"}
    assert "0 of 4 planned windows of hbm_copy were measured: no such load." in str(document["gpus"][0])


@pytest.mark.parametrize("gone", [0, 7, -1])
def test_one_missing_window_is_no_pass(gone: int) -> None:
    def change(made: Node) -> None:
        del made.measurements[gone]

    document = folder(change).document()

    assert sorted(verdicts(document)) == ["INCONCLUSIVE", *["PASS"] * 7]


def test_a_preflight_only_looks() -> None:
    document = preflight(folder()).document()

    assert document["summary"]["PASS"] == 32
    assert {one["findings"][0]["code"] for one in document["gpus"]} == {"GPU_PRESENT"}
    assert document["fleet"]["verdict"] == "PASS"


@pytest.mark.parametrize("plan", [None, {}, {"name": "acceptance"}, {"schema": "burnin.plan/1", "name": "acceptance", "steps": []}])
def test_a_burn_in_without_a_plan_shows_nothing(plan: object) -> None:
    run = folder()
    for name in list(run.nodes):
        run = run.changed(name, measurements="")

    document = replace(run, run={**run.run, "plan": plan}).document()

    assert document["summary"]["INCONCLUSIVE"] == 32
    assert gpu_codes(document) == {"TEST_MISSING": "INCONCLUSIVE"}
    assert document["fleet"]["verdict"] == "INCONCLUSIVE"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"inventory": None}, id="no inventory"),
        pytest.param({"inventory": {"nodes": []}}, id="no node"),
        pytest.param({"inventory": {"nodes": ["n0"]}}, id="a node that is a name only"),
        pytest.param({"inventory": {"nodes": [{"node": "n0"}]}}, id="a node without a folder"),
        pytest.param({"inventory": {"nodes": [{"node": "n0", "folder": "a"}, {"node": "n0", "folder": "b"}]}}, id="a node twice"),
        pytest.param({"plan": {**PLAN, "steps": [{"test": "gemm_bf17"}]}}, id="a test that is none"),
        pytest.param({"plan": {**PLAN, "steps": "all"}}, id="steps that are no list"),
        pytest.param({"plan": "acceptance"}, id="a plan that is a name only"),
    ],
)
def test_a_run_json_that_is_damaged_is_refused(change: dict[str, object]) -> None:
    run = folder()

    with pytest.raises(RunFolderError, match=r"^run\.json: .*damaged"):
        replace(run, run={**run.run, **change}).document()


def test_nothing_at_all_came_from_any_node() -> None:
    document = replace(folder(), nodes={}).document()

    assert document["summary"] == {"gpus": 32, "RMA": 0, "FAIL": 0, "RETEST": 0, "INCONCLUSIVE": 32, "REVIEW": 0, "PASS": 0}
    assert Outcome.PASS not in outcomes(document)


def test_a_node_that_lists_thousands_of_gpus_is_not_believed() -> None:
    def change(made: Node) -> None:
        made.identity["before"]["gpus"] = [{"gpu": f"GPU-{number}"} for number in range(5000)]

    assert verdicts(folder(change).document()) == ["INCONCLUSIVE"] * 8


def test_names_are_kept_short_and_printable() -> None:
    def change(made: Node) -> None:
        made.identity["before"]["gpus"][0]["pci"] = "\x1b[31m<b>" + "x" * 1000
        made.identity["before"]["gpus"][0]["serial"] = "S\n\ud8009"

    found = folder(change).document()["gpus"][0]

    assert (found["serial"], len(found["pci"])) == ("S9", 40)
    assert found["pci"].isprintable()


def test_lines_are_read_alike_with_any_line_end() -> None:
    text = folder().nodes["n0"].measurements or ""

    assert set(verdicts(folder().changed("n0", measurements=text.replace("\n", "\r\n")).document())) == {"PASS"}
    assert lines([]) == ""
