"""Drives in a burn-in, the real way: `burnin run` on a virtual machine with NVMe drives, real fio and real health logs."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import vms
from lab.vms import Drive, Machine, Unavailable, Vm

pytestmark = pytest.mark.slow

BURNIN = Path(sys.executable).parent / "burnin"
SERIALS = ("S1", "S2")
INCONCLUSIVE = 11


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Vm, Path]]:
    """One machine with two drives, one of which holds something."""
    name, path = f"e2e-disks-{os.getpid()}", tmp_path_factory.mktemp("site") / "inventory.json"
    try:
        vm = vms.up(name, [Machine("n1", tuple(Drive(serial, size_mib=128) for serial in SERIALS))])["n1"]
        vms.inventory(name, path)
        yield vm, path
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have virtual machines: {why}")
        pytest.skip(str(why))
    finally:
        vms.down(name)


def test_drives_are_read_and_judged_and_none_of_their_bytes_changes(inventory: tuple[Vm, Path], tmp_path: Path) -> None:
    vm, path = inventory
    vm.run("sh", "-c", "printf kept | dd of=/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_S2 conv=fsync status=none")
    before = {serial: hashlib.sha256(vm.image(serial).read_bytes()).hexdigest() for serial in SERIALS}

    argv = [str(BURNIN), "run", "-i", str(path), "--plan", "cpu-disks", "--out", str(tmp_path), "-e", "burnin_run_backend=cpu"]
    done = subprocess.run([*argv, "-e", "burnin_sku=CPU"], capture_output=True, text=True, timeout=900, check=False)

    verdict = json.loads(next(tmp_path.rglob("verdict.json")).read_text())
    assert done.returncode == INCONCLUSIVE, done.stderr  # two drives are no cohort
    assert [(disk["disk"], disk["verdict"]) for disk in verdict["disks"]] == [(serial, "INCONCLUSIVE") for serial in SERIALS]
    speeds = {disk["disk"]: [one for one in disk["findings"] if one["code"] == "DISK_COHORT_TOO_SMALL"] for disk in verdict["disks"]}
    assert all(ones and ones[0]["test"] == "nvme_read" and ones[0]["value"] > 0 for ones in speeds.values()), verdict["disks"]
    assert not [one for disk in verdict["disks"] for one in disk["findings"] if one["code"] == "DISK_HEALTH_UNKNOWN"]
    assert before == {serial: hashlib.sha256(vm.image(serial).read_bytes()).hexdigest() for serial in SERIALS}
