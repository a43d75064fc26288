"""The stub packages by hand: `PYTHONPATH=tests python -m lab.packages publish SITE cuda --distro debian12 driver=580.126.09,580.150.02`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lab import catalogue, repository, serving


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab.packages", description="Signed repositories of stub packages.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verb = verbs.add_parser("publish", help="make what is in a repository now; prints JSON")
    verb.add_argument("site", type=Path)
    verb.add_argument("repository", choices=sorted(repository.PLACES))
    verb.add_argument("--distro", default="debian12")
    verb.add_argument("chosen", nargs="*", metavar="THING=BUILD,BUILD", help="default: all; THING alone: all its builds")
    verb = verbs.add_parser("serve", help="the site over HTTP, for a while; prints its URL")
    verb.add_argument("site", type=Path)
    verb.add_argument("--bind", default="127.0.0.1")
    verb.add_argument("--port", type=int, default=0)
    verb.add_argument("--seconds", type=float, default=600)
    verbs.add_parser("list", help="what can be published")
    return parser


def main(argv: list[str]) -> int:
    """Run one verb. Exit codes: 0 done, 2 something that is not there was asked for."""
    args = _parser().parse_args(argv)
    if args.verb == "list":
        for name in repository.PLACES:
            for thing, builds in catalogue.builds(name).items():
                print(f"{name:8} {thing:8} {' '.join(builds)}")
    elif args.verb == "serve":
        serving.serve(args.site, args.bind, args.port, args.seconds)
    else:
        chosen = dict(word.partition("=")[::2] for word in args.chosen)
        known = catalogue.builds(args.repository)
        wanted = {thing: builds.split(",") if builds else known.get(thing, ()) for thing, builds in chosen.items()}
        try:
            print(repository.described(repository.publish(args.site.resolve(), args.repository, args.distro, wanted or None)))
        except ValueError as problem:
            print(problem, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
