"""burnin stack check, show, packages: exit codes, what goes to stdout and what to stderr."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from burnin.cli import run

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = str(ROOT / "inventory/example/group_vars/all/stack.yml")
DATA = ROOT / "tests" / "data" / "stack"


def test_a_right_file_is_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stack", "check", EXAMPLE]) == 0
    assert "0 errors, 0 warnings" in capsys.readouterr().out


@pytest.mark.parametrize("path", sorted(DATA.glob("*.yml")), ids=lambda path: path.stem)
def test_each_wrong_file_is_2_and_names_the_field(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    errors = [one for one in wanted if one["level"] == "error"]

    code = run(["stack", "check", str(path)])

    shown = capsys.readouterr()
    assert code == (2 if errors else 0)
    for one in wanted:
        assert one["code"] in shown.err
        assert one["field"] in shown.err
    assert f"{len(errors)} errors" in shown.out


def test_json_is_one_document_with_the_warnings_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["stack", "check", str(DATA / "end_of_life_branch.yml"), "--json"])

    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert (code, document["ok"], document["errors"], document["warnings"]) == (0, True, 0, 1)
    assert document["problems"][0]["code"] == "BRANCH_ENDED"
    assert shown.err == ""


def test_a_sku_of_the_command_line_is_checked_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stack", "check", EXAMPLE, "--sku", "V100-SXM2-16GB"]) == 2
    assert "FLAVOUR_WRONG" in capsys.readouterr().err


def test_packages_lists_pins_for_one_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stack", "packages", EXAMPLE, "--distro", "ubuntu2404"]) == 0
    out = capsys.readouterr().out
    assert "nvidia-fabricmanager=580.126.09-*" in out
    assert "libnccl-dev=2.28.9-1+cuda12.9" in out


def test_packages_as_json_is_the_resolution(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stack", "packages", EXAMPLE, "--distro", "debian12", "--sku", "GH200", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)["resolution"]
    assert (made["arch"], made["sku"], made["groups"]["driver"]["names"][0]) == ("sbsa", "GH200", "nvidia-open")


def test_a_wrong_file_comes_to_no_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stack", "packages", str(DATA / "default_not_listed.yml"), "--distro", "ubuntu2404", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["resolution"] is None


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        pytest.param(["check", "nowhere.yml"], "nowhere.yml", id="no such file"),
        pytest.param(["check", str(ROOT)], "cannot be read", id="a folder"),
        pytest.param(["check", EXAMPLE, "--sku", "H100"], "did you mean", id="an unknown SKU"),
        pytest.param(["packages", EXAMPLE, "--distro", "ubuntu2405"], "ubuntu2404", id="an unknown distribution"),
        pytest.param(["packages", EXAMPLE, "--distro", "ubuntu2404", "--arch", "arm"], "sbsa", id="an unknown architecture"),
        pytest.param(["packages", EXAMPLE], "--distro", id="no distribution"),
        pytest.param(["show", "-i", str(ROOT / "inventory/example"), "--host", "nobody"], "gpu-a1-01", id="a host that is not there"),
        pytest.param(["show", "-i", str(ROOT / "inventory/demo"), "--host", "sim-01"], "inventory/", id="an inventory without a stack"),
    ],
)
def test_bad_input_is_2_and_one_line(argv: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stack", *argv]) == 2
    shown = capsys.readouterr()
    assert says in shown.err
    assert shown.out == ""


def test_show_is_the_stack_of_a_host(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stack", "show", "-i", str(ROOT / "inventory/example"), "--host", "gpu-a1-01", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["hardware"]["sku"] == "H100-SXM5-80GB"
    assert len(document["resolutions"]) == 7
    assert document["stack"]["driver"]["version"] == "580.126.09"
