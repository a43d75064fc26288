"""Provisioning without a node: the stack is checked first, a roll has one pace, and what each node did is told from events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from burnin.adapters.ansible import PlayResult
from burnin.adapters.cancel import Cancel
from burnin.adapters.ledger import Event, HostResult, HostState
from burnin.adapters.run_control import read_ledger
from burnin.errors import InventoryError, StackError
from burnin.outcome import Outcome, exit_code
from burnin.stages import provision as stage
from burnin.stages.nodes import Driver, Target
from burnin.stages.provisioned import NOT_REACHED, STATES, Story, document, outcomes

ROOT = Path(__file__).resolve().parents[3]
STACK = yaml.safe_load((ROOT / "inventory/example/group_vars/all/stack.yml").read_text())["burnin_stack"]
DRIVER = {
    "group": "driver", "version": "580.126.09", "installed": {"nvidia-open": "580.126.09-1"}, "upgraded": {}, "files": ["/etc/modprobe.d/x.conf"],
    "reboot_required": True, "notes": ["nouveau is loaded"],
}  # fmt: skip
REASON = {"code": "FLAGGED", "found": "driver: 570 to 580", "expected": "none", "remedy": "none"}


def hosts(**variables: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: {"burnin_stack": STACK, "burnin_sku": "H100-SXM5-80GB", **own} for name, own in variables.items()}


def test_a_stack_that_fits_gives_its_warnings_and_whose_they_are() -> None:
    warnings = stage.check_stacks(hosts(n1={}, n2={}))

    assert all(warning.startswith("n1, n2: ") for warning in warnings)


def test_every_fault_of_every_sku_is_named_at_once_with_its_nodes() -> None:
    wrong = {**STACK, "driver": {**STACK["driver"], "flavour": "proprietary"}}
    without = {"burnin_sku": "H100-SXM5-80GB"}

    with pytest.raises(StackError) as raised:
        stage.check_stacks({**hosts(n1={}, n2={"burnin_stack": wrong, "burnin_sku": "B200"}, n3={"burnin_sku": "H100-SXM"}), "n4": without})

    text = str(raised.value)
    assert raised.value.exit_code == 2
    assert "nothing was touched" in text.splitlines()[0]
    assert [name for name in ("n1:", "n2:", "n3:", "n4:") if name in text] == ["n2:", "n3:", "n4:"]
    assert "H100-SXM5-80GB" in text, "the nearest SKU"
    assert "n4: has no burnin_stack" in text


def test_a_stack_file_that_is_none_is_told_and_not_crashed_on() -> None:
    with pytest.raises(StackError, match="n1, n2: "):
        stage.check_stacks(hosts(n1={"burnin_stack": "580"}, n2={"burnin_stack": "580"}))


@pytest.mark.parametrize(
    ("variables", "pace"),
    [
        ({}, stage.Pace()),
        ({"burnin_serial": 1, "burnin_max_fail_percentage": 25}, stage.Pace(1, 25.0)),
        ({"burnin_serial": "25%", "burnin_max_fail_percentage": "0"}, stage.Pace("25%", 0.0)),
        ({"burnin_serial": [1, "50%"]}, stage.Pace([1, "50%"])),
    ],
)
def test_the_pace_is_the_inventorys(variables: dict[str, Any], pace: stage.Pace) -> None:
    found = stage.pace_of(hosts(n1=variables, n2=variables), {})

    assert found == pace
    assert set(found.variables()) == set(variables)


@pytest.mark.parametrize(
    "variables",
    [
        {"burnin_serial": 0}, {"burnin_serial": "-1"}, {"burnin_serial": "101%"}, {"burnin_serial": "a few"}, {"burnin_serial": [1, "x"]},
        {"burnin_serial": True}, {"burnin_max_fail_percentage": 101}, {"burnin_max_fail_percentage": "some"}, {"burnin_max_fail_percentage": -1},
    ],
)  # fmt: skip
def test_a_pace_that_is_none_is_refused_by_name(variables: dict[str, Any]) -> None:
    with pytest.raises(InventoryError, match=next(iter(variables))) as raised:
        stage.pace_of(hosts(n1=variables), {})

    assert "found" in str(raised.value)
    assert "expected" in str(raised.value)


def test_nodes_that_differ_in_pace_are_named_and_a_word_of_the_person_settles_it() -> None:
    mixed = hosts(n1={"burnin_serial": 1}, n2={"burnin_serial": 1}, n3={"burnin_serial": 4})

    with pytest.raises(InventoryError, match=r"n1, n2: 1; n3: 4"):
        stage.pace_of(mixed, {})
    assert stage.pace_of(mixed, {"burnin_serial": "2"}) == stage.Pace("2")


def told(state: HostState, message: str = "", task: str | None = None) -> HostResult:
    return HostResult("n1", state, task, message)


def story(*events: Event, state: HostState = HostState.OK, message: str = "", cancelled: bool = False, check: bool = False) -> Story:
    found = Story()
    for event in events:
        found.hear(event)
    found.end(told(state, message), cancelled=cancelled, check=check)
    return found


def event(
    state: str, data: dict[str, Any] | None = None, task: str = "Install | Put the pinned driver in place", message: str = ""
) -> Event:
    return Event("n1", task, state, data or {}, message)


REBOOTED = {
    "state": "rebooted",
    "reasons": [REASON],
    "faults": [],
    "seconds": 61.0,
    "found_before": {"boot_id": "A"},
    "found": {"boot_id": "B"},
}
REQUIRED = {"state": "required", "reasons": [REASON], "faults": [], "found": {}}
CASES = [
    pytest.param(story(event("ok")), "ok", 0, id="nothing was to be done"),
    pytest.param(story(event("changed", DRIVER)), "changed", 0, id="packages were installed"),
    pytest.param(story(event("changed", REBOOTED)), "changed", 0, id="it was rebooted and nothing else"),
    pytest.param(story(event("changed", DRIVER), event("ok", REQUIRED)), "reboot_required", 11, id="it may not be rebooted from here"),
    pytest.param(story(event("changed", DRIVER), check=True), "would_change", 0, id="check: packages would be installed"),
    pytest.param(story(event("failed", message="locked"), state=HostState.FAILED), "failed", 10, id="a task failed"),
    pytest.param(story(state=HostState.UNREACHABLE, message="no route"), "unreachable", 11, id="unreachable"),
    pytest.param(story(event("ok"), state=HostState.MISSING, cancelled=True), "cancelled", 11, id="a person stopped it"),
    pytest.param(story(event("ok"), state=HostState.MISSING, message="given up"), "given_up", 11, id="the roll ended in its batch"),
    pytest.param(story(event("start"), event("skipped"), state=HostState.MISSING), "not_reached", 11, id="the roll ended before its batch"),
]


@pytest.mark.parametrize(("found", "state", "code"), CASES)
def test_how_a_node_came_out_and_the_exit_code(found: Story, state: str, code: int) -> None:
    made = document("R", {"n1": found}, check=False)

    assert found.state == state
    assert made["nodes"][0]["state"] == state
    assert made["summary"][state] == made["summary"]["nodes"] == 1
    assert exit_code(outcomes(made)) == code
    json.dumps(made, allow_nan=False)


def test_every_state_has_a_case() -> None:
    assert {case.values[1] for case in CASES} == set(STATES)


def test_what_changed_is_told_by_group_with_what_is_not_empty() -> None:
    found = story(event("changed", DRIVER), event("changed", task="Boot | Make it the kernel that boots"), event("changed", REBOOTED))

    entry = document("R", {"n1": found}, check=False)["nodes"][0]

    assert entry["changes"] == [
        {
            "task": "Install | Put the pinned driver in place", "group": "driver", "version": "580.126.09",
            "installed": {"nvidia-open": "580.126.09-1"}, "files": ["/etc/modprobe.d/x.conf"],
        },
        {"task": "Boot | Make it the kernel that boots", "group": "", "version": ""},
    ]  # fmt: skip
    assert entry["reboot"]["reasons"] == ["driver: 570 to 580"]
    assert (entry["reboot"]["boot_id"], entry["reboot"]["seconds"]) == (["A", "B"], 61.0)
    assert entry["notes"] == ["nouveau is loaded"]


def test_a_failure_says_task_code_message_and_what_was_changed_before_it() -> None:
    data = {"code": "TRANSACTION_FAILED", "changed": {"installed": {"nvidia-open": "580.126.09-1"}, "removed": {}}}

    found = story(
        event("failed", data, message="dpkg was interrupted; run dpkg --configure -a"), state=HostState.FAILED, message="dpkg was ..."
    )

    failure = found.as_dict("n1", check=False)["failure"]
    assert failure["code"] == "TRANSACTION_FAILED"
    assert failure["changed"] == {"installed": {"nvidia-open": "580.126.09-1"}}
    assert (
        stage.told(found) == "Install | Put the pinned driver in place: dpkg was interrupted; run dpkg --configure -a [TRANSACTION_FAILED]"
    )


def test_in_check_mode_an_install_that_asks_for_a_reboot_says_so() -> None:
    found = story(event("changed", DRIVER), event("ok", {"state": "not_needed", "reasons": [], "faults": []}), check=True)

    assert found.as_dict("n1", check=True)["reboot"]["state"] == "would_reboot"


def test_a_failure_that_was_ignored_is_none() -> None:
    found = Story()
    found.hear(Event("n1", "Look", "failed", {"code": "X"}, "no", ignored=True))

    assert found.failure is None


def test_a_node_that_never_had_its_turn_is_listed() -> None:
    entry = Story().as_dict("n9", check=False)

    assert (entry["state"], entry["verdict"], entry["why"]) == ("not_reached", Outcome.INCONCLUSIVE.value, NOT_REACHED)


class Shown:
    """What a person is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def stage(self, text: str) -> None:
        self.lines.append(text)

    def node(self, node: str, status: object) -> None:
        """Not looked at here."""

    say = stage


def site(folder: Path, monkeypatch: pytest.MonkeyPatch, *, states: dict[str, HostState], **target: Any) -> tuple[Driver, list[list[str]]]:
    """A driver whose plays end at once with these states, and on which nodes it played."""
    played: list[list[str]] = []

    def play(driver: Driver, playbook: str, hosts: list[str], **_: Any) -> PlayResult:
        assert playbook == "provision.yml"
        played.append(list(hosts))
        for host in hosts:
            driver.watch(Event(host, "Install", "ok"))
        return PlayResult("finished", 0, {host: HostResult(host, states[host], None, "why") for host in hosts})

    monkeypatch.setattr(Driver, "play", play)
    return Driver(folder, Target((), **target), Cancel()), played


def ledger(folder: Path) -> list[tuple[str, str, str]]:
    return [(line.stage, line.node, line.state) for line in read_ledger(folder)]


PINNED = {"run_id": "R", "provision": {"serial": None, "max_fail": None}}


def test_a_site_goes_on_with_the_nodes_that_are_as_they_shall_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, played = site(tmp_path, monkeypatch, states={"n1": HostState.OK, "n2": HostState.FAILED, "n3": HostState.UNREACHABLE})

    assert stage.in_site(driver, PINNED, ["n1", "n2", "n3"], Shown()) == ["n1"]
    assert played == [["n1", "n2", "n3"]]
    assert ledger(tmp_path) == [
        ("provision", "n1", "ok"), ("provision", "n2", "failed"), ("provision", "n3", "unreachable"), ("preflight", "n1", "ok"),
    ]  # fmt: skip


def test_a_site_that_died_in_provisioning_provisions_again_those_that_were_not_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, played = site(tmp_path, monkeypatch, states={"n2": HostState.OK, "n3": HostState.OK})
    driver.note("provision", "n1", "ok")
    driver.note("provision", "n2", "failed")

    assert stage.in_site(driver, PINNED, ["n1", "n2", "n3"], Shown()) == ["n1", "n2", "n3"]
    assert played == [["n2", "n3"]], "the load of one that was through may be running"


def test_a_site_that_pins_nothing_plays_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, played = site(tmp_path, monkeypatch, states={})

    assert stage.in_site(driver, {"run_id": "R", "provision": None}, ["n1"], Shown()) == ["n1"]
    assert played == []


def test_with_arguments_for_ansible_nobody_knows_whether_it_looked_at_the_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, _ = site(tmp_path, monkeypatch, states={"n1": HostState.OK}, ansible_args=("--tags", "nccl"))

    assert stage.in_site(driver, PINNED, ["n1"], Shown()) == ["n1"]
    assert ledger(tmp_path) == [("provision", "n1", "ok")], "so the burn-in looks by itself"
