#!/usr/bin/python
# Copyright: burnin contributors. Apache License 2.0 (see LICENSE)
"""Ansible module: the node's NVMe drives as one RAID0 with a file system, made once, adopted where it is there, and never over something."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nvme_raid0
short_description: One RAID0 of a node's NVMe drives, with a file system, mounted at every boot
description:
  - Drives are chosen by model, size or ids that stay the same over a reboot; the disk that the system is on is never taken.
  - All is read before the first write. A drive that holds anything is refused by name, unless its serial is named for this run in
    C(nvme_raid0_erase), which the action plugin takes from the call's own C(-e) alone.
  - An array that is already right is adopted with its data, and what lacks around it is put right.
  - After writing, everything is read again, and nothing may be left to do.
options:
  drives:
    description: How many drives the array has; exactly as many must match.
    type: int
    required: true
  least:
    description: The fewest that an array is made of.
    type: int
    default: 4
  model:
    description: The drives' model; empty is any.
    type: str
    default: ""
  size_gb:
    description: Their size in GB, 1 % about; 0 is any.
    type: float
    default: 0
  ids:
    description: The drives one by one, as C(/dev/disk/by-id) has them after C(nvme-); never a kernel name.
    type: list
    elements: str
    default: []
  name:
    description: The array's name, C(/dev/md/NAME).
    type: str
    default: scratch
  chunk_kib:
    description: The chunk in KiB.
    type: int
    default: 512
  filesystem:
    description: The file system on it.
    type: str
    choices: [xfs, ext4]
    default: xfs
  mount:
    description: Where it is mounted, by the file system's UUID.
    type: path
    default: /scratch
  mount_options:
    description: Mount options beside C(nofail) and the device's time limit.
    type: list
    elements: str
    default: [noatime]
  device_timeout_s:
    description: How long a boot waits for an array that is not there, in seconds.
    type: int
    default: 10
  tools:
    description: Programs that must be there beside those that the array itself needs.
    type: list
    elements: str
    default: []
  erase:
    description: Serial to what is on it, of the drives that may be erased. Given by the action plugin; a task that gives it is refused.
    type: dict
    default: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
author: burnin contributors
"""

EXAMPLES = r"""
- name: Make the array
  nvme_raid0:
    drives: 8
    size_gb: 3840
"""

RETURN = r"""
burnin:
  description:
    - "state: absent (a check cannot tell before a program is installed), adopted, created, unchanged or refused; in check mode what it would be."
    - "array: uuid, name, device, chunk_kib, members (serials); filesystem: uuid, type; mount."
    - "drives: name, serial, model, size_bytes, firmware, major_minor, ids, role (member, system, other), holds (what is on it, in words)."
    - "erase: serial to what is on it, of the drives that were erased or, refused, would have to be named to be."
    - "steps: argv of each step that is done; missing: programs; findings: code, serial, message; notes."
    - On failure also message, changed (steps that were done by then) and code (DRIVES_TOO_FEW, DRIVES_MIXED, DRIVES_TOO_MANY, ID_UNKNOWN, ID_AMBIGUOUS,
      SYSTEM_DISK, DISK_IN_USE, DISK_NOT_BLANK, CONSENT_UNKNOWN_SERIAL, CONSENT_STALE, CONSENT_NOT_FROM_RUN, ARRAY_DEGRADED, ARRAY_LAYOUT,
      ARRAY_TWICE, ARRAY_HALF, ARRAY_FOREIGN_MEMBER, TARGET_MOVED, DRIVE_VANISHED, MOUNT_BUSY, MOUNT_READ_ONLY, BOOT_SPACE, TOOL_MISSING,
      COMMAND_FAILED, READ_FAILED, BAD_INPUT).
  returned: always
  type: dict
"""

import re

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.burnin_raid import core
from ansible.module_utils.burnin_raid.model import Refused, Wanted
from ansible.module_utils.burnin_raid.reading import Reader

ARGUMENTS = {
    "drives": {"type": "int", "required": True},
    "least": {"type": "int", "default": 4},
    "model": {"type": "str", "default": ""},
    "size_gb": {"type": "float", "default": 0},
    "ids": {"type": "list", "elements": "str", "default": []},
    "name": {"type": "str", "default": "scratch"},
    "chunk_kib": {"type": "int", "default": 512},
    "filesystem": {"type": "str", "choices": ["xfs", "ext4"], "default": "xfs"},
    "mount": {"type": "path", "default": "/scratch"},
    "mount_options": {"type": "list", "elements": "str", "default": ["noatime"]},
    "device_timeout_s": {"type": "int", "default": 10},
    "tools": {"type": "list", "elements": "str", "default": []},
    "erase": {"type": "dict", "default": {}, "no_log": False},
}
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,30}", re.ASCII)  # mdadm takes 32 letters; digits alone would be a number
MOUNT = re.compile(r"/[A-Za-z0-9._/-]*[A-Za-z0-9._-]", re.ASCII)
OPTION = re.compile(r"[A-Za-z0-9._=:/-]+", re.ASCII)


def wanted_of(params):
    """From the parameters. Raises Refused for what would not be safe in a file or a command."""
    told = dict(params, mount=params["mount"].rstrip("/"))
    wrong = [] if NAME.fullmatch(told["name"]) else ["name %r; expected letters, digits, _ and -" % told["name"]]
    path = told["mount"]
    wrong += [] if MOUNT.fullmatch(path) and ".." not in path.split("/") else ["mount %r; expected a plain absolute path" % path]
    wrong += ["mount option %r; expected one word" % one for one in told["mount_options"] if not OPTION.fullmatch(one)]
    chunk = told["chunk_kib"]
    wrong += [] if chunk >= 4 and chunk & (chunk - 1) == 0 else ["chunk_kib %d; expected a power of two from 4 on" % chunk]
    wrong += [] if told["device_timeout_s"] > 0 else ["device_timeout_s %d; expected 1 or more" % told["device_timeout_s"]]
    if wrong:
        raise Refused("BAD_INPUT", "nvme_raid0: found %s" % "; ".join(wrong))
    told["erase"] = tuple(sorted((str(serial), str(text)) for serial, text in told["erase"].items()))
    lists = {name: tuple(told[name]) for name in ("ids", "mount_options")}
    return Wanted(**{name: told[name] for name in Wanted.__dataclass_fields__ if name not in lists}, **lists)


def main():
    """What Ansible runs."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        wanted = wanted_of(module.params)
    except Refused as refusal:
        module.fail_json(
            msg="%s. Nothing was touched. [%s]" % (refusal.message, refusal.code),
            burnin={"code": refusal.code, "message": refusal.message, "state": "refused", "changed": {}},
        )
    done = core.settle(Reader(), wanted, module.check_mode, module.params["tools"])
    answer = {**done.plain(), "mount": wanted.mount}
    if done.code:
        module.fail_json(msg="%s [%s]" % (done.message, done.code), changed=bool(done.carried_out), burnin=answer)
    module.exit_json(changed=done.changed, burnin=answer, diff=core.diff(done))


if __name__ == "__main__":
    main()
