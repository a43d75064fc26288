"""fio reads every NVMe drive at once, raw. It is told twice that it may not write: --readonly, and a test that only reads."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Dict, List

from burnin.node.backends.base import Load, LoadProblem, Work
from burnin.node.disks import Disk, disks

BLOCK, DEPTH = "1M", 16  # large reads, enough of them in flight for one drive's full bandwidth
PATIENCE_S = 30.0  # beside the time asked for: fio's own begin and end on a busy host
LONGEST = 200


def read_fio(text: str) -> Work:
    """What one `fio --output-format=json` read: GB (10^9) and busy seconds. Raises ValueError for an output that shows no such read."""
    begin = text.find("{")  # fio writes its warnings before the document
    try:
        job = json.loads(text[begin:])["jobs"][0]
        error, moved, busy_ms = job["error"], job["read"]["io_bytes"], job["read"]["runtime"]
    except (KeyError, IndexError, TypeError) as problem:
        raise ValueError(f"fio's output has no {problem}") from None
    if error:
        raise ValueError(f"fio tells error {error}")
    if any(isinstance(one, bool) or not isinstance(one, int) or one <= 0 for one in (moved, busy_ms)):
        raise ValueError("fio read nothing")
    return Work(moved / 1e9, busy_ms / 1000, 0, 0)


def command(fio: str, name: str, seconds: float) -> List[str]:
    """The argv that reads this device for so long. A device that has gone is not made anew as a file."""
    return [
        fio, "--name=nvme_read", f"--filename=/dev/{name}", "--readonly", "--rw=read", "--allow_file_create=0", "--direct=1",
        f"--bs={BLOCK}", "--ioengine=libaio", f"--iodepth={DEPTH}", "--time_based", f"--runtime={max(1, round(seconds * 1000))}ms",
        "--output-format=json",
    ]  # fmt: skip


class DiskReadLoad(Load):
    """One fio per drive and tick, all at the same time. `told` gets what went wrong, by disk; that drive gave no work."""

    def __init__(self, root: Path, told: Dict[str, str]) -> None:
        fio = shutil.which("fio")
        if fio is None:
            raise LoadProblem("nvme_read needs fio, which is not on this node; install the package fio")
        self._fio, self._told, self._disks = fio, told, disks(root)
        if not self._disks:
            raise LoadProblem("nvme_read finds no NVMe drive on this node")

    def run_for(self, seconds: float) -> Dict[str, Work]:
        running = [(disk, self._begin(disk, seconds)) for disk in self._disks]
        done: Dict[str, Work] = {}
        for disk, process in running:
            try:
                out, err = process.communicate(timeout=seconds + PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                self._told[disk.disk] = f"fio did not end within {seconds + PATIENCE_S:g} s"
                continue
            try:
                done[disk.disk] = read_fio(out)
            except ValueError as problem:
                self._told[disk.disk] = f"fio exited {process.returncode}: {err.strip()[:LONGEST] or problem}"
        return done

    def _begin(self, disk: Disk, seconds: float) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            command(self._fio, disk.name, seconds), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
