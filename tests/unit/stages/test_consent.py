"""The way of a consent to erase drives through the product: asked for in a file, handed back for one call, refused anywhere else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from burnin.adapters.ansible import PlayResult
from burnin.adapters.cancel import Cancel
from burnin.adapters.ledger import Event, HostResult, HostState
from burnin.cli import options
from burnin.errors import InventoryError, UsageError
from burnin.outcome import exit_code
from burnin.stages import nodes, racks
from burnin.stages import provision as stage
from burnin.stages.nodes import Driver, Target, resolve
from burnin.stages.provisioned import Story, document, outcomes

HOSTS = "gpu_nodes:\n  hosts:\n    n1: {}\n    n2: {}\n"
REFUSED = {"code": "DISK_NOT_BLANK", "erase": {"S2": "xfs", "S1": "ext4 labelled 'data'"}, "state": "refused"}
TASK = "Array | Make it, or adopt it"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "hosts.yml").write_text(HOSTS)
    return tmp_path


def target(site: Path, limit: str | None = None, **variables: Any) -> Target:
    return Target((str(site / "hosts.yml"),), limit, variables, work_base=site / "work")


class Shown:
    """What a person is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def stage(self, text: str) -> None:
        self.lines.append(text)

    def node(self, node: str, status: object) -> None:
        """Not looked at here."""

    say = stage


def play_of(refused: dict[str, dict[str, Any]]) -> Any:
    """A play in which these nodes refuse with this, and the others are well."""

    def play(driver: Driver, playbook: str, hosts: list[str], **_: Any) -> PlayResult:
        for host in hosts:
            driver.watch(Event(host, TASK, "failed" if host in refused else "ok", refused.get(host, {}), "S1 holds ext4"))
        states = {host: HostState.FAILED if host in refused else HostState.OK for host in hosts}
        return PlayResult("finished", 0, {host: HostResult(host, state, TASK) for host, state in states.items()})

    return play


def provisioned(
    site: Path, monkeypatch: pytest.MonkeyPatch, refused: dict[str, dict[str, Any]], *, check: bool
) -> tuple[Path | None, Any, Shown]:
    """What `burnin provision` comes to."""
    show, asked = Shown(), Target((str(site / "hosts.yml"),), None, {}, check=check)
    monkeypatch.setattr(Driver, "play", play_of(refused))
    monkeypatch.setattr(stage, "resolve", lambda _target: {"n1": {}, "n2": {}})
    monkeypatch.setattr(stage, "check_stacks", lambda _hosts: [])
    folder, made = stage.go(asked, show, Cancel(), runs=site / "runs")
    return folder, made, show


@pytest.mark.parametrize("check", [True, False])
def test_a_node_refused_for_want_of_a_consent_is_a_fail_and_the_file_that_would_be_one_is_written(
    site: Path, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    _, made, show = provisioned(site, monkeypatch, {"n2": REFUSED}, check=check)

    path = Path(made["erase_file"])
    assert exit_code(outcomes(made)) == 10
    assert path.name == "erase.yml"
    assert yaml.safe_load(path.read_text()) == {"nvme_raid0_erase": {"n2": {"S1": "ext4 labelled 'data'", "S2": "xfs"}}}
    assert [node["erase"] for node in made["nodes"]] == [{}, REFUSED["erase"]]
    assert "    # DISK_NOT_BLANK: S1 holds ext4\n" in path.read_text()
    said = [line for line in show.lines if "erase" in line]
    assert len(said) == 1
    assert "2 drives of n2 hold something and were left alone" in said[0]
    assert said[0].endswith(f"burnin provision -i {site}/hosts.yml -e @{path}")


def test_of_a_check_nothing_stays_but_that_file_and_the_newest_run_stays_the_newest(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, made, _ = provisioned(site, monkeypatch, {"n2": REFUSED}, check=True)

    assert folder is None
    assert [path.relative_to(site).parts[2:] for path in (site / "runs").rglob("*") if path.is_file()] == [("erase.yml",)]
    assert Path(made["erase_file"]).is_file()


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("refused", [{}, {"n1": {"code": "SYSTEM_DISK", "erase": {}}}], ids=["nobody refused", "another refusal"])
def test_without_a_want_of_consent_there_is_no_file(
    site: Path, monkeypatch: pytest.MonkeyPatch, refused: dict[str, dict[str, Any]], check: bool
) -> None:
    _, made, show = provisioned(site, monkeypatch, refused, check=check)

    assert made["erase_file"] is None
    assert not any("erase" in line for line in show.lines)
    assert list((site / "runs").rglob("erase.yml")) == []
    assert (list((site / "runs").iterdir()) == []) is check


def test_the_command_that_is_told_keeps_to_the_limit(site: Path) -> None:
    show, story = Shown(), Story(erase={"S1": "xfs"})

    stage.ask_consent(site, target(site, "n2"), {"n2": story}, show)

    assert show.lines[0].endswith(f"burnin provision -i {site}/hosts.yml --limit n2 -e @{site}/erase.yml")


def test_a_site_asks_too_and_goes_on_with_the_others(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Driver, "play", play_of({"n2": REFUSED}))
    show, run = Shown(), {"run_id": "R", "provision": {"serial": None, "max_fail": None}}

    assert stage.in_site(Driver(site, target(site), Cancel()), run, ["n1", "n2"], show) == ["n1"]
    assert yaml.safe_load((site / "erase.yml").read_text())["nvme_raid0_erase"] == {"n2": REFUSED["erase"]}
    assert json.loads((site / "provision.json").read_text())["erase_file"] == f"{site}/erase.yml"
    assert any("burnin site -i" in line for line in show.lines)


def test_of_a_sites_check_nothing_stays_but_that_file(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def burned_in(folder: Path, *_: Any, **__: Any) -> dict[str, Any]:
        (folder / "erase.yml").write_text("nvme_raid0_erase: {}\n")
        return {}

    monkeypatch.setattr(racks, "burn_in_stage", burned_in)
    asked = replace(target(site), check=True)

    racks.go(asked, Shown(), Cancel(), plan="quick", runs=site / "runs", policy=None, reference=None, burn_in=True, provision=True)

    assert [path.relative_to(site).parts[2:] for path in (site / "runs").rglob("*") if path.is_file()] == [("erase.yml",)]


def test_a_consent_comes_back_from_the_callers_folder_and_reaches_the_play(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (site / "erase.yml").write_text("nvme_raid0_erase:\n  n1:\n    '007': 'ext4'\n")
    monkeypatch.chdir(site)

    given = options.variables(["@erase.yml"])

    assert given == {"nvme_raid0_erase": {"n1": {"007": "ext4"}}}
    assert [list(variables) for variables in resolve(target(site, **given)).values()] == [["ansible_local"]] * 2, "no variable of a host"


def test_a_consent_for_a_node_that_a_limit_leaves_out_names_somebody(site: Path) -> None:
    assert list(resolve(target(site, "n1", nvme_raid0_erase={"n2": ["S1"]}))) == ["n1"]


@pytest.mark.parametrize("limit", [None, "n1"])
def test_a_consent_for_a_node_that_the_inventory_lacks_is_refused(site: Path, limit: str | None) -> None:
    with pytest.raises(UsageError, match=r"no host 'n3'.*Nothing was touched"):
        resolve(target(site, limit, nvme_raid0_erase={"n3": ["S1"]}))


@pytest.mark.parametrize("given", [{}, {"nvme_raid0_erase": {"n1": {"S1": "ext4"}}}], ids=["alone", "with one for this call, too"])
def test_a_consent_in_the_inventory_is_refused_and_its_line_named(site: Path, given: dict[str, Any]) -> None:
    (site / "host_vars").mkdir()
    (site / "host_vars" / "n2.yml").write_text("---\nnvme_raid0_erase:\n  n2: {S1: ext4}\n")

    with pytest.raises(InventoryError, match=r"host_vars/n2\.yml:2: nvme_raid0_erase stands in the inventory \(of n2\)") as raised:
        resolve(target(site, **given))

    assert raised.value.exit_code == 2


def test_a_misspelt_consent_is_refused(site: Path) -> None:
    with pytest.raises(InventoryError, match=r"-e: variable 'nvme_raid0_erace' is none of ours.*nvme_raid0_erase"):
        resolve(target(site, nvme_raid0_erace={}))


def test_a_consent_is_no_secret_and_other_variables_of_a_call_are(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[str, ...]] = []
    monkeypatch.setattr(nodes, "play", lambda request, **_: heard.append(request.secrets) or PlayResult("finished", 0, {}))
    monkeypatch.setattr(nodes, "read_run_json", lambda _folder: {"run_id": "R", "plan": {}})
    given = {"nvme_raid0_erase": {"n1": {"S4X0NA01": "ext4 labelled scratch"}}, "site_word": "SECRET-1"}

    Driver(site, target(site, **given), Cancel(), hosts={"n1": {}}).play("provision.yml", ["n1"], stage="provision")

    assert heard == [("SECRET-1",)]


def test_a_consent_is_not_kept_with_the_run(site: Path) -> None:
    kept = target(site, nvme_raid0_erase={"n1": ["S1"]}, burnin_serial=1).source()["variables"]

    assert kept == {"burnin_serial": 1}, "a resume must be given it again"


def test_drives_that_cannot_be_written_down_are_told() -> None:
    story = Story()
    story.hear(Event("n1", TASK, "failed", {**REFUSED, "erase": {"S1": "{{ x }}", "S2": "xfs"}}, "no"))
    story.end(HostResult("n1", HostState.FAILED), cancelled=False, check=False)

    told = document("R", {"n1": story}, check=False)["nodes"][0]

    assert told["erase"] == {"S2": "xfs"}
    assert told["notes"] == ["1 of its drives cannot be written into a consent (no plain text, or too many); look at them on the node."]
