"""A judged run -> text for people, schedulers and the vendor. PURE: data in, text out; the caller reads and writes the files.

Every module of FORMATS has FILE_NAME (what the text is called in a run folder) and `render(document) -> str`, where `document` is
a verdict.json as a mapping. The modules are named, not imported: jinja2 is slow to load and only html needs it.
"""

from __future__ import annotations

import importlib
from types import ModuleType

FORMATS = {
    "html": "burnin.report.html",
    "junit": "burnin.report.junit",
    "prometheus": "burnin.report.prometheus",
    "jsonl": "burnin.report.jsonl",
    "csv": "burnin.report.table",
}


def module(name: str) -> ModuleType:
    """The module of one of FORMATS. KeyError: there is no such format."""
    return importlib.import_module(FORMATS[name])
