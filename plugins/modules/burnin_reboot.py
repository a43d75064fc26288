#!/usr/bin/python
# Copyright: burnin contributors. Apache License 2.0 (see LICENSE)
"""Ansible module: whether this node must be rebooted; and the reboot itself, which the action plugin of the same name asks for."""

from __future__ import annotations

DOCUMENTATION = r"""
module: burnin_reboot
short_description: Reboot a node where its state says that it must be, once, and prove it
description:
  - Reads all in one look (boot id, kernel, loaded modules, who asked for a reboot) and decides from that, not from a distribution's marker.
  - Where a reboot is required and allowed, reboots, waits until the boot id is another one, and looks again. Less than that is a failure.
  - Reachability alone proves nothing. A slow shutdown answers for minutes with the old boot id.
  - A node with processes on its GPUs or a burn-in under way is refused unless told. A local connection is never rebooted.
options:
  kernel:
    description: The kernel that must run, as C(uname -r) says it; empty for any.
    type: str
    default: ""
  running:
    description: The kernel that counts as the one that runs, for an image that runs on another machine's kernel; empty for the real one.
    type: str
    default: ""
  driver:
    description: The version of the module nvidia that must be loaded where a GPU is on the PCI bus; empty for any.
    type: str
    default: ""
  root:
    description: Where the node's C(/proc), C(/sys), C(/boot), C(/lib/modules) and C(/run) are read.
    type: path
    default: /
  runs:
    description: Where burn-ins are kept on the node.
    type: path
    default: /var/lib/burnin
  force:
    description: Reboot also when nothing asks for it.
    type: bool
    default: false
  allowed:
    description: Whether it may be rebooted; else it is only said that it must be.
    type: bool
    default: true
  busy_ok:
    description: Whether it may be rebooted under processes that use its GPUs, and under a burn-in.
    type: bool
    default: false
  rebooted_before:
    description: Whether it was rebooted in this run already; then it is not again.
    type: bool
    default: false
  command:
    description: What reboots the node, run on it as a program with arguments.
    type: list
    elements: str
    default: [systemctl, reboot]
  timeout_s:
    description: How long the other boot is waited for, in seconds.
    type: int
    default: 1200
  least_timeout_s:
    description: The longest that such a machine takes to come up; a shorter C(timeout_s) is refused.
    type: int
    default: 900
  look_s:
    description: Seconds between looks.
    type: float
    default: 5
  act_on:
    description: The boot id that was seen; the module then reboots, if it is still the one. Set by the action plugin alone.
    type: str
    default: ""
attributes:
  check_mode:
    support: full
author: burnin contributors
"""

EXAMPLES = r"""
- name: Reboot | Reboot where it must be
  burnin_reboot:
    driver: 580.126.09
"""

RETURN = r"""
burnin:
  description: "state (not_needed, required, would_reboot, rebooted), the reasons, what was found; after a reboot also what was found before."
  returned: always
  type: dict
rebooted:
  description: Whether it was rebooted in this run.
  returned: always
  type: bool
"""

import subprocess
from dataclasses import asdict
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.burnin_reboot import deciding, state

DELAY_S = 1  # the answer must be home before the connection goes


def reboot(module, found) -> None:
    """Start the command and end before it: its own session outlives the connection. A repeat that comes after the boot does nothing."""
    if found["boot_id"] != module.params["act_on"]:
        module.exit_json(changed=False, started=False, boot_id=found["boot_id"])
    if not module.get_bin_path(module.params["command"][0]):
        module.fail_json(msg="%s: there is no such program on the node; correct reboot_command" % module.params["command"][0])
    subprocess.Popen(
        ["/bin/sh", "-c", 'sleep %d; exec "$@"' % DELAY_S, "sh", *module.params["command"]],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, cwd="/",
    )  # fmt: skip
    module.exit_json(changed=True, started=True, boot_id=found["boot_id"])


def main() -> None:
    """What Ansible runs."""
    module = AnsibleModule(
        argument_spec={
            "kernel": {"type": "str", "default": ""},
            "running": {"type": "str", "default": ""},
            "driver": {"type": "str", "default": ""},
            "root": {"type": "path", "default": "/"},
            "runs": {"type": "path", "default": "/var/lib/burnin"},
            "force": {"type": "bool", "default": False},
            "allowed": {"type": "bool", "default": True},
            "busy_ok": {"type": "bool", "default": False},
            "rebooted_before": {"type": "bool", "default": False},
            "command": {"type": "list", "elements": "str", "default": ["systemctl", "reboot"]},
            "timeout_s": {"type": "int", "default": 1200},
            "least_timeout_s": {"type": "int", "default": 900},
            "look_s": {"type": "float", "default": 5.0},
            "act_on": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    p = module.params
    found = state.read(Path(p["root"]), Path(p["runs"]), p["running"])
    if not found["boot_id"]:
        module.fail_json(
            msg="%s cannot be read; expected the boot id of a Linux kernel: without it no reboot can be proved"
            % (Path(p["root"]) / state.BOOT_ID)
        )
    if p["act_on"] and not module.check_mode:
        reboot(module, found)
    decision = deciding.decide(found, deciding.Wanted(p["kernel"], p["driver"], p["force"]))
    module.exit_json(changed=False, burnin={"found": found, **asdict(decision), "required": decision.required})


if __name__ == "__main__":
    main()
