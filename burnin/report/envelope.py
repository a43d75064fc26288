"""Long series made short without losing a peak: per bucket of time the lowest and the highest value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Buckets:
    """Equal stretches of elapsed time from start_s to end_s."""

    start_s: float
    end_s: float
    count: int

    def index(self, elapsed_s: float) -> int | None:
        """The bucket; None outside."""
        if not self.start_s <= elapsed_s <= self.end_s:
            return None
        return min(self.count - 1, int((elapsed_s - self.start_s) / max(self.end_s - self.start_s, 1e-9) * self.count))

    def middle_s(self, index: int) -> float:
        """The time in a bucket's middle."""
        return self.start_s + (index + 0.5) * (self.end_s - self.start_s) / self.count


def pieces(elapsed_s: Sequence[float], values: Values, buckets: Buckets) -> list[list[tuple[float, float]]]:
    """The line as (elapsed, value): at most two points a bucket, in the order they came; a new piece after a bucket without a value."""
    seen: list[list[tuple[float, float]]] = [[] for _ in range(buckets.count)]
    sampled = [False] * buckets.count
    for at, value in zip(elapsed_s, values, strict=True):
        index = buckets.index(at)
        if index is None:
            continue
        sampled[index] = True
        if value is not None:
            _keep_extremes(seen[index], at, value)
    found: list[list[tuple[float, float]]] = [[]]
    quiet = 0
    for points, was_sampled in zip(seen, sampled, strict=True):
        # A bucket shorter than the sampling interval holds nothing and is no gap; three in a row are.
        quiet = 0 if points else quiet + (1 if not was_sampled else 3)
        if quiet >= 3 and found[-1]:
            found.append([])
        found[-1].extend(points)
    return [piece for piece in found if piece]


def _keep_extremes(points: list[tuple[float, float]], at: float, value: float) -> None:
    """Of a bucket: the lowest and the highest, in the order of time."""
    if not points:
        points.append((at, value))
        return
    low, high = min(points, key=lambda p: p[1]), max(points, key=lambda p: p[1])
    if value < low[1]:
        points[:] = sorted({high, (at, value)})
    elif value > high[1]:
        points[:] = sorted({low, (at, value)})


def spread(members: Iterable[tuple[Sequence[float], Values]], buckets: Buckets) -> list[list[tuple[float, float, float]]]:
    """Over several series: (middle of the bucket, lowest, highest), in pieces without an empty bucket."""
    low: list[float | None] = [None] * buckets.count
    high: list[float | None] = [None] * buckets.count
    for elapsed_s, values in members:
        for at, value in zip(elapsed_s, values, strict=True):
            index = buckets.index(at)
            if index is None or value is None:
                continue
            if (known := low[index]) is None or value < known:
                low[index] = value
            if (known := high[index]) is None or value > known:
                high[index] = value
    found: list[list[tuple[float, float, float]]] = [[]]
    for index, (lowest, highest) in enumerate(zip(low, high, strict=True)):
        if lowest is None or highest is None:
            found.append([])
        else:
            found[-1].append((buckets.middle_s(index), lowest, highest))
    return [piece for piece in found if piece]


def intervals(elapsed_s: Sequence[float], flags: Values, shortest_s: float = 0.0) -> list[tuple[float, float]]:
    """The stretches where the flag was set, closer than `shortest_s` to each other joined."""
    found: list[tuple[float, float]] = []
    for position, (at, flag) in enumerate(zip(elapsed_s, flags, strict=True)):
        if not flag:
            continue
        until = elapsed_s[position + 1] if position + 1 < len(elapsed_s) else at
        if found and at - found[-1][1] <= shortest_s:
            found[-1] = (found[-1][0], max(until, found[-1][1]))
        else:
            found.append((at, until))
    return found
