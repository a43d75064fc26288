"""The stack for roles: plain data in, plain data out. plugins/filter/burnin.py only names these."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any

from burnin.errors import StackError
from burnin.stack.checking import check
from burnin.stack.hardware import ANY, hardware
from burnin.stack.model import Level, Stack, errors, summary
from burnin.stack.reading import read_stack
from burnin.stack.resolving import resolve


def resolve_plain(
    stack: object, distro: str, arch: str, sku: str = "", kernel_running: str | None = None, os_release: str | None = None
) -> dict[str, Any]:
    """burnin_stack -> what one kind of node is to have (Resolution.as_dict). `sku` "" is a GPU of no particular kind.

    Raises StackError naming each field that is wrong.
    """
    found = hardware(sku) if sku else ANY
    return resolve(_read(stack), distro, arch, found, kernel_running=kernel_running or None, os_release=os_release or None).as_dict()


def check_plain(stack: object, today: date, skus: Iterable[str] = ()) -> dict[str, Any]:
    """burnin_stack -> {"ok", "errors", "warnings", "problems": [...], "error_text", "warning_text"}: the texts are for fail_msg and debug."""
    read, problems = read_stack(stack)
    if read is not None:
        problems = [*problems, *check(read, today, skus)]
    texts = {level: [one.sentence for one in problems if one.level is level] for level in Level}
    return {
        "ok": not errors(problems),
        **summary(problems),
        "error_text": texts[Level.ERROR],
        "warning_text": texts[Level.WARNING],
    }


def _read(stack: object) -> Stack:
    read, problems = read_stack(stack)
    if read is None:
        raise StackError("; ".join(problem.sentence for problem in errors(problems)))
    return read
