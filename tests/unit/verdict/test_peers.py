"""Medians of all others, against the plain way to make them."""

from __future__ import annotations

from collections import Counter
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnin.verdict.measure import MAD_TO_SIGMA
from burnin.verdict.peers import Peers

NUMBERS = st.lists(st.integers(40, 90).map(float), min_size=1, max_size=40)


def plainly(numbers: list[float], mine: list[float]) -> list[float]:
    left = Counter(numbers)
    left.subtract(mine)
    return sorted(left.elements())


@given(NUMBERS, st.data())
def test_the_rest_and_its_median_are_those_of_the_plain_way(numbers: list[float], data: st.DataObject) -> None:
    places = data.draw(st.lists(st.sampled_from(range(len(numbers))), min_size=1, unique=True))
    mine = [numbers[place] for place in places]
    rest = plainly(numbers, mine)

    peers = Peers(numbers)

    assert peers.rest(mine) == rest
    assert peers.median_without(mine) == (median(rest) if rest else None)


def test_nobody_has_no_peers() -> None:
    assert Peers([60.0]).median_without([60.0]) is None
    assert Peers([]).median_without([]) is None


def test_the_sigma_is_robust() -> None:
    assert Peers([60.0, 61.0, 62.0, 99.0]).sigma_without([99.0], 61.0) == pytest.approx(MAD_TO_SIGMA)
