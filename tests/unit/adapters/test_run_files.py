"""What comes from a node is unpacked with care, and what was shown once is not replaced by another story."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from burnin.adapters import run_files
from burnin.adapters.arrivals import gather
from burnin.adapters.run_files import append_line, holding, locked, read_node, read_run_files
from burnin.errors import RunFolderError

Member = tuple[tarfile.TarInfo, bytes]


def manifest(members: list[Member], **changed: Any) -> Member:
    files = {info.name: hashlib.sha256(content).hexdigest() for info, content in members}
    return member("manifest.json", json.dumps({"files": files, "left_out": [], **changed}).encode())


def archive(folder: Path, members: list[Member], **changed: Any) -> Path:
    """What a node packs and the controller fetched: the manifest first."""
    place = folder / "incoming" / "n1"
    place.mkdir(parents=True, exist_ok=True)
    with tarfile.open(place / "evidence.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for info, content in [manifest(members, **changed), *members]:
            tar.addfile(info, io.BytesIO(content))
    return place / "evidence.tar"


def member(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.type = len(content), kind
    return info, content


def test_an_archive_takes_its_place_whole(tmp_path: Path) -> None:
    archive(tmp_path, [member("journal.jsonl", b"1\n"), member("raw/agent.log", b"x")])

    assert gather(tmp_path) == []
    assert (tmp_path / "nodes" / "n1" / "journal.jsonl").read_bytes() == b"1\n"
    assert (tmp_path / "nodes" / "n1" / "raw" / "agent.log").read_bytes() == b"x"
    assert gather(tmp_path) == []


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(member("../journal.jsonl", b"x"), id="a way out"),
        pytest.param(member("journal.jsonl", kind=tarfile.SYMTYPE), id="a link"),
        pytest.param(member("journal.jsonl", kind=tarfile.GNUTYPE_SPARSE), id="a sparse file"),
        pytest.param(member("journal.jsonl", b"2\n"), id="a name twice"),
        pytest.param(member("other", b"x"), id="a name that is none of ours"),
    ],
)
def test_an_archive_that_is_not_a_nodes_changes_nothing(tmp_path: Path, bad: tuple[tarfile.TarInfo, bytes]) -> None:
    archive(tmp_path, [member("journal.jsonl", b"1\n"), bad])

    assert "cannot be unpacked" in gather(tmp_path)[0]
    assert not (tmp_path / "nodes" / "n1" / "journal.jsonl").exists()


@pytest.mark.parametrize("keep", [0, 512, 1024, 1536, 2048, 2600])
def test_an_archive_that_is_not_all_there_yet_changes_nothing(tmp_path: Path, keep: int) -> None:
    """It is cut at every member's border too, where tarfile itself sees no harm."""
    path = archive(tmp_path, [member("journal.jsonl", b"1\n"), member("measurements.jsonl", b"m\n")])
    path.write_bytes(path.read_bytes()[:keep])

    assert "cannot be unpacked" in gather(tmp_path)[0]
    assert not (tmp_path / "nodes" / "n1").exists()
    assert path.exists()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        pytest.param({"files": {}}, "journal.jsonl is here and not listed", id="a file that is not listed"),
        pytest.param({"files": {"journal.jsonl": "0" * 64}}, "does not match its checksum", id="another checksum"),
        pytest.param({"files": None}, "manifest.json cannot be read", id="no list"),
        pytest.param({"left_out": "all"}, "manifest.json cannot be read", id="what was left out is no list"),
    ],
)
def test_an_archive_takes_its_place_only_by_its_manifest(tmp_path: Path, changed: dict[str, Any], told: str) -> None:
    archive(tmp_path, [member("journal.jsonl", b"1\n")])
    gather(tmp_path)
    archive(tmp_path, [member("journal.jsonl", b"1\n2\n")], **changed)

    assert told in gather(tmp_path)[0]
    assert (tmp_path / "nodes" / "n1" / "journal.jsonl").read_bytes() == b"1\n"


def node_with(tmp_path: Path, files: dict[str, bytes], **changed: Any) -> Path:
    """A node's folder as it lies on the controller's disk."""
    members = [member(name, content) for name, content in files.items()]
    for info, content in [manifest(members, **changed), *members]:
        (tmp_path / info.name).parent.mkdir(exist_ok=True)
        (tmp_path / info.name).write_bytes(content)
    return tmp_path


@pytest.mark.parametrize("name", ["measurements.jsonl", "raw/tool.txt"])
def test_a_file_that_the_node_did_not_list_is_damage(tmp_path: Path, name: str) -> None:
    folder = node_with(tmp_path, {"journal.jsonl": b"1\n"})
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"x\n")

    assert read_node(folder).problems == (f"{name} is here and not listed by the node: it came from somewhere else.",)


def test_a_preflights_file_beside_the_evidence_is_no_damage(tmp_path: Path) -> None:
    folder = node_with(tmp_path, {"journal.jsonl": b"1\n"})
    (folder / "preflight.json").write_text("{}")

    assert read_node(folder).problems == ()


def test_what_the_node_left_out_is_told(tmp_path: Path) -> None:
    folder = node_with(tmp_path, {"journal.jsonl": b"1\n"}, left_out=["measurements.jsonl"])

    assert read_node(folder).lacking == ("measurements.jsonl was left out by the node: it is no plain file there.",)


@pytest.mark.parametrize("name", ["identity.json", "journal.jsonl", "measurements.jsonl", "collected.json"])
def test_a_file_that_is_too_large_is_cut_and_the_cut_is_told(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_files, "LARGEST_LINES_BYTES", 10)
    monkeypatch.setattr(run_files, "LARGEST_DOCUMENT_BYTES", 10)
    found = read_node(node_with(tmp_path, {name: b"0123456789"}))
    cut = read_node(node_with(tmp_path, {name: b"0123456789+"}))

    assert not any(name in problem for problem in found.lacking)
    assert f"{name} has 11 bytes; the first 10 were read." in cut.lacking


def test_a_second_holder_is_told_who_holds_the_run(tmp_path: Path) -> None:
    with locked(tmp_path), holding(tmp_path) as other:
        assert "another burnin (process " in other
        with pytest.raises(RunFolderError, match="drives this run"), locked(tmp_path):
            pass
    with holding(tmp_path) as other:
        assert other == ""


def ledger(folder: Path, content: bytes | None, *, driven: bool = True) -> tuple[list[Any], tuple[str, ...]]:
    source = {"inventory": ["hosts.yml"]} if driven else {}
    run = {"schema": "burnin.run/1", "inventory": {"nodes": [{"node": "n1", "folder": "n1"}]}, "source": source}
    (folder / "run.json").write_text(json.dumps(run))
    if content is not None:
        (folder / "controller.jsonl").write_bytes(content)
    found = read_run_files(folder)
    return list(found.controller), found.ledger


WORD = b'{"node": "n1"}\n'


def test_a_torn_last_line_of_a_killed_controller_is_normal(tmp_path: Path) -> None:
    assert ledger(tmp_path, WORD + b'{"node": "n') == ([{"node": "n1"}], ())


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"xx\n" + WORD, "controller.jsonl, line 1: not JSON.", id="no JSON"),
        pytest.param(b"[]\n" + WORD, "controller.jsonl, line 1: holds list; expected a mapping.", id="a list"),
        pytest.param(None, "controller.jsonl is not there.", id="no file"),
    ],
)
def test_a_ledger_that_cannot_be_read_is_told(tmp_path: Path, content: bytes | None, told: str) -> None:
    assert ledger(tmp_path, content)[1] == (told,)


def test_a_run_by_hand_has_no_ledger_and_owes_none(tmp_path: Path) -> None:
    assert ledger(tmp_path, None, driven=False) == ([], ())


def test_a_journal_that_goes_on_replaces_the_older(tmp_path: Path) -> None:
    archive(tmp_path, [member("journal.jsonl", b"1\n")])
    gather(tmp_path)
    archive(tmp_path, [member("journal.jsonl", b"1\n2\n")])

    assert gather(tmp_path) == []
    assert (tmp_path / "nodes" / "n1" / "journal.jsonl").read_bytes() == b"1\n2\n"


@pytest.mark.parametrize("journal", [b"7\n8\n", b""], ids=["begun anew", "gone"])
def test_a_node_that_was_emptied_does_not_replace_what_it_showed(tmp_path: Path, journal: bytes) -> None:
    archive(tmp_path, [member("journal.jsonl", b"1\n"), member("measurements.jsonl", b"wrong\n")])
    gather(tmp_path)
    archive(tmp_path, [*([member("journal.jsonl", journal)] if journal else []), member("measurements.jsonl", b"right\n")])

    assert "the earlier evidence is kept" in gather(tmp_path)[0]
    assert (tmp_path / "nodes" / "n1" / "measurements.jsonl").read_bytes() == b"wrong\n"


def test_what_a_killed_controller_left_half_written_is_dropped_by_the_next_line(tmp_path: Path) -> None:
    path = tmp_path / "controller.jsonl"
    path.write_bytes(b'{"a": 1}\n{"torn')

    append_line(path, {"b": 2})

    assert [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] == [{"a": 1}, {"b": 2}]


def test_a_last_line_that_lacks_its_end_alone_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "controller.jsonl"
    path.write_bytes(b'{"a": 1}')

    append_line(path, {"b": 2})

    assert [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] == [{"a": 1}, {"b": 2}]
