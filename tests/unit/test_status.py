"""What a node says of its run may be anything: it is parsed once and typed from there on."""

from __future__ import annotations

import pytest

from burnin.status import parse


def test_a_running_node() -> None:
    status = parse({"state": "running", "stage": "soak", "done_s": 600, "planned_s": 3120.0, "hottest_c": 84.4, "throttling": 2})

    assert (status.minutes, status.hottest, status.throttling, status.share) == ("10 of 52", "84 C", 2, 600 / 3120)


@pytest.mark.parametrize(
    "value", [None, "hot", float("nan"), float("inf"), True, [], {}, 1e300, 10**400], ids=lambda value: repr(value)[:20]
)
def test_a_number_that_is_none_is_not_told(value: object) -> None:
    status = parse({"state": "running", "done_s": value, "planned_s": value, "hottest_c": value, "throttling": value})

    assert (status.minutes, status.hottest, status.throttling, status.share) == ("", "", 0, None)


def test_text_from_a_node_is_bounded_and_has_no_control_characters() -> None:
    status = parse({"state": "run\x1b[31mning", "stage": "x" * 10_000, "why": "a\nb"})

    assert (status.state, len(status.stage), status.why) == ("run [31mning", 160, "a b")


def test_a_node_that_says_nothing_is_unknown() -> None:
    assert parse({}).state == "unknown"
