"""The node program's command line: identity, reach, run, and the verbs that the role uses (start, status, stop, pack).

Exit codes: 0 done · 2 usage, plan, folder or backend (nothing was started) · 3 another process is this run already · 4 stopped by a signal ·
12 we broke.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, Dict, List, Optional, Type

from burnin import __version__
from burnin.node.backends import NAMES, open_backend, read_options
from burnin.node.backends.base import BackendProblem
from burnin.node.host.document import LEVELS
from burnin.node.host.document import host as read_host
from burnin.node.host.reaching import reach
from burnin.node.identity import bare_identity, identity
from burnin.node.lock import hold_lock, stop_asked
from burnin.node.ownership import FolderProblem, check_owner, open_folder
from burnin.node.packing import pack
from burnin.node.plan import Plan, PlanProblem
from burnin.node.plan_file import read_plan
from burnin.node.records import Journal, drop_reserve, hold_reserve
from burnin.node.runner import Runner
from burnin.node.supervise import SuperviseProblem, start, status, stop

USAGE, BUSY, STOPPED, BROKEN = 2, 3, 4, 12


def _say(text: str) -> None:
    sys.stderr.write(f"burnin node: {text}\n")


class _LastWord:
    """Leaves word in the journal when the run ends in an exception: a run that could not go on is evidence too."""

    def __init__(self, out: Path, run_id: str, attempt: int) -> None:
        self._out, self._run_id, self._attempt = out, run_id, attempt

    def __enter__(self) -> None:
        hold_reserve(self._out)

    def __exit__(self, kind: Optional[Type[BaseException]], problem: Optional[BaseException], _trace: Optional[TracebackType]) -> None:
        drop_reserve(self._out)
        if problem is None:
            return
        known = isinstance(problem, (BackendProblem, PlanProblem))
        reason = str(problem) if known else f"{type(problem).__name__}: {problem}"
        try:
            journal = Journal(self._out / "journal.jsonl")
            journal.event("failed", run_id=self._run_id, attempt=self._attempt, reason=reason[:500])
            journal.close()
        except OSError:
            _say("the journal could not be written either")


class _NeverOne:
    """Turns what nobody foresaw into exit code 12, with its traceback: 1 is what Python itself gives for a crash."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Optional[Type[BaseException]], problem: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if isinstance(problem, Exception):
            traceback.print_exception(kind, problem, trace)
            raise SystemExit(BROKEN) from None


def _run(args: argparse.Namespace) -> int:
    plan = read_plan(Path(args.plan))
    options = read_options(Path(args.options) if args.options else None)
    out = open_folder(Path(args.out).resolve())
    lock = hold_lock(out)
    if lock is None:
        _say(f"a run is already going on in {out}; stop it first or wait for it")
        return BUSY
    with lock:
        # Asked only now: a stop that comes later sees the lock, and one that came before has left its mark.
        told = ["burnin stop"] if args.asked is not None and stop_asked(out.parent, args.asked) else []
        return _continue(plan, out, args.backend, options, told)


def _continue(plan: Plan, out: Path, name: str, options: Dict[str, Any], told: List[str]) -> int:
    """What is left of the run; the lock is ours. `told`: who has asked to stop; the run ends before its first load."""
    before = check_owner(out, plan, name)
    if before.finished:
        _say(f"the run in {out} is complete; nothing was done")
        return 0
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: told.append(signal.Signals(number).name))
    attempt = before.attempts + 1
    with _LastWord(out, plan.run_id, attempt):
        runner = Runner(plan, out, open_backend(name, options, out.parent, attempt), attempt, lambda: told[0] if told else None)
        try:
            return 0 if runner.run() else STOPPED
        finally:
            runner.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="burnin node", description="The part of burnin that runs on the node.")
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verb = verbs.add_parser("identity", help="print what this node is, as JSON")
    verb.add_argument("--backend", choices=NAMES, default="nvml")
    verb.add_argument("--options", help="JSON file with the backend's options")
    verb.add_argument("--level", choices=LEVELS, help="also read the machine: bare (no driver needed) or ready (with its software)")
    verb.add_argument("--root", default="/", help="read /sys, /proc, /dev, /etc and /usr below this folder (default: /)")
    verb.add_argument("--software-root", help="read the installed system below this folder (default: as --root)")
    verb.add_argument("--folder", action="append", default=[], help="also say how much space is free here; may be repeated")
    verb = verbs.add_parser("reach", help="say which of these URLs this node can fetch, as JSON")
    verb.add_argument("urls", nargs="*", metavar="URL", help="none: one a line on stdin, where no other user sees them")
    verb.add_argument("--seconds", type=float, default=10.0, help="patience with each (default: 10)")
    verb = verbs.add_parser("run", help="run a plan into a folder; a second call continues at the first start not finished")
    verb.add_argument("--plan", required=True, help="JSON file with schema burnin.plan/1")
    verb.add_argument("--out", required=True, help="folder for the evidence of this one run")
    verb.add_argument("--backend", choices=NAMES, default="nvml")
    verb.add_argument("--options", help="JSON file with the backend's options")
    verb.add_argument("--asked", type=float, help="seconds since the boot when the start was asked for; a stop after that counts")
    for name, text in (
        ("start", "begin a run in the background"),
        ("status", "how it stands"),
        ("stop", "end it"),
        ("pack", "pack its evidence"),
    ):
        verb = verbs.add_parser(name, help=text)
        verb.add_argument("--run-dir", required=True, help="folder with burnin-node.pyz, plan.json, options.json and evidence/")
        verb.add_argument("--backend", choices=NAMES, default="nvml")
        verb.add_argument("--supervisor", choices=("systemd", "process"), default="systemd")
        verb.add_argument("--unit", default="burnin", help="name of the transient systemd unit")
        if name == "start":
            verb.add_argument("--begun", action="store_true", help="it has begun here before: only continue it, never begin anew")
    return parser


def _identity(args: argparse.Namespace) -> Dict[str, Any]:
    """Who this node is; with a level or a root also what machine it is. A bare node is not asked for its driver."""
    level = args.level or ("bare" if args.root != "/" else None)
    host = read_host(level, args.root, args.software_root, args.folder) if level else None
    if host is not None and level == "bare" and args.backend == "nvml":
        return bare_identity(args.backend, host)
    path = Path(args.options) if args.options else None
    try:
        backend = open_backend(args.backend, read_options(path), path.parent if path else Path.cwd(), 0)
    except BackendProblem as problem:
        if host is None:
            raise
        return bare_identity(args.backend, host, str(problem))
    return identity(backend, host)


def _tell(args: argparse.Namespace) -> Dict[str, Any]:
    """What every verb but `run` has to say."""
    if args.verb == "identity":
        return _identity(args)
    if args.verb == "reach":
        return reach(args.urls or sys.stdin.read(1 << 20).split(), args.seconds)
    run = Path(args.run_dir).resolve()
    if args.verb == "start":
        return start(run, args.backend, args.supervisor, args.unit, args.begun)
    if args.verb == "stop":
        return stop(run, args.unit)
    return pack(run, args.backend) if args.verb == "pack" else status(run)


def main(argv: Optional[List[str]] = None) -> int:
    """Run one verb; returns the exit code."""
    args = _parser().parse_args(argv)
    with _NeverOne():
        try:
            if args.verb == "run":
                return _run(args)
            json.dump(_tell(args), sys.stdout, allow_nan=False, sort_keys=True, indent=2 if args.verb in ("identity", "reach") else None)
            sys.stdout.write("\n")
            sys.stdout.flush()
        except (PlanProblem, FolderProblem, BackendProblem, SuperviseProblem) as problem:
            _say(str(problem))
            return USAGE
        except OSError as problem:
            _say(f"{problem}; it ends here, what is on the disk stays")
            return BROKEN
        return 0


if __name__ == "__main__":
    sys.exit(main())
