"""Whether a file of ours still says what it should. Pure.

Only what we own counts (field report B15): a keyfile that NetworkManager has rewritten has other sections, another order and no comment, and is
the same connection. Compared are the keys that we set; a list that we own (addresses, partitions) must be that list.
"""

from __future__ import annotations

import re
from typing import Dict, List, Tuple

Fields = Dict[Tuple[str, str], List[str]]
# All keys of one list are one field: address1, address2, ... of a keyfile.
NUMBERED = re.compile(r"(address|route)[0-9]+")
LISTS = (("ipv4", "address"), ("ipv6", "address"), ("Network", "Address"), ("Network", "IPoIB"))


def fields(text: str) -> Fields:
    """(section, key) -> values, of an INI file as systemd and NetworkManager read it."""
    found: Fields = {}
    section = ""
    for line in (line.strip() for line in text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif "=" in line and line[:1] not in "#;":
            key, value = (part.strip() for part in line.split("=", 1))
            numbered = NUMBERED.fullmatch(key)
            found.setdefault((section, numbered[1] if numbered else key), []).append(value)
    return found


def differences(path: str, now: str, wanted: str) -> List[str]:
    """What differs, as PATH: section.key; only PATH where it is no INI file or is not there."""
    if now == wanted:
        return []
    if not path.endswith((".network", ".netdev", ".nmconnection", ".conf")) or path.startswith("/etc/modules-load.d/"):
        return [] if _lines(now) == _lines(wanted) else [path]
    have, want = fields(now), fields(wanted)
    keys = [key for key in want if _values(key, have) != _values(key, want)]
    keys += [key for key in have if key in LISTS and key not in want]
    return ["%s: %s.%s" % (path, *key) for key in keys]


def _values(key: Tuple[str, str], told: Fields) -> List[str]:
    # NetworkManager writes a gateway or nothing behind a comma.
    return [value.rstrip(",") for value in told.get(key, [])]


def _lines(text: str) -> List[str]:
    """Comments count where they carry names; blank lines do not."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]
