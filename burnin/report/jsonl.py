"""gpus.jsonl: one JSON object a line: first the run, then every part that has a verdict, for log pipelines and jq."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from burnin.report.document import read

FILE_NAME = "gpus.jsonl"
_KINDS = (("gpus", "gpu"), ("nodes", "node"), ("racks", "rack"), ("links", "link"), ("disks", "disk"))
_RUN_KEYS = ("schema", "run_id", "digest", "plan", "policy", "summary", "cohorts")


def render(document: Mapping[str, Any]) -> str:
    """The file's text: ASCII, keys sorted, null for what is no number. RunFolderError: the document is of another schema."""
    read(document)
    return "".join(json.dumps(_plain(entry), sort_keys=True, allow_nan=False) + "\n" for entry in _entries(document))


def _entries(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    run = {key: document.get(key) for key in _RUN_KEYS}
    about = {"run_id": document.get("run_id"), "simulated": document.get("simulated") is True}
    yield {**run, **about, "notes": document.get("notes") or [], "kind": "run"}
    fleet = document.get("fleet")
    yield {**(fleet if isinstance(fleet, Mapping) else {"verdict": "INCONCLUSIVE", "findings": []}), **about, "kind": "fleet"}
    for key, kind in _KINDS:
        for part in document.get(key) or ():
            yield {**part, **about, "kind": kind}


def _plain(value: Any) -> Any:
    """The value without NaN and infinities, which JSON does not know."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
