"""The node program's command line: identity, run, and the verbs that the role uses (start, status, stop, pack).

Exit codes: 0 done · 2 usage, plan or backend (nothing was started) · 3 another process is this run already · 4 stopped by a signal · 12 we broke.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

from burnin import __version__
from burnin.node.backends import NAMES, open_backend
from burnin.node.backends.base import BackendProblem
from burnin.node.identity import identity
from burnin.node.plan import PlanProblem, parse_plan
from burnin.node.records import Journal, read_journal
from burnin.node.runner import Runner
from burnin.node.supervise import SuperviseProblem, hold_lock, pack, start, status, stop

USAGE, BUSY, STOPPED, BROKEN = 2, 3, 4, 12


def _options(path: Optional[str]) -> Dict[str, Any]:
    if path is None or not Path(path).exists():
        return {}
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as problem:
        raise BackendProblem(f"options: {path} is not JSON ({problem}); expected one mapping") from None
    if not isinstance(found, dict):
        raise BackendProblem(f"options: {path} holds {type(found).__name__}; expected one mapping")
    return found


def _run(args: argparse.Namespace) -> int:
    try:
        plan = parse_plan(Path(args.plan).read_text(encoding="utf-8"))
    except OSError as problem:
        raise PlanProblem(f"plan: cannot read {args.plan} ({problem.strerror}); give --plan FILE") from None
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    lock = hold_lock(out)
    if lock is None:
        print(f"burnin node: a run is already going on in {out}; stop it first or wait for it", file=sys.stderr)
        return BUSY
    attempt = sum(event["event"] == "run_started" for event in read_journal(out / "journal.jsonl")) + 1
    backend = open_backend(args.backend, _options(args.options), out.parent, attempt)
    told: List[str] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: told.append(signal.Signals(number).name))
    runner = Runner(plan, out, backend, attempt, lambda: told[0] if told else None)
    try:
        return 0 if runner.run() else STOPPED
    finally:
        runner.close()
        lock.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="burnin node", description="The part of burnin that runs on the node.")
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verb = verbs.add_parser("identity", help="print what this node is, as JSON")
    verb.add_argument("--backend", choices=NAMES, default="nvml")
    verb.add_argument("--options", help="JSON file with the backend's options")
    verb = verbs.add_parser("run", help="run a plan into a folder; a second call continues at the first start not finished")
    verb.add_argument("--plan", required=True)
    verb.add_argument("--out", required=True)
    verb.add_argument("--backend", choices=NAMES, default="nvml")
    verb.add_argument("--options")
    for name, text in (
        ("start", "begin a run in the background"),
        ("status", "how it stands"),
        ("stop", "end it"),
        ("pack", "pack its evidence"),
    ):
        verb = verbs.add_parser(name, help=text)
        verb.add_argument("--run-dir", required=True)
        verb.add_argument("--backend", choices=NAMES, default="nvml")
        verb.add_argument("--supervisor", choices=("systemd", "process"), default="systemd")
        verb.add_argument("--unit", default="burnin")
    return parser


def _act(args: argparse.Namespace) -> Dict[str, Any]:
    run = Path(args.run_dir)
    if args.verb == "start":
        return start(run, args.backend, args.supervisor, args.unit)
    if args.verb == "stop":
        return stop(run, args.unit)
    return pack(run, args.backend) if args.verb == "pack" else status(run)


def _failed(args: argparse.Namespace, reason: str) -> None:
    """Leave word in the journal: a run that could not go on is evidence too. Best effort: the disk itself may be the reason."""
    if args.verb == "run" and Path(args.out).is_dir():
        try:
            journal = Journal(Path(args.out) / "journal.jsonl")
            journal.event("failed", reason=reason[:500])
            journal.close()
        except OSError:
            print("burnin node: the journal could not be written either", file=sys.stderr)


def main(argv: Optional[List[str]] = None) -> int:
    """Run one verb; returns the exit code."""
    args = _parser().parse_args(argv)
    try:
        if args.verb == "run":
            return _run(args)
        if args.verb == "identity":
            document = identity(open_backend(args.backend, _options(args.options), Path.cwd(), 0))
        else:
            document = _act(args)
    except (PlanProblem, BackendProblem, SuperviseProblem) as problem:
        _failed(args, str(problem))
        print(f"burnin node: {problem}", file=sys.stderr)
        return USAGE
    except OSError as problem:
        _failed(args, f"{type(problem).__name__}: {problem}")
        print(f"burnin node: {problem}; the run ends here, what is on the disk stays", file=sys.stderr)
        return BROKEN
    json.dump(document, sys.stdout, allow_nan=False, sort_keys=True, indent=None if args.verb != "identity" else 2)
    sys.stdout.write("\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
