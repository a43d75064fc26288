"""Do the steps of a plan: files replaced at once, programs with a limit. What was written is put back where a program refuses it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from typing import Dict, List, Optional, Sequence

from ansible.module_utils.burnin_ib.model import NETPLAN, Plan, Step, Trouble

ENVIRONMENT = {"LC_ALL": "C", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
LOOK_S = 60
REBOOT_FLAG = "/run/burnin/reboot-required.d/ib_interface"
REFUSING = ("netplan", "nmcli", "networkctl", "systemctl")
SAID_MOST = 600


def program(name: str) -> Optional[str]:
    """Where it is."""
    return shutil.which(name, path=ENVIRONMENT["PATH"])


def run(argv: Sequence[str], timeout_s: float = LOOK_S, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    """Never raises: 127 where it is not there, 124 where it took too long."""
    try:
        return subprocess.run(
            list(argv),
            env=ENVIRONMENT,
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(list(argv), 124, "", "%s took longer than %d s" % (argv[0], timeout_s))
    except OSError as problem:
        return subprocess.CompletedProcess(list(argv), 127, "", str(problem))


def said(done: "subprocess.CompletedProcess[str]") -> str:
    """The end of what a program said, on one line, printable."""
    words = " | ".join(line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip())
    return "".join(letter if letter.isprintable() else "?" for letter in words)[-SAID_MOST:] or "exit %d without a word" % done.returncode


def at(root: str, path: str) -> str:
    """A path of the node below the root."""
    return os.path.join(root, path.lstrip("/"))


def accepted(plan: Plan) -> None:
    """netplan reads our file with all of the node's own in a folder beside, before anything is written. Raises Trouble."""
    step = next((step for step in plan.steps if step.path == NETPLAN and step.kind == "write"), None)
    if step is None:
        return
    with tempfile.TemporaryDirectory() as root:
        for folder in ("/etc/netplan", "/run/netplan", "/lib/netplan"):
            if os.path.isdir(folder):
                shutil.copytree(folder, at(root, folder), dirs_exist_ok=True)
        _write(root, step)
        done = run(["netplan", "generate", "--root-dir", root])
    if done.returncode:
        raise Trouble("RENDERER_REFUSED", "netplan would not take %s: %s; nothing was changed" % (NETPLAN, said(done)))


def do(plan: Plan, root: str) -> List[str]:
    """All steps; below another root than / only files. Returns what was done with each program. Raises Trouble."""
    real = root == "/"
    before: Dict[str, Optional[str]] = {}
    told: List[str] = []
    try:
        for step in plan.steps:
            if step.kind in ("write", "remove"):
                before[step.path] = _old(root, step.path)
                _write(root, step) if step.kind == "write" else os.unlink(at(root, step.path))
            elif real:
                told += _act(step)
    except OSError as problem:
        _put_back(root, plan, before)
        raise Trouble("WRITE_FAILED", "%s; what was there before is there again" % problem) from problem
    except Trouble:
        _put_back(root, plan, before)
        raise
    return told


def _old(root: str, path: str) -> Optional[str]:
    try:
        with open(at(root, path), encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _write(root: str, step: Step) -> None:
    path = at(root, step.path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    partial = os.path.join(os.path.dirname(path), ".%s.partial" % os.path.basename(path))
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, step.mode)
    with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
        os.fchmod(file.fileno(), step.mode)
        file.write(step.text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def _put_back(root: str, plan: Plan, before: Dict[str, Optional[str]]) -> None:
    modes = {step.path: step.mode for step in plan.steps}
    for path, text in before.items():
        if text is None:
            if os.path.exists(at(root, path)):
                os.unlink(at(root, path))
        else:
            _write(root, Step("write", path, text, modes.get(path, 0o600)))


def _act(step: Step) -> List[str]:
    if step.kind == "activate":
        return [_activate(step.argv[0])]
    done = run(step.argv)
    if done.returncode and (step.argv[0] in REFUSING or step.kind == "rename"):
        raise Trouble(
            "RENDERER_REFUSED", "`%s` exited %d: %s; the files are as before" % (" ".join(step.argv)[:200], done.returncode, said(done))
        )
    return ["%s (%s)%s" % (" ".join(step.argv), step.why, "" if done.returncode == 0 else ": " + said(done))]


def _activate(name: str) -> str:
    """A link that is active takes the change in place; what cannot be changed in place (transport mode) needs the link up anew, this one alone.

    One without a carrier is left to NetworkManager, which brings it up when there is one.
    """
    state = run(["nmcli", "-g", "GENERAL.STATE", "device", "show", name]).stdout
    if state.startswith("100"):
        if run(["nmcli", "device", "reapply", name]).returncode == 0:
            return "nmcli device reapply %s" % name
        done = run(["nmcli", "--wait", "20", "connection", "up", "burnin-ib-" + name])
        return "nmcli connection up burnin-ib-%s%s" % (name, "" if done.returncode == 0 else ": " + said(done))
    run(["nmcli", "--wait", "0", "connection", "up", "burnin-ib-" + name])
    return "nmcli connection up burnin-ib-%s (not waited for)" % name


def flag_reboot(reasons: Sequence[str]) -> None:
    """Who asks for a reboot, for the role reboot. Taken back where nothing asks any more."""
    if reasons:
        os.makedirs(os.path.dirname(REBOOT_FLAG), exist_ok=True)
        with open(REBOOT_FLAG, "w", encoding="utf-8") as file:
            file.write("; ".join(reasons)[:2000] + "\n")
    elif os.path.exists(REBOOT_FLAG):
        os.unlink(REBOOT_FLAG)
