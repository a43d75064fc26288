"""The one wrapper round ansible-runner: one play on named hosts, and what became of each of them.

    play(PlayRequest(...)) -> PlayResult        list_hosts(project, inventory) -> Inventory

Why not `ansible_runner.run`: it replaces the caller's signal handlers and leaves them replaced, writes env/ files that the next call picks
up, lets any environment variable through, turns host key checking off, and counts a play on nobody as a success (field reports B44 to B49).
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Literal

import pexpect
from ansible_runner import AnsibleRunnerException, Runner, RunnerConfig

from burnin.adapters import processes
from burnin.adapters.ansible_env import Workplace, environment, program, remove_leavings, workplace
from burnin.adapters.inventory import Inventory, inventory_sources, list_hosts
from burnin.adapters.ledger import CONTROLLER, Event, HostResult, HostState, Ledger
from burnin.errors import BrokenError, InventoryError, UsageError

__all__ = ["Event", "HostResult", "HostState", "Inventory", "PlayRequest", "PlayResult", "list_hosts", "play"]

Status = Literal["finished", "cancelled", "timeout", "broken"]

LOOK_S = 0.2  # how often we ask whether to stop
# What the runner adds to an environment that its callback needs; all else of what it adds is left out.
RUNNER_KEYS = (
    "ANSIBLE_CALLBACK_PLUGINS", "ANSIBLE_STDOUT_CALLBACK", "ANSIBLE_RETRY_FILES_ENABLED", "AWX_ISOLATED_DATA_DIR",
    "RUNNER_OMIT_EVENTS", "RUNNER_ONLY_FAILED_EVENTS",
)  # fmt: skip
# They ask a question on a terminal that nobody sees.
ASKING = re.compile(r"-[bCDv]*[kKJ]|--ask-.+|--step")
FAULTS = (pexpect.ExceptionPexpect, AnsibleRunnerException, OSError, ValueError, LookupError, TypeError)


@dataclass(frozen=True, slots=True)
class PlayRequest:
    """One play.

    `hosts`: exactly those it runs on, and localhost for its opening checks. `limit`: the person's --limit that `hosts` came from; it is
    not applied again, since `--limit n1` makes Ansible pass over the opening checks on localhost without a word. `secrets`: values to take
    out of every message and datum. `ansible_args`: further arguments of ansible-playbook, verbatim. `work_base`: where the private folder
    is made.
    """

    project: Path
    playbook: str
    inventory: tuple[Path | str, ...]
    hosts: tuple[str, ...]
    limit: str | None = None
    extravars: Mapping[str, object] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    timeout_s: float | None = None
    forks: int = 32
    check: bool = False
    ansible_args: tuple[str, ...] = field(default=(), repr=False)
    work_base: Path | None = None
    envvars: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class PlayResult:
    """`rc`: of ansible-playbook, None when it did not end by itself. `hosts`: every intended host, exactly. `detail`: for a person."""

    status: Status
    rc: int | None
    hosts: dict[str, HostResult]
    strangers: tuple[str, ...] = ()
    detail: str = ""

    @property
    def ok(self) -> bool:
        """Ended by itself, without a complaint, and every intended host is shown to have done its part."""
        shown = bool(self.hosts) and all(host.state is HostState.OK for host in self.hosts.values())
        return self.status == "finished" and self.rc == 0 and shown and not self.strangers


def play(
    request: PlayRequest, *, on_event: Callable[[Event], None] | None = None, cancelled: Callable[[], bool] = lambda: False
) -> PlayResult:
    """Run one playbook to its end, to its time limit or until `cancelled`; afterwards no process and no file of it is left.

    Ctrl-C and SIGTERM cancel it, where the caller has no handlers of its own. Raises InventoryError and UsageError before anything is
    touched; BrokenError when `on_event` or `cancelled` raised, which also ends the play.
    """
    sources = _check(request)
    with _stop_signals() as interrupted:
        with workplace(request.work_base) as place:
            watch = _Watch(request, place, on_event or (lambda _event: None), lambda: interrupted() or cancelled())
            try:
                rc, fault = _run(request, sources, place, watch)
            finally:
                watch.end(all_of_it=watch.cut_short)
        if watch.guard.error is not None:
            raise BrokenError(
                f"{request.playbook}: a handler of ours failed: {watch.guard.error!r}; the play was ended"
            ) from watch.guard.error
        return _result(watch, rc, [*fault, *(f"process {number} would not die" for number in sorted(watch.left))], interrupted())


class _Guard:
    """Keeps what a caller's code raised, whatever that was: inside the runner it would be swallowed (OSError) or leave the play alive."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False
        self.error = self.error or error
        return True


class _Watch:
    """Sits between the runner and the ledger, and decides when to stop."""

    def __init__(self, request: PlayRequest, place: Workplace, on_event: Callable[[Event], None], cancelled: Callable[[], bool]) -> None:
        self.ledger = Ledger(request.hosts, request.secrets)
        self.guard = _Guard()
        self.left: frozenset[int] = frozenset()
        self.reason: Status | None = None
        self.ended = False  # ansible-playbook ended by itself
        self._place, self._on_event, self._cancelled = place, on_event, cancelled
        self._timeout_s = request.timeout_s
        self._deadline_s = time.monotonic() + request.timeout_s if request.timeout_s is not None else None

    @property
    def cut_short(self) -> bool:
        return not self.ended or self.reason is not None

    def event(self, raw: Mapping[str, object]) -> bool:
        """The runner's event handler. False: the runner shall keep no file per event (B57); all we need is in the ledger (B45)."""
        event = self.ledger.feed(raw)
        if event is not None and self.guard.error is None:
            with self.guard:
                self._on_event(event)
        return False

    def stop(self) -> bool:
        """The runner's cancel callback, several times a second. Ends all processes itself: the runner would miss most of them (B44)."""
        if self.reason is None:
            with self.guard:
                self.reason = self._why()
            if self.guard.error is not None:
                self.reason = "broken"
        if self.reason is not None:
            self.end(all_of_it=True)
        return self.reason is not None

    def end(self, *, all_of_it: bool) -> None:
        """Leave no process of the play, nor what those which were killed could not clean up.

        Not `all_of_it`: only ssh's masters, which outlive every play, and whose sockets are about to go. A load that a finished play left
        behind was meant to stay.
        """
        ended = processes.end(mark=self._place.mark if all_of_it else "", naming=str(self._place.sockets))
        self.left = ended.left
        remove_leavings(ended.numbers)

    def _why(self) -> Status | None:
        if self._cancelled():
            return "cancelled"
        if self._deadline_s is not None and time.monotonic() > self._deadline_s:
            return "timeout"
        return None

    def words(self) -> list[str]:
        return {"cancelled": ["stopped by a person"], "timeout": [f"not done within {self._timeout_s} s"]}.get(self.reason or "", [])


def _check(request: PlayRequest) -> list[str]:
    """Everything that can be wrong before the first process starts; the inventory's sources."""
    if not request.hosts:
        raise InventoryError(f"{request.playbook}: no hosts to play on; expected at least one, is the group empty?")
    if asking := [word for word in request.ansible_args if ASKING.fullmatch(word)]:
        raise UsageError(
            f"{asking[0]}: would ask a question that nobody sees; use --connection-password-file, --become-password-file or a vault file"
        )
    for path in (request.project / "ansible.cfg", _playbook(request)):
        if not path.is_file():
            raise BrokenError(f"{path}: is not there; is {request.project} the project's folder?")
    return inventory_sources(request.inventory)


def _playbook(request: PlayRequest) -> Path:
    return (request.project / "playbooks" / request.playbook).absolute()  # an absolute playbook wins over what stands before it


def _run(request: PlayRequest, sources: list[str], place: Workplace, watch: _Watch) -> tuple[int | None, list[str]]:
    """rc of ansible-playbook and what broke in the runner."""
    try:
        runner = Runner(_config(request, sources, place), event_handler=watch.event, cancel_callback=watch.stop)
        runner.run()
    except FAULTS as error:
        return None, [watch.ledger.scrub.text(f"ansible-runner: {type(error).__name__}: {str(error).partition(chr(10))[0]}", 300)]
    watch.ended = watch.reason is None and runner.rc is not None
    return (runner.rc if watch.ended else None), ([] if runner.rc is not None else ["ansible-playbook was killed by someone else"])


def _config(request: PlayRequest, sources: list[str], place: Workplace) -> Any:
    """The runner's own configuration, with the environment replaced by ours."""
    env = environment(place, request.project.absolute(), request.envvars)
    if request.extravars:
        place.write("env/extravars", json.dumps(dict(request.extravars)))
    place.write("env/settings", json.dumps({"pexpect_timeout": LOOK_S, "suppress_output_file": True}))
    limit = place.write("hosts", "\n".join([*request.hosts, CONTROLLER]))
    config = RunnerConfig(
        private_data_dir=str(place.folder),
        project_dir=str(request.project.absolute()),
        playbook=str(_playbook(request)),
        inventory=sources,
        limit=f"@{limit}",
        forks=request.forks,
        cmdline=shlex.join([*request.ansible_args, *(["--check"] if request.check else [])]) or None,
        envvars={"ANSIBLE_CALLBACK_PLUGINS": "", "AWX_LIB_DIRECTORY": ""},
        fact_cache_type="memory",
        ident=place.ident,
        quiet=True,
    )
    config.prepare()
    config.command[0] = str(program("ansible-playbook"))
    config.env = env | {name: config.env[name] for name in RUNNER_KEYS}
    return config


def _result(watch: _Watch, rc: int | None, faults: list[str], interrupted: bool) -> PlayResult:
    ledger = watch.ledger
    status: Status = watch.reason or "finished"
    if status == "finished" and (faults or ledger.strangers or (rc and not ledger.has_stats)):
        status = "broken"
    if status == "finished" and interrupted:
        status = "cancelled"  # a Ctrl-C that came at the very end is not lost
    faults += [f"not meant to take part, but did: {', '.join(ledger.strangers)}"] if ledger.strangers else []
    faults += [f"ansible-playbook ended with {rc}, without a recap"] if status == "broken" and rc and not ledger.has_stats else []
    detail = "; ".join(part for part in (*watch.words(), *faults, ledger.detail()) if part)
    return PlayResult(status, rc, ledger.results(rc), ledger.strangers, detail)


@contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C or SIGTERM came. The handlers are as before afterwards.

    Only Python's own handlers are replaced: who set others passes `cancelled`, and a signal ignored (nohup) stays ignored. Off the main
    thread none can be set.
    """
    came = threading.Event()

    def note(_number: int, _frame: FrameType | None) -> None:
        came.set()

    defaults = {signal.SIGINT: (signal.default_int_handler, signal.SIG_DFL), signal.SIGTERM: (signal.SIG_DFL,)}
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: handler for number, usual in defaults.items() if (handler := signal.getsignal(number)) in usual}
    try:
        for number in before:
            signal.signal(number, note)
        yield came.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
