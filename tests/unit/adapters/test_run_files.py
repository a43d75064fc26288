"""What comes from a node is unpacked with care, and what was shown once is not replaced by another story."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from burnin.adapters.run_files import append_line, gather


def archive(folder: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    place = folder / "incoming" / "n1"
    place.mkdir(parents=True, exist_ok=True)
    with tarfile.open(place / "evidence.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for member, content in members:
            tar.addfile(member, io.BytesIO(content))


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


def test_a_line_after_a_torn_one_is_a_line_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "controller.jsonl"
    path.write_bytes(b'{"a": 1}\n{"torn')

    append_line(path, {"b": 2})

    assert json.loads(path.read_text(encoding="utf-8").splitlines()[-1]) == {"b": 2}
