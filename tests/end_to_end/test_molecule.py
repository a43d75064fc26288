"""The scenarios need nothing but this machine: molecule must not reach for a network, nor for a home folder (field reports B52, B53)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.rootfs import Unavailable, root_file_system

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
ROLE = "burnin_stack"  # the quickest
PATIENCE_S = 300


def test_a_scenario_passes_without_a_network_and_with_an_empty_home(tmp_path: Path) -> None:
    try:
        root_file_system()
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have test nodes: {why}")
        pytest.skip(str(why))
    unshare = shutil.which("unshare")
    assert unshare is not None, "util-linux is on every Debian"
    home = tmp_path / "home"
    home.mkdir()

    done = subprocess.run(
        [unshare, "--net", "sh", "-c", 'ip link set lo up; ! ip route get 192.0.2.1 2>/dev/null || exit 3; exec "$@"', "sh", str(ROOT / "tests/lab/run_molecule"), ROLE],
        env={**os.environ, "HOME": str(home)}, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip

    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert f"molecule: {ROLE}: passed" in done.stdout
    assert list(home.iterdir()) == []
