"""What goes wrong round ansible-runner (field reports B44, B45, B47 to B50, B56, X9, X10): each with the real runner and a tiny playbook."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pexpect
import pytest
from ansible_runner.runner import Runner

from burnin.adapters import ansible, processes
from burnin.adapters.ansible import Event, HostState, PlayRequest, PlayResult, list_hosts, play
from burnin.adapters.ansible_env import MARK
from burnin.errors import BrokenError, InventoryError, UsageError

ROOT = Path(__file__).resolve().parents[2]
OK, FAILED, UNREACHABLE, MISSING = HostState.OK, HostState.FAILED, HostState.UNREACHABLE, HostState.MISSING
CONFIG = "[defaults]\nlibrary = plugins/modules\ngathering = explicit\nretry_files_enabled = false\n[ssh_connection]\npipelining = {pipelining}\n"
TELL = """
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec={"burnin": {"type": "dict"}, "filler": {"type": "int", "default": 0}, "fail": {"type": "str"}})
if module.params["fail"]:
    module.fail_json(msg=module.params["fail"] + "y" * module.params["filler"], burnin=module.params["burnin"])
module.exit_json(burnin=module.params["burnin"], filler="x" * module.params["filler"])
"""
# A load as bad loads are: one child in the worker's session, and one in a session of its own, without a parent.
LOAD = "setsid -f sleep {daemon} </dev/null >/dev/null 2>&1; sleep {child}"


@dataclass
class Rack:
    """A project and an inventory in a folder; every play's private folder is made under `work`, where nothing may be left."""

    root: Path
    hosts: tuple[str, ...] = ("n1", "n2", "n3")
    seen: list[Event] = field(default_factory=list)

    @property
    def work(self) -> Path:
        return self.root / "work"

    def playbook(self, text: str, name: str = "play.yml") -> str:
        (self.root / "playbooks" / name).write_text(textwrap.dedent(text), encoding="utf-8")
        return name

    def inventory(self, hosts: dict[str, dict[str, Any]] | None = None, name: str = "rack.yml") -> Path:
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        everyone = hosts if hosts is not None else plain(self.hosts)
        entries = {host: local | given for host, given in everyone.items()}
        path = self.root / name
        path.write_text(json.dumps({"all": {"children": {"gpu_nodes": {"hosts": entries}}}}), encoding="utf-8")
        return path

    def script(self, hosts: tuple[str, ...]) -> Path:
        """An inventory script: the only way to have names that a YAML inventory reads as ranges."""
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        document = {"gpu_nodes": {"hosts": list(hosts)}, "_meta": {"hostvars": dict.fromkeys(hosts, local)}}
        path = self.root / "rack.py"
        path.write_text(f"#!{sys.executable}\nprint({json.dumps(json.dumps(document))})\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    def request(self, playbook: str, **given: Any) -> PlayRequest:
        given.setdefault("inventory", None)
        inventory = given.pop("inventory") or self.inventory()
        defaults: dict[str, Any] = {"hosts": self.hosts, "work_base": self.work, "forks": 6}
        return PlayRequest(project=self.root, playbook=playbook, inventory=(inventory,), **(defaults | given))

    def play(self, playbook: str, **given: Any) -> PlayResult:
        return play(self.request(playbook, **given), on_event=self.seen.append)

    def tasks(self, tasks: str, **given: Any) -> PlayResult:
        """One play on gpu_nodes with these tasks."""
        body = textwrap.indent(textwrap.dedent(tasks).strip("\n"), "    ")
        return self.play(self.playbook(f"- hosts: gpu_nodes\n  tasks:\n{body}\n"), **given)


@pytest.fixture
def rack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Rack]:
    """After every test: no file, no process, no word on the terminal, and the signal handlers of before."""
    for folder in ("playbooks", "plugins/modules", "work", "home"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "ansible.cfg").write_text(CONFIG.format(pipelining="true"))
    (tmp_path / "plugins/modules/tell.py").write_text(TELL)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield Rack(tmp_path)
    assert list((tmp_path / "work").iterdir()) == []
    assert marked() == set()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert capfd.readouterr() == ("", "")


def plain(hosts: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    return {host: {} for host in hosts}


def marked() -> set[int]:
    """Processes of any play of this test: they have its home and the mark."""
    home, found = f"HOME={os.environ['HOME']}".encode(), set()
    for entry in Path("/proc").iterdir():
        variables = _read(entry / "environ").split(b"\0") if entry.name.isdigit() else []
        if home in variables and any(one.startswith(f"{MARK}=".encode()) for one in variables):
            found.add(int(entry.name))
    return found


def living(text: str) -> list[str]:
    return [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit() and text.encode() in _read(entry / "cmdline")]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def states(result: PlayResult) -> dict[str, HostState]:
    return {name: host.state for name, host in result.hosts.items()}


def unique_s() -> str:
    """A time to sleep that no other process sleeps."""
    return f"4{time.monotonic_ns() % 10**9}"


# What is good


def test_a_good_play(rack: Rack) -> None:
    result = rack.tasks("- {name: Tell, tell: {burnin: {who: '{{ inventory_hostname }}', beat: 3}}}\n- command: echo hi")

    assert result.ok
    assert (result.status, result.rc, result.strangers, result.detail) == ("finished", 0, (), "")
    assert states(result) == {"n1": OK, "n2": OK, "n3": OK}
    assert result.hosts["n2"].data == {"who": "n2", "beat": 3}
    assert result.hosts["n2"].changed == 1
    steps = [(event.task, event.state) for event in rack.seen if event.host == "n1"]
    assert steps == [("Tell", "start"), ("Tell", "ok"), ("command", "start"), ("command", "changed")]
    assert [event.data["who"] for event in rack.seen if event.state == "ok" and event.host == "n3"] == ["n3"]


def test_only_the_intended_hosts_are_played_on_and_the_opening_check_on_localhost_runs(rack: Rack) -> None:
    """With `--limit n2` alone Ansible passes over a play on localhost, and says rc 0."""
    rack.playbook(
        """
        - hosts: localhost
          connection: local
          tasks: [{name: Guard, assert: {that: "'n1' in groups['gpu_nodes']", quiet: true}}]
        - hosts: gpu_nodes
          tasks: [{debug: }]
        """
    )

    result = rack.play("play.yml", hosts=("n2",), limit="n2")

    assert result.ok
    assert {(event.host, event.task) for event in rack.seen if event.state == "ok"} == {("localhost", "Guard"), ("n2", "debug")}


def test_relative_paths_and_an_absolute_playbook(rack: Rack, monkeypatch: pytest.MonkeyPatch) -> None:
    rack.playbook("- hosts: gpu_nodes\n  tasks: [{debug: }]\n")
    rack.inventory()
    (rack.root / "elsewhere").mkdir()
    monkeypatch.chdir(rack.root / "elsewhere")
    given: dict[str, Any] = {"inventory": ("../rack.yml",), "hosts": ("n1",), "work_base": Path("../work")}

    assert play(PlayRequest(project=Path(".."), playbook=str(rack.root / "playbooks/play.yml"), **given)).ok
    assert sorted(list_hosts(Path(".."), ["../rack.yml"], work_base=Path("../work")).hosts) == ["n1", "n2", "n3"]


def test_odd_names_come_through_unchanged(rack: Rack) -> None:
    names = ("2001:db8::17", "gpu node-01", "[C4]:AA-BB-11:FR22", "Ünï-01", "<b>n", "=1+1", "&x", "~x", "GPU-01", "gpu-01")
    script = rack.script(names)

    result = rack.tasks("- debug:", inventory=script, hosts=names)

    assert set(list_hosts(rack.root, [script], work_base=rack.work).hosts) == set(names)
    assert result.ok, result.detail
    assert tuple(result.hosts) == names
    assert {event.host for event in rack.seen} == set(names)


def test_the_environment_cannot_change_what_a_play_means(rack: Rack, monkeypatch: pytest.MonkeyPatch) -> None:
    """ANSIBLE_SKIP_TAGS skips checks, a JOB_ID that is no number breaks every event, LC_ALL=C keeps Ansible from starting."""
    spoilt = {"ANSIBLE_SKIP_TAGS": "check", "ANSIBLE_CONFIG": "/nowhere", "ANSIBLE_LOG_PATH": str(rack.root / "log"), "LC_ALL": "C"}
    spoilt |= {"JOB_ID": "rack-17", "ANSIBLE_STDOUT_CALLBACK": "minimal", "AWX_LIB_DIRECTORY": "/nowhere", "RUNNER_OMIT_EVENTS": "true"}
    for name, value in spoilt.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ANSIBLE_REMOTE_USER", "me")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    config = "lookup('ansible.builtin.config', '{}')"

    result = rack.tasks(
        f"""
        - {{name: Check, tags: check, tell: {{burnin: {{agent: "{{{{ lookup('env', 'SSH_AUTH_SOCK') }}}}", more: "{{{{ lookup('env', 'MORE') }}}}"}}}}}}
        - assert: {{that: ["{config.format("HOST_KEY_CHECKING")}", "{config.format("DEFAULT_REMOTE_USER")} == 'me'"]}}
        """,
        envvars={"MORE": "given"},
        hosts=("n1",),
    )

    assert result.ok, result
    assert result.hosts["n1"].data == {"agent": "/run/agent", "more": "given"}
    assert not (rack.root / "log").exists()


# B47: nobody ran, or the host was dead


def test_a_dead_host_is_unreachable_and_the_others_are_not_lost(rack: Rack) -> None:
    result = rack.tasks("- command: echo hi\n- tell: {burnin: {n: 1}}", inventory=_one_dead(rack))

    assert states(result) == {"n1": OK, "n2": UNREACHABLE, "n3": OK}
    assert (result.status, result.rc, result.ok) == ("finished", 4, False)
    assert "refused" in result.hosts["n2"].message
    assert result.hosts["n3"].data == {"n": 1}


@pytest.mark.parametrize("loop", ["", "loop: [a, b]"], ids=["plain", "in a loop"])
def test_a_dead_host_that_the_play_ignores_is_still_unreachable(rack: Rack, loop: str) -> None:
    result = rack.tasks(f"- command: echo hi\n  ignore_unreachable: true\n  {loop}\n- debug:", inventory=_one_dead(rack))

    assert states(result) == {"n1": OK, "n2": UNREACHABLE, "n3": OK}
    assert result.rc == 0  # what Ansible makes of it
    assert not result.ok


def _one_dead(rack: Rack) -> Path:
    """n2 is behind an ssh that finds nobody there; a script, since a bare machine has no ssh."""
    ssh = rack.root / "ssh"
    ssh.write_text("#!/bin/sh\necho 'ssh: connect to host 127.0.0.1 port 1: Connection refused' >&2\nexit 255\n")
    ssh.chmod(0o755)
    dead = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_ssh_executable": str(ssh)}
    return rack.inventory({"n1": {}, "n2": dead, "n3": {}})


def test_a_play_on_nobody_is_no_success(rack: Rack) -> None:
    result = rack.play(rack.playbook("- hosts: gpu_nodse\n  tasks: [{debug: }]\n"))

    assert states(result) == {"n1": MISSING, "n2": MISSING, "n3": MISSING}
    assert (result.rc, result.ok) == (0, False)  # what Ansible makes of it, and what we make of it
    assert "no host matched gpu_nodse" in result.detail


def test_a_host_that_the_inventory_does_not_know_is_missing(rack: Rack) -> None:
    result = rack.tasks("- debug:", hosts=("n1", "n9"))

    assert states(result) == {"n1": OK, "n9": MISSING}
    assert result.hosts["n9"].message == "it took no part"
    assert not result.ok


def test_a_host_that_was_not_meant_breaks_the_play(rack: Rack) -> None:
    rack.playbook("- hosts: gpu_nodes\n  tasks: [{add_host: {name: n9}}]\n- hosts: n9\n  connection: local\n  tasks: [{debug: }]\n")

    result = rack.play("play.yml", ansible_args=("-e", f"ansible_python_interpreter={sys.executable}"), hosts=("n1",))
    assert result.ok  # the limit keeps n9 out

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ansible, "CONTROLLER", "localhost\nn2")
        result = rack.tasks("- debug:", hosts=("n1",))
    assert (result.status, result.strangers, result.ok) == ("broken", ("n2",), False)


def test_a_host_whose_tasks_were_all_skipped_has_shown_nothing(rack: Rack) -> None:
    result = rack.tasks("- debug:\n  when: inventory_hostname != 'n2'")

    assert states(result) == {"n1": OK, "n2": MISSING, "n3": OK}
    assert "skipped" in result.hosts["n2"].message


def test_a_guard_on_localhost_that_fails_is_told(rack: Rack) -> None:
    rack.playbook(
        """
        - hosts: localhost
          connection: local
          tasks: [{name: Guard, assert: {that: false, fail_msg: the group is empty}}]
        - hosts: gpu_nodes
          tasks: [{debug: }]
        """
    )

    result = rack.play("play.yml")

    assert set(states(result).values()) == {MISSING}
    assert result.detail == "localhost: Guard: the group is empty"


# X9: failures that are none, and some that are


def test_rescued_ignored_and_real_failures(rack: Rack) -> None:
    result = rack.tasks(
        """
        - name: Rescued
          block: [{tell: {fail: first}, when: inventory_hostname == 'n1'}]
          rescue: [{debug: }]
        - {name: Ignored, tell: {fail: second}, when: inventory_hostname == 'n2', ignore_errors: true}
        - {name: Real, tell: {fail: "third\\x1b[31m", burnin: {gpu: 5}}, when: inventory_hostname == 'n3'}
        - debug:
        """
    )

    assert states(result) == {"n1": OK, "n2": OK, "n3": FAILED}
    assert (result.hosts["n3"].task, result.hosts["n3"].message, result.hosts["n3"].data) == ("Real", "third", {"gpu": 5})
    assert [(event.host, event.ignored) for event in rack.seen if event.state == "failed"] == [("n1", False), ("n2", True), ("n3", False)]


def test_hosts_of_a_play_that_was_given_up_are_not_ok(rack: Rack) -> None:
    rack.playbook(
        """
        - hosts: gpu_nodes
          max_fail_percentage: 0
          tasks:
            - debug:
            - {fail: , when: inventory_hostname == 'n2'}
            - debug:
        """
    )

    assert states(rack.play("play.yml")) == {"n1": MISSING, "n2": FAILED, "n3": MISSING}


# B45: the recap, and what comes through the handler


def test_without_a_recap_a_complete_ledger_is_enough(rack: Rack, monkeypatch: pytest.MonkeyPatch) -> None:
    _lose(monkeypatch, "playbook_on_stats")

    assert rack.tasks("- debug:").ok


def test_without_a_recap_a_host_with_an_open_task_is_missing(rack: Rack, monkeypatch: pytest.MonkeyPatch) -> None:
    _lose(monkeypatch, "playbook_on_stats", "runner_on_ok:n2:Second")

    result = rack.tasks("- debug:\n- {name: Second, debug: }")

    assert "no end of 'Second'" in result.hosts["n2"].message
    assert states(result) == {"n1": OK, "n2": MISSING, "n3": OK}
    assert not result.ok


def test_without_a_recap_a_failure_keeps_the_others_from_being_ok(rack: Rack, monkeypatch: pytest.MonkeyPatch) -> None:
    _lose(monkeypatch, "playbook_on_stats")

    result = rack.tasks("- {tell: {fail: bad}, when: inventory_hostname == 'n2'}\n- debug:")

    assert states(result) == {"n1": MISSING, "n2": FAILED, "n3": MISSING}
    assert result.status == "broken"


def test_with_a_recap_a_lost_failure_is_still_a_failure(rack: Rack, monkeypatch: pytest.MonkeyPatch) -> None:
    _lose(monkeypatch, "runner_on_failed:n2")

    assert states(rack.tasks("- {tell: {fail: bad}, when: inventory_hostname == 'n2'}\n- debug:")) == {"n1": OK, "n2": FAILED, "n3": OK}


def _lose(monkeypatch: pytest.MonkeyPatch, *kinds: str) -> None:
    """These events never arrive, as after the races of ansible-runner#1330 and #1343."""
    arrive = Runner.event_callback

    def some_arrive(self: Any, raw: dict[str, Any]) -> None:
        partial = Path(self.config.artifact_dir, "job_events", f"{raw.get('uuid')}-partial.json")
        told = json.loads(partial.read_text()) if partial.exists() else {}
        data = told.get("event_data", {})
        parts = [str(part) for part in (told.get("event"), data.get("host"), data.get("task"))]
        names = {":".join(parts[:count]) for count in (1, 2, 3)}
        if not names & set(kinds):
            arrive(self, raw)

    monkeypatch.setattr(Runner, "event_callback", some_arrive)


@pytest.mark.parametrize("error", [pexpect.TIMEOUT("late"), ValueError("half an event")], ids=lambda error: type(error).__name__)
def test_what_breaks_inside_the_runner_is_a_broken_play_and_no_traceback(
    rack: Rack, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    expect = pexpect.spawn.expect

    def last_look_breaks(self: Any, pattern: Any, *args: Any, **options: Any) -> Any:
        if pattern is pexpect.EOF:
            raise error
        return expect(self, pattern, *args, **options)

    monkeypatch.setattr(pexpect.spawn, "expect", last_look_breaks)

    result = rack.tasks("- debug:")

    assert (result.status, result.ok, result.rc) == ("broken", False, None)
    assert type(error).__name__ in result.detail
    assert tuple(result.hosts) == rack.hosts


def test_a_playbook_that_ansible_cannot_read_is_broken_with_the_reason(rack: Rack) -> None:
    result = rack.play(rack.playbook("- hosts: gpu_nodes\n  taskss: []\n"))

    assert result.status == "broken"
    assert "'taskss' is not a valid attribute" in result.detail


def test_ansible_that_someone_kills_is_broken_and_its_load_is_dead(rack: Rack) -> None:
    nap = unique_s()

    def kill(event: Event) -> None:
        if event.state == "start":
            time.sleep(1)  # until the load is up
            for pid in living("ansible-playbook"):
                if (
                    pid in {str(number) for number in marked()}
                    and _read(Path("/proc", pid, "stat")).split()[3] == str(os.getpid()).encode()
                ):
                    os.kill(int(pid), signal.SIGKILL)

    playbook = rack.playbook(f"- hosts: gpu_nodes\n  tasks: [{{command: sleep {nap}}}]\n")
    result = play(rack.request(playbook, hosts=("n1",)), on_event=kill)

    assert (result.status, result.rc, states(result)) == ("broken", None, {"n1": MISSING})
    assert living(nap) == []


@pytest.mark.parametrize("error", [RuntimeError("no more paper"), OSError(28, "No space left on device")], ids=["RuntimeError", "OSError"])
def test_a_handler_that_raises_ends_the_play_and_is_our_fault(rack: Rack, error: Exception) -> None:
    """An OSError above all: the runner swallows it."""
    nap = unique_s()

    def handler(_event: Event) -> None:
        raise error

    playbook = rack.playbook(f"- hosts: gpu_nodes\n  tasks: [{{command: sleep {nap}}}]\n")
    with pytest.raises(BrokenError) as caught:
        play(rack.request(playbook), on_event=handler)

    assert caught.value.exit_code == 12
    assert caught.value.__cause__ is error
    assert living(nap) == []


# B44: stopping


@pytest.mark.parametrize("way", ["timeout", "cancelled"])
def test_a_play_cut_short_leaves_no_process(rack: Rack, way: str) -> None:
    """The load of a worker, and one that made itself a session and lost its parent."""
    daemon, child = unique_s(), unique_s()
    seen: list[bool] = []

    def cancelled() -> bool:
        seen.append(bool(living(daemon) and living(child)))
        return way == "cancelled" and seen[-1]

    playbook = rack.playbook(
        f"- hosts: gpu_nodes\n  tasks: [{{debug: }}, {{name: Load, shell: '{LOAD.format(daemon=daemon, child=child)}'}}]\n"
    )
    result = play(rack.request(playbook, hosts=("n1", "n2"), timeout_s=5 if way == "timeout" else None), cancelled=cancelled)

    assert any(seen), "the load never ran"
    assert (result.status, result.rc, result.ok) == (way, None, False)
    assert living(daemon) == living(child) == []
    assert states(result) == {"n1": MISSING, "n2": MISSING}
    assert "Load" in result.hosts["n1"].message


def test_a_load_that_a_finished_play_left_on_purpose_lives_on(rack: Rack) -> None:
    nap = unique_s()

    assert rack.tasks(f"- shell: setsid -f sleep {nap} </dev/null >/dev/null 2>&1", hosts=("n1",)).ok

    left = living(nap)
    for pid in left:
        os.kill(int(pid), signal.SIGKILL)
    assert len(left) == 1
    while marked():
        time.sleep(0.01)


@pytest.mark.parametrize("end", ["finished", "timeout"])
def test_a_master_of_ssh_does_not_outlive_its_play(rack: Rack, end: str) -> None:
    """As ssh leaves it: without a parent, without its environment (its title is written over it), its socket's path in the title."""
    nap = unique_s()
    master = f'setsid -f env -i {sys.executable} -c "import time; time.sleep({nap})" "ssh: $ANSIBLE_SSH_CONTROL_PATH_DIR/0a1b [mux]" >/dev/null 2>&1'
    seen: list[bool] = []

    def look(_event: Event) -> None:
        seen.append(bool(living(nap)))

    playbook = rack.playbook(
        f"- hosts: gpu_nodes\n  tasks:\n    - shell: '{master}'\n    - command: sleep {60 if end == 'timeout' else 0}\n"
    )
    result = play(rack.request(playbook, hosts=("n1",), timeout_s=4 if end == "timeout" else None), on_event=look)

    assert any(seen), "there was no master"
    assert result.status == end
    assert living(nap) == []


def test_a_cancelled_callback_that_raises_is_our_fault(rack: Rack) -> None:
    def cancelled() -> bool:
        raise KeyError("run")

    with pytest.raises(BrokenError):
        play(rack.request(rack.playbook("- hosts: gpu_nodes\n  tasks: [{debug: }]\n")), cancelled=cancelled)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_in_the_middle(rack: Rack, number: signal.Signals) -> None:
    """A program that calls play() and is told to stop: it gets its result, its handlers and a clean table of processes."""
    nap = unique_s()
    playbook = rack.playbook(f"- hosts: gpu_nodes\n  tasks: [{{command: sleep {nap}}}]\n")
    program = rack.root / "program.py"
    program.write_text(
        textwrap.dedent(
            f"""
            import signal, sys
            from pathlib import Path
            from burnin.adapters.ansible import PlayRequest, play
            signal.signal(signal.SIGINT, signal.default_int_handler)
            before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
            root = Path({str(rack.root)!r})
            request = PlayRequest(project=root, playbook={playbook!r}, inventory=({str(rack.inventory())!r},), hosts=("n1",), work_base=root / "work")
            result = play(request)
            same = before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
            print(result.status, result.hosts["n1"].state.value, same)
            """
        )
    )
    with subprocess.Popen(
        [sys.executable, program], env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    ) as child:
        _wait(lambda: bool(living(nap)))
        child.send_signal(number)
        out, _ = child.communicate(timeout=10)

    assert (child.returncode, out) == (0, "cancelled missing True\n")
    assert living(nap) == []


def test_handlers_of_the_callers_own_stay_in_charge(rack: Rack) -> None:
    """burnin's commands have handlers that span many plays; a play must not take a signal away from them."""
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: came.append(number))
    try:
        playbook = rack.playbook("- hosts: gpu_nodes\n  tasks: [{debug: }]\n")
        result = play(rack.request(playbook, hosts=("n1",)), on_event=lambda _event: os.kill(os.getpid(), signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, before)

    assert result.ok
    assert set(came) == {signal.SIGTERM}


def _wait(what: Any, seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


# B50: one wedged host


def test_a_hung_task_on_one_host_does_not_lose_the_other_four(rack: Rack) -> None:
    nap, hosts = unique_s(), ("n1", "n2", "n3", "n4", "n5")
    inventory = rack.inventory(plain(hosts))
    began = time.monotonic()

    result = rack.tasks(
        f"""
        - {{name: Hang, command: sleep {nap}, when: inventory_hostname == 'n3', timeout: 2}}
        - tell: {{burnin: {{who: '{{{{ inventory_hostname }}}}'}}}}
        """,
        hosts=hosts,
        inventory=inventory,
    )

    for pid in living(nap):  # Ansible's own time limit leaves the load alive: on a node it is the unit's limit that ends it
        os.kill(int(pid), signal.SIGKILL)
    _wait(lambda: not marked())
    assert time.monotonic() - began < 15
    assert states(result) == {"n1": OK, "n2": OK, "n3": FAILED, "n4": OK, "n5": OK}
    assert result.hosts["n3"].task == "Hang"
    assert "2 second" in result.hosts["n3"].message


# B49: two at once


def test_two_plays_at_once_never_meet(rack: Rack) -> None:
    playbook = rack.playbook("- hosts: gpu_nodes\n  tasks: [{tell: {burnin: {who: '{{ who }}', host: '{{ inventory_hostname }}'}}}]\n")
    racks = {name: tuple(f"{name}-{number}" for number in range(2)) for name in "AB"}
    inventories = {name: rack.inventory(plain(hosts), f"{name}.json") for name, hosts in racks.items()}
    together = threading.Barrier(2)

    def one(name: str) -> PlayResult:
        together.wait()
        return play(rack.request(playbook, hosts=racks[name], inventory=inventories[name], extravars={"who": name}))

    with ThreadPoolExecutor(2) as pool:
        for _pair in range(6):
            for name, result in zip("AB", pool.map(one, "AB"), strict=True):
                assert result.ok, result
                assert {host: found.data for host, found in result.hosts.items()} == {
                    host: {"who": name, "host": host} for host in racks[name]
                }


# X10, B57: much output, many events


def test_a_megabyte_of_output_loses_nothing(rack: Rack) -> None:
    result = rack.tasks(
        """
        - command: "{{ ansible_python_interpreter }} -c 'print(1000000 * chr(120))'"
        - {tell: {burnin: {n: 1}, filler: 1000000}}
        - {tell: {burnin: {n: 2}, filler: 1000000, fail: bad}, when: inventory_hostname == 'n2'}
        """,
        hosts=("n1", "n2"),
    )

    assert states(result) == {"n1": OK, "n2": FAILED}
    assert [result.hosts[name].data for name in ("n1", "n2")] == [{"n": 1}, {"n": 2}]
    assert result.hosts["n1"].changed == 1
    assert result.hosts["n2"].message.startswith("bady")
    assert len(result.hosts["n2"].message) == 2000


def test_the_files_of_a_play_do_not_grow_with_its_events(rack: Rack) -> None:
    most, hosts = [0], tuple(f"n{number}" for number in range(20))
    playbook = rack.playbook("- hosts: gpu_nodes\n  tasks: [{debug: }, {debug: }, {debug: }, {debug: }]\n")

    def count(_event: Event) -> None:
        most[0] = max(most[0], sum(1 for path in rack.work.rglob("*") if path.is_file()))

    assert play(rack.request(playbook, hosts=hosts, inventory=rack.inventory(plain(hosts))), on_event=count).ok
    assert most[0] < 60  # 160 steps; what is there is on its way from Ansible to us


# B48: secrets


@pytest.mark.parametrize(
    ("end", "pipelining"),
    [("success", "true"), ("failure", "true"), ("timeout", "true"), ("timeout", "false")],
    ids=["success", "failure", "timeout", "timeout with the arguments in files"],
)
def test_secrets_are_nowhere_afterwards(rack: Rack, end: str, pipelining: str) -> None:
    (rack.root / "ansible.cfg").write_text(CONFIG.format(pipelining=pipelining))
    variable, token = 'S3C-"RET-1', "TOK-3\\x"
    task = {
        "success": "tell: {burnin: {said: 'so {{ password }}', also: [\"{{ lookup('env', 'API_TOKEN') }}\", '{{ password | to_json }}']}}",
        "failure": "tell: {fail: \"{{ password }} {{ lookup('env', 'API_TOKEN') }}\"}",
        "timeout": f"command: sh -c 'sleep {unique_s()}' {{{{ password | quote }}}}",
    }[end]
    # Ansible's own place for a task's arguments is in the user's home as the system knows it, whatever HOME says.
    public = (Path(tempfile.gettempdir()), Path(pwd.getpwuid(os.getuid()).pw_dir, ".ansible/tmp"))
    before = {path for place in public if place.is_dir() for path in place.iterdir()}
    environ = dict(os.environ)

    result = rack.tasks(
        f"- {task}",
        hosts=("n1",),
        extravars={"password": variable},
        envvars={"API_TOKEN": token},
        secrets=(variable, token),
        timeout_s=4 if end == "timeout" else None,
    )

    expected = {"success": ("finished", OK), "failure": ("finished", FAILED), "timeout": ("timeout", MISSING)}[end]
    assert (result.status, result.hosts["n1"].state) == expected
    after = {path for place in public if place.is_dir() for path in place.iterdir()}
    new = [rack.work, rack.root / "home", *(after - before - {rack.root})]
    assert [path for canary in ("RET-1", "TOK-3") for path in _holding(canary, new)] == []
    assert not any(canary in repr([result, rack.seen]) for canary in ("RET-1", "TOK-3"))
    assert dict(os.environ) == environ
    if end == "success":
        assert result.hosts["n1"].data == {"said": "so ***", "also": ["***", '"***"']}
    if end == "failure":
        assert result.hosts["n1"].message == "*** ***"


def _holding(text: str, places: list[Path]) -> list[Path]:
    files = [path for place in places for path in (place.rglob("*") if place.is_dir() else [place]) if path.is_file()]
    return [path for path in files if text.encode() in _read(path)]


def test_a_secret_is_not_in_what_a_request_prints(rack: Rack) -> None:
    request = rack.request("play.yml", extravars={"p": "S3C"}, envvars={"T": "S3C"}, secrets=("S3C",), ansible_args=("-e", "p=S3C"))

    assert "S3C" not in repr(request)


def test_a_variable_of_one_play_is_unknown_to_the_next(rack: Rack) -> None:
    task = "- tell: {burnin: {who: \"{{ who | default('nobody') }}\"}}"

    assert rack.tasks(task, hosts=("n1",), extravars={"who": "A"}).hosts["n1"].data == {"who": "A"}
    assert rack.tasks(task, hosts=("n1",)).hosts["n1"].data == {"who": "nobody"}


def test_the_private_folder_is_private_and_its_socket_paths_are_short(rack: Rack) -> None:
    found: dict[str, tuple[int, int]] = {}
    deep = rack.work / ("d" * 100)

    def look(event: Event) -> None:
        if event.state == "start":
            folder = next(deep.iterdir())
            found[event.host] = folder.stat().st_mode & 0o777, max(path.stat().st_mode & 0o077 for path in folder.glob("env/*"))

    playbook = rack.playbook(
        "- hosts: gpu_nodes\n  tasks: [{tell: {burnin: {dir: \"{{ lookup('env', 'ANSIBLE_SSH_CONTROL_PATH_DIR') }}\"}}}]\n"
    )
    result = play(rack.request(playbook, hosts=("n1",), work_base=deep, extravars={"a": 1}), on_event=look)
    deep.rmdir()

    assert found == {"n1": (0o700, 0)}
    assert len(str(result.hosts["n1"].data["dir"])) < 70
    assert not Path(str(result.hosts["n1"].data["dir"])).exists()


# Bad input: one clear line, and nothing touched


def test_no_hosts_are_refused(rack: Rack) -> None:
    with pytest.raises(InventoryError, match="no hosts to play on"):
        rack.tasks("- debug:", hosts=())


def test_a_question_on_a_terminal_is_refused(rack: Rack) -> None:
    for word in ("-K", "-bK", "--ask-pass", "--ask-vault-pass"):
        with pytest.raises(UsageError, match=word):
            rack.tasks("- debug:", ansible_args=(word,))


def test_a_missing_playbook_or_inventory_is_told_before_anything_starts(rack: Rack) -> None:
    with pytest.raises(BrokenError, match=r"nosuch\.yml: is not there"):
        rack.play("nosuch.yml")
    with pytest.raises(InventoryError, match=r"nosuch-inventory: no such inventory file"):
        rack.tasks("- debug:", inventory=Path("nosuch-inventory"))
    assert rack.seen == []


INVENTORIES = {
    "a file that is not there": (None, r"rack\.ini: no such inventory file"),
    "an empty file": ("", r"rack\.ini"),
    "a group without hosts": ("[gpu_nodes]\n", r"rack\.ini: the group gpu_nodes is empty; put"),
    "no such group": ("[gpus]\nn1\n", r"rack\.ini: has no group gpu_nodes, only gpus; put"),
    "no YAML": ("all:\n  hosts: [\n", r"rack\.ini is no inventory that Ansible can read: .*; correct the file"),
    "a name with a slash": ("[gpu_nodes]\na/b\n", r"host 'a/b': the name has a '/'"),
}


@pytest.mark.parametrize("case", INVENTORIES, ids=str)
def test_an_inventory_that_cannot_be_used(rack: Rack, case: str) -> None:
    text, said = INVENTORIES[case]
    path = rack.root / "rack.ini"
    if text is not None:
        path.write_text(text)

    with pytest.raises(InventoryError, match=said) as caught:
        list_hosts(rack.root, [path], work_base=rack.work)

    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_a_broken_file_beside_a_good_one_is_not_passed_over(rack: Rack) -> None:
    """Ansible alone warns, and plays on what it could read."""
    broken = rack.root / "broken.yml"
    broken.write_text("all: [")

    with pytest.raises(InventoryError, match=r"broken\.yml is no inventory"):
        list_hosts(rack.root, [rack.inventory(), broken], work_base=rack.work)

    result = play(PlayRequest(rack.root, rack.playbook("- hosts: gpu_nodes\n"), (rack.inventory(), broken), ("n1",), work_base=rack.work))
    assert (result.status, states(result)) == ("broken", {"n1": MISSING})


def test_a_limit(rack: Rack) -> None:
    inventory = rack.inventory()

    assert list(list_hosts(rack.root, [inventory], "n1,n3", work_base=rack.work).hosts) == ["n1", "n3"]
    cases = {"n1,typo": "matches no host or group of .*: typo; correct", "all,!gpu_nodes": "none of the 3 hosts of gpu_nodes"}
    for limit, said in cases.items():
        with pytest.raises(InventoryError, match=said):
            list_hosts(rack.root, [inventory], limit, work_base=rack.work)


def test_what_an_inventory_says_of_its_hosts(rack: Rack) -> None:
    text = """
    all:
      vars: {site: here}
      children:
        gpu_nodes: {vars: {burnin_sku: H100}, children: {row1: {hosts: {n2: {serial_text: 00123456, big: "1234e567"}}}, row2: {hosts: {n1: }}}}
        others: {hosts: {login: }}
    """
    path = rack.root / "rack.yml"
    path.write_text(textwrap.dedent(text))

    found = list_hosts(rack.root, [path], extravars={"more": 1}, work_base=rack.work)

    assert found.hosts["n2"] == {"site": "here", "burnin_sku": "H100", "serial_text": 42798, "big": "1234e567", "more": 1}
    assert found.groups == {"all": ("n1", "n2"), "gpu_nodes": ("n1", "n2"), "row1": ("n2",), "row2": ("n1",)}
    assert list(list_hosts(rack.root, ["a,b,"], group="all", work_base=rack.work).hosts) == ["a", "b"]


def test_an_inventory_script_that_hangs(rack: Rack) -> None:
    nap = unique_s()
    script = rack.script(("n1",))
    script.write_text(f"#!/bin/sh\nsleep {nap}\n")

    with pytest.raises(InventoryError, match="did not answer in 2 s"):
        list_hosts(rack.root, [script], work_base=rack.work, timeout_s=2)

    assert living(nap) == []


def test_processes_are_found_by_their_mark_alone() -> None:
    nap, mark = unique_s(), f"BURNIN_TEST={time.monotonic_ns()}"
    with subprocess.Popen(["env", mark, "sh", "-c", f"env -i sleep {nap}; true"]) as child:
        _wait(lambda: bool(living(f"sleep\0{nap}")))
        ended = processes.end(mark=mark)

    assert child.returncode == -signal.SIGKILL
    assert (len(ended.numbers), ended.left) == (2, frozenset())
    assert living(nap) == []
