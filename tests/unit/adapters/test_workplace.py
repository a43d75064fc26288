"""The private place of a play: gone afterwards, and what a killed burnin left is swept by the next."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from burnin.adapters import ansible_env
from burnin.adapters.ansible_env import HELD, PREFIX, STALE_AFTER_S, workplace


def left(base: Path, name: str, *, age_s: float) -> Path:
    folder = base / f"{PREFIX}{name}"
    folder.mkdir()
    (folder / HELD).write_text("", encoding="utf-8")
    (folder / "extravars").write_text("secret", encoding="utf-8")
    when = folder.stat().st_mtime - age_s
    os.utime(folder, (when, when))
    return folder


def test_it_is_private_and_gone_afterwards(tmp_path: Path) -> None:
    with workplace(tmp_path) as place:
        assert place.folder.stat().st_mode & 0o777 == 0o700

    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_burnin_left_is_swept(tmp_path: Path) -> None:
    old = left(tmp_path, "old", age_s=STALE_AFTER_S + 60)
    young = left(tmp_path, "young", age_s=STALE_AFTER_S - 60)
    other = tmp_path / "other"
    other.mkdir()

    with workplace(tmp_path):
        assert (old.exists(), young.exists(), other.exists()) == (False, True, True)


def test_what_another_burnin_holds_is_left_alone(tmp_path: Path) -> None:
    busy = left(tmp_path, "busy", age_s=STALE_AFTER_S + 60)

    with (busy / HELD).open("r+", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with workplace(tmp_path):
            assert busy.exists()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    target = left(tmp_path, "x", age_s=0).rename(tmp_path / "target")
    (tmp_path / f"{PREFIX}link").symlink_to(target)

    with workplace(tmp_path):
        assert target.exists()


def test_a_path_that_ansible_would_split_is_not_used(tmp_path: Path) -> None:
    base = tmp_path / "a b"
    base.mkdir()

    with workplace(base) as place:
        assert not place.folder.is_relative_to(base)
        assert place.folder.is_relative_to(ansible_env._memory())
