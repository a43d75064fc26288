"""Where a node's dnf keeps things, which Python it has, who holds it; and what the resolver's rows come to as a plan."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import ansible.module_utils
import pytest

ROOT = Path(__file__).resolve().parents[3]
ansible.module_utils.__path__.append(str(ROOT / "plugins/module_utils"))
from ansible.module_utils.burnin_group import dnf, dnf_ask  # noqa: E402
from ansible.module_utils.burnin_group.dnf_ask import System  # noqa: E402
from ansible.module_utils.burnin_group.model import Refusal  # noqa: E402


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("#!/usr/bin/python3", "/usr/bin/python3"),
        ("#!/usr/bin/python3 -s", "/usr/bin/python3"),
        ("#! /usr/libexec/platform-python -s", "/usr/libexec/platform-python"),
        ("#!/usr/bin/env python3", "python3"),
    ],
)
def test_the_interpreter_is_the_one_that_dnf_names(tmp_path: Path, first: str, expected: str) -> None:
    program = tmp_path / "dnf"
    program.write_text(f"{first}\nimport dnf\n")

    assert System(Path("/"), program).interpreter() == expected


def test_a_transaction_that_takes_too_long_is_left_to_end_and_a_plan_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = tmp_path / "ended"
    slow = f"import json, sys, time, pathlib; told = json.load(sys.stdin); time.sleep(1.0); pathlib.Path({str(ended)!r} + told['action']).touch()"
    program = tmp_path / "dnf"
    program.write_text(f"#!{sys.executable}\n")
    monkeypatch.setattr(dnf_ask, "resolver", lambda: slow)
    place = dnf_ask.Place(System(tmp_path, program), tmp_path / "top", [], {}, [])

    codes = {}
    for action in ("plan", "apply"):
        with pytest.raises(Refusal) as caught:
            place.ask(action, 0.3)
        codes[action] = caught.value.code
    time.sleep(2.0)

    assert codes == {"plan": "MIRROR_DOWN", "apply": "STILL_AT_WORK"}
    assert sorted(path.name for path in tmp_path.glob("ended*")) == ["endedapply"]


def test_the_answer_of_a_transaction_is_apart_from_its_talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "dnf"
    program.write_text(f"#!{sys.executable}\n")
    monkeypatch.setattr(dnf_ask, "resolver", lambda: "import sys; print('a scriptlet', file=sys.stderr); print(sys.stdin.read())")

    told = dnf_ask.Place(System(tmp_path, program), tmp_path / "top", [], {}, []).ask("apply", 20, specs=["nvidia"])

    assert told["specs"] == ["nvidia"]


@pytest.mark.parametrize("content", [b"\x7fELF\x02\x01 dnf5", b"#!/bin/sh\n", b""])
def test_a_dnf_that_is_not_python_is_refused(tmp_path: Path, content: bytes) -> None:
    program = tmp_path / "dnf"
    program.write_bytes(content)

    for one in (program, tmp_path / "none"):
        with pytest.raises(Refusal) as caught:
            System(Path("/"), one).interpreter()
        assert caught.value.code == "NO_MANAGER"


def test_the_settings_say_where_things_are(tmp_path: Path) -> None:
    etc = tmp_path / "etc/dnf"
    (etc / "own").mkdir(parents=True)
    (etc / "dnf.conf").write_text(f"[main]\nreposdir=/etc/a, {tmp_path}/etc/b\npluginconfpath=/etc/dnf/own\n")
    (etc / "own/versionlock.conf").write_text("[main]\nlocklist = /etc/locks\n")
    for name in ("a", "b"):
        (tmp_path / "etc" / name).mkdir()
        (tmp_path / "etc" / name / f"{name}.repo").touch()

    system = System(tmp_path)

    assert [file.name for file in system.repositories()] == ["a.repo", "b.repo"]
    assert system.lock_list == tmp_path / "etc/locks"
    assert System(tmp_path / "empty").lock_list == tmp_path / "empty/etc/dnf/plugins/versionlock.list"


@pytest.mark.parametrize(
    ("content", "expected"),
    [(str(os.getpid()), os.getpid()), ("4194304999", 0), ("", 0), ("no pid", 0)],
    ids=["alive", "gone", "empty", "odd"],
)
def test_who_a_pid_file_names(tmp_path: Path, content: str, expected: int) -> None:
    (tmp_path / "lock.pid").write_text(content)

    assert dnf_ask.pid_of(tmp_path / "lock.pid") == expected
    assert dnf_ask.pid_of(tmp_path / "none.pid") == 0


def test_rows_of_the_resolver_become_a_plan() -> None:
    machine = os.uname().machine
    come = [
        ["a", machine, "0:2-1", "r", 300, 30],
        ["b", machine, "0:1-1", "r", 10, 1],
        ["c", "noarch", "0:1-1", "r", 5, 1],
        ["a", "i686", "0:2-1", "r", 7, 2],
    ]
    go = [["a", machine, "0:1-1", "", 100, 0], ["b", machine, "0:2-1", "", 20, 0], ["d", machine, "0:9-1", "", 5, 0]]

    plan = dnf._plan(come, go)

    assert plan.install == {"c": "0:1-1", "a.i686": "0:2-1"}
    assert plan.change == {"a": ("0:1-1", "0:2-1"), "b": ("0:2-1", "0:1-1")}
    assert plan.remove == {"d": "0:9-1"}
    assert plan.downgrade == ["b"]
    assert (plan.disk_kib, plan.fetch_kib) == (197, 34)


def test_the_resolver_s_text_is_found() -> None:
    assert 'if __name__ == "__main__":\n    main()' in dnf_ask.resolver()
