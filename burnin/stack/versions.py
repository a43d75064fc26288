"""Versions: their forms, and their order."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """How a version of one thing looks, and an example for a person."""

    pattern: re.Pattern[str]
    example: str

    def fits(self, text: str) -> bool:
        return self.pattern.fullmatch(text) is not None


FORMS: dict[str, Form] = {
    # 570.26 came with CUDA 12.8: two numbers happen.
    "driver": Form(re.compile(r"[0-9]{3}\.[0-9]{2,3}(\.[0-9]{2})?"), "580.126.09"),
    "toolkit": Form(re.compile(r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}"), "12.9.1"),
    "cuda": Form(re.compile(r"[0-9]{1,3}\.[0-9]{1,3}"), "12.9"),
    "nccl": Form(re.compile(r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}"), "2.28.9"),
    "doca": Form(re.compile(r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}"), "3.2.1"),
    "mlnx": Form(re.compile(r"[0-9]{2}\.[0-9]{2}-[0-9]{1,3}(\.[0-9]{1,3}){2,3}"), "24.10-3.2.5.0"),
    "dcgm": Form(re.compile(r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}"), "4.4.1"),
    "kernel": Form(re.compile(r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,4}[-+.~_a-zA-Z0-9]{0,80}"), "6.8.0-87-generic"),
}


def numbers(version: str) -> tuple[int, ...]:
    """580.126.09 -> (580, 126, 9). Anything but digits separates; no digits is ()."""
    return tuple(int(part) for part in re.findall(r"[0-9]+", version))


def older(version: str, than: str) -> bool:
    """Whether `version` comes before `than`; 580 is not older than 580.65.06 where only its first number is given."""
    return numbers(version) < numbers(than)


def minor(version: str) -> str:
    """12.9.1 -> 12.9."""
    return ".".join(version.split(".")[:2])


def major(version: str) -> int:
    """12.9.1 -> 12. Raises ValueError for what does not begin with a number."""
    return int(version.partition(".")[0])
