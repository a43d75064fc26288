"""A run that is looked at again: under its lock, or as it is while another burnin drives it."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from burnin.adapters.run_files import locked
from burnin.cli import run as command
from burnin.stages.judging import judge_run, judged
from unit.adapters.test_run_files import archive, member
from unit.verdict.folders import POLICY, RUN_ID, folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two nodes; of n1 an archive has arrived and is not unpacked yet."""
    made = folder(nodes=2)
    policy = {"name": POLICY.name, "limits": POLICY.limits, "skus": POLICY.skus}
    place = tmp_path / RUN_ID
    place.mkdir()
    (place / "run.json").write_text(json.dumps({**made.run, "policy": policy}))
    files = made.nodes["n1"]
    texts = {"identity.json": files.identity, "journal.jsonl": files.journal, "measurements.jsonl": files.measurements}
    archive(place, [member(name, (text or "").encode()) for name, text in texts.items()])
    return place


def state(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != ".lock"}


def test_what_has_arrived_is_unpacked_and_the_verdict_written(run: Path) -> None:
    with judged(run) as (document, driven):
        assert driven == ""

    assert (run / "nodes" / "n1" / "journal.jsonl").is_file()
    assert json.loads((run / "verdict.json").read_text())["digest"] == document["digest"]


def test_a_folder_that_cannot_be_written_is_judged_as_it_is(run: Path) -> None:
    (run / ".lock").mkdir()  # as on a read-only disk, where root may not write either
    before = state(run)

    with judged(run) as (document, driven):
        assert "cannot be written to" in driven

    assert document["summary"]["gpus"] == 16
    assert state(run) == before


def test_the_lock_is_held_while_it_is_judged_and_written(run: Path) -> None:
    with judged(run), judged(run) as (_document, driven):
        assert "drives this run" in driven


def test_a_run_that_another_drives_is_judged_as_it_is_and_nothing_in_it_changes(run: Path) -> None:
    before = state(run)
    with locked(run), judged(run) as (document, driven):
        assert "drives this run" in driven

    assert document["summary"]["INCONCLUSIVE"] == 16
    assert state(run) == before


@pytest.mark.parametrize("verb", [["verdict"], ["verdict", "--json"], ["report", "--format", "csv"]])
def test_the_verbs_say_so_and_go_on(run: Path, verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    before = state(run)
    with locked(run):
        code = command([verb[0], str(run), *verb[1:]])

    told = capsys.readouterr()
    assert code == (0 if verb[0] == "report" else 11), told.err
    assert "drives this run" in told.err
    assert "nothing is written into it" in told.err
    assert "n1" in told.out
    assert state(run) == before


def test_a_page_of_a_run_that_another_drives_wants_a_place_of_its_own(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with locked(run):
        assert command(["report", str(run)]) == 2
        assert "--out FILE" in capsys.readouterr().err
        assert command(["report", str(run), "--out", str(tmp_path / "page.html")]) == 0

    assert (tmp_path / "page.html").is_file()
    assert not (run / "report.html").exists()


def test_a_damaged_archive_is_told_once_however_often_it_is_judged(run: Path) -> None:
    place = run / "incoming" / "n1" / "evidence.tar"
    with tarfile.open(place, "w") as tar:
        tar.addfile(*_file("journal.jsonl"))

    first, second = judge_run(run), judge_run(run)

    assert first == second
    assert len((run / "controller.jsonl").read_text().splitlines()) == 1


def _file(name: str) -> tuple[tarfile.TarInfo, io.BytesIO]:
    info, content = member(name, b"1")
    return info, io.BytesIO(content)
