"""One file for the node: the same bytes every time, nothing foreign in it."""

from __future__ import annotations

import hashlib
import json
import stat
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from burnin.adapters import zipapp
from burnin.errors import BrokenError


def test_the_bytes_are_the_same_every_time_and_match_the_digest(tmp_path: Path) -> None:
    digests = [zipapp.build(tmp_path / name / "node.pyz") for name in ("a", "b")]

    data = (tmp_path / "a" / "node.pyz").read_bytes()
    assert data == (tmp_path / "b" / "node.pyz").read_bytes()
    assert [hashlib.sha256(data).hexdigest()] * 2 == digests
    assert data.startswith(b"#!/usr/bin/env python3\n")
    assert stat.S_IMODE((tmp_path / "a" / "node.pyz").stat().st_mode) == 0o755
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["node.pyz"]


def test_it_holds_the_node_package_its_data_and_nvidias_binding_and_nothing_else(tmp_path: Path) -> None:
    zipapp.build(tmp_path / "node.pyz")

    with zipfile.ZipFile(tmp_path / "node.pyz") as archive:
        names = archive.namelist()
        times = {entry.date_time for entry in archive.infolist()}
        json.loads(archive.read("burnin/node/data/sim_h100.json"))
        assert b"NVIDIA Corporation" in archive.read("pynvml.py")
    source = Path(zipapp.__file__).parents[1] / "node"
    wanted = {f"burnin/node/{path.relative_to(source)}" for path in source.rglob("*") if path.suffix in (".py", ".json")}
    assert {"__main__.py", "burnin/__init__.py", "pynvml.py"} | wanted == set(names)
    assert names == sorted(names)
    assert {(1980, 1, 1, 0, 0, 0)} == times


class Installed:
    """A file of an installed distribution, as importlib.metadata tells of it."""

    def __init__(self, path: Path, digest: str) -> None:
        self._path = path
        self.hash = metadata.FileHash(f"sha256={digest}")

    def __str__(self) -> str:
        return "pynvml.py"

    def locate(self) -> Path:
        return self._path


def test_a_foreign_pynvml_written_over_nvidias_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = next(file for file in metadata.files("nvidia-ml-py") or [] if str(file) == "pynvml.py")
    assert real.hash is not None
    (tmp_path / "pynvml.py").write_text("# another package's")
    monkeypatch.setattr(zipapp.metadata, "files", lambda _name: [Installed(tmp_path / "pynvml.py", real.hash.value)])

    with pytest.raises(BrokenError, match="uninstall the package 'pynvml'"):
        zipapp.build(tmp_path / "out" / "node.pyz")

    assert not (tmp_path / "out").exists()


def test_no_binding_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(zipapp.metadata, "files", absent)
    with pytest.raises(BrokenError, match="nvidia-ml-py is not installed"):
        zipapp.build(tmp_path / "node.pyz")
    monkeypatch.setattr(zipapp.metadata, "files", lambda _name: [])
    with pytest.raises(BrokenError, match=r"without its pynvml\.py"):
        zipapp.build(tmp_path / "node.pyz")


def test_a_build_that_fails_leaves_the_old_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zipapp.build(tmp_path / "node.pyz")
    before = (tmp_path / "node.pyz").read_bytes()

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipapp.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        zipapp.build(tmp_path / "node.pyz")

    assert before == (tmp_path / "node.pyz").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["node.pyz"]
