#!/usr/bin/python
# Copyright: burnin contributors. Apache License 2.0 (see LICENSE)
"""Ansible module: firmware settings of network adapters, set where the next boot would lack them, with one reboot asked for and no second."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nic_firmware
short_description: Firmware settings of network adapters (mlxconfig), which can ask for one reboot and no second
description:
  - Reads current and next-boot values of every device first, refuses by name, and only then sets what the next boot would lack.
  - A setting that is not current asks for a reboot through the flag that the role reboot reads. What was asked, and on which boot, is kept.
  - A setting that a boot did not bring is refused (C(POWER_CYCLE_NEEDED), C(SETTING_REVERTED)), and no further reboot is asked for.
  - The tool's own advice to reboot is not read - it gives it also where nothing changed.
options:
  devices:
    description: The adapters, each by its PCI function (C(device)), and what they shall have (C(set), setting to value).
    type: list
    elements: dict
    default: []
  tool:
    description: The program that is asked; empty takes mlxconfig, else mstconfig.
    type: str
    default: ""
  root:
    description: Where sysfs, the record and the flag are; another folder than / is for tests.
    type: path
    default: /
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
author: [burnin]
"""

EXAMPLES = r"""
- name: Firmware | Let both ports speak InfiniBand
  nic_firmware:
    devices:
      - device: "0000:1a:00.0"
        set: {LINK_TYPE_P1: 1, LINK_TYPE_P2: 1}
"""

RETURN = r"""
burnin:
  description: code where it failed; devices with device, put and waits (setting to value); reboot, why one is needed ("" for none).
  returned: always
  type: dict
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.burnin_nic import node, settings

OPTIONS = {
    "devices": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"device": {"type": "str", "required": True}, "set": {"type": "dict", "required": True}},
    },
    "tool": {"type": "str", "default": ""},
    "root": {"type": "path", "default": "/"},
}


def look(root, program, wanted, before, boot_id):
    """What every device has, and needs. Refuses before anything is set."""
    told, steps = {}, []
    for device, asked in wanted.items():
        node.check_there(root, device)
        output = node.run([program, "-d", device, "-e", "query", *asked], device, "query")
        told[device] = settings.parse(device, output)
        steps.append(settings.decide(device, told[device], asked, before.get(device, {}), boot_id))
    return told, steps


def put(root, program, wanted, before, steps, boot_id):
    """Set it, each device recorded before it is touched. The first boot on which something was asked counts until it is there."""
    record = {device: one for device, one in before.items() if device not in wanted}
    record.update({step.device: {"set": dict(wanted[step.device]), "boot_id": boot_id} for step in steps if step.waits and not step.put})
    node.remember(root, record)
    for step in steps:
        if not step.put:
            continue
        record[step.device] = {"set": dict(wanted[step.device]), "boot_id": boot_id}
        node.remember(root, record)
        try:
            put_one(program, step, wanted[step.device])
        except settings.Refusal:
            del record[step.device]
            node.remember(root, record)
            raise


def put_one(program, step, asked):
    """Set it, and read back that the next boot has it."""
    given = [f"{name}={value}" for name, value in sorted(step.put.items())]
    node.run([program, "-d", step.device, "-y", "set", *given], step.device, "set")
    now = settings.parse(step.device, node.run([program, "-d", step.device, "-e", "query", *asked], step.device, "query"))
    for name, value in sorted(step.put.items()):
        if name not in now or not settings.same(now[name].coming, value):
            told = now[name].coming if name in now else "not told"
            why = f"{step.device}: {name} was set to {value}, and its next boot has {told}; see whether the card is locked"
            raise settings.Refusal("SETTING_NOT_TAKEN", why)


def diff_of(told, steps):
    """Before and after, of what the next boot will have."""
    before = [f"{step.device} {name}={told[step.device][name].coming}" for step in steps for name in sorted(step.put)]
    after = [f"{step.device} {name}={value}" for step in steps for name, value in sorted(step.put.items())]
    return {"before": "".join(f"{line}\n" for line in before), "after": "".join(f"{line}\n" for line in after)}


def main() -> None:
    """What Ansible runs."""
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    root = Path(module.params["root"])
    try:
        wanted = settings.wanted(module.params["devices"])
        if not wanted:
            module.exit_json(changed=False, burnin={"devices": [], "reboot": ""})
        program, boot_id, before = node.tool(module.params["tool"]), node.boot_id(root), node.asked_before(root)
        told, steps = look(root, program, wanted, before, boot_id)
        reason, changed = settings.reason(steps), any(step.put for step in steps)
        if not module.check_mode:
            put(root, program, wanted, before, steps, boot_id)
            node.flag(root, reason)
    except settings.Refusal as refusal:
        if not module.check_mode:
            node.flag(root, "")
        module.fail_json(msg=f"{refusal.code}: {refusal}", burnin={"code": refusal.code, "reboot": ""})
    devices = [{"device": step.device, "put": dict(step.put), "waits": dict(step.waits)} for step in steps]
    module.exit_json(changed=changed, burnin={"devices": devices, "reboot": reason}, diff=diff_of(told, steps))


if __name__ == "__main__":
    main()
