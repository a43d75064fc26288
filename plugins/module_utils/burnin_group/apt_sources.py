"""Which places a file of apt sources names: deb822 (.sources) and one line each (.list)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterator, List

from ansible.module_utils.burnin_group.node import read

OFF = ("no", "false", "without", "off", "disable", "0")


def uris(path: Path) -> List[str]:
    """Those that are on. A file that is none names nothing: apt itself says so."""
    text = (read(path) or b"").decode("utf-8", "replace")
    return list(_deb822(text) if path.suffix == ".sources" else _lines(text))


def _deb822(text: str) -> Iterator[str]:
    for stanza in re.split(r"\n\s*\n", text):
        fields, last = {}, ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1] in (" ", "\t") and last:
                fields[last] += " " + line.strip()
            elif ":" in line:
                name, _colon, value = line.partition(":")
                last = name.strip().lower()
                fields[last] = value.strip()
        if fields.get("enabled", "yes").lower() not in OFF:
            yield from fields.get("uris", "").split()


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        words = re.sub(r"\[[^\]]*\]", " ", line.partition("#")[0]).split()
        if len(words) >= 3 and words[0] in ("deb", "deb-src"):
            yield words[1]
