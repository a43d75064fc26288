"""Callback: one JSON line per playbook, with its recap, the tasks that changed or failed and what was on the nodes' disks when it ended.

Molecule's verifiers judge by it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from ansible.plugins.callback import CallbackBase

from lab import nodes, verify

DOCUMENTATION = """
name: events
type: aggregate
short_description: Recap as JSON
description:
  - Appends one line to the file that E(BURNIN_LAB_EVENTS) names.
"""


class CallbackModule(CallbackBase):
    """Gathers while a playbook runs, writes when it ends."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "events"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._playbook, self._check = "", False
        self._changed: list[dict[str, str]] = []
        self._failed: list[dict[str, str]] = []

    def v2_playbook_on_start(self, playbook) -> None:
        self._playbook = Path(playbook._file_name).name

    def v2_playbook_on_play_start(self, play) -> None:
        self._check = bool(play.check_mode)

    def v2_runner_on_ok(self, result) -> None:
        if result.is_changed():
            self._changed.append(self._step(result))

    def v2_runner_on_failed(self, result, ignore_errors: bool = False) -> None:
        self._failed.append(self._step(result))

    v2_runner_on_unreachable = v2_runner_on_failed

    def v2_playbook_on_stats(self, stats) -> None:
        hosts = {name: stats.summarize(name) for name in sorted(stats.processed)}
        line = {"playbook": self._playbook, "check": self._check, "hosts": hosts, "changed": self._changed, "failed": self._failed}
        lab = nodes.find(verify.lab_name())
        line["disk"] = {node.name: verify.disk(node) for node in lab.nodes} if lab else {}
        with Path(os.environ["BURNIN_LAB_EVENTS"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, sort_keys=True) + "\n")

    @staticmethod
    def _step(result) -> dict[str, str]:
        return {"host": result.host.name, "task": result.task.name, "message": str(result.result.get("msg", ""))}
