"""Each code that nvme_raid0 refuses with is on its page, and none that it has not."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCES = (
    *(ROOT / "plugins/module_utils/burnin_raid").glob("*.py"),
    ROOT / "plugins/modules/nvme_raid0.py",
    ROOT / "plugins/action/nvme_raid0.py",
)
RAISED = re.compile(r'(?:Refused|Refusal)\(\s*"([A-Z_]+)"|"code": "([A-Z_]+)"')


def test_the_page_has_each_code_that_is_raised_and_no_other() -> None:
    raised = {first or second for path in SOURCES for first, second in RAISED.findall(path.read_text())}
    rows = [line for line in (ROOT / "docs/nvme_raid0.md").read_text().splitlines() if line.startswith("| `")]
    told = {code for line in rows for code in re.findall(r"`([A-Z_]+)`", line.split(" | ")[0])}

    assert len(raised) > 20
    assert told == raised - {"DISK_FIRMWARE"}, "that one is a note about an odd drive, no refusal"
