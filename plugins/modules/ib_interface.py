#!/usr/bin/python
# Copyright: burnin contributors. Apache License 2.0 (see LICENSE)
"""Ansible module: one IPoIB interface for each HCA port, named, sized and addressed as one description says."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ib_interface
short_description: One IPoIB interface for each HCA port, from one description
description:
  - Names come from udev rules by port GUID (the last 8 bytes of the address) or by PCI function, so they stay over reboots and card swaps.
  - Addresses, MTU, mode and P_Keys by netplan (Ubuntu), NetworkManager (EL) or systemd-networkd (Debian).
  - Refuses before it writes, with a code. Only links whose files changed are touched. Afterwards mode, MTU and addresses are read back.
  - Bridges to NVSwitches, Ethernet ports and virtual functions never get an interface.
options:
  ports:
    description:
      - The ports, each by one of C(guid), C(pci), C(rdma) (with C(port)) or by the C(name) that it has now.
      - Further C(name), C(addresses), C(mtu), C(mode), C(rdma_name), and C(p_keys) (a list of C(p_key), C(addresses), C(mtu), C(limited)).
    type: list
    elements: dict
    default: []
  pattern:
    description: Names by number, with C({index}) in it. Without I(ports) every InfiniBand port gets one.
    type: str
    default: ""
  order:
    description: How ports are counted for I(pattern) - by PCI address, or as the GPUs stand that they serve.
    type: str
    default: pci
    choices: [pci, gpu]
  addresses:
    description: Name of an interface to its addresses.
    type: dict
    default: {}
  mtu:
    description: For all that do not say otherwise; 0 leaves it as the fabric gives.
    type: int
    default: 0
  mode:
    description: For all that do not say otherwise.
    type: str
    default: datagram
    choices: [datagram, connected]
  p_keys:
    description: For all that do not say otherwise.
    type: list
    elements: raw
    default: []
  expected:
    description: At least so many ports must get an interface; 0 is not held.
    type: int
    default: 0
  exclude:
    description: PCI functions that get none.
    type: list
    elements: str
    default: []
  renderer:
    description: Which program configures the links.
    type: str
    default: auto
    choices: [auto, netplan, networkmanager, networkd]
  rdma_naming:
    description: Whether RDMA devices are renamed by the distribution's rule (C(keep)), or keep the kernel's names.
    type: str
    default: keep
    choices: [keep, kernel]
  allow_connected:
    description: Ask also an adapter for connected mode that is not known to have one.
    type: bool
    default: false
  allow_kernel_names:
    description: Allow names like C(ib0).
    type: bool
    default: false
  hardware:
    description: What the node program told of this node's adapters (C(nics), C(gpus), C(nvlink5)), as the role preflight hands it on.
    type: dict
    required: true
  wait_s:
    description: How long is waited for the links to be as asked, in seconds.
    type: int
    default: 20
  root:
    description: Where files are written; below another folder than / no program is run.
    type: path
    default: /
  sysfs:
    description: The folder whose C(sys) says what network devices there are, and in which state.
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
- name: Links | One interface for each port, addresses by its name
  ib_interface:
    pattern: mlx5_ib{index}
    mtu: 4092
    addresses:
      mlx5_ib0: [10.9.0.7/16]
      mlx5_ib1: [10.10.0.7/16]
    hardware: "{{ __preflight_identity.burnin.host }}"
"""

RETURN = r"""
burnin:
  description:
    - code and why where it failed; renderer; interfaces with name, now, pci, guid, rdma, port, pinned, addresses, mtu, mode, p_keys, state, code, why;
      left_out, a list of port, code and why; differs, the files and fields that were not as asked; did; notes; reboot, why one is needed.
  returned: always
  type: dict
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.burnin_ib import asking, judging, making, planning, reading
from ansible.module_utils.burnin_ib.model import Refusal

OPTIONS = {
    "ports": {"type": "list", "elements": "dict", "default": []},
    "pattern": {"type": "str", "default": ""},
    "order": {"type": "str", "default": "pci", "choices": ["pci", "gpu"]},
    "addresses": {"type": "dict", "default": {}},
    "mtu": {"type": "int", "default": 0},
    "mode": {"type": "str", "default": "datagram", "choices": ["datagram", "connected"]},
    "p_keys": {"type": "list", "elements": "raw", "default": []},
    "expected": {"type": "int", "default": 0},
    "exclude": {"type": "list", "elements": "str", "default": []},
    "renderer": {"type": "str", "default": "auto", "choices": ["auto", "netplan", "networkmanager", "networkd"]},
    "rdma_naming": {"type": "str", "default": "keep", "choices": ["keep", "kernel"]},
    "allow_connected": {"type": "bool", "default": False},
    "allow_kernel_names": {"type": "bool", "default": False},
    "hardware": {"type": "dict", "required": True},
    "wait_s": {"type": "int", "default": 20},
    "root": {"type": "path", "default": "/"},
    "sysfs": {"type": "path", "default": "/"},
}
STEP_S = 0.5
MOST_DIFF = 20_000


def told_of(plan, judged):
    """What the result says of the plan."""
    states = {one.name: one for one in judged}
    listed = []
    for one in plan.interfaces:
        names = [one.name] + [one.child_name(child) for child in one.children]
        listed.append(
            {
                "name": one.name, "now": one.now, "pci": one.port.pci, "guid": one.port.guid, "rdma": one.port.rdma, "port": one.port.number,
                "pinned": one.pinned, "addresses": list(one.addresses), "mtu": one.mtu, "mode": one.mode,
                "p_keys": [{"name": one.child_name(kid), "p_key": kid.p_key, "addresses": list(kid.addresses)} for kid in one.children],
                "states": [{"name": name, "state": states[name].state, "code": states[name].code, "why": states[name].why} for name in names],
            }
        )  # fmt: skip
    return {
        "renderer": plan.renderer,
        "interfaces": listed,
        "left_out": [{"port": one.port, "code": one.code, "why": one.why} for one in plan.left_out],
        "differs": list(plan.differs),
        "notes": list(plan.notes),
        "reboot": list(plan.reboot),
    }


def settled(plan, sysfs, real, wait_s):
    """The interfaces afterwards, waited for: a link takes its address and MTU a moment later."""
    deadline = time.monotonic() + wait_s
    while True:
        judged = judging.judge(plan.interfaces, reading.netdevs(sysfs, real))
        if all(one.state == "ok" for one in judged) or time.monotonic() > deadline or not real:
            return judged
        if not plan.steps and not any(one.state == "failed" for one in judged):
            return judged
        time.sleep(STEP_S)


def diff_of(plan, world):
    """One entry a file."""
    return [
        {
            "before": world.ours.get(step.path, "")[:MOST_DIFF],
            "after": step.text[:MOST_DIFF],
            "before_header": step.path,
            "after_header": step.path,
        }
        for step in plan.steps
        if step.kind in ("write", "remove")
    ]


def main():
    """What Ansible runs."""
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    p = module.params
    real, did, told = p["root"] == "/", [], {}
    try:
        asked = asking.asked(p)
        hardware = reading.hardware(p["hardware"])
        world = reading.world(p["root"], p["sysfs"], asked.rdma_naming == "kernel")
        plan = planning.plan(asked, hardware, world)
        changed = bool(plan.steps)
        diff = diff_of(plan, world)
        if real:
            making.accepted(plan)
        if module.check_mode:
            told = told_of(plan, judging.judge(plan.interfaces, world.netdevs))
            module.exit_json(changed=changed, diff=diff, burnin=told)
        did = making.do(plan, p["root"])
        if real:
            making.flag_reboot(plan.reboot)
    except Refusal as refusal:
        module.fail_json(msg="%s: %s" % (refusal.code, refusal), burnin={"code": refusal.code, "why": str(refusal)})
    judged = settled(plan, p["sysfs"], real, p["wait_s"])
    told = dict(told_of(plan, judged), did=did)
    failed = [one for one in judged if one.state == "failed"]
    if failed:
        why = "; ".join(one.why for one in failed)
        module.fail_json(msg="%s: %s" % (failed[0].code, why), changed=changed, diff=diff, burnin=dict(told, code=failed[0].code, why=why))
    module.exit_json(changed=changed, diff=diff, burnin=told)


if __name__ == "__main__":
    main()
