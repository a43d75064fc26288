"""Consent to erase drives: asked for in a file that a person reads, handed back with -e for one call, never kept in an inventory. Pure.

    nvme_raid0_erase: {host: {serial: what is on it}}

What is on a drive is text that somebody else wrote (a label, say), and Ansible takes a variable's text for a template: so none is written down,
nor taken back, that could be one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches

from burnin.errors import InventoryError, UsageError
from burnin.inventory import ERASE

FILE = "erase.yml"
MOST_DRIVES, LONGEST, LONGEST_WHY, SHOWN = 64, 1000, 300, 6
# One line of plain ASCII without a brace: no template, no control character, the same in every encoding.
PLAIN = re.compile(r"[ -z|~]*")
TEMPLATE = re.compile(r"\{[{%#]")
SHAPE = f"expected {{host: {{serial: what is on it}}}}, as `burnin provision --check` writes it into {FILE}"
HEAD = f"""\
# Drives that hold something and stand in the way of an array: node, serial, what is on it. Nothing has been erased. Read it line by line.
#
# Handing this file back, `burnin provision -i INVENTORY -e @{FILE}`, ERASES every drive that is named here, with its partitions, for good, and no
# other. Take out what is to be kept. A drive that by then holds something else than is written here is refused again.
#
# It is a word for one call: delete it afterwards. In an inventory it is refused.
---
"""


def asked_for(data: Mapping[str, object]) -> tuple[dict[str, str], int]:
    """serial -> what is on the drive, of a node's refusal that a consent would settle; and how many drives cannot be written down.

    A node may say anything: what is no plain text of a sensible length is counted and left out.
    """
    told = data.get("erase")
    if not isinstance(told, Mapping):
        return {}, 0
    fit = {serial: text for serial, text in told.items() if _is_plain(serial) and serial and _is_plain(text)}
    kept = dict(sorted(fit.items())[:MOST_DRIVES])
    return kept, len(told) - len(kept)


def _is_plain(text: object) -> bool:
    return isinstance(text, str) and len(text) <= LONGEST and PLAIN.fullmatch(text) is not None


def render(wanted: Mapping[str, Mapping[str, str]], why: Mapping[str, str]) -> str:
    """The file, for a person to read and to hand back: sorted, every name and text in quotes. The same for the same drives.

    `why`: host -> what it refused with, a remark above its drives.
    """
    lines = [f"{ERASE}:"]
    for host, drives in sorted(wanted.items()):
        lines += [f"  {json.dumps(host)}:", f"    # {json.dumps(why.get(host, '')[:LONGEST_WHY])[1:-1]}"]
        lines += [f"    {json.dumps(serial)}: {json.dumps(text)}" for serial, text in sorted(drives.items())]
    return HEAD + "\n".join(lines) + "\n"


def refuse_kept(having: Sequence[str], places: Sequence[str]) -> None:
    """Refuse a consent that stands in the inventory. `having`: the hosts that have it there; `places`: files and lines. Raises InventoryError."""
    if not having:
        return
    where = f"{', '.join(places[:SHOWN])}: " if places else ""
    few = ", ".join(having[:SHOWN]) + (f" and {len(having) - SHOWN} more" if len(having) > SHOWN else "")
    raise InventoryError(
        f"{where}{ERASE} stands in the inventory (of {few}); expected it with -e, for one call: kept there it would consent again and again, to "
        "whatever a drive of that serial holds by then. Take it out. Nothing was touched"
    )


def check(given: object, hosts: Collection[str]) -> None:
    """Whether a consent given for this call can be one: its shape, and hosts that the inventory has. Raises UsageError.

    A serial that its node does not have is refused there (CONSENT_UNKNOWN_SERIAL).
    """
    if not isinstance(given, Mapping):
        raise UsageError(f"-e {ERASE}: found {_shown(given)}; {SHAPE}")
    for host, drives in given.items():
        if host not in hosts:
            near = get_close_matches(str(host), sorted(hosts), 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise UsageError(f"-e {ERASE}: the inventory has no host {_shown(host)}; {hint}Correct it or take it out. Nothing was touched")
        _check_drives(str(host), drives)


def _check_drives(host: str, drives: object) -> None:
    if not isinstance(drives, Mapping | list) or not drives:
        raise UsageError(f"-e {ERASE}: {host}: found {_shown(drives)}; {SHAPE}")
    for text in _texts(drives):
        if not isinstance(text, str):
            raise UsageError(
                f'-e {ERASE}: {host}: found {_shown(text)}; expected text. Put serials in quotes (YAML makes numbers of some), and "" for a drive '
                "that may hold anything"
            )
        if TEMPLATE.search(text):
            raise UsageError(f"-e {ERASE}: {host}: {_shown(text)} is a template; expected plain text, as {FILE} has it")
    if not all(text.strip() for text in drives):
        raise UsageError(f"-e {ERASE}: {host}: an empty serial; {SHAPE}")


def _texts(drives: Mapping[object, object] | list[object]) -> Iterator[object]:
    yield from drives
    yield from drives.values() if isinstance(drives, Mapping) else ()


def _shown(found: object) -> str:
    return repr(found)[:80]
