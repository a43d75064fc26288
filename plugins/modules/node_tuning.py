#!/usr/bin/python
# Copyright: burnin contributors. Apache License 2.0 (see LICENSE)
"""Ansible module: a node set up for GPU work, each setting read back and explained."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_tuning
short_description: Set a node up for GPU work, each setting read back and explained
description:
  - ACS redirect off above GPUs and adapters, IOMMU passthrough, read requests, relaxed ordering, CPU governor and idle states, NUMA balancing,
    huge pages, limits for logins and daemons, time sync; persistence mode is only read.
  - What a boot forgets is set again by a unit of ours, C(burnin-node-tuning.service), which runs this module's own code.
  - A setting that the machine does not have is C(unsupported) with the reason, and a failure only where O(require) names it.
  - A conflicting kernel parameter of somebody else's is refused by name; no foreign parameter and no foreign file is changed.
  - Everything is looked at and refused before the first write.
options:
  acs_redirect:
    description: Clear the redirect bits of the ports above GPUs and adapters; C(auto) where the node has both.
    type: str
    choices: [auto, clear, leave]
    default: auto
  iommu:
    description: Boot with the IOMMU in passthrough; C(auto) where the node has GPUs and adapters.
    type: str
    choices: [auto, passthrough, leave]
    default: auto
  kernel_parameters:
    description: What NVIDIA asks for on Grace (C(init_on_alloc=0 numa_balancing=disable)); C(auto) on aarch64 with GPUs and adapters.
    type: str
    choices: [auto, leave]
    default: auto
  max_read_request:
    description: Bytes that an adapter may ask for in one read; 0 leaves it alone.
    type: int
    default: 4096
  relaxed_ordering:
    description: Whether relaxed ordering is turned on in the adapters.
    type: bool
    default: true
  cpu_governor:
    description: The governor of all CPUs; empty leaves it alone.
    type: str
    default: performance
  cpu_idle_latency_us:
    description: Idle states that take longer to leave are disabled; 0 leaves them alone.
    type: int
    default: 0
  numa_balancing:
    description: Whether automatic NUMA balancing is turned off.
    type: str
    choices: [disable, leave]
    default: disable
  memlock:
    description: How much memory logins and daemons may lock.
    type: str
    choices: [unlimited, leave]
    default: unlimited
  open_files:
    description: How many files logins and daemons may have open; 0 leaves it alone.
    type: int
    default: 1048576
  huge_pages_per_numa_node:
    description: Huge pages to set aside on each NUMA node that has CPUs; 0 leaves them alone.
    type: int
    default: 0
  huge_page_kib:
    description: Their size in KiB.
    type: int
    default: 2048
  transparent_huge_pages:
    description: The mode of transparent huge pages.
    type: str
    choices: [leave, always, madvise, never]
    default: leave
  time_sync:
    description: Whether a program that keeps the clock must run; an installed one is enabled, none is installed.
    type: bool
    default: true
  persistence:
    description: Whether persistence mode is read back.
    type: bool
    default: true
  gpu_cards:
    description: What counts as a GPU, as beginnings of vendor:class in hex digits.
    type: list
    elements: str
    default: ["10de:0300", "10de:0302"]
  nic_cards:
    description: What counts as an adapter, likewise; beside it every device with an RDMA device.
    type: list
    elements: str
    default: ["15b3:02"]
  require:
    description: Settings that this node must have; C(unsupported) is then a failure before anything is changed.
    type: list
    elements: str
    default: []
  root:
    description: Where the node's files are; below another folder than / no program is run.
    type: path
    default: /
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
author: [burnin contributors]
"""

EXAMPLES = r"""
- name: Tune | Set the node up for GPU work
  node_tuning:
    cpu_idle_latency_us: 20
    require: [acs_redirect, iommu]
"""

RETURN = r"""
burnin:
  description:
    - "settings: name -> wanted, before, after, state (ok, changed, pending_reboot, unsupported, failed), changed, drift (it had been set and was
      changed by somebody else), applies, detail, why, source."
    - "files: those of ours that were written or taken away; reboot: why one is waited for; drift: the names of what had drifted; notes."
    - On failure also C(code) (TUNING_INPUT, KERNEL_PARAMETER_CONFLICT, KERNEL_PARAMETER_LOST, FILE_NOT_OURS, NOT_A_FILE, SETTING_UNSUPPORTED,
      SETTING_FAILED, COMMAND_FAILED, WRITE_FAILED).
  returned: always
  type: dict
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.burnin_group.model import Refusal
from ansible.module_utils.burnin_tuning import core, host, model

ARGUMENTS = {
    "acs_redirect": {"type": "str", "choices": ["auto", "clear", "leave"], "default": "auto"},
    "iommu": {"type": "str", "choices": ["auto", "passthrough", "leave"], "default": "auto"},
    "kernel_parameters": {"type": "str", "choices": ["auto", "leave"], "default": "auto"},
    "max_read_request": {"type": "int", "default": 4096},
    "relaxed_ordering": {"type": "bool", "default": True},
    "cpu_governor": {"type": "str", "default": "performance"},
    "cpu_idle_latency_us": {"type": "int", "default": 0},
    "numa_balancing": {"type": "str", "choices": ["disable", "leave"], "default": "disable"},
    "memlock": {"type": "str", "choices": ["unlimited", "leave"], "default": "unlimited"},
    "open_files": {"type": "int", "default": 1048576},
    "huge_pages_per_numa_node": {"type": "int", "default": 0},
    "huge_page_kib": {"type": "int", "default": 2048},
    "transparent_huge_pages": {"type": "str", "choices": ["leave", "always", "madvise", "never"], "default": "leave"},
    "time_sync": {"type": "bool", "default": True},
    "persistence": {"type": "bool", "default": True},
    "gpu_cards": {"type": "list", "elements": "str", "default": ["10de:0300", "10de:0302"]},
    "nic_cards": {"type": "list", "elements": "str", "default": ["15b3:02"]},
    "require": {"type": "list", "elements": "str", "default": []},
    "root": {"type": "path", "default": "/"},
}


def told(done: core.Done) -> dict:
    """For Ansible."""
    return {
        "settings": {name: one.plain(name) for name, one in done.settings.items()},
        "drift": [name for name, one in done.settings.items() if one.drift],
        "files": list(done.files),
        "reboot": done.reboot,
        "notes": list(done.notes),
    }


def diff(done: core.Done) -> dict:
    """What changed, a line a setting."""
    changed = {name: one for name, one in done.settings.items() if one.changed}
    sides = {side: ["%s: %s" % (name, getattr(one, side)) for name, one in changed.items()] for side in ("before", "after")}
    sides["after"] += ["file: %s" % path for path in done.files]
    return {side: "".join(line + "\n" for line in lines) for side, lines in sides.items()}


def main() -> None:
    """What Ansible runs."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        wish = model.wish(module.params)
        done = core.settle(host.this(Path(module.params["root"])), wish, module.check_mode)
    except Refusal as refusal:
        module.fail_json(msg=refusal.message, burnin={"code": refusal.code})
    result = {"changed": done.changed, "burnin": told(done), "diff": diff(done)}
    wrong = model.failures(done.settings, wish.require)
    if wrong:
        result["burnin"]["code"] = "SETTING_FAILED"
        module.fail_json(msg="; ".join(wrong)[:2000], **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
