"""Drives on the node: found in sysfs, their health read from two tools, and read by a fio that is a fake here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from burnin.node import disks
from burnin.node.backends.base import LoadProblem
from burnin.node.disk_load import DiskReadLoad, command, read_fio

FIO = {"jobs": [{"error": 0, "read": {"io_bytes": 4_000_000_000, "runtime": 2000}}]}


def root_with(folder: Path, *names: str) -> Path:
    """A /sys with these namespaces; each drive's serial is S and its controller's number."""
    for name in names:
        device = folder / "sys/block" / name / "device"
        device.mkdir(parents=True)
        (folder / "sys/block" / name / "size").write_text("2048\n")
        texts = {"serial": f"S{name[4:5]}", "model": "Model A", "firmware_rev": "1.0", "address": "0000:01:00.0"}
        for file, text in texts.items():
            (device / file).write_text(f"{text}   \n")
    return folder


def fake_fio(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    folder.mkdir()
    (folder / "fio").write_text(f'#!/bin/sh\necho "$@" >> {folder}/argv\n{body}\n')
    (folder / "fio").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_namespaces_are_found_by_serial_and_other_disks_are_not(tmp_path: Path) -> None:
    found = disks.disks(root_with(tmp_path, "nvme0n1", "nvme0n2", "nvme1n1", "sda", "nvme0n1p1"))

    assert [(one.disk, one.model, one.firmware, one.size_bytes) for one in found] == [
        ("S0", "Model A", "1.0", 1 << 20), ("S0_n2", "Model A", "1.0", 1 << 20), ("S1", "Model A", "1.0", 1 << 20),
    ]  # fmt: skip


def test_both_tools_health_logs_say_the_same() -> None:
    counts = {"media_errors": 2, "unsafe_shutdowns": 4}
    cli = {"critical_warning": {"value": 1}, "percent_used": 3, "avail_spare": 100, "spare_thresh": 10, "temperature": 313, **counts}
    ctl = {
        "critical_warning": 1,
        "percentage_used": 3,
        "available_spare": 100,
        "available_spare_threshold": 10,
        "temperature": 40,
        **counts,
    }

    one, other = disks.read_nvme_cli(json.dumps(cli)), disks.read_smartctl(json.dumps({"nvme_smart_health_information_log": ctl}))

    assert one == other
    assert (one["critical_warning"], one["temp_c"], one["percentage_used"]) == (1, 40, 3)


@pytest.mark.parametrize(
    ("told", "count"), [("0", 0), ("340282366920938463463374607431768211455", 2**128 - 1), ("9" * 5000, None), ("-1", None)]
)
def test_nvme_cli_writes_large_counts_as_text(told: str, count: int | None) -> None:
    assert disks.read_nvme_cli(json.dumps({"critical_warning": 0, "media_errors": told}))["media_errors"] == count


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"error": "no"}'])
def test_what_is_no_health_log_is_refused(text: str) -> None:
    for read in (disks.read_nvme_cli, disks.read_smartctl):
        with pytest.raises(ValueError):
            read(text)


def test_no_tool_for_the_health_log_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert "nvme-cli" in disks.smart("nvme0")["problem"]


def test_fio_is_told_to_only_read() -> None:
    argv = command("fio", "nvme0n1", 1.5)

    assert {"--readonly", "--rw=read", "--allow_file_create=0", "--filename=/dev/nvme0n1", "--runtime=1500ms"} <= set(argv)


def test_what_fio_read_becomes_work_by_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_fio(tmp_path / "bin", monkeypatch, f"cat <<'END'\nfio: a warning\n{json.dumps(FIO)}\nEND")

    work = DiskReadLoad(root_with(tmp_path, "nvme0n1", "nvme1n1"), {}).run_for(2)

    assert {disk: (one.amount, one.seconds) for disk, one in work.items()} == {"S0": (4.0, 2.0), "S1": (4.0, 2.0)}
    argv = (tmp_path / "bin/argv").read_text().splitlines()
    assert len(argv) == 2
    assert all("--readonly" in line for line in argv)


def test_a_drive_that_cannot_be_read_gave_no_work_and_the_reason_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_fio(tmp_path / "bin", monkeypatch, "echo 'Input/output error' >&2; exit 1")
    told: dict[str, str] = {}

    assert DiskReadLoad(root_with(tmp_path, "nvme0n1"), told).run_for(1) == {}
    assert told == {"S0": "fio exited 1: Input/output error"}


@pytest.mark.parametrize(
    "job", [{"error": 5}, {"error": 0, "read": {"io_bytes": 0, "runtime": 1}}, {"error": 0, "read": {"io_bytes": 1, "runtime": 0}}]
)
def test_a_fio_that_read_nothing_or_failed_is_no_work(job: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        read_fio(json.dumps({"jobs": [job]}))


def test_without_fio_or_without_drives_the_test_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_fio(tmp_path / "bin", monkeypatch, "exit 0")
    with pytest.raises(LoadProblem, match="no NVMe drive"):
        DiskReadLoad(tmp_path, {})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LoadProblem, match="needs fio"):
        DiskReadLoad(root_with(tmp_path, "nvme0n1"), {})
