"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of third-party samples that are read in place and never copied here: `../shared`, or what BURNIN_SHARED names."""
    named = os.environ.get("BURNIN_SHARED")
    folder = Path(named) if named else ROOT.parent / "shared"
    if named and not folder.is_dir():
        pytest.fail(f"BURNIN_SHARED={named} is no folder")
    if not folder.is_dir():
        pytest.skip("no shared data beside the repository: set BURNIN_SHARED to the folder that holds data/ and field-reports.md")
    return folder
