#!/usr/bin/python
"""Have a DKMS module there for the kernels that need it, built after what it is built against."""

from __future__ import annotations

DOCUMENTATION = r"""
module: burnin_dkms
short_description: Have a DKMS module there for the kernels that need it
description:
  - Builds and installs what is missing; builds again what is older than the module it is built against.
  - Asserts the result. A build that fails is told with the end of its make.log. Without C(dkms) on the node it says so and changes nothing.
options:
  name:
    description: The module's name for dkms, C(nvidia).
    type: str
    required: true
  version:
    description: Its version; empty takes every version that is installed for some kernel.
    type: str
    default: ""
  kernels:
    description: The kernels that must have it, as C(uname -r) says them; empty takes those that have it.
    type: list
    elements: str
    default: []
  after:
    description: Build again where the build is older than that of this module for the same kernel.
    type: str
    default: ""
  again:
    description: Build again in any case.
    type: bool
    default: false
author: [burnin]
"""

EXAMPLES = r"""
- name: Modules | Build the driver for the pinned kernel
  burnin_dkms:
    name: nvidia
    version: 580.126.09
    kernels: [6.1.0-40-amd64]
"""

RETURN = r"""
burnin:
  description: What was built, as version and kernel, and notes.
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.burnin_dkms import building, tree

ARGUMENTS = {
    "name": {"type": "str", "required": True},
    "version": {"type": "str", "default": ""},
    "kernels": {"type": "list", "elements": "str", "default": []},
    "after": {"type": "str", "default": ""},
    "again": {"type": "bool", "default": False},
}


def wanted(params: dict, found: list) -> list:
    """(version, kernel, build again) of all that is to be built, sorted."""
    name = params["name"]
    ours = [one for one in found if one.module == name and one.installed and params["version"] in ("", one.version)]
    versions = [params["version"]] if params["version"] else sorted({one.version for one in ours})
    there = {(one.version, one.kernel) for one in ours}
    late = {(one.version, one.kernel) for one in tree.stale(found, name, params["after"])}
    asked = there | {(version, kernel) for version in versions for kernel in params["kernels"]}
    return [(*one, one in there) for one in sorted(asked) if one not in there or one in late or params["again"]]


def build(name: str, jobs: list) -> None:
    """Look whether all can be built, build, look again. Raises Trouble."""
    for version, kernel, _ in jobs:
        if not building.sources(name, version):
            raise building.Trouble(
                f"there is no source of {name} {version} (/usr/src/{name}-{version}/dkms.conf): its DKMS package is not installed"
            )
        if not building.headers(kernel):
            raise building.Trouble(
                f"{name} {version} cannot be built for kernel {kernel}: its headers are not there (/lib/modules/{kernel}/build); the role kernel brings them"
            )
    for version, kernel, again in jobs:
        building.build(name, version, kernel, again=again)
    there = {(one.version, one.kernel) for one in tree.builds() if one.module == name and one.installed}
    for version, kernel, _ in jobs:
        if (version, kernel) not in there:
            raise building.Trouble(
                f"dkms said that it built {name} {version} for kernel {kernel}, but it is not installed there; look at `dkms status`"
            )


def main() -> None:
    """What Ansible runs."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    name = module.params["name"]
    jobs = wanted(module.params, tree.builds())
    told = {"built": [f"{name}/{version}, {kernel}" for version, kernel, _ in jobs], "notes": []}
    if module.check_mode or not jobs:
        module.exit_json(changed=bool(jobs), burnin=told)
    if not building.available():
        told["notes"].append(
            f"There is no dkms on this node: whether {name} fits kernel {', '.join(module.params['kernels'])} was not looked at."
        )
        module.exit_json(changed=False, burnin={**told, "built": []})
    try:
        build(name, jobs)
    except building.Trouble as trouble:
        module.fail_json(msg=str(trouble), burnin={"code": "MODULE_NOT_BUILT"})
    module.exit_json(changed=True, burnin=told)


if __name__ == "__main__":
    main()
