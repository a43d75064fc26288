"""CUDA toolkits in /usr/local, and the one that /usr/local/cuda leads to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from burnin.stack.drift.case import Case, mapping, text, texts
from burnin.stack.drift.finding import Finding, listed
from burnin.stack.drift.rules.packages import missing


def judge(case: Case) -> Iterator[Finding]:
    """A toolkit whose package is missing is told as that, and its folder is not asked for."""
    group = case.group("cuda")
    have = texts(case.software.get("cuda_toolkits"))
    absent = missing(case, group)
    packages = [str(package["name"]) for package in group["packages"] if package["name"] not in absent]
    toolkits = [f"{found[1]}.{found[2]}" for name in packages if (found := re.fullmatch(r"cuda-toolkit-([0-9]+)-([0-9]+)", name))]
    if have is not None and (gone := [one for one in toolkits if one not in have]):
        yield Finding(
            "TOOLKIT_MISSING", "cuda", f"no toolkit in {listed([f'/usr/local/cuda-{one}' for one in gone])}", "installed", tuple(gone)
        )
        return
    wanted = mapping(case.want["alternatives"]).get("cuda")
    if wanted and have is not None and str(wanted).rpartition("-")[2] in have:
        found_default = text(mapping(case.software.get("alternatives")).get("cuda"))
        if found_default != wanted:
            shown = f"/usr/local/cuda leads to {found_default}" if found_default else "there is no /usr/local/cuda"
            yield Finding("CUDA_DEFAULT", "cuda", shown, str(wanted))
