"""A fault that is planted wrong would look like a part that is sound: the options are checked whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from burnin.node.backends import open_backend, read_options
from burnin.node.backends.base import BackendProblem
from burnin.node.backends.sim_options import Fault, SimOptions, read


def test_nothing_asked_is_eight_sound_gpus() -> None:
    assert SimOptions("node", 8, 1, 0, ()) == read({})


def test_faults_are_read_and_what_is_for_others_is_left() -> None:
    told = {"faults": [{"kind": "hot", "slot": 3, "expect": {"verdict": "REVIEW"}}, {"kind": "node_dies", "at_s": 9}]}

    assert (Fault("hot", 3, 84.0), Fault("node_dies", -1, 9.0)) == read(told).faults


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        pytest.param({"seed": "one"}, "seed is 'one'; expected a whole number", id="a seed that is text"),
        pytest.param({"seed": True}, "seed is 'True'", id="a seed that is a truth"),
        pytest.param({"gpus": 0}, "gpus is '0'; expected a whole number from 1 to 64", id="no GPUs"),
        pytest.param({"gpus": 1000}, "gpus is '1000'", id="a thousand GPUs"),
        pytest.param({"gpus": 8.0}, "gpus is '8.0'", id="GPUs with a point"),
        pytest.param({"node": 7}, "node is '7'", id="a node that is a number"),
        pytest.param({"node": ""}, "node is ''", id="a node without a name"),
        pytest.param({"gpu": 8}, "'gpu' is unknown; did you mean 'gpus'?", id="a misspelt option"),
        pytest.param({"compress": -1}, "compress is '-1'", id="time that goes back"),
        pytest.param({"compress": float("nan")}, "compress is 'nan'", id="NaN"),
        pytest.param({"compress": 0.01}, "compress is 0.01", id="time that hardly goes"),
        pytest.param({"faults": {"kind": "hot"}}, "faults is dict", id="faults that are a mapping"),
        pytest.param({"faults": ["hot"]}, "faults[0] is str", id="a fault that is text"),
        pytest.param({"faults": [{"kind": "hott", "slot": 1}]}, "'hott' is unknown; did you mean 'hot'?", id="an unknown kind"),
        pytest.param({"faults": [{"kind": ["hot"], "slot": 1}]}, "is unknown", id="a kind that is a list"),
        pytest.param({"faults": [{"slot": 1}]}, "'None' is unknown", id="no kind"),
        pytest.param(
            {"faults": [{"kind": "hot", "slot": 8}]}, "slot is '8'; expected a whole number from 0 to 7", id="a slot that is not there"
        ),
        pytest.param({"faults": [{"kind": "hot"}]}, "slot is 'None'", id="no slot"),
        pytest.param({"faults": [{"kind": "node_dies"}]}, "at_s is 'None'", id="a node that dies at no time"),
        pytest.param({"faults": [{"kind": "node_dies", "at_s": 1, "slot": 2}]}, "'slot' is unknown", id="a node that dies in a slot"),
        pytest.param({"faults": [{"kind": "hot", "slot": 1, "temp": 84}]}, "did you mean 'temp_c'?", id="a misspelt field"),
        pytest.param(
            {"faults": [{"kind": "hot", "slot": 1, "temp_c": 89}]}, "temp_c is '89'", id="hot over the slowdown, which is another fault"
        ),
        pytest.param({"faults": [{"kind": "wrong_result", "slot": 1, "chance": 3}]}, "chance is '3'", id="a chance over 1"),
        pytest.param({"faults": [{"kind": "hot", "slot": 1}] * 2}, "plants hot twice", id="one fault twice"),
        pytest.param({"gpus": 1, "faults": [{"kind": "missing", "slot": 0}]}, "take every GPU away", id="nothing left"),
    ],
)
def test_what_cannot_be_planted_is_refused_in_one_line(raw: dict[str, Any], told: str) -> None:
    with pytest.raises(BackendProblem) as refused:
        read(raw)

    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "[" * 100_000])
def test_a_file_without_options_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "options.json").write_text(text)

    with pytest.raises(BackendProblem, match=r"options\.json"):
        read_options(tmp_path / "options.json")


def test_a_named_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BackendProblem, match="No such file"):
        read_options(tmp_path / "options.json")


def test_a_backend_that_is_none_or_takes_no_options_says_so(tmp_path: Path) -> None:
    with pytest.raises(BackendProblem, match="'simm' is unknown"):
        open_backend("simm", {}, tmp_path, 1)
    with pytest.raises(BackendProblem, match="'gpus' is unknown; backend cpu takes none"):
        open_backend("cpu", {"gpus": 8}, tmp_path, 1)
    with pytest.raises(BackendProblem, match="nvml"):
        open_backend("nvml", {}, tmp_path, 1)
