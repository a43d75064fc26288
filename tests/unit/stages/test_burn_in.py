"""What the controller does with a run, play by play; the plays themselves are pretended. With real ones: end_to_end/test_run_control.py."""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from burnin.adapters.ansible import HostResult, HostState, Inventory, PlayResult
from burnin.adapters.cancel import Cancel
from burnin.adapters.run_control import say_stop
from burnin.adapters.run_files import append_line, locked, write_json
from burnin.errors import BrokenError, InventoryError
from burnin.stages import burn_in as stage
from burnin.stages import nodes
from burnin.stages.burn_in import burn_in
from burnin.stages.control import resume, status, stop
from burnin.stages.nodes import Target
from burnin.status import NodeStatus
from burnin.verdict.policy import default_policy
from burnin.verdict.run_folder import RunFiles, read_run

PLAN = {"schema": "burnin.plan/1", "name": "p", "run_id": "r", "steps": [{"test": "gemm_bf16", "windows": 3, "window_s": 1}]}
NAMES = ("n1", "n2", "n3")
Answer = Callable[[str, str], HostResult]


class Silent:
    """Keeps what a person was told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def stage(self, text: str) -> None:
        self.said.append(text)

    def node(self, node: str, status: NodeStatus) -> None:
        self.said.append(f"{node}: {status.state}")

    def say(self, text: str) -> None:
        self.said.append(text)


class Run:
    """A run folder, and plays that answer as they are told: `answers` by playbook, else every host is well and has finished."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.show, self.cancel = folder, Silent(), Cancel()
        self.played: list[tuple[str, tuple[str, ...]]] = []
        self.variables: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, Callable[[str], HostResult]] = {}
        self.before: dict[str, Callable[[], None]] = {}
        self.document = {
            "schema": "burnin.run/1", "run_id": "r", "plan": PLAN,
            "inventory": {"nodes": [{"node": name, "folder": name, "expected_gpus": 8} for name in NAMES]},
        }  # fmt: skip
        write_json(folder / "run.json", self.document)
        monkeypatch.setattr(nodes, "play", self.play)
        self.inventory = list(NAMES)
        self.listed = 0
        self.secrets: set[tuple[str, ...]] = set()
        monkeypatch.setattr(nodes, "list_hosts", self.list_hosts)
        monkeypatch.setattr(stage, "conclude", lambda *_: {"concluded": True})
        monkeypatch.setattr(Cancel, "wait", lambda *_: False)

    def list_hosts(self, *_: Any, **__: Any) -> Inventory:
        self.listed += 1
        return Inventory("gpu_nodes", {name: {"bmc_password": f"PW-{name}"} for name in self.inventory}, {})

    def play(self, request: Any, **_: Any) -> PlayResult:
        name = request.playbook.removeprefix("burnin_").removesuffix(".yml")
        self.played.append((name, request.hosts))
        self.variables[name] = dict(request.extravars)
        self.secrets.add(request.secrets)
        self.before.get(name, lambda: None)()
        answer = self.answers.get(name, lambda host: HostResult(host, HostState.OK, data={"state": "finished"}))
        return PlayResult("finished", 0, {host: answer(host) for host in request.hosts})

    def go(self, **how: Any) -> dict[str, Any]:
        how.setdefault("preflight", False)
        return burn_in(self.folder, Target(("hosts.yml",)), self.show, self.cancel, **how)

    def resume(self) -> dict[str, Any]:
        return resume(self.folder, Target(("hosts.yml",)), self.show, self.cancel)

    def whole(self, node: str, *, complete: bool = True) -> None:
        """As if this node's evidence had been collected."""
        place = self.folder / "nodes" / node
        place.mkdir(parents=True)
        line = json.dumps({"event": "run_ended" if complete else "stopped", "complete": complete}) + "\n"
        (place / "journal.jsonl").write_text(line)
        digest = hashlib.sha256(line.encode()).hexdigest()
        (place / "manifest.json").write_text(json.dumps({"files": {"journal.jsonl": digest}, "left_out": []}))

    def words(self, state: str) -> dict[str, str]:
        """node -> why, of the ledger's lines with this state."""
        ledger = self.folder / "controller.jsonl"
        lines = [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []
        return {line["node"]: line["why"] for line in lines if line["state"] == state}

    def ledger(self, *lines: tuple[str, str, str]) -> None:
        for what, node, state in lines:
            append_line(self.folder / "controller.jsonl", {"stage": what, "node": node, "state": state, "why": ""})


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(tmp_path, monkeypatch)


def ok(host: str, state: str = "finished") -> HostResult:
    return HostResult(host, HostState.OK, data={"state": state})


def raising(problem: Exception) -> Callable[[], None]:
    def go() -> None:
        raise problem

    return go


@pytest.mark.parametrize("moment", ["start", "preflight"])
def test_a_stop_that_comes_while_nodes_are_still_to_be_started_ends_the_run(run: Run, moment: str) -> None:
    run.before[moment] = lambda: say_stop(run.folder)

    run.go(preflight=True)

    assert [name for name, _ in run.played] == (["preflight"] if moment == "preflight" else ["preflight", "start", "stop", "collect"])
    assert run.cancel.reason == "burnin stop"


def test_a_stop_of_before_is_not_a_stop_of_now(run: Run) -> None:
    say_stop(run.folder)

    run.go()

    assert [name for name, _ in run.played] == ["start", "poll", "collect"]


@pytest.mark.parametrize(
    "problem",
    [
        BrokenError("stage poll: Ansible broke"),
        OSError(errno.ENOSPC, "No space left on device"),
        InventoryError("hosts.yml: no such inventory file"),
    ],
    ids=["Ansible", "a full disk", "the inventory is gone"],
)
@pytest.mark.parametrize("moment", ["start", "poll"])
def test_who_breaks_while_loads_may_run_names_them_and_both_ways_on(run: Run, moment: str, problem: Exception) -> None:
    run.answers["poll"] = lambda host: ok(host, "running")
    run.before[moment] = raising(problem)

    with pytest.raises(BrokenError) as caught:
        run.go()

    told = str(caught.value)
    assert str(problem) in told
    assert "on 3 nodes (n1, n2, n3)" in told
    assert f"`burnin resume {run.folder}`" in told
    assert f"`burnin stop {run.folder}`" in told
    assert "stop" not in [name for name, _ in run.played], "the load is left to a resume"


def test_only_nodes_that_may_still_run_are_named(run: Run) -> None:
    run.answers["start"] = lambda host: HostResult(host, HostState.FAILED, message="no room") if host == "n1" else ok(host)
    looks = iter([lambda host: ok(host, "finished" if host == "n2" else "running"), None])

    def look() -> None:
        answer = next(looks)
        if answer is None:
            raise BrokenError("Ansible broke")
        run.answers["poll"] = answer

    run.before["poll"] = look
    with pytest.raises(BrokenError, match=r"on 1 node \(n3\)"):
        run.go()


def test_who_breaks_when_nothing_runs_says_nothing_of_loads(run: Run) -> None:
    run.before["collect"] = raising(BrokenError("Ansible broke"))

    with pytest.raises(BrokenError) as caught:
        run.go()

    assert str(caught.value) == "Ansible broke"


def test_a_fault_that_nobody_foresaw_keeps_its_kind_and_tells_of_the_loads(run: Run) -> None:
    run.before["poll"] = raising(KeyError("x"))

    with pytest.raises(KeyError) as caught:
        run.go()

    assert "n1, n2, n3" in caught.value.__notes__[0]


def test_a_node_whose_load_is_not_shown_to_be_stopped_is_named(run: Run) -> None:
    run.answers["poll"] = lambda host: ok(host, "running")
    run.answers["stop"] = lambda host: ok(host, "stopped") if host != "n2" else HostResult(host, HostState.UNREACHABLE)
    run.before["poll"] = lambda: run.cancel.set("SIGINT")

    run.go()

    assert any("Not shown to be stopped: n2." in line and "`burnin stop " in line for line in run.show.said)


@pytest.mark.parametrize(
    ("opened", "before", "looked_at", "started"),
    [
        pytest.param(True, [], NAMES, NAMES, id="site, killed before the first preflight"),
        pytest.param(True, [("n1", "ok"), ("n2", "failed")], ("n2", "n3"), NAMES, id="site, killed in mid-preflight, n2 mended since"),
        pytest.param(True, [(name, "ok") for name in NAMES], (), NAMES, id="site, killed later"),
        pytest.param(
            True, [("n1", "ok"), ("n1", "failed"), ("n2", "unreachable"), ("n3", "missing")], NAMES, NAMES, id="the newest counts"
        ),
        pytest.param(None, [("n1", "ok")], ("n2", "n3"), NAMES, id="opened by an earlier version, with a preflight"),
        pytest.param(None, [], (), NAMES, id="opened by an earlier version, without"),
        pytest.param(False, [], (), NAMES, id="run asks for no preflight"),
        pytest.param(False, [("n1", "failed")], (), ("n2", "n3"), id="and still takes a refusal as one"),
    ],
)
def test_a_resume_starts_no_node_that_its_run_wanted_to_look_at_first(
    run: Run, opened: bool | None, before: list[tuple[str, str]], looked_at: tuple[str, ...], started: tuple[str, ...]
) -> None:
    write_json(run.folder / "run.json", run.document | ({} if opened is None else {"preflight": opened}))
    run.ledger(*[("preflight", node, state) for node, state in before])

    run.resume()

    played = dict(run.played)
    assert played.get("preflight", ()) == looked_at
    assert played["start"] == started


def test_what_a_resumed_preflight_refuses_is_not_started(run: Run) -> None:
    write_json(run.folder / "run.json", run.document | {"preflight": True})
    run.answers["preflight"] = lambda host: HostResult(host, HostState.FAILED, message="no room") if host == "n2" else ok(host)

    run.resume()

    assert dict(run.played)["start"] == ("n1", "n3")


def test_a_node_no_longer_in_the_inventory_is_told_of_and_the_others_go_on(run: Run) -> None:
    run.inventory.remove("n2")
    run.whole("n2", complete=False)

    run.resume()

    assert [hosts for _, hosts in run.played] == [("n1", "n3")] * 3
    assert "no longer in the inventory" in run.words("missing")["n2"]
    assert any(line.startswith("n2: no longer in the inventory") and "a load may still run there" in line for line in run.show.said)
    evidence = read_run(RunFiles(run.document, [{"stage": "resume", "node": "n2", "state": "missing", "why": "gone"}]), default_policy())
    assert [node.trouble_code for node in evidence.nodes] == [None, "NODE_UNREACHABLE", None]


def test_a_node_whose_whole_run_is_here_may_leave_the_inventory(run: Run) -> None:
    run.inventory.remove("n2")
    run.whole("n2")

    run.resume()
    told = stop(run.folder, Target(("hosts.yml",)), run.cancel)

    assert run.words("missing") == {}
    assert told["n2"].state == "missing"


def test_a_stop_and_a_look_name_what_is_no_longer_in_the_inventory(run: Run) -> None:
    run.inventory.remove("n2")

    looked = status(run.folder, Target(("hosts.yml",)), run.cancel)
    assert run.words("missing") == {}
    stopped = stop(run.folder, Target(("hosts.yml",)), run.cancel)

    assert run.played == [("poll", ("n1", "n3")), ("stop", ("n1", "n3"))]
    for told in (looked, stopped):
        assert (told["n1"].state, told["n2"].state) == ("finished", "missing")
        assert "a load may still run there" in told["n2"].why
    assert list(run.words("missing")) == ["n2"]


def test_a_stop_leaves_the_ledger_to_who_drives_the_run(run: Run) -> None:
    run.inventory.remove("n2")

    with locked(run.folder):
        stop(run.folder, Target(("hosts.yml",)), run.cancel)

    assert run.words("missing") == {}


def test_a_stop_where_no_node_is_left_plays_on_nobody(run: Run) -> None:
    run.inventory[:] = ["other"]

    told = stop(run.folder, Target(("hosts.yml",)), run.cancel)

    assert run.played == []
    assert {status.state for status in told.values()} == {"missing"}


@pytest.mark.parametrize("known", ["the ledger says that it had started", "its evidence was collected"])
def test_a_node_whose_evidence_is_gone_is_not_begun_anew(run: Run, known: str) -> None:
    if known == "its evidence was collected":
        run.whole("n2", complete=False)
    else:
        run.ledger(("start", "n2", "ok"))
    run.answers["start"] = lambda host: ok(host, "absent" if host == "n2" else "running")

    run.resume()

    assert run.variables["start"]["burnin_run_begun"] == ["n2"]
    assert run.played == [("start", NAMES), ("stop", ("n2",)), ("poll", ("n1", "n3")), ("collect", ("n1", "n3"))]
    assert "its evidence is gone" in run.words("failed")["n2"]
    assert "`burnin run -i INVENTORY --limit n2`" in run.words("failed")["n2"]
    ledger = [json.loads(line) for line in (run.folder / "controller.jsonl").read_text().splitlines()]
    assert read_run(RunFiles(run.document, ledger), default_policy()).nodes[1].trouble_code == "RUN_FAILED"


def test_a_node_emptied_while_it_was_watched_is_told_and_not_collected(run: Run) -> None:
    run.answers["poll"] = lambda host: ok(host, "absent" if host == "n2" else "finished")

    run.go()

    assert run.variables["start"]["burnin_run_begun"] == []
    assert run.played[-1] == ("collect", ("n1", "n3"))
    assert list(run.words("failed")) == ["n2"]


def test_a_node_that_was_cleared_after_its_whole_run_was_collected_is_no_trouble(run: Run) -> None:
    for name in NAMES:
        run.whole(name)
    run.answers["start"] = lambda host: ok(host, "absent")

    run.resume()

    assert [name for name, _ in run.played] == ["start"]
    assert run.words("failed") == {}


@pytest.mark.parametrize("resumed", [True, False])
def test_the_secrets_of_the_inventory_are_known_to_every_play_and_asked_for_once(run: Run, resumed: bool) -> None:
    run.resume() if resumed else run.go()

    assert len(run.played) == 3
    assert run.secrets == {("PW-n1", "PW-n2", "PW-n3")}
    assert run.listed == 1
