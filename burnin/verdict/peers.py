"""Medians of all others: what a part is held against when it must not be its own yardstick. Each in O(log n), or a large node takes for ever."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from burnin.verdict.measure import MAD_TO_SIGMA

FEW = 16  # numbers that are quicker struck out one by one


class Peers:
    """Numbers in order; `without` gives the median of the rest. `mine` must be among them."""

    def __init__(self, numbers: Iterable[float]) -> None:
        self._ordered = sorted(numbers)

    def __len__(self) -> int:
        return len(self._ordered)

    def median_without(self, mine: Sequence[float]) -> float | None:
        """The ordinary median of all numbers but mine; None when there are no others."""
        if len(mine) != 1:
            rest = self.rest(mine)
            return median(rest) if rest else None
        count, at = len(self._ordered) - 1, bisect_left(self._ordered, mine[0])
        if count < 1:
            return None
        low, high = (count - 1) // 2, count // 2
        return (self._ordered[low + (low >= at)] + self._ordered[high + (high >= at)]) / 2

    def sigma_without(self, mine: Sequence[float], middle: float) -> float:
        """The robust sigma of all numbers but mine around their median."""
        return MAD_TO_SIGMA * median(abs(number - middle) for number in self.rest(mine))

    def rest(self, mine: Sequence[float]) -> list[float]:
        """All numbers but mine, in order."""
        if len(mine) <= FEW:
            rest = list(self._ordered)
            for number in mine:
                del rest[bisect_left(rest, number)]
            return rest
        left, rest = Counter(mine), []
        for number in self._ordered:
            if left[number]:
                left[number] -= 1
            else:
                rest.append(number)
        return rest
