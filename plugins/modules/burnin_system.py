#!/usr/bin/python
"""What a role must know of a node before the stack can be resolved for it, in one look."""

from __future__ import annotations

DOCUMENTATION = r"""
module: burnin_system
short_description: What must be known of a node before the stack is resolved for it
description:
  - Distribution, architecture, running and installed kernels, the kernel that boots next, Secure Boot, what dkms has built. Reads only.
  - In place of C(setup), whose smallest subset knows neither of the last three, and takes four times as long.
options:
  root:
    description: Where the node is looked at; another folder than / is for tests.
    type: path
    default: /
author: [burnin]
"""

EXAMPLES = r"""
- name: Read | Look at the node
  burnin_system:
  check_mode: false
"""

RETURN = r"""
burnin:
  description: What was found; what could not be told is null.
  returned: always
  type: dict
"""

import platform
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.burnin_boot import loader
from ansible.module_utils.burnin_dkms import tree

SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
FIRMWARE = "sys/firmware/efi"


def os_release(root: Path) -> dict:
    """ID and VERSION_ID of /etc/os-release, "" where it does not say."""
    try:
        lines = (root / "etc/os-release").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    said = {name: value.strip().strip("\"'") for name, _, value in (line.partition("=") for line in lines)}
    return {"id": said.get("ID", ""), "version": said.get("VERSION_ID", ""), "pretty": said.get("PRETTY_NAME", "")}


def secure_boot(root: Path):
    """True or False; a machine that was not started by UEFI has none. None: the variable cannot be read."""
    if not (root / FIRMWARE).is_dir():
        return False
    try:
        content = (root / SECURE_BOOT).read_bytes()
    except OSError:
        return None
    return content[4] == 1 if len(content) == 5 else None  # four bytes of attributes, one of value


def kernels(root: Path) -> list:
    """The kernels that are installed: those with an image below /boot, or inside their modules' folder (EL)."""
    images = {path.name[len("vmlinuz-") :] for path in (root / "boot").glob("vmlinuz-*")}
    inside = {path.parent.name for path in (root / "lib/modules").glob("*/vmlinuz")}
    return sorted(images | inside)


def read(root: Path = Path("/")) -> dict:
    """All of it."""
    told = os_release(root)
    boot = loader.read(root)
    return {
        "os": told,
        "machine": platform.machine(),
        "kernel": platform.release(),
        "kernels": kernels(root),
        "headers": sorted(path.parent.name for path in (root / "lib/modules").glob("*/build") if path.exists()),
        "secure_boot": secure_boot(root),
        "boot": {"loader": boot.loader, "kernel": boot.kernel},
        "dkms": [one.plain for one in tree.builds(root)],
    }


def main() -> None:
    """What Ansible runs."""
    module = AnsibleModule(argument_spec={"root": {"type": "path", "default": "/"}}, supports_check_mode=True)
    try:
        module.exit_json(changed=False, burnin=read(Path(module.params["root"])))
    except loader.Trouble as trouble:
        module.fail_json(msg=str(trouble), burnin={"code": "BOOT_DEFAULT"})


if __name__ == "__main__":
    main()
