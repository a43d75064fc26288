"""Virtual machines for a molecule scenario, whose platforms say so by `lab: vm`.

python tests/lab/vm_site.py NAME up --platforms FILE --out INVENTORY | down      77: machines cannot be made here

A platform: `name`, `lab: vm`, and of lab.vms.Machine what it wants: `drives` (serial, size_mib), `own_boot`, `qemu`. The group outlives this
program; `down` ends it, and a scenario begins with that.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[1])

from lab import vms  # noqa: E402
from lab.rootfs import Unavailable, say  # noqa: E402

PROBLEM, SKIPPED = 2, 77
NOBODY = 0


def machines(platforms: Iterable[Mapping[str, Any]]) -> list[vms.Machine]:
    """The machines that a scenario asks for. Raises VmProblem about words that no machine has."""
    made = []
    for platform in platforms:
        told = {name: value for name, value in platform.items() if name not in ("lab", "groups", "children")}
        told["drives"] = tuple(vms.Drive(**drive) for drive in told.get("drives", ()))
        told["qemu"] = tuple(told.get("qemu", ()))
        try:
            made.append(vms.Machine(**told))
        except TypeError as problem:
            raise vms.VmProblem(f"platform {platform.get('name')!r}: {problem}") from None
    return made


def main(argv: list[str]) -> int:
    """Run one verb; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python tests/lab/vm_site.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name")
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="start them")
    up.add_argument("--platforms", required=True, help="JSON, as molecule has them")
    up.add_argument("--out", type=Path, required=True, help="the inventory")
    verbs.add_parser("down", help="end them; well, too, where there are none")
    args = parser.parse_args(argv)
    try:
        if args.verb == "down":
            vms.down(args.name)
            return 0
        vms.up(args.name, machines(json.loads(args.platforms)), owner=NOBODY)
        vms.inventory(args.name, args.out)
    except Unavailable as why:
        say(str(why))
        return SKIPPED
    except vms.VmProblem as problem:
        say(str(problem))
        return PROBLEM
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
