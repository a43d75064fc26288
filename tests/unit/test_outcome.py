"""The verdicts, and the one way to combine them."""

from __future__ import annotations

import itertools

import pytest

from burnin.outcome import Outcome, exit_code, overall

WORST_FIRST = ["RMA", "FAIL", "RETEST", "INCONCLUSIVE", "REVIEW", "PASS"]


def test_the_verdicts_are_listed_worst_first() -> None:
    assert [outcome.value for outcome in Outcome] == WORST_FIRST


def test_badness_rises_from_pass_to_rma() -> None:
    assert [Outcome(name).badness for name in reversed(WORST_FIRST)] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(("worse", "better"), list(itertools.combinations(Outcome, 2)), ids=lambda outcome: outcome.value)
def test_the_worse_of_two_wins_in_either_order(worse: Outcome, better: Outcome) -> None:
    assert overall([worse, better]) is overall([better, worse]) is worse


def test_an_outcome_alone_is_itself() -> None:
    assert [overall([outcome]) for outcome in Outcome] == list(Outcome)


def test_no_outcome_at_all_is_not_a_pass() -> None:
    assert overall([]) is Outcome.INCONCLUSIVE


def test_a_generator_will_do() -> None:
    assert overall(outcome for outcome in (Outcome.PASS, Outcome.REVIEW)) is Outcome.REVIEW


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        pytest.param([Outcome.PASS, Outcome.PASS], 0, id="all pass"),
        pytest.param([Outcome.PASS, Outcome.REVIEW], 0, id="a review alone is no failure"),
        pytest.param([Outcome.INCONCLUSIVE, Outcome.REVIEW], 11, id="evidence is missing"),
        pytest.param([Outcome.RETEST, Outcome.INCONCLUSIVE], 11, id="to run again"),
        pytest.param([Outcome.FAIL, Outcome.RETEST], 10, id="broken"),
        pytest.param([Outcome.RMA, Outcome.PASS], 10, id="goes back"),
        pytest.param([], 11, id="nothing was shown"),
    ],
)
def test_the_exit_code_is_of_the_worst(outcomes: list[Outcome], code: int) -> None:
    assert exit_code(outcomes) == code


def test_an_outcome_is_its_word_in_json_and_in_text() -> None:
    assert Outcome("RMA") == "RMA"
