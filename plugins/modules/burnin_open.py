#!/usr/bin/python
# Copyright: burnin contributors. Apache License 2.0 (see LICENSE)
"""Ansible module, for the controller: open a run folder, when a playbook is run by hand instead of by the command `burnin`."""

from __future__ import annotations

DOCUMENTATION = r"""
module: burnin_open
short_description: Open a run folder on the controller
description:
  - Checks plan and inventory as the command C(burnin run) does, and makes the run folder.
  - Runs with the interpreter that burnin is installed in.
options:
  nodes:
    description: Host name to its variables.
    type: dict
    required: true
  plan:
    description: A plan's name or path.
    type: str
    required: true
  runs:
    description: Where run folders are made.
    type: path
    required: true
  burn_in:
    description: Whether this run will burn in, or only look.
    type: bool
    default: true
attributes:
  check_mode:
    support: full
author: burnin contributors
"""

EXAMPLES = r"""
- name: Open the run folder
  burnin_open:
    nodes: "{{ hostvars }}"
    plan: acceptance
    runs: runs
"""

RETURN = r"""
folder:
  description: The run folder.
  returned: always
  type: str
run_id:
  description: The run's id.
  returned: always
  type: str
plan:
  description: The plan as a node gets it.
  returned: always
  type: dict
"""

import json
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule


def main():
    """Ansible's entry."""
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "dict", "required": True},
            "plan": {"type": "str", "required": True},
            "runs": {"type": "path", "required": True},
            "burn_in": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    try:
        from burnin.errors import BurninError
        from burnin.stages.opening import load_plan, load_policy, open_run, resolve_nodes
    except ImportError as problem:
        module.fail_json(
            msg="burnin is not installed for this interpreter (%s); run the playbooks with the environment that `make` builds" % problem
        )
    p = module.params
    try:
        if module.check_mode:
            raw, _plan = load_plan(p["plan"])
            resolve_nodes(p["nodes"], load_policy(None))
            module.exit_json(changed=True, folder="", run_id="", plan=raw)
        opened = open_run(p["nodes"], plan=p["plan"], runs=Path(p["runs"]), burn_in=p["burn_in"])
    except BurninError as problem:
        module.fail_json(msg=str(problem))
    plan = json.loads((opened.folder / "run.json").read_text(encoding="utf-8"))["plan"]
    module.exit_json(changed=True, folder=str(opened.folder), run_id=opened.run_id, plan=plan)


if __name__ == "__main__":
    main()
