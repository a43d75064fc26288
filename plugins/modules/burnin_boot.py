#!/usr/bin/python
"""Make one installed kernel the one that boots."""

from __future__ import annotations

DOCUMENTATION = r"""
module: burnin_boot
short_description: Make one installed kernel the one that boots
description:
  - GRUB (Debian, Ubuntu) by the id of its menu entry, in a drop-in below /etc/default/grub.d, then C(update-grub); EL by C(grubby).
  - Looks again afterwards, and fails where another kernel would boot. Where there is no boot loader (a container) it says so and changes nothing.
options:
  kernel:
    description: The kernel, as C(uname -r) says it.
    type: str
    required: true
author: [burnin]
"""

EXAMPLES = r"""
- name: Boot | Boot the pinned kernel
  burnin_boot:
    kernel: 6.1.0-40-amd64
"""

RETURN = r"""
burnin:
  description: The loader, what would have booted before and what boots now, notes.
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.burnin_boot import loader


def main() -> None:
    """What Ansible runs."""
    module = AnsibleModule(argument_spec={"kernel": {"type": "str", "required": True}}, supports_check_mode=True)
    kernel = module.params["kernel"]
    try:
        before = loader.read()
        told = {"loader": before.loader, "before": before.kernel, "kernel": before.kernel, "notes": []}
        if not before.loader:
            told["notes"].append(f"There is no boot loader here that we know (GRUB, grubby): nothing makes {kernel} the kernel that boots.")
            module.exit_json(changed=False, burnin=told)
        if before.kernel == kernel:
            module.exit_json(changed=False, burnin=told)
        if not module.check_mode:
            loader.make_default(kernel, before.loader)
    except loader.Trouble as trouble:
        module.fail_json(msg=str(trouble), burnin={"code": "BOOT_DEFAULT"})
    told["kernel"] = kernel
    module.exit_json(
        changed=True,
        burnin=told,
        diff={"before": f"{before.kernel}\n", "after": f"{kernel}\n", "before_header": "boots", "after_header": "boots"},
    )


if __name__ == "__main__":
    main()
