"""Bad input at the command line: exit 2, one clear line that names the thing and the remedy, nothing touched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BURNIN = Path(sys.executable).parent / "burnin"
HOST = "gpu_nodes:\n  hosts:\n    {host}:\n      ansible_connection: local\n      burnin_sku: CPU\n      {extra}\n"


def burnin(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(BURNIN), *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


def inventory(folder: Path, text: str) -> Path:
    path = folder / "hosts.yml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(done: subprocess.CompletedProcess[str], *told: str, cwd: Path) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for text in told:
        assert text in done.stderr
    assert not (cwd / "runs").exists()


def test_an_inventory_that_is_not_there(tmp_path: Path) -> None:
    refused(burnin("run", "-i", "nowhere", cwd=tmp_path), "nowhere", "no such inventory", cwd=tmp_path)


def test_an_inventory_that_is_not_yaml(tmp_path: Path) -> None:
    inventory(tmp_path, "gpu_nodes: [\n")

    done = burnin("run", "-i", "hosts.yml", cwd=tmp_path)

    assert done.returncode == 2
    assert "hosts.yml" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_consent_to_erase_drives_for_a_host_that_is_none(tmp_path: Path) -> None:
    inventory(tmp_path, HOST.format(host="n1", extra=""))
    (tmp_path / "erase.yml").write_text("nvme_raid0_erase:\n  n2: {S1: ext4}\n")

    refused(burnin("provision", "-i", "hosts.yml", "-e", "@erase.yml", cwd=tmp_path), "no host 'n2'", "Nothing was touched", cwd=tmp_path)


def test_a_consent_to_erase_drives_in_the_inventory(tmp_path: Path) -> None:
    inventory(tmp_path, HOST.format(host="n1", extra="nvme_raid0_erase: {n1: {S1: ext4}}"))

    refused(burnin("provision", "-i", "hosts.yml", cwd=tmp_path), "hosts.yml:6", "nvme_raid0_erase", "of n1", "-e", cwd=tmp_path)


def test_an_empty_group(tmp_path: Path) -> None:
    inventory(tmp_path, "all:\n  hosts:\n    a:\ngpu_nodes:\n  hosts: {}\n")

    refused(burnin("run", "-i", "hosts.yml", cwd=tmp_path), "gpu_nodes", cwd=tmp_path)


def test_a_limit_that_matches_nobody(tmp_path: Path) -> None:
    inventory(tmp_path, HOST.format(host="n1", extra=""))

    refused(burnin("run", "-i", "hosts.yml", "--limit", "n7", cwd=tmp_path), "n7", cwd=tmp_path)


def test_a_misspelt_variable_of_ours(tmp_path: Path) -> None:
    inventory(tmp_path, HOST.format(host="n1", extra="burnin_run_supervisr: process"))

    refused(burnin("run", "-i", "hosts.yml", cwd=tmp_path), "n1", "burnin_run_supervisr", "burnin_run_supervisor", cwd=tmp_path)


def test_a_misspelt_variable_on_the_command_line(tmp_path: Path) -> None:
    inventory(tmp_path, HOST.format(host="n1", extra=""))

    refused(burnin("run", "-i", "hosts.yml", "-e", "burnin_rackk=A1", cwd=tmp_path), "burnin_rackk", "burnin_rack", cwd=tmp_path)


@pytest.mark.parametrize(("written", "found"), [("1.20", "1.2"), ("00123456", "42798"), ("07", "7")])
def test_a_label_that_yaml_turned_into_a_number(tmp_path: Path, written: str, found: str) -> None:
    inventory(tmp_path, HOST.format(host="n1", extra=f"burnin_rack: {written}"))

    refused(burnin("run", "-i", "hosts.yml", cwd=tmp_path), "burnin_rack of n1", found, "quotes", cwd=tmp_path)


@pytest.mark.parametrize(
    "host", ["'a/b'", "'../../etc/x'", "'-dash'", '"bell\\u0007"'], ids=["a slash", "a path", "an option", "a control character"]
)
def test_a_host_name_that_cannot_be_used(tmp_path: Path, host: str) -> None:
    inventory(tmp_path, HOST.format(host=host, extra=""))

    done = burnin("run", "-i", "hosts.yml", cwd=tmp_path)

    assert done.returncode == 2, done.stderr
    assert not (tmp_path / "runs").exists()


def test_an_unknown_sku(tmp_path: Path) -> None:
    inventory(tmp_path, HOST.format(host="n1", extra="").replace("CPU", "H100-SXM5-80BG"))

    refused(burnin("run", "-i", "hosts.yml", cwd=tmp_path), "H100-SXM5-80BG", "did you mean 'H100-SXM5-80GB'", cwd=tmp_path)


def test_an_unknown_plan(tmp_path: Path) -> None:
    inventory(tmp_path, HOST.format(host="n1", extra=""))

    refused(burnin("run", "-i", "hosts.yml", "--plan", "quik", cwd=tmp_path), "quik", "did you mean 'quick'", cwd=tmp_path)


def test_a_plan_with_an_unknown_test(tmp_path: Path) -> None:
    inventory(tmp_path, HOST.format(host="n1", extra=""))
    (tmp_path / "plan.yaml").write_text(
        "schema: burnin.plan/1\nname: p\nsteps:\n  - {test: gemm_fp31, windows: 3, window_s: 1}\n", encoding="utf-8"
    )

    refused(burnin("run", "-i", "hosts.yml", "--plan", "plan.yaml", cwd=tmp_path), "plan.yaml", "gemm_fp31", "gemm_fp32", cwd=tmp_path)


def test_a_policy_with_a_limit_without_its_reason(tmp_path: Path) -> None:
    inventory(tmp_path, HOST.format(host="n1", extra=""))
    (tmp_path / "p.yaml").write_text("schema: burnin.policy/1\nlimits:\n  heat_margin_c: {value: 7}\n", encoding="utf-8")

    refused(burnin("run", "-i", "hosts.yml", "--policy", "p.yaml", cwd=tmp_path), "p.yaml", "heat_margin_c", "why", cwd=tmp_path)


def test_a_run_that_is_none(tmp_path: Path) -> None:
    refused(burnin("verdict", "20260101T000000Z-abcdef", cwd=tmp_path), "20260101T000000Z-abcdef", "run.json", cwd=tmp_path)


def test_no_run_at_all(tmp_path: Path) -> None:
    refused(burnin("status", cwd=tmp_path), "holds no run", cwd=tmp_path)


def test_a_table_without_the_named_column(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("uuid,pref\nGPU-1,3\n", encoding="utf-8")

    done = burnin("verdict", "--table", "t.csv", "--columns", "gpu=uuid,value=perf", cwd=tmp_path)

    refused(done, "t.csv", "'perf'", "did you mean 'pref'", cwd=tmp_path)


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    refused(burnin("verdict", "--table", "t.csv", cwd=tmp_path), "t.csv", cwd=tmp_path)


@pytest.mark.parametrize("arguments", [["runn"], ["run"], ["verdict", "--better", "up"], ["run", "-i", "x", "-e", "novalue"]], ids=str)
def test_usage(tmp_path: Path, arguments: list[str]) -> None:
    refused(burnin(*arguments, cwd=tmp_path), cwd=tmp_path)


def test_a_crash_of_ours_is_12_and_never_1(tmp_path: Path) -> None:
    code = "import burnin.__main__ as m, burnin.cli as c\ndef boom(argv): raise RuntimeError('boom')\nc.run = boom\nm.main()"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)

    assert done.returncode == 12
    assert "boom" in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "nearest"), [("burnin_run_backend", "cpuu", "cpu"), ("burnin_run_supervisor", "proces", "process")]
)
def test_a_value_that_is_no_choice(tmp_path: Path, name: str, value: str, nearest: str) -> None:
    inventory(tmp_path, HOST.format(host="n1", extra=f"{name}: {value}"))

    refused(burnin("run", "-i", "hosts.yml", cwd=tmp_path), "n1", name, f"did you mean '{nearest}'", cwd=tmp_path)


def test_a_limit_in_another_unit(tmp_path: Path) -> None:
    inventory(tmp_path, HOST.format(host="n1", extra=""))
    text = "schema: burnin.policy/1\nlimits:\n  heat_margin_c: {value: 9, unit: F, why: summer, source: us}\n"
    (tmp_path / "p.yaml").write_text(text, encoding="utf-8")

    refused(burnin("run", "-i", "hosts.yml", "--policy", "p.yaml", cwd=tmp_path), "heat_margin_c", "'F'", "'C'", cwd=tmp_path)


def test_a_place_for_runs_that_is_a_file(tmp_path: Path) -> None:
    inventory(tmp_path, HOST.format(host="n1", extra=""))
    (tmp_path / "taken").write_text("", encoding="utf-8")

    refused(burnin("run", "-i", "hosts.yml", "--out", "taken", cwd=tmp_path), "--out taken", cwd=tmp_path)


def test_a_demo_too_small_to_verify(tmp_path: Path) -> None:
    refused(burnin("demo", "--nodes", "2", "--verify", cwd=tmp_path), "--nodes 4", cwd=tmp_path)


def rows(copies: int) -> str:
    """32 GPUs with one value each, one of them 10 % slow; every row so many times."""
    lines = [f"GPU-{number},{90 if number == 3 else 100 + number / 100}" for number in range(32)]
    return "gpu,value\n" + "\n".join(line for line in lines for _ in range(copies)) + "\n"


def test_copies_of_rows_are_told(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(rows(copies=4), encoding="utf-8")

    done = burnin("verdict", "--table", "t.csv", "--better", "higher", "--json", cwd=tmp_path)

    assert "96 of 128 rows are exact copies" in json.loads(done.stdout)["notes"][0]


def test_a_direction_that_nobody_named_is_told(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(rows(copies=1), encoding="utf-8")

    assert "a higher value is taken to be better; say --better" in burnin("verdict", "--table", "t.csv", cwd=tmp_path).stderr


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["for a person", "for a machine"])
def test_a_reader_that_goes_away_does_not_change_the_exit_code(tmp_path: Path, more: list[str]) -> None:
    (tmp_path / "t.csv").write_text(rows(copies=1), encoding="utf-8")
    command = f"'{BURNIN}' verdict --table t.csv --better higher {' '.join(more)} | true; exit ${{PIPESTATUS[0]}}"

    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (11, "")


def test_a_full_disk_behind_stdout_is_12_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(rows(copies=1), encoding="utf-8")

    with Path("/dev/full").open("w") as full:
        command = [str(BURNIN), "verdict", "--table", "t.csv", "--better", "higher", "--json"]
        done = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)

    assert done.returncode == 12
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr
