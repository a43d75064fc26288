"""burnin drift's table: one row a code, the nodes folded, and the exit code."""

from __future__ import annotations

import json

import pytest

from burnin.cli.drift_view import folded, show_drift
from burnin.stack.drift.document import Looked, document
from burnin.stack.drift.finding import Finding


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (["gpu-01", "gpu-02", "gpu-03", "gpu-07"], "gpu-[01-03,07]"),
        (["gpu-01"], "gpu-01"),
        (["gpu-9", "gpu-10"], "gpu-9, gpu-10"),
        (["a1-n1.site", "a1-n2.site"], "a1-n[1-2].site"),
        (["rack2-n1", "rack1-n1"], "rack1-n1, rack2-n1"),
        (["beta", "alpha"], "alpha, beta"),
        (["gpu-01", "gpu-01"], "gpu-01"),
        ([f"n{'9' * 12}"], f"n{'9' * 12}"),
    ],
    ids=str,
)
def test_nodes_are_folded(nodes: list[str], expected: str) -> None:
    assert folded(nodes) == expected


def test_a_long_list_ends() -> None:
    assert folded(chr(97 + n // 26) + chr(97 + n % 26) for n in range(40)).endswith(" and 16 more (--json has all)")


HOLD = Finding("HOLD_MISSING", "driver", "libcuda1 not held", "each held", ("libcuda1",))
GONE = Finding("DRIFT_UNREACHABLE", "node", "unreachable: no route to host", "an answer")
ORIGIN = Finding("UNATTENDED_ORIGIN", "node", "origin=*", "the distribution's own origins only")
ACCEPTED = Finding("PIN_MISSING", "driver", "no file", "a file", accepted="mirror moves, until 2026-12-04")


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ([(), ()], 0),
        ([(HOLD,), ()], 10),
        ([(GONE,), ()], 11),
        ([(GONE,), (HOLD,)], 10),
        ([(ORIGIN,), ()], 0),
        ([(ACCEPTED,), ()], 0),
    ],
    ids=["none", "drift", "unreachable", "both", "review alone", "accepted"],
)
def test_exit_codes(findings: list[tuple[Finding, ...]], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    made = document([Looked(f"n{number}", told) for number, told in enumerate(findings)], [], "", ["i"])

    assert show_drift(made, as_json=True) == code
    assert json.loads(capsys.readouterr().out)["schema"] == "burnin.drift/1"
    assert show_drift(made, as_json=False) == code


def test_the_table_has_one_row_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    looked = [Looked(f"gpu-{number:02}", (HOLD, ACCEPTED) if number < 40 else (GONE,) if number == 50 else ()) for number in range(64)]

    show_drift(document(looked, [], "", ["i"]), as_json=False)

    shown = capsys.readouterr().out
    assert shown.count("HOLD_MISSING") == 1
    assert "40 of 64: gpu-[00-39]" in shown
    assert "libcuda1 not held. Expected: each held" in " ".join(shown.split())
    assert "accepted" in shown
    assert "mirror moves, until 2026-12-04" in " ".join(shown.split())
    assert "64 nodes: 23 clean, 40 drifted, 1 not seen" in shown
    assert max(len(line) for line in shown.splitlines()) <= 160


def test_a_nodes_words_cannot_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = Finding("DPKG_BROKEN", "node", "\x1b[2J[bold]x[/bold]", "none")

    show_drift(document([Looked("n1", (evil,))], [], "", ["i"]), as_json=False)

    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "[bold]x[/bold]" in shown
