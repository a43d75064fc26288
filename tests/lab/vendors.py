"""The vendors' side of a lab: a site of stub repositories that its nodes reach, nodes as they come from the factory, and the variables to go with it.

`python tests/lab/vendors.py LAB up --out FILE | publish REPOSITORY THING=BUILD,... | down`: for molecule, whose steps are processes of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from lab import nodes, repository
from lab.nodes import Lab, Node
from lab.repository import Published, publish
from lab.serving import started

DISTRO = "debian12"
SERVED_S = 1800.0  # then the server ends by itself, whatever became of the test
KERNEL = "6.1.0-40-amd64"
# What the vendors have on the day a node is unpacked; `publish` moves on.
FIRST: dict[str, dict[str, tuple[str, ...]]] = {
    "debian": {"kernel": (KERNEL,), "tools": ("1",)},
    "cuda": {"driver": ("580.126.09",), "cuda": ("12.9.1", "13.0.2"), "nccl": ("2.28.3-1+cuda12.9",), "dcgm": ("4.5.2",)},
    "doca": {"doca": ("3.1.0",)},
}
STACK: dict[str, Any] = {
    "driver": {"version": "580.126.09", "flavour": "open"},
    "cuda": {"toolkits": ["12.9.1", "13.0.2"], "default": "12.9.1"},
    "nccl": {"version": "2.28.3", "cuda": "12.9"},
    "ofed": {"kind": "doca", "version": "3.1.0"},
    "dcgm": {"version": "4.5.2"},
}
# On a node when it is unpacked: a kernel without headers, and the tool that makes its initramfs.
FACTORY = (f"linux-image-{KERNEL}", "initramfs-tools")
SOURCE, KEY = "etc/apt/sources.list.d/lab-debian.sources", "etc/apt/keyrings/lab-debian.asc"


def site(lab: Lab) -> Path:
    """Where the repositories of this lab lie."""
    return lab.folder / "site"


def up(lab: Lab) -> dict[str, Any]:
    """Publish, serve, and make the nodes what they are when they are unpacked. Returns the inventory, with `lab_stack` among its variables."""
    published = {name: publish(site(lab), name, DISTRO, chosen) for name, chosen in FIRST.items()}
    bridge = f"198.18.{lab.network}.1"
    url, server = started(site(lab), bridge, SERVED_S, lab.folder / "site.log")
    (lab.folder / "site.pid").write_text(str(server))
    for node in lab.nodes:
        _unpack(node, published["debian"], url)
    told = nodes.inventory(lab)
    told["gpu_nodes"]["vars"] |= variables(published, url)  # type: ignore[index]
    return told


def _unpack(node: Node, debian: Published, url: str) -> None:
    for old in [node.root / "etc/apt/sources.list", *(node.root / "etc/apt/sources.list.d").iterdir()]:
        old.unlink(missing_ok=True)
    (node.root / KEY).parent.mkdir(parents=True, exist_ok=True)
    (node.root / KEY).write_bytes(debian.key.read_bytes())
    (node.root / SOURCE).write_text(debian.deb822(f"/{KEY}", url))
    for argv in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", *FACTORY]):
        done = nodes.execute(node, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", *argv, timeout_s=120)
        if done.returncode:
            raise nodes.LabProblem(f"{node.name}: apt-get {argv[0]}: {done.stdout}{done.stderr}")


def variables(published: Mapping[str, Published], url: str) -> dict[str, Any]:
    """`lab_stack`: a stack of the first builds, with the repositories of this site. `burnin_stack_kernel`: the node's own, not the machine's."""
    overrides = {
        name: {"url": f"{url}/{one.place}/", "key_sha256": one.key_sha256, "key_fingerprint": one.fingerprint}
        for name, one in published.items()
        if name != "debian"
    }
    return {"lab_stack": {**STACK, "repositories": overrides}, "burnin_stack_kernel": KERNEL}


def down(lab: Lab) -> None:
    """End the server of this lab's site; harmless when it has ended."""
    try:
        server = int((lab.folder / "site.pid").read_text())
        if str(site(lab)) in Path(f"/proc/{server}/cmdline").read_text():  # the number may be another process's by now
            os.kill(server, signal.SIGTERM)
    except (FileNotFoundError, ProcessLookupError):
        return


def main(argv: Sequence[str]) -> int:
    """Run one verb. Exit codes: 0 done, 2 no such lab or build."""
    parser = argparse.ArgumentParser(prog="python tests/lab/vendors.py")
    parser.add_argument("lab")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("up").add_argument("--out", type=Path, required=True)
    verbs.add_parser("down")
    verb = verbs.add_parser("publish")
    verb.add_argument("repository", choices=sorted(repository.PLACES))
    verb.add_argument("chosen", nargs="+", metavar="THING=BUILD,BUILD")
    args = parser.parse_args(argv)
    lab = nodes.find(args.lab)
    if lab is None:
        if args.verb == "down":
            return 0
        print(f"there is no lab {args.lab!r}", file=sys.stderr)
        return 2
    if args.verb == "up":
        args.out.write_text(json.dumps(up(lab), indent=1))
    elif args.verb == "down":
        down(lab)
    else:
        later = {thing: builds.split(",") for thing, _, builds in (word.partition("=") for word in args.chosen)}
        publish(site(lab), args.repository, DISTRO, {**FIRST[args.repository], **later})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
