"""Evidence on its way to the controller: whole, bounded, checksummed, and nothing from outside its folder."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from burnin.node import packing
from burnin.node.packing import pack
from burnin.node.supervise import SuperviseProblem


@pytest.fixture
def run(tmp_path: Path) -> Path:
    evidence = tmp_path / "run" / "evidence"
    evidence.mkdir(parents=True)
    (evidence / "journal.jsonl").write_text('{"event": "run_started"}\n{"event": "win')
    (evidence / "measurements.jsonl").write_text('{"a": 1}\n{"b": 2}\n{"tor')
    (evidence / "samples.csv").write_text("elapsed_s,step\n1,a\n2,")
    (evidence / "identity.json").write_text("{}")
    return tmp_path / "run"


def unpacked(run: Path) -> dict[str, bytes]:
    with tarfile.open(run / "evidence.tar") as tar:
        return {entry.name: (tar.extractfile(entry) or pytest.fail(entry.name)).read() for entry in tar.getmembers()}


def manifest(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(unpacked(run)["manifest.json"])
    return found


def test_every_file_has_its_checksum_and_no_line_is_torn(run: Path) -> None:
    told = pack(run, "cpu")

    files = unpacked(run)
    assert {name: hashlib.sha256(data).hexdigest() for name, data in files.items() if name != "manifest.json"} == manifest(run)["files"]
    assert files["journal.jsonl"] == b'{"event": "run_started"}\n'
    assert files["measurements.jsonl"] == b'{"a": 1}\n{"b": 2}\n'
    assert gzip.decompress(files["samples.csv.gz"]) == b"elapsed_s,step\n1,a\n"
    assert told["sha256"] == hashlib.sha256((run / "evidence.tar").read_bytes()).hexdigest()
    assert (told["state"], told["bytes"]) == ("died", (run / "evidence.tar").stat().st_size)
    assert json.loads(files["collected.json"])["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert {"evidence", "evidence.tar", "pack.lock"} == {path.name for path in run.iterdir()}


def test_no_link_and_no_device_is_followed_out_of_the_folder(run: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("SECRET")
    evidence = run / "evidence"
    (evidence / "identity.json").unlink()
    (evidence / "identity.json").symlink_to(secret / "key")
    (run / "agent.log").symlink_to(secret / "key")
    (evidence / "raw").mkdir()
    (evidence / "raw" / "link").symlink_to(secret / "key")
    (evidence / "raw" / "folder").symlink_to(secret)
    os.mkfifo(evidence / "raw" / "pipe")
    (evidence / "raw" / "tool").mkdir()
    (evidence / "raw" / "tool" / "out.txt").write_text("kept")

    pack(run, "cpu")

    assert b"SECRET" not in (run / "evidence.tar").read_bytes()
    assert unpacked(run)["raw/tool/out.txt"] == b"kept"
    assert manifest(run)["left_out"] == ["agent.log", "folder", "identity.json", "link", "pipe"]


def test_a_raw_folder_that_is_a_link_is_left_out(run: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("SECRET")
    (run / "evidence" / "raw").symlink_to(tmp_path)

    pack(run, "cpu")

    assert b"SECRET" not in (run / "evidence.tar").read_bytes()
    assert manifest(run)["left_out"] == ["raw"]


def test_of_a_long_log_the_end_is_packed(run: Path) -> None:
    (run / "agent.log").write_bytes(b"x" * (3 << 20) + b"the end\n")

    pack(run, "cpu")

    log = unpacked(run)["raw/agent.log"]
    assert len(log) == 1 << 20
    assert log.endswith(b"the end\n")


def test_a_backend_that_cannot_be_opened_any_more_loses_no_evidence(run: Path) -> None:
    (run / "options.json").write_text("{torn")

    pack(run, "sim")

    told = json.loads(unpacked(run)["collected.json"])
    assert told["boot_id"] is None
    assert "not JSON" in told["boot_id_unknown"]
    assert "journal.jsonl" in unpacked(run)


def test_what_an_earlier_pack_left_behind_is_no_evidence(run: Path) -> None:
    (run / "packed").mkdir()
    (run / "packed" / "old.json").write_text("old")

    pack(run, "cpu")

    assert "old.json" not in unpacked(run)


def test_a_disk_that_fills_up_leaves_the_earlier_pack(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(run, "cpu")
    before = (run / "evidence.tar").read_bytes()

    def full(*_args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(packing, "_copy_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        pack(run, "cpu")

    assert before == (run / "evidence.tar").read_bytes()
    assert {"evidence", "evidence.tar", "pack.lock"} == {path.name for path in run.iterdir()}


@pytest.mark.parametrize("make", [pytest.param([], id="no folder"), pytest.param(["run"], id="a folder without evidence")])
def test_a_run_that_never_started_has_nothing_to_pack(tmp_path: Path, make: list[str]) -> None:
    for name in make:
        (tmp_path / name).mkdir()

    with pytest.raises(SuperviseProblem, match="never started here"):
        pack(tmp_path / "run", "cpu")


def test_a_folder_with_a_lock_alone_is_packed_as_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "agent.lock").touch()

    assert pack(tmp_path, "cpu")["state"] == "absent"
    assert {"collected.json"} == set(manifest(tmp_path)["files"])
