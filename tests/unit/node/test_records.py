"""Files that survive a kill and a full disk."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from burnin.node import records
from burnin.node.records import Journal, Lines, last_line, mend_tail, read_journal, write_whole


@pytest.mark.parametrize(
    ("left", "kept"),
    [
        pytest.param(b"", b"", id="an empty file"),
        pytest.param(b"one\ntwo\n", b"one\ntwo\n", id="whole lines"),
        pytest.param(b"one\ntw", b"one\n", id="a torn line"),
        pytest.param(b"torn", b"", id="nothing but a torn line"),
        pytest.param(b"one\n" + b"\0" * 200_000, b"one\n", id="zeros that a power cut left"),
    ],
)
def test_mending_keeps_every_whole_line_and_nothing_else(tmp_path: Path, left: bytes, kept: bytes) -> None:
    path = tmp_path / "lines"
    path.write_bytes(left)

    dropped = mend_tail(path)

    assert (kept, len(left) - len(kept)) == (path.read_bytes(), dropped)


def test_a_full_disk_leaves_whole_lines_and_a_closed_file_still_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines(tmp_path / "lines")
    lines.write("before")
    lines.sync()
    real = lines._file

    class Full:
        """Takes seven bytes, then the disk is full."""

        left = 7

        def write(self, data: memoryview) -> int:
            if not self.left:
                raise OSError(errno.ENOSPC, "No space left on device")
            taken = real.write(data[: self.left])
            self.left -= taken
            return taken

    monkeypatch.setattr(lines, "_file", Full())
    lines.write("abc")
    lines.write("defghi")
    with pytest.raises(OSError, match="No space left"):
        lines.flush()
    monkeypatch.setattr(lines, "_file", real)
    lines.write("after")
    lines.close()

    assert (tmp_path / "lines").read_text() == "before\nabc\nafter\n"


def test_a_journal_with_damage_gives_the_events_that_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(
        b'{"event": "a"}\n[1]\nnot json\n{"no": "event"}\n{"event": 7}\n\xff\xfe\n' + b"[" * 100_000 + b'\n{"event": "b"}\n{"event": "to'
    )

    assert [event["event"] for event in read_journal(path)] == ["a", "b"]


def test_a_line_separator_in_a_reason_does_not_tear_the_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.event("failed", reason="one\u2028two\x85\nthree \udc80")
    journal.close()

    assert [event["reason"] for event in read_journal(tmp_path / "journal.jsonl")] == ["one\u2028two\x85\nthree \udc80"]


@pytest.mark.parametrize(
    ("text", "expected"), [("", ""), ("torn", ""), ("one\n", "one"), ("one\ntwo\nthr", "two"), ("x\n" * 100_000 + "end\n", "end")]
)
def test_the_last_whole_line_is_found(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "f").write_text(text)

    assert expected == last_line(tmp_path / "f")


def test_a_document_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_whole(tmp_path / "a.json", {"old": 1})

    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(records.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "a.json", {"new": 2})

    assert json.loads((tmp_path / "a.json").read_text()) == {"old": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
