"""Action plugin: ask a node who it is, keep the answer in the run folder, and say whether it is the node that was bought.

One task instead of four (copy, identity, fetch, assert): the node program is handed over as a file, one module execution asks, a second one
fetches from the mirrors where a stack is given. Deciding is burnin.preflight's, which is pure. Arguments:

  run_dir, backend, options      as of the module burnin_node
  program                        the node program on the controller; left out where this play has brought it already
  save_to                        the file on the controller that the identity is written to
  level, root, software_root     what of the machine is read, and below which folders
  variables                      burnin_sku, burnin_expected_gpus, burnin_sku_parts, burnin_preflight_accept, burnin_drift_accept, burnin_stack
  judge                          all (parts and, at level ready, the stack), stack (without the parts), place (room, clock, mirrors alone)
  free_mib, clock_skew_s         the limits of the place
  reach                          whether the node fetches from the mirrors of the stack
"""

from __future__ import annotations

import base64
import json
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

from burnin.adapters.clock import utc_now
from burnin.adapters.run_files import write_text
from burnin.errors import BurninError
from burnin.preflight import bridge
from burnin.preflight.case import Site

PROGRAM = "burnin-node.pyz"
LARGEST_DOCUMENT = 16 * 2**20
MOST_TOLD, LONGEST_TOLD = 40, 300
PATIENCE_S = 10


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number")


def unpack(packed: str) -> dict[str, Any]:
    """The identity document. Raises AnsibleActionFail for what is none; a node may send anything, so it is never unpacked without end."""
    try:
        reader = zlib.decompressobj()
        content = reader.decompress(base64.b64decode(packed, validate=True), LARGEST_DOCUMENT)
        document = json.loads(content, parse_constant=_no_number)
    except (ValueError, zlib.error, RecursionError) as problem:
        raise AnsibleActionFail(
            f"the node's identity cannot be read ({problem}); run again, and look at the node's memory if it stays so"
        ) from None
    if reader.unconsumed_tail or not isinstance(document, dict) or not isinstance(document.get("gpus"), list):
        raise AnsibleActionFail("the node's identity is no identity document, or too large; is this node running our program?")
    return document


def skew_s(before: float, node: float, after: float) -> float:
    """How far the node's clock is off, at the least: it was read somewhere between the two."""
    return min(0.0, node - before) + max(0.0, node - after)


def told(findings: list[dict[str, Any]]) -> list[dict[str, str]]:
    """For the task's result: every code, its sentence cut."""
    return [{"code": one["code"], "outcome": one["outcome"], "why": one["why"][:LONGEST_TOLD]} for one in findings[:MOST_TOLD]]


PORT_FACTS = ("address", "device", "driver", "rdma", "port", "link_layer", "guid", "nvlink5_bridge", "switch", "state")
MOST_PARTS = 64


def in_short(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the roles that follow ask of the machine: NVSwitches, whether a GPU was seen at all (nvidia_driver), adapters and their ports (ib_interface)."""
    host = document.get("host") or {}
    nics = [
        {name: _short(nic.get(name)) for name in PORT_FACTS} for nic in (host.get("nics") or [])[:MOST_PARTS] if isinstance(nic, Mapping)
    ]
    gpus = [{"switch": _short(gpu.get("switch"))} for gpu in (host.get("gpus") or [])[:MOST_PARTS] if isinstance(gpu, Mapping)]
    return {
        "gpus": len(host.get("gpus") or ()),
        "nvswitches": host.get("nvswitches"),
        "nvlink5": host.get("nvlink5"),
        "nics": nics,
        "gpu_switches": [gpu["switch"] for gpu in gpus],
    }


def _short(value: Any) -> Any:
    """A node may send anything; here it is a number, a truth or a short word."""
    return value if isinstance(value, bool | int) else str(value or "")[:40]


class ActionModule(ActionBase):
    """Ansible's entry."""

    TRANSFERS_FILES = True
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask, keep, judge."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        self._vars = task_vars or {}
        arguments = self._task.args
        try:
            asked = self._asked(arguments)
            before = time.time()
            answer = self._identity(arguments)
            if answer.get("failed"):
                return result | answer
            document, about = unpack(answer["document"]), answer["burnin"]
            resolution = bridge.resolution_of(document, asked)
            site = Site(
                free_mib=int(about["free_mib"]),
                need_mib=int(arguments["free_mib"]),
                run_root=str(Path(arguments["run_dir"]).parent),
                skew_s=skew_s(before, float(about["epoch_s"]), time.time()),
                most_skew_s=float(arguments["clock_skew_s"]),
                reach=self._reach(arguments, asked, resolution[0]),
            )
            judged = bridge.examine(document, asked, resolution, site, utc_now().date())
        except BurninError as problem:
            return result | {"failed": True, "msg": str(problem), "burnin": {"state": "refused"}}
        self._keep(Path(arguments["save_to"]), {**document, "preflight": judged})
        result |= {"changed": False, "failed": judged["failed"], "msg": judged["text"] or judged["review"] or "nothing was found"}
        state = "refused" if judged["failed"] else "identified"
        result["burnin"] = {**about, "state": state, "level": asked.level, "findings": told(judged["findings"]), "host": in_short(document)}
        return result

    def _asked(self, arguments: Mapping[str, Any]) -> bridge.Asked:
        variables = arguments.get("variables") or {}
        return bridge.asked(
            str(arguments["level"]),
            sku=variables.get("burnin_sku"),
            expected_gpus=variables.get("burnin_expected_gpus"),
            parts=variables.get("burnin_sku_parts"),
            accept=variables.get("burnin_preflight_accept"),
            accept_drift=variables.get("burnin_drift_accept"),
            stack=variables.get("burnin_stack"),
            judge_parts=arguments["judge"] == "all",
            judge_stack=arguments["judge"] in ("all", "stack"),
            today=utc_now().date(),
        )

    def _identity(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """One module execution; the program goes before it as a file."""
        asking = {
            name: arguments[name] for name in ("run_dir", "backend", "options", "level", "root", "software_root") if name in arguments
        }
        if arguments.get("program"):
            place = self._connection._shell.tmpdir or self._make_tmp_path()
            target = self._connection._shell.join_path(place, PROGRAM)
            self._transfer_file(str(arguments["program"]), target)
            self._fixup_perms2((place, target))
            asking["program"] = target
        answer: dict[str, Any] = self._execute_module("burnin_node", {"action": "identity", **asking}, task_vars=self._vars)
        return answer

    def _reach(self, arguments: Mapping[str, Any], asked: bridge.Asked, resolution: Mapping[str, Any] | None) -> dict[str, Any]:
        """URL -> answer; nothing where it is not wanted, where nothing is to be installed any more, or where no stack is given."""
        urls = bridge.addresses(resolution)
        if not urls or asked.level != "bare" or not boolean(arguments.get("reach", True)):
            return {}
        asking = {"action": "reach", "run_dir": arguments["run_dir"], "urls": urls, "seconds": PATIENCE_S}
        answer = self._execute_module("burnin_node", asking, task_vars=self._vars)
        if answer.get("failed"):
            raise AnsibleActionFail(str(answer.get("msg")))
        return {url: answer["reach"].get(url, {}) for url in urls}

    def _keep(self, path: Path, document: Mapping[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(document, sort_keys=True, allow_nan=False) + "\n")
        path.chmod(0o600)
