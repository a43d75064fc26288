"""The reference page is what the code says; every command and code is in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_page_is_what_the_code_says() -> None:
    done = subprocess.run([sys.executable, "scripts/reference.py", "--check"], cwd=ROOT, check=False)

    assert done.returncode == 0, "docs/reference.md is out of date: run `make docs`"


def test_a_changed_page_is_noticed(tmp_path: Path) -> None:
    script = (ROOT / "scripts" / "reference.py").read_text(encoding="utf-8")
    copy = tmp_path / "scripts" / "reference.py"
    copy.parent.mkdir()
    copy.write_text(script, encoding="utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "reference.md").write_text("# old\n", encoding="utf-8")
    (tmp_path / "roles").mkdir()

    done = subprocess.run([sys.executable, str(copy), "--check"], cwd=ROOT, check=False)

    assert done.returncode == 1
