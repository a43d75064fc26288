#!/usr/bin/env python3
"""The second converge of the whole provision.yml on lab nodes: module executions, task results, and its wall time beside 20 plain tasks.

python tests/bench/provision_speed.py [--nodes 4] [--rounds 3]        as root, on Debian 12; exit 0 when all three limits hold
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import measuring  # noqa: E402
from bench.measuring import Cost  # noqa: E402
from lab import nodes, vendors  # noqa: E402

MOST_MODULES, MOST_RESULTS, MOST_RATIO = 15, 60, 1.5


def measure(count: int, rounds: int) -> tuple[Cost, list[float], list[float]]:
    """(a second converge, seconds of each, seconds of each reference play), the two taking turns on the same nodes."""
    name = f"bench-{os.getpid()}"
    lab = nodes.up(name, count)
    try:
        with tempfile.TemporaryDirectory() as folder:
            told = vendors.up(lab)
            told["gpu_nodes"]["vars"] |= variables(told["gpu_nodes"]["vars"].pop("lab_stack"))
            inventory, plain = measuring.prepare(lab, told, Path(folder)), measuring.reference(Path(folder))
            whole = measuring.ROOT / "playbooks/provision.yml"
            first = measuring.play(lab, inventory, whole)
            measuring.play(lab, inventory, plain)
            print(
                f"first converge: {first.seconds:.1f} s, {max(first.modules.values())} module executions a node",
                file=sys.stderr,
                flush=True,
            )
            plays, references = [], []
            for _ in range(rounds):
                references.append(measuring.play(lab, inventory, plain).seconds)
                plays.append(measuring.play(lab, inventory, whole))
            worst = max(plays, key=lambda play: (max(play.modules.values()), max(play.results.values())))
            return worst, [play.seconds for play in plays], references
    finally:
        vendors.down(lab)
        nodes.down(name)


def variables(stack: object) -> dict[str, object]:
    """Of the nodes: everything real but the GPUs."""
    return {
        "burnin_stack": stack, "burnin_sku": "H100-SXM5-80GB", "burnin_run_backend": "sim", "preflight_free_mib": 16, "reboot_look_s": 0.5,
    }  # fmt: skip


def main() -> int:
    """Print the figures; 0 when the limits hold, else 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    worst, plays, references = measure(args.nodes, args.rounds)
    ratio = min(plays) / min(references)
    rows = (
        ("changed tasks, all nodes", sum(worst.changed.values()), 0, "0"),
        ("module executions a node", max(worst.modules.values()), MOST_MODULES, f"{MOST_MODULES}"),
        ("task results a node", max(worst.results.values()), MOST_RESULTS, f"{MOST_RESULTS}"),
        ("wall, of the reference play", ratio, MOST_RATIO, f"{MOST_RATIO} x"),
    )
    print(
        f"{args.nodes} nodes, {args.rounds} rounds; provision.yml {_seconds(plays)}, {measuring.TASKS} plain tasks {_seconds(references)}"
    )
    for what, found, most, told in rows:
        print(f"{'ok  ' if found <= most else 'OVER'}  {what}: {found:.2f} (at most {told})")
    return int(any(found > most for _, found, most, _ in rows))


def _seconds(found: list[float]) -> str:
    return f"{min(found):.1f} s ({', '.join(f'{one:.1f}' for one in found)})"


if __name__ == "__main__":
    sys.exit(main())
