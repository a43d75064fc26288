"""The lab by hand and for molecule. Exit codes: 0 done · 2 usage · 77 test nodes cannot be made here (one line says why)."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from lab import nodes
from lab.rootfs import Unavailable, root_file_system, say

PROBLEM, SKIPPED = 2, 77


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python tests/lab", description="Test nodes: Debian 12 with systemd and sshd, in containers.")
    parser.add_argument("--lab", default="hand", help="the lab's name; labs do not see each other (default: hand)")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("setup", help="install what the lab needs and build the root file system; nothing is started")
    verb = verbs.add_parser("up", help="make and start nodes")
    verb.add_argument("count", type=int)
    verb.add_argument("--name-prefix", default="lab-n")
    verbs.add_parser("down", help="end all nodes and remove what they left")
    verb = verbs.add_parser("inventory", help="write an Ansible inventory (JSON, which is YAML)")
    verb.add_argument("--out", type=Path, help="the file; default: stdout")
    for name, text in (("off", "pull a node's plug"), ("on", "power it on"), ("unplug", "pull its network cable"), ("plug", "put it back")):
        verbs.add_parser(name, help=text).add_argument("node")
    verb = verbs.add_parser("exec", help="run a program in a node, not over its network")
    verb.add_argument("node")
    verb.add_argument("argv", nargs=argparse.REMAINDER)
    return parser


def _on_a_lab(args: argparse.Namespace) -> int:
    lab = nodes.find(args.lab)
    if lab is None:
        raise nodes.LabProblem(f"there is no lab {args.lab!r}; make one: python tests/lab --lab {args.lab} up 2")
    if args.verb == "inventory":
        text = json.dumps(nodes.inventory(lab), indent=1) + "\n"
        args.out.write_text(text) if args.out else sys.stdout.write(text)
        return 0
    node = lab.node(args.node)
    if args.verb == "exec":
        done = nodes.execute(node, *args.argv[args.argv[:1] == ["--"] :])
        sys.stdout.write(done.stdout)
        sys.stderr.write(done.stderr)
        return done.returncode
    if args.verb == "off":
        nodes.off(node)
    elif args.verb == "on":
        nodes.on(lab, node)
    else:
        nodes.unplug(node, again=args.verb == "plug")
    return 0


def main(argv: list[str]) -> int:
    """Run one verb; returns the exit code."""
    args = _parser().parse_args(argv)
    try:
        if args.verb == "setup":
            root_file_system()
        elif args.verb == "up":
            nodes.up(args.lab, args.count, args.name_prefix)
        elif args.verb == "down":
            nodes.down(args.lab)
        else:
            return _on_a_lab(args)
    except Unavailable as problem:
        say(str(problem))
        return SKIPPED
    except nodes.LabProblem as problem:
        say(str(problem))
        return PROBLEM
    return 0
