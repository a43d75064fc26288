"""Evidence that is there and shows too little: a pass needs more than the absence of a fault. Each rule's other side is here too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from burnin.verdict.model import Health
from unit.verdict.fleets import SOUND, TEST, but, fleet, judged
from unit.verdict.folders import Json, Node, everywhere, folder, gpu_codes, node_codes, preflight, verdicts

THIN = {"EVIDENCE_UNREADABLE": "INCONCLUSIVE"}
FLAGS = ("lost", "row_remap_failure", "row_remap_pending", "sram_threshold_exceeded")


def why(document: Json, name: str = "n0") -> str:
    return next(one["why"] for entry in document["nodes"] if entry["node"] == name for one in entry["findings"])


@pytest.mark.parametrize("after", [None, {}, {"gpus": None}, {"gpus": "8"}, []])
def test_a_run_without_a_second_look_has_not_shown_that_its_gpus_are_still_there(after: Any) -> None:
    def change(made: Node) -> None:
        made.identity["after"] = after

    document = folder(change).document()

    assert node_codes(document) == THIN
    assert "second look" in why(document)
    assert set(verdicts(document)) == {"INCONCLUSIVE"}


def test_a_preflight_owes_no_second_look() -> None:
    assert preflight(folder()).document()["summary"]["PASS"] == 32


def silenced(*flags: str) -> Callable[[Node], None]:
    def change(made: Node) -> None:
        for look in made.identity.values():
            look["gpus"][0]["health"] |= dict.fromkeys(flags)

    return change


def test_a_gpu_that_says_nothing_of_its_health_has_not_shown_that_it_is_well() -> None:
    document = folder(silenced(*FLAGS, "recovery_action")).document()

    assert gpu_codes(document) == {"HEALTH_UNKNOWN": "INCONCLUSIVE"}
    assert verdicts(document)[1:] == ["PASS"] * 7


def test_a_gpu_that_says_nothing_of_its_health_is_not_present_and_well() -> None:
    document = preflight(folder(silenced(*FLAGS))).document()

    assert gpu_codes(document) == {"HEALTH_UNKNOWN": "INCONCLUSIVE"}


@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_that_its_like_tell_and_it_does_not_is_missing(flag: str) -> None:
    document = folder(silenced(flag)).document()

    assert gpu_codes(document) == {"HEALTH_UNKNOWN": "INCONCLUSIVE"}
    assert flag in str(document["gpus"][0]["findings"])


@pytest.mark.parametrize("flag", FLAGS[1:])
def test_a_flag_that_a_kind_of_gpu_does_not_have_is_missing_from_nobody(flag: str) -> None:
    """An older architecture has no row remapping: all of a kind are silent alike, and honestly."""

    def change(made: Node) -> None:
        for look in made.identity.values():
            for one in look["gpus"]:
                one["health"][flag] = None

    assert everywhere(change).document()["summary"]["PASS"] == 32


def test_a_flag_that_few_of_a_kind_tell_is_missing_from_nobody() -> None:
    found = judged(but(fleet(health=Health(lost=False)), {("n0", slot): {"health": SOUND} for slot in range(8)}))

    assert found.counts() == {"PASS": 32}


def unread(*names: str, windows: int = 100, gpu: int = 0) -> Callable[[Node], None]:
    """So many windows of one GPU without these readings."""

    def change(made: Node) -> None:
        mine = [one for one in made.measurements if one["gpu"] == f"GPU-n0-{gpu}" and one["test"] == TEST]
        for one in mine[:windows]:
            one.update(dict.fromkeys(names))

    return change


FRACTIONS = ("hw_thermal_fraction", "sw_thermal_fraction", "hw_power_brake_fraction")


@pytest.mark.parametrize(
    ("names", "windows", "expected"),
    [
        pytest.param(("temp_c",), 7, {"HEAT_UNKNOWN": "INCONCLUSIVE"}, id="no temperature"),
        pytest.param(("temp_c",), 6, {"HEAT_UNKNOWN": "INCONCLUSIVE"}, id="a temperature in one window of seven"),
        pytest.param(("temp_c",), 4, {"HEAT_UNKNOWN": "INCONCLUSIVE"}, id="in three of seven"),
        pytest.param(("temp_c",), 3, {}, id="in four of seven"),
        pytest.param(FRACTIONS, 7, {"SENSORS_SILENT": "INCONCLUSIVE"}, id="no throttle reason"),
        pytest.param(FRACTIONS[:1], 4, {"SENSORS_SILENT": "INCONCLUSIVE"}, id="no thermal slowdown in four of seven"),
        pytest.param(FRACTIONS, 3, {}, id="throttle reasons in four of seven"),
        pytest.param(("power_w", "sm_clock_mhz"), 7, {"SENSORS_SILENT": "INCONCLUSIVE"}, id="neither power nor clock"),
        pytest.param(("power_w",), 7, {}, id="a clock and no power"),
        pytest.param(("sm_clock_mhz",), 7, {}, id="power and no clock"),
        pytest.param(
            ("temp_c", *FRACTIONS, "power_w", "sm_clock_mhz"),
            7,
            {"HEAT_UNKNOWN": "INCONCLUSIVE", "SENSORS_SILENT": "INCONCLUSIVE"},
            id="nothing at all",
        ),
    ],
)
def test_readings_that_were_hardly_ever_told_have_shown_nothing(names: tuple[str, ...], windows: int, expected: dict[str, str]) -> None:
    document = folder(unread(*names, windows=windows)).document()

    assert gpu_codes(document) == expected
    assert verdicts(document)[1:] == ["PASS"] * 7


def test_a_cool_test_does_not_stand_in_for_the_hot_one() -> None:
    """The temperature was told in the memory test, where a GPU is cooler."""
    found = judged(but(fleet(values={TEST: 100.0, "hbm_copy": 10.0}), {("n0", 3): {"temps": {TEST: None, "hbm_copy": 50.0}}}))

    assert TEST in found.one("n0", 3, "HEAT_UNKNOWN").why


def test_a_host_processor_has_none_of_these_sensors() -> None:
    """Backend cpu: it is judged by what it can show."""
    silent = {"temp_c": None, "power_w": None, "sm_clock_mhz": None, "thermal": (None,), "has_sensors": False, "health": Health()}

    assert judged(but(fleet(), {("n0", 3): silent})).gpu("n0", 3) == "PASS"


@pytest.mark.parametrize("checked", [1, 3])
def test_results_that_were_checked_in_some_windows_only_were_not_checked(checked: int) -> None:
    def change(made: Node) -> None:
        for one in [one for one in made.measurements if one["gpu"] == "GPU-n0-0" and one["test"] == "hbm_copy"][checked:]:
            one["checked"] = 0

    document = folder(change).document()

    assert gpu_codes(document) == {"TEST_MISSING": "INCONCLUSIVE"}
    assert f"In {4 - checked} of its 4 windows of hbm_copy no result was checked" in str(document["gpus"][0]["findings"])


@pytest.mark.parametrize("keep", [0, 1, 10], ids=["no window", "one window", "all but the last"])
def test_windows_that_the_journal_does_not_tell_of_are_no_evidence(keep: int) -> None:
    def change(made: Node) -> None:
        windows = [event for event in made.journal if event["event"] == "window"]
        for event in windows[keep:]:
            made.journal.remove(event)

    document = folder(change).document()

    assert node_codes(document) == THIN
    assert f"holds {11 - keep} windows that its journal does not tell of" in why(document)
    assert set(verdicts(document)) == {"INCONCLUSIVE"}


@pytest.mark.parametrize("boot", [None, "", "unknown", 7.5])
@pytest.mark.parametrize("event", [0, -1], ids=["at its beginning", "at its end"])
def test_a_run_that_does_not_say_on_which_boot_it_ran_may_have_gone_down(event: int, boot: Any) -> None:
    def change(made: Node) -> None:
        made.journal[event]["boot_id"] = boot

    document = folder(change).document()

    assert node_codes(document) == THIN
    assert "boot" in why(document)
    assert set(verdicts(document)) == {"INCONCLUSIVE"}


def test_each_attempt_says_its_boot() -> None:
    def change(made: Node) -> None:
        made.journal.insert(5, {**made.journal[0], "attempt": 2, "boot_id": None})

    assert node_codes(folder(change).document()) == THIN
