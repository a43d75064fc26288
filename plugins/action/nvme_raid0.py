"""Action plugin: hand the module the consent to erase that was given with this very call (-e), and no other.

A variable may come from an inventory, a role, a fact of the node itself: from there it would consent again and again, to whatever a drive holds by
then. So task variables are only looked at to refuse it. The module of the same name has the documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars

NAME = "nvme_raid0_erase"


class NotFromRun(Exception):
    """Why what is given is no consent of this call."""


def consent(given: object, host: str) -> dict[str, str]:
    """serial -> what is on it, of one host. A list is of serials whose content nobody has read. Raises NotFromRun for another shape."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise NotFromRun(f"-e {NAME} is no {{host: {{serial: what is on it}}}}; take erase.yml as burnin provision --check writes it")
    drives = given.get(host) or {}
    pairs = (
        list(drives.items())
        if isinstance(drives, Mapping)
        else [(one, "") for one in drives]
        if isinstance(drives, list)
        else [(None, None)]
    )
    if not all(isinstance(serial, str) and isinstance(text, str) for serial, text in pairs):
        raise NotFromRun(f"-e {NAME}: {host}: expected {{serial: what is on it}}, all of it text in quotes")
    return {str(serial): str(text) for serial, text in pairs}


def refuse_others(arguments: Mapping[str, Any], variables: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raises NotFromRun for a consent that comes from anywhere but this call."""
    if "erase" in arguments:
        raise NotFromRun("the task has the argument erase; a consent is taken from this call's -e alone")
    if NAME in variables and NAME not in given:
        raise NotFromRun(f"{NAME} comes from the inventory, a role or a fact; take it out there, and give it with -e for one call")


class ActionModule(ActionBase):
    """Ansible's entry."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """One module execution."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        given = load_extra_vars(self._loader)
        try:
            refuse_others(self._task.args, variables, given)
            erase = consent(given.get(NAME), str(variables.get("inventory_hostname", "")))
        except NotFromRun as problem:
            burnin = {"code": "CONSENT_NOT_FROM_RUN", "message": str(problem), "state": "refused", "erase": {}, "changed": {}}
            return result | {"failed": True, "msg": f"{problem}. Nothing was touched. [CONSENT_NOT_FROM_RUN]", "burnin": burnin}
        arguments = {**self._task.args, "erase": erase}
        return result | dict(self._execute_module(module_name="nvme_raid0", module_args=arguments, task_vars=variables))
