"""Action plugin: reboot a node where its state says that it must be, wait for another boot id, and prove that it came up as it should.

Why not ansible.builtin.reboot: ssh repeats a command whose connection went (`retries`), so a node that is quick reboots twice; a timeout does
not say whether the node still answers with the old boot or is gone; a local connection is a failure (field report B04). The module of the
same name has the documentation.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

# Rebooting what these lead to would reboot the controller, or nothing.
HERE = ("local", "chroot", "jail", "zone")
SETTLE_S = 900.0  # dkms may build at boot; after that what is missing stays missing
LONGEST_WORDS = 300


class Refused(Exception):
    """`code` for machines, the text for people: what was found, what was expected, what to do."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


def sentence(facts: list[Mapping[str, str]]) -> str:
    """Reasons or faults for a person who must act."""
    return "; ".join(f"{fact['found']}, expected {fact['expected']} ({fact['remedy']})" for fact in facts)


def found(facts: list[Mapping[str, str]]) -> str:
    """Reasons for a person who only wants to know."""
    return "; ".join(fact["found"] for fact in facts)


class ActionModule(ActionBase):
    """Ansible's entry."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Look, decide, act, look again. One task result; one module execution where nothing is to be done, at least three where it reboots."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        self._vars = task_vars or {}
        arguments = self._task.args
        before = self._look(arguments)
        if before.get("failed") or "burnin" not in before:
            return result | before
        told, rebooted_before = before["burnin"], _true(arguments.get("rebooted_before", False))
        about = {"reasons": told["reasons"], "faults": told["faults"], "found": told["found"]}
        result |= {"changed": False, "rebooted": rebooted_before}
        try:
            state = self._decide(told, arguments, rebooted_before)
            result["burnin"] = {"state": state, **about}
            if state != "rebooting":
                return result | self._said(state, told)
            result |= {"changed": True, "rebooted": True}
            after, seconds = self._reboot(told, arguments)
        except Refused as refusal:
            return result | {"failed": True, "msg": str(refusal), "burnin": {"state": "failed", "code": refusal.code, **about}}
        result["burnin"] = {"state": "rebooted", **about, "found": after, "found_before": told["found"], "seconds": seconds}
        result["msg"] = f"rebooted in {seconds:.0f} s: {found(told['reasons'])}"
        return result

    def cleanup(self, force: bool = False) -> None:
        """Without pipelining a temporary folder is taken away at the end; on a node that has not come back that must not hide why."""
        try:
            super().cleanup(force)
        except AnsibleConnectionFailure as problem:
            Display().vvv(f"its temporary folder stays: {problem}")

    def _look(self, arguments: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        return dict(
            self._execute_module(module_name="burnin_reboot", module_args={**arguments, "act_on": "", **more}, task_vars=self._vars)
        )

    def _decide(self, told: Mapping[str, Any], arguments: Mapping[str, Any], rebooted_before: bool) -> str:
        """not_needed, would_reboot, required or rebooting. Raises Refused."""
        if self._task.check_mode:
            return "would_reboot" if told["reasons"] else "not_needed"  # what is not installed yet is no fault
        if told["faults"]:
            raise Refused(told["faults"][0]["code"], f"{sentence(told['faults'])}; it was not rebooted")
        if not told["required"]:
            return "not_needed"
        if rebooted_before:
            raise Refused(
                "STILL_REQUIRED", f"still required after one reboot: {sentence(told['reasons'])}; it is not rebooted again in this run"
            )
        if self._is_here() or not _true(arguments.get("allowed", True)):
            return "required"
        timeout_s, least_s = int(arguments.get("timeout_s", 1200)), int(arguments.get("least_timeout_s", 900))
        if timeout_s < least_s:
            raise Refused(
                "IMPATIENT",
                f"reboot_timeout_s is {timeout_s}; expected {least_s} (reboot_least_timeout_s) or more: such a machine takes that long to come up",
            )
        self._refuse_busy(told["found"], arguments)
        return "rebooting"

    def _refuse_busy(self, node: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
        packagers = [f"process {one['pid']} ({one['name']})" for one in node["packagers"]]
        if packagers:  # reboot_busy_ok is a word about GPU work; half-configured packages may not boot
            raise Refused(
                "NODE_BUSY",
                f"must be rebooted, and packages are being changed on it: {', '.join(packagers)} holds the package manager's lock; it was not rebooted. "
                "Wait until it has ended (never kill it), then run this again",
            )
        busy = [f"process {one['pid']} ({one['name']}) on {one['device']}" for one in node["processes"]]
        busy += [f"burn-in {run}" for run in node["burn_ins"]]
        if busy and not _true(arguments.get("busy_ok", False)):
            shown = ", ".join(busy[:8]) + (f" and {len(busy) - 8} more" if len(busy) > 8 else "")
            raise Refused("NODE_BUSY", f"must be rebooted and is at work: {shown}; it was not rebooted. Drain it, or set reboot_busy_ok")

    def _said(self, state: str, told: Mapping[str, Any]) -> dict[str, Any]:
        if state == "would_reboot":
            return {"changed": True, "msg": f"would be rebooted: {found(told['reasons'])}"}
        if state == "required":
            why = "it is reached over a connection that cannot be rebooted" if self._is_here() else "reboot_allowed is false"
            return {"msg": f"reboot required, and not done ({why}): {found(told['reasons'])}. Reboot it, then run this again"}
        return {}

    def _is_here(self) -> bool:
        return self._connection.transport.rpartition(".")[2] in HERE

    def _reboot(self, told: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
        """What was found on the other boot, and after how many seconds. Raises Refused."""
        old, begun = told["found"]["boot_id"], time.monotonic()
        try:
            started = self._look(arguments, act_on=old)
        except AnsibleConnectionFailure:
            started = {}  # it went before the answer was home; the boot id tells
        if started.get("failed"):
            raise Refused("REBOOT_COMMAND_FAILED", f"could not be rebooted: {started.get('msg')}")
        deadline, look_s = begun + int(arguments.get("timeout_s", 1200)), float(arguments.get("look_s", 5))
        self._await_boot(old, deadline, look_s, arguments)
        after = self._settled(arguments, min(deadline, time.monotonic() + SETTLE_S), look_s)
        seconds = round(time.monotonic() - begun, 1)
        if after["reasons"] or after["faults"]:
            raise Refused("STILL_REQUIRED", f"still required after one reboot: {sentence([*after['faults'], *after['reasons']])}")
        return after["found"], seconds

    def _await_boot(self, old: str, deadline: float, look_s: float, arguments: Mapping[str, Any]) -> None:
        """Until it answers with another boot id. That it answers at all proves nothing: a slow shutdown answers for minutes."""
        path = f"{str(arguments.get('root', '/')).rstrip('/')}/proc/sys/kernel/random/boot_id"
        waited = int(arguments.get("timeout_s", 1200))
        while True:
            answer, trouble = self._boot_id(path)
            if answer and answer != old:
                return
            if time.monotonic() > deadline:
                break
            time.sleep(look_s)
        if answer:
            raise Refused(
                "DID_NOT_REBOOT",
                f"did not reboot: after {waited} s it still answers with boot id {old}; look at its console for what holds the shutdown",
            )
        raise Refused(
            "DID_NOT_COME_BACK", f"was told to reboot and has not come back within {waited} s ({trouble}); look at its console and its BMC"
        )

    def _boot_id(self, path: str) -> tuple[str, str]:
        """The boot id, or "" and why there was no answer."""
        try:
            self._connection.reset()
            done = self._low_level_execute_command(f"cat {self._connection._shell.quote(path)}", sudoable=False)
        except AnsibleError as problem:
            return "", str(problem).strip().splitlines()[-1][:LONGEST_WORDS]
        return (done["stdout"].strip(), "") if done["rc"] == 0 else ("", f"cat {path} exited {done['rc']}")

    def _settled(self, arguments: Mapping[str, Any], deadline: float, look_s: float) -> dict[str, Any]:
        """What it says once it has come up: a module that loads, or that dkms builds, at the end of the boot is waited for."""
        while True:
            try:
                looked = self._look(arguments, force=False)
                trouble = str(looked.get("msg") or looked.get("module_stderr") or "no word")
            except AnsibleConnectionFailure as problem:  # sshd of the initramfs, or one that is restarted
                looked, trouble = {"failed": True}, str(problem)
            told: dict[str, Any] = looked.get("burnin") or {}
            if told and not (told["found"]["booting"] and (told["reasons"] or told["faults"])):
                return told
            if time.monotonic() > deadline:
                break
            time.sleep(look_s)
        if told:
            return told
        raise Refused("CANNOT_BE_READ", f"has rebooted, and cannot be looked at since: {trouble[:LONGEST_WORDS]}")


def _true(value: Any) -> bool:
    return value if isinstance(value, bool) else str(value).lower() in ("true", "yes", "1", "on")
