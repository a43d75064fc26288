#!/usr/bin/python
# Copyright: burnin contributors. Apache License 2.0 (see LICENSE)
"""Ansible module: make one group of the pinned stack true on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: burnin_group
short_description: Make one group of the pinned stack true on a node
description:
  - Sources with their keys, pins, packages, holds, configuration files, alternatives and services of one group, in one task and one transaction.
  - Everything is tried first in a private copy of the package manager's configuration, in check mode too; what nobody asked for (a removal, a
    downgrade, another kernel) is refused before anything has changed. A group that is as it should be costs no call of apt or dnf.
options:
  group:
    description: The group, as C(burnin_stack_resolve) gives it.
    type: dict
    required: true
  repositories:
    description: The repositories that the group needs.
    type: list
    elements: dict
    default: []
  manager:
    description: Whose packages.
    type: str
    required: true
    choices: [apt, dnf]
  setopt:
    description: Settings for dnf.
    type: list
    elements: str
    default: []
  files:
    description: Files that we own whole; each has path, content, and may have mode, initramfs (rebuild it when this changes) and daemon_reload.
    type: list
    elements: dict
    default: []
  absent_files:
    description: Files that must not be there.
    type: list
    elements: path
    default: []
  services:
    description: Units to enable and start; the group's own when left out.
    type: list
    elements: str
  services_start:
    description: Whether they are started, too.
    type: bool
    default: true
  alternatives:
    description: Alternatives and where each leads.
    type: dict
    default: {}
  initramfs:
    description: Whether a change of packages rebuilds the initramfs.
    type: bool
    default: false
  allow_remove:
    description: Packages that may go, beside those that the group replaces; regular expressions.
    type: list
    elements: str
    default: []
  allow_downgrade:
    description: Whether packages that the group does not pin may go back to an older version.
    type: bool
    default: false
  allow_kernel:
    description: Whether the transaction may bring a kernel.
    type: bool
    default: false
  busy_devices:
    description: Device files; while a process has one open, packages do not change.
    type: list
    elements: str
    default: []
  busy_ok:
    description: Whether they change nevertheless.
    type: bool
    default: false
  reboot_after:
    description: Whether a change asks for a reboot.
    type: bool
    default: false
  lock_timeout_s:
    description: How long another package manager is waited for, in seconds.
    type: int
    default: 300
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
author: burnin contributors
"""

EXAMPLES = r"""
- name: Install | Put the pinned NCCL in place
  burnin_group:
    group: "{{ resolution.groups.nccl }}"
    repositories: "{{ resolution.repositories | selectattr('source', 'in', resolution.groups.nccl.sources) }}"
    manager: "{{ resolution.manager }}"
"""

RETURN = r"""
burnin:
  description: >-
    What changed, or in check mode would: installed, upgraded, downgraded, removed, held, files, services, alternatives, initramfs, reboot_required, notes, seconds.
    Of a failure: code (VERSION_MISSING, KEY_WRONG, MIRROR_DOWN, LOCKED, DPKG_BROKEN, DISK_FULL, UNASKED_REMOVAL, UNASKED_DOWNGRADE, KERNEL_WOULD_MOVE,
    HELD_BY_OTHERS, GPU_BUSY, SOURCE_CONFLICT, DEPENDENCIES, MIXED_VERSIONS, NOT_HELD, PLAN_CHANGED, NOT_A_FILE, TRANSACTION_FAILED, ...) and changed.
  returned: always
  type: dict
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.burnin_group import core
from ansible.module_utils.burnin_group.apt import Apt
from ansible.module_utils.burnin_group.model import Refusal, few

ARGUMENTS = {
    "group": {"type": "dict", "required": True},
    "repositories": {"type": "list", "elements": "dict", "default": []},
    "manager": {"type": "str", "required": True, "choices": ["apt", "dnf"]},
    "setopt": {"type": "list", "elements": "str", "default": []},
    "files": {"type": "list", "elements": "dict", "default": []},
    "absent_files": {"type": "list", "elements": "path", "default": []},
    "services": {"type": "list", "elements": "str"},
    "services_start": {"type": "bool", "default": True},
    "alternatives": {"type": "dict", "default": {}},
    "initramfs": {"type": "bool", "default": False},
    "allow_remove": {"type": "list", "elements": "str", "default": []},
    "allow_downgrade": {"type": "bool", "default": False},
    "allow_kernel": {"type": "bool", "default": False},
    "busy_devices": {"type": "list", "elements": "str", "default": []},
    "busy_ok": {"type": "bool", "default": False},
    "reboot_after": {"type": "bool", "default": False},
    "lock_timeout_s": {"type": "int", "default": 300},
}


def manager_of(params):
    """The package manager that was asked for. Raises Refusal where it is not on this node."""
    if params["manager"] == "apt":
        return Apt()
    from ansible.module_utils.burnin_group.dnf import Dnf

    return Dnf(params["setopt"])


def failure(group, error, changed):
    """Message and answer: who, what, and whether anything was changed."""
    touched = ["%s %s" % (kind, few(changed[kind])) for kind in ("installed", "changed", "removed", "files") if changed.get(kind)]
    touched += ["packages %s" % changed["packages"]] if changed.get("packages") else []
    said = "Changed until then: %s." % "; ".join(touched) if touched else "Nothing was changed."
    return {
        "msg": "%s: %s [%s] %s" % (group, error.message.rstrip(". ") + ".", error.code, said),
        "burnin": {"code": error.code, "changed": changed},
    }


def main():
    """What Ansible runs."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    os.umask(0o022)  # a hardened shell's 077 would hide keys and sources from apt's own user
    name = str(module.params["group"].get("name", "group"))
    try:
        done, seconds = core.timed(manager_of(module.params), core.wanted_of(module.params), module.check_mode)
    except core.Failed as error:
        module.fail_json(**failure(name, error, error.changed))
    except Refusal as error:
        module.fail_json(**failure(name, error, {}))
    answer = {**done.plain(), "seconds": round(seconds, 2)}
    module.exit_json(changed=done.changed, burnin=answer, diff=done.diff)


if __name__ == "__main__":
    main()
