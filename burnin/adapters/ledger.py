"""What each host did in a play, kept from Ansible's events as they come; pure.

Ansible's own summary cannot be trusted alone: the recap event may be lost with rc 0 (B45), a host whose death was ignored is counted as
ok, and a play on nobody is a success (B47). So a host is OK only on positive proof, and everything else has a name.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

MAX_MESSAGE_CHARACTERS = 2000
MAX_DETAIL_CHARACTERS = 1000
NOTES_KEPT = 3
SCRUBBED = "***"
FEW_WORDS, DEEPEST = 8, 4
CONTROLLER = "localhost"  # the opening play of each playbook runs there; it is no stranger
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]+")
IS_ERROR = re.compile(r"\[ERROR\]|ERROR!|: error: ")
ENDINGS = {
    "runner_on_ok": "ok",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
    "runner_on_skipped": "skipped",
}


class HostState(StrEnum):
    """How a host came out of a play."""

    OK = "ok"
    FAILED = "failed"
    UNREACHABLE = "unreachable"
    MISSING = "missing"  # no positive proof that it took part and came to the end


@dataclass(frozen=True, slots=True)
class HostResult:
    """`task`: where it failed. `data`: the last `burnin` dict that a task of this host returned. `changed`: tasks that changed anything."""

    host: str
    state: HostState
    task: str | None = None
    message: str = ""
    data: dict[str, object] = field(default_factory=dict)
    changed: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """One step of one host. `state`: start, ok, changed, failed, unreachable, skipped or retry; `ignored`: the play goes on regardless."""

    host: str
    task: str
    state: str
    data: dict[str, object] = field(default_factory=dict)
    message: str = ""
    ignored: bool = False


class Scrubber:
    """Takes secrets and unprintable characters out of what people will read."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # A secret with a quote or a line break stands escaped in JSON and in Python's repr.
        forms = {form for secret in secrets if secret for form in (secret, secret.encode("unicode_escape").decode(), _escaped(secret))}
        self._secrets = re.compile(_any_of(forms)) if forms else None

    def text(self, text: str, limit: int = MAX_MESSAGE_CHARACTERS) -> str:
        """Scrubbed before it is cut, or the cut would leave half a secret."""
        clean = UNPRINTABLE.sub(" ", ANSI.sub("", self._scrub(text))).strip()
        return clean if len(clean) <= limit else f"{clean[: limit - 1]}…"

    def data(self, value: object) -> object:
        if self._secrets is None:
            return value
        if isinstance(value, str):
            return self._scrub(value)
        if isinstance(value, Mapping):
            return {self._scrub(str(key)): self.data(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.data(item) for item in value]
        return value

    def _scrub(self, text: str) -> str:
        return self._secrets.sub(SCRUBBED, text) if self._secrets else text


def _any_of(words: Iterable[str], depth: int = 0) -> str:
    """A pattern for any of these, the longest first: one may hold another. By first letter, or a thousand words would be tried at each place."""
    words = set(words)
    if len(words) <= FEW_WORDS or depth == DEEPEST:
        return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    heads: dict[str, list[str]] = {}
    for word in sorted(words):
        heads.setdefault(word[:1], []).append(word[1:])
    nothing_more = ["" for _ in heads.pop("", [])]
    return "|".join([f"{re.escape(head)}(?:{_any_of(rests, depth + 1)})" for head, rests in heads.items()] + nothing_more)


def _escaped(secret: str) -> str:
    return secret.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")


@dataclass(slots=True)
class _Host:
    done: int = 0
    changed: int = 0
    running: dict[str, str] = field(default_factory=dict)  # uuid -> name of the tasks begun and not ended
    plays: set[str] = field(default_factory=set)
    failed: str | None = None
    went_on: bool = False
    unreachable: str | None = None
    message: str = ""
    data: dict[str, object] = field(default_factory=dict)


class Ledger:
    """Fed with every event of a play, in order; says at the end how each intended host came out."""

    def __init__(self, intended: Iterable[str], secrets: Iterable[str] = ()) -> None:
        self.intended = tuple(intended)
        self.scrub = Scrubber(secrets)
        self._hosts: dict[str, _Host] = {}
        self._stats: Mapping[str, Mapping[str, int]] | None = None
        self._given_up: set[str] = set()
        self._matched_nobody: list[str] = []
        self._errors: deque[str] = deque(maxlen=NOTES_KEPT)
        self._notes: deque[str] = deque(maxlen=NOTES_KEPT)

    @property
    def has_stats(self) -> bool:
        return self._stats is not None

    @property
    def strangers(self) -> tuple[str, ...]:
        """Hosts that took part and were not meant to; the controller may."""
        seen = set(self._hosts) | set((self._stats or {}).get("processed", {}))
        return tuple(sorted(seen - set(self.intended) - {CONTROLLER}))

    def feed(self, raw: Mapping[str, object]) -> Event | None:
        """Takes in one event of ansible-runner; the step of a host that it tells of, if it does."""
        kind, data = str(raw.get("event", "")), raw.get("event_data")
        data = data if isinstance(data, Mapping) else {}
        if kind == "playbook_on_stats":
            self._stats = {key: value for key, value in data.items() if isinstance(value, Mapping)}
        elif kind == "playbook_on_no_hosts_remaining":
            self._given_up.add(str(data.get("play_uuid")))
        elif kind == "playbook_on_no_hosts_matched":
            self._matched_nobody.append(str(data.get("play_pattern") or data.get("play") or "?"))
        elif kind in {"error", "warning", "verbose", "system_warning"}:
            self._note(str(raw.get("stdout", "")))
        elif isinstance(host := data.get("host"), str):
            return self._step(kind, host, data)
        return None

    def results(self, rc: int | None) -> dict[str, HostResult]:
        """The result of every intended host. `rc`: of ansible-playbook; None when it did not end by itself."""
        return {host: self._result(host, rc) for host in self.intended}

    def detail(self) -> str:
        """What Ansible itself had to say, in one line: the controller's own failure, plays on nobody, its last errors."""
        said = []
        if (controller := self._hosts.get(CONTROLLER)) and CONTROLLER not in self.intended and controller.failed and not controller.went_on:
            said.append(f"{CONTROLLER}: {controller.failed}: {controller.message}")
        if self._matched_nobody:
            said.append(f"no host matched {', '.join(self._matched_nobody)}")
        said += self._errors or ([] if self.has_stats else self._notes)
        return self.scrub.text("; ".join(said), MAX_DETAIL_CHARACTERS)

    def _note(self, text: str) -> None:
        if line := self.scrub.text(text, MAX_DETAIL_CHARACTERS):
            (self._errors if IS_ERROR.search(line) else self._notes).append(line)

    def _step(self, kind: str, name: str, data: Mapping[str, object]) -> Event | None:
        host = self._hosts.setdefault(name, _Host())
        host.plays.add(str(data.get("play_uuid")))
        task, uuid, res = self.scrub.text(str(data.get("task") or "?")), str(data.get("task_uuid")), data.get("res")
        res = res if isinstance(res, Mapping) else {}
        found = self._data(res)
        host.data = found or host.data
        if kind == "runner_on_start":
            host.running[uuid], host.went_on = task, host.failed is not None
            return Event(name, task, "start")
        if kind == "runner_retry":
            return Event(name, task, "retry", found, self._message(res))
        if kind not in ENDINGS:
            return None
        host.running.pop(uuid, None)
        ignored = kind == "runner_on_failed" and data.get("ignore_errors") is True
        return self._ending(host, Event(name, task, ENDINGS[kind], found, self._message(res), ignored), res)

    def _ending(self, host: _Host, event: Event, res: Mapping[str, object]) -> Event:
        if event.state == "unreachable" or _any_unreachable(res):
            # For good, also where the play ignored it: a host that was not there has shown nothing (B47).
            host.unreachable, host.message = event.task, event.message
            return event
        if event.state == "skipped":
            return event
        host.done += 1
        if changed := res.get("changed") is True:
            host.changed += 1
        if event.state == "failed" and not event.ignored:
            host.failed, host.message, host.went_on = event.task, event.message, False
        if changed and event.state == "ok":
            return Event(event.host, event.task, "changed", event.data)
        return event if event.state == "failed" else Event(event.host, event.task, event.state, event.data)

    def _data(self, res: Mapping[str, object]) -> dict[str, object]:
        found = self.scrub.data(res.get("burnin"))
        return found if isinstance(found, dict) else {}

    def _message(self, res: Mapping[str, object]) -> str:
        results = res.get("results")
        for item in results if isinstance(results, list) else ():
            if isinstance(item, Mapping) and (item.get("failed") or item.get("unreachable")):
                return self._message(item)
        parts = [str(res[key]) for key in ("msg", "censored") if res.get(key)]
        # A command that failed says only "non-zero return code"; the reason is what it wrote last.
        parts += [str(res[key])[-MAX_DETAIL_CHARACTERS * 10 :] for key in ("stderr", "module_stderr") if res.get(key)]
        return self.scrub.text(": ".join(part for part in parts if part.strip()))

    def _result(self, name: str, rc: int | None) -> HostResult:
        host = self._hosts.get(name) or _Host()
        state, task, message = self._verdict(name, host, rc)
        return HostResult(name, state, task, message, host.data, host.changed)

    def _verdict(self, name: str, host: _Host, rc: int | None) -> tuple[HostState, str | None, str]:
        if host.unreachable or self._count("dark", name):
            return HostState.UNREACHABLE, host.unreachable, host.message or "Ansible could not reach it"
        if self._failed(name, host, rc):
            return HostState.FAILED, host.failed, host.message or "the recap says that it failed; the event that says why was lost"
        if why := self._unproven(name, host, rc):
            return HostState.MISSING, next(iter(host.running.values()), host.failed), why
        return HostState.OK, None, ""

    def _failed(self, name: str, host: _Host, rc: int | None) -> bool:
        """A failure that was rescued is none: the recap knows; without one, rc 0 says so, and of a play cut short we cannot know."""
        if self._stats is not None:
            return self._count("failures", name) > 0
        return host.failed is not None and rc != 0 and not (rc is None and host.went_on)

    def _unproven(self, name: str, host: _Host, rc: int | None) -> str:
        """Why nothing shows that the host took part and came to the end; empty when it is shown.

        `any_errors_fatal` ends a play for all and sends no event that says so: then rc alone keeps the play from being ok.
        """
        running = ", ".join(host.running.values())
        if self._stats is None and rc is None:
            return f"did not finish: it was in '{running}'" if running else "did not finish: the play was cut short"
        if self._stats is None and (rc or running):
            return f"no recap from Ansible (rc {rc}), and no end of '{running}'" if running else f"no recap from Ansible, rc {rc}"
        if not host.plays and not self._count("processed", name):
            return f"it took no part: no host matched {', '.join(self._matched_nobody)}" if self._matched_nobody else "it took no part"
        if not (self._count("ok", name) if self._stats is not None else host.done):
            return "every task was skipped: nothing was shown"
        if host.plays & self._given_up:
            return "the play was given up before this host was done"
        return ""

    def _count(self, what: str, name: str) -> int:
        return int((self._stats or {}).get(what, {}).get(name, 0))


def _any_unreachable(res: Mapping[str, object]) -> bool:
    """Whether a task, or one turn of its loop, found the host gone: `ignore_unreachable` in a loop may still end in a plain ok."""
    results = res.get("results")
    inner = results if isinstance(results, list) else []
    return any(isinstance(one, Mapping) and one.get("unreachable") is True for one in (res, *inner))
