#!/usr/bin/python
# Copyright: burnin contributors. Apache License 2.0 (see LICENSE)
"""Ansible module: talk to the node program of burnin on this node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: burnin_node
short_description: Start, look at, stop, pack or identify with the node program of burnin
description:
  - Runs the node program (one zipapp) with the interpreter that Ansible uses on the node.
  - Evidence is written to files on the node; only a short status comes back in the task's result, under C(burnin).
options:
  action:
    description: What to do.
    type: str
    required: true
    choices: [identity, reach, start, status, stop, pack]
  run_dir:
    description: The run's folder on the node.
    type: path
    required: true
  backend:
    description: How the GPUs are reached.
    type: str
    default: nvml
    choices: [nvml, sim, cpu]
  supervisor:
    description: What keeps the run alive without us.
    type: str
    default: systemd
    choices: [systemd, process]
  unit:
    description: The name of the transient systemd unit.
    type: str
    default: burnin
  begun:
    description: It is known to have begun on this node; C(action=start) then only continues it, and answers absent where its evidence is gone.
    type: bool
    default: false
  hand_to:
    description:
      - For C(action=pack), a private folder of the user that Ansible signs in as. The archive is copied there for that user, so that it can
        be fetched as a file. With privilege escalation Ansible would else carry it through its memory, several times its size.
    type: path
  most_mib:
    description: For C(action=pack) with C(hand_to), the largest archive in MiB.
    type: int
    default: 1024
  plan:
    description: The plan, for C(action=start).
    type: dict
  options:
    description: The backend's options.
    type: dict
    default: {}
  program:
    description: Where the node program was put just now, for C(action=identity); it takes its place in the run's folder.
    type: path
  level:
    description: For C(action=identity), also read the machine - C(bare) needs no driver, C(ready) reads the installed software too.
    type: str
    choices: [bare, ready]
  root:
    description: With C(level), read /sys, /proc, /dev, /etc and /usr below this folder.
    type: path
    default: /
  software_root:
    description: With C(level), read the installed software below this folder; empty means as C(root).
    type: str
    default: ""
  urls:
    description: For C(action=reach), what this node should be able to fetch.
    type: list
    elements: str
    default: []
  seconds:
    description: For C(action=reach), patience with each.
    type: float
    default: 10
attributes:
  check_mode:
    support: full
author: burnin contributors
"""

EXAMPLES = r"""
- name: Start the run
  burnin_node:
    action: start
    run_dir: /var/lib/burnin/20260101T120000Z-a1b2c3
    plan: "{{ plan }}"
"""

RETURN = r"""
burnin:
  description: The node program's answer, at most a few hundred bytes.
  returned: always
  type: dict
document:
  description: The identity document, as JSON, deflated and in base64, at most a megabyte.
  returned: for C(action=identity)
  type: str
reach:
  description: URL to {ok, status, why, seconds}.
  returned: for C(action=reach)
  type: dict
"""

import base64
import json
import os
import shutil
import sys
import time
import zlib

from ansible.module_utils.basic import AnsibleModule

PROGRAM = "burnin-node.pyz"
LEAST_PYTHON = (3, 9)


def write_json(path, document):
    """Replace the file at once; only its owner may read it."""
    partial = path + ".partial"
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(document, file, sort_keys=True)
    os.replace(partial, path)


def call(module, arguments, data=None):
    """The node program's JSON answer; fails the module with its own words otherwise. `data` goes to its stdin."""
    program = os.path.join(module.params["run_dir"], PROGRAM)
    code, out, err = module.run_command([sys.executable, program, *arguments], data=data)
    if code != 0:
        # Of a crash the last line says what; of a refusal there is one line only.
        said = (err or out).strip().splitlines()[-1:] or ["no word"]
        module.fail_json(msg="burnin node %s exited %d: %s" % (arguments[0], code, said[0][:1500]), burnin={"state": "failed"})
    try:
        return json.loads(out)
    except ValueError:
        module.fail_json(msg="burnin node %s answered no JSON: %s" % (arguments[0], out[:300]), burnin={"state": "failed"})


LARGEST_DOCUMENT = 1 << 20


def place(module):
    """Put a program that was just brought where the run looks for it; only its owner may run it."""
    p = module.params
    os.makedirs(p["run_dir"], mode=0o700, exist_ok=True)
    target = os.path.join(p["run_dir"], PROGRAM)
    shutil.copyfile(p["program"], target + ".partial")
    os.chmod(target + ".partial", 0o700)
    os.replace(target + ".partial", target)


def identify(module):
    """Who the node is: a summary, and the whole document packed. Nothing is written but the program and its options."""
    p = module.params
    if p["program"]:
        place(module)
    options = os.path.join(p["run_dir"], "options.json")
    write_json(options, p["options"])
    arguments = ["identity", "--backend", p["backend"], "--options", options]
    if p["level"]:
        arguments += ["--level", p["level"], "--root", p["root"]]
        arguments += ["--software-root", p["software_root"]] if p["software_root"] else []
    told = call(module, arguments)
    document = base64.b64encode(zlib.compress(json.dumps(told, sort_keys=True).encode(), 6)).decode()
    if len(document) > LARGEST_DOCUMENT:
        module.fail_json(msg="the node's identity takes %d bytes packed; expected at most %d" % (len(document), LARGEST_DOCUMENT))
    return document, {
        "state": "identified",
        "gpus": len(told["gpus"]),
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "free_mib": shutil.disk_usage(p["run_dir"]).free // 2**20,
        "epoch_s": time.time(),
    }


def refuse(module, answer, why):
    """The archive cannot be handed over; it stays where it is."""
    module.fail_json(msg="%s has %d MiB; %s" % (answer["path"], answer["bytes"] // 2**20, why), burnin={"state": "failed"})


def hand_over(module, answer):
    """Copy the archive into the private folder, for its owner; returns where it is. The folder is another user's: no name in it is followed."""
    folder, most_mib = module.params["hand_to"], module.params["most_mib"]
    if answer["bytes"] > most_mib * 2**20:
        refuse(module, answer, "at most %d are fetched. Raise burnin_run_fetch_mib and resume, or see what fills its raw/" % most_mib)
    inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    owner = os.fstat(inside)
    if owner.st_mode & 0o077:
        refuse(module, answer, "%s, where it should be handed over, is open to others (mode %o)" % (folder, owner.st_mode & 0o777))
    sweep(module, owner.st_uid)
    free = shutil.disk_usage(folder).free
    if free < answer["bytes"]:
        refuse(
            module, answer, "%s has %d free. Make room there or set burnin_run_handover to another file system" % (folder, free // 2**20)
        )
    name = os.path.basename(answer["path"])
    with open(answer["path"], "rb") as source:
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=inside)
        with os.fdopen(handle, "wb") as target:
            shutil.copyfileobj(source, target, 2**20)
            os.fchown(target.fileno(), owner.st_uid, owner.st_gid)
    os.close(inside)
    return os.path.join(folder, name)


def sweep(module, uid):
    """Remove what a collection of this run and node that was cut off has left beside the folder: the copy of an archive."""
    base, own = os.path.split(os.path.normpath(module.params["hand_to"]))
    ours = own.rpartition("-")[0]
    for name in os.listdir(base):
        path = os.path.join(base, name)
        # Several nodes may be one machine (a demo), and one's name may begin with another's: only the random end may differ.
        if name != own and name.rpartition("-")[0] == ours and os.lstat(path).st_uid == uid:
            shutil.rmtree(path, ignore_errors=True)


def act(module):
    """Do it; returns (changed, answer)."""
    p = module.params
    arguments = [p["action"], "--run-dir", p["run_dir"], "--backend", p["backend"], "--supervisor", p["supervisor"], "--unit", p["unit"]]
    if p["action"] == "start":
        arguments += ["--begun"] if p["begun"] else []
        os.chmod(p["run_dir"], 0o700)
        for name in ("plan", "options"):
            path = os.path.join(p["run_dir"], name + ".json")
            if not os.path.exists(path):
                write_json(path, p[name])
    answer = call(module, arguments)
    if p["action"] == "pack" and p["hand_to"]:
        answer["path"] = hand_over(module, answer)
    return bool(answer.pop("changed", False)), answer


def end_unit(module):
    """Stop a unit whose folder is gone: its load would run on, and nobody would know of it. Returns whether there was one."""
    program = module.get_bin_path("systemctl")
    if program is None or not os.path.isdir("/run/systemd/system"):
        return False
    state = module.run_command([program, "show", "--property=ActiveState", "--value", module.params["unit"]])[1].strip()
    if state not in ("active", "activating", "deactivating", "reloading"):
        return False
    if not module.check_mode:
        module.run_command([program, "stop", module.params["unit"]])
    return True


def would_change(module):
    """Whether a start or stop has something to do: a run that is complete is not begun again, one that is not running is not stopped."""
    if not os.path.exists(os.path.join(module.params["run_dir"], PROGRAM)):
        return not module.params["begun"] if module.params["action"] == "start" else end_unit(module)
    state = call(module, ["status", "--run-dir", module.params["run_dir"]]).get("state")
    if module.params["action"] == "stop":
        return state == "running"
    return state not in ("running", "finished") and not (module.params["begun"] and state == "absent")


def main():
    """Ansible's entry."""
    module = AnsibleModule(
        argument_spec={
            "action": {"type": "str", "required": True, "choices": ["identity", "reach", "start", "status", "stop", "pack"]},
            "run_dir": {"type": "path", "required": True},
            "backend": {"type": "str", "default": "nvml", "choices": ["nvml", "sim", "cpu"]},
            "supervisor": {"type": "str", "default": "systemd", "choices": ["systemd", "process"]},
            "unit": {"type": "str", "default": "burnin"},
            "hand_to": {"type": "path"},
            "most_mib": {"type": "int", "default": 1024},
            "begun": {"type": "bool", "default": False},
            "plan": {"type": "dict"},
            "options": {"type": "dict", "default": {}},
            "program": {"type": "path"},
            "level": {"type": "str", "choices": ["bare", "ready"]},
            "root": {"type": "path", "default": "/"},
            "software_root": {"type": "str", "default": ""},
            "urls": {"type": "list", "elements": "str", "default": []},
            "seconds": {"type": "float", "default": 10},
        },
        required_if=[("action", "start", ["plan"]), ("action", "reach", ["urls"])],
        supports_check_mode=True,
    )
    if sys.version_info[:2] < LEAST_PYTHON:
        module.fail_json(
            msg="Python %d.%d on this node is too old; burnin needs 3.9 or later: set ansible_python_interpreter" % sys.version_info[:2]
        )
    if module.check_mode and module.params["action"] in ("start", "stop"):
        module.exit_json(changed=would_change(module), burnin={"state": "unchanged in check mode"})
    if module.check_mode and module.params["action"] == "pack":  # a virgin node has nothing to pack; the fetch that follows is skipped
        module.exit_json(changed=False, burnin={"state": "unchanged in check mode"})
    if module.params["action"] in ("status", "stop") and not os.path.exists(os.path.join(module.params["run_dir"], PROGRAM)):
        module.exit_json(changed=module.params["action"] == "stop" and end_unit(module), burnin={"state": "absent"})
    if module.params["action"] == "identity":
        document, answer = identify(module)
        module.exit_json(changed=False, burnin=answer, document=document)
    if module.params["action"] == "reach":
        # A mirror's URL may hold a password, and a command line can be read by every user.
        told = call(module, ["reach", "--seconds", str(module.params["seconds"])], data="\n".join(module.params["urls"]))
        module.exit_json(changed=False, burnin={"state": "looked"}, reach=told)
    changed, answer = act(module)
    module.exit_json(changed=changed, burnin=answer)


if __name__ == "__main__":
    main()
