"""Reads the tree that dkms keeps below /var/lib/dkms: faster than `dkms status`, and it says when a module was built."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TREE = "var/lib/dkms"
MOST = 200  # builds; a node has a handful


@dataclass(frozen=True)
class Build:
    """One module for one kernel. `built_s`: when its newest file was made, seconds since 1970; `installed`: it is the one that the kernel gets."""

    module: str
    version: str
    kernel: str
    arch: str
    built_s: float
    installed: bool

    @property
    def plain(self) -> dict[str, Any]:
        return asdict(self)


def builds(root: Path = Path("/")) -> list[Build]:
    """All that are built, sorted. A node without dkms has none."""
    found = []
    tree = root / TREE
    for folder in sorted(tree.glob("*/*/*/*/module"))[:MOST]:
        module, version, kernel, arch = folder.relative_to(tree).parts[:4]
        files = list(folder.iterdir())
        if files:
            link = tree / module / f"kernel-{kernel}-{arch}"
            there = link.is_symlink() and str(link.readlink()) == f"{version}/{kernel}/{arch}"
            found.append(Build(module, version, kernel, arch, max(file.stat().st_mtime for file in files), there))
    return found


def stale(found: list[Build], module: str, after: str) -> list[Build]:
    """Builds of `module` that are older than that of `after` for the same kernel: it may be built against symbols that have changed since."""
    newest = {one.kernel: one.built_s for one in found if one.module == after and one.installed}
    return [one for one in found if one.module == module and one.installed and one.built_s < newest.get(one.kernel, 0.0)]
