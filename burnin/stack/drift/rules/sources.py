"""Repositories: each named source in one file of ours, and in no other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from burnin.stack.drift.case import Case, mapping
from burnin.stack.drift.finding import Finding, listed

READ = (".list", ".sources", ".repo")  # apt and dnf look at no other file
USERINFO = re.compile(r"://[^/\s@]+@")


def judge(case: Case) -> Iterator[Finding]:
    """A second source of one place makes apt refuse both, when they disagree on Signed-By (nvidia-docker issue 1631)."""
    if not isinstance(case.software.get("sources"), dict):
        return
    there = {str(path): str(told) for path, told in mapping(case.software.get("sources")).items()}
    pins = [str(path) for path in mapping(case.software.get("pins"))]
    used = {source for group in case.groups if group["packages"] for source in group["sources"]}
    for one in case.want["repositories"]:
        if one["source"] not in used:
            continue
        # A name and a password in the URL are not told by the node.
        url = USERINFO.sub("://***@", str(one["url"])).rstrip("/")
        if url not in there.get(str(one["path"]), ""):
            shown = f"{one['path']} names another place" if one["path"] in there else f"no {one['path']}"
            yield Finding("SOURCE_MISSING", str(one["source"]), shown, url)
        others = tuple(path for path in [*there, *pins] if path != one["path"] and _conflicts(path, there.get(path, ""), url, one))
        if others:
            yield Finding("SOURCE_CONFLICT", str(one["source"]), f"also in {listed(others)}", f"{one['path']} alone", others)


def _conflicts(path: str, told: str, url: str, one: Mapping[str, Any]) -> bool:
    if any(fnmatchcase(path, pattern) for pattern in one["supersedes"]):
        return True
    lines = [line for line in told.splitlines() if not line.lstrip().startswith("#")]
    return path.endswith(READ) and any(url in line for line in lines)
