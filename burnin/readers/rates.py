"""How a link falls short: of its lanes, or of the speed of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from burnin.readers.known import lane_gb_s

TOLERANCE = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class Rate:
    """Gb/s, lanes, and the speed of one lane by name. None = not told, or nothing expected."""

    gb_s: float | None
    lanes: int | None = None
    speed: str | None = None

    def __str__(self) -> str:
        lanes = f"{self.lanes}X" if self.lanes else ""
        told = " ".join(piece for piece in (lanes, self.speed or "") if piece)
        rate = f"{self.gb_s:g} Gb/s" if self.gb_s is not None else "an unknown rate"
        return f"{rate} ({told})" if told else rate

    @property
    def known_gb_s(self) -> float | None:
        """The rate; else what lanes and speed come to."""
        if self.gb_s is not None:
            return self.gb_s
        lane = lane_gb_s(self.speed)
        return lane * self.lanes if lane and self.lanes else None


@dataclass(frozen=True, slots=True)
class Short:
    """`of`: width where lanes are lost, else speed. `why` goes on after the port's name."""

    of: Literal["width", "speed"]
    why: str


def short_of(now: Rate, wanted: Rate) -> Short | None:
    """What `now` lacks of `wanted`; None where it lacks nothing, or one of the two is not known.

    A port that carries its rate over fewer, faster lanes lacks nothing.
    """
    have, want = now.known_gb_s, wanted.known_gb_s
    if have is None or not want or have >= want * TOLERANCE:
        return None
    told = f"runs at {have:g} of {want:g} Gb/s"
    if not now.lanes or not wanted.lanes or now.lanes >= wanted.lanes:
        how = f" ({now.lanes}X{' ' + now.speed if now.speed else ''})" if now.lanes else ""
        return Short("speed", f"{told}{how}: all its lanes, each slower than it should be")
    lane, lane_wanted = have / now.lanes, want / wanted.lanes
    slower = f", and each at {lane:g} of {lane_wanted:g} Gb/s" if lane < lane_wanted * TOLERANCE else ""
    return Short("width", f"{told}: {now.lanes} of {wanted.lanes} lanes{slower}")
