"""Test nodes: systemd-nspawn containers on a bridge of their own, each an overlay over the one root file system.

Every node has its own network and UTS namespace (--network-bridge, -M): without them its systemd would rename the machine's own interface
and host. systemd-nspawn mounts /proc/sys read-only, gives each boot a boot id of its own, and takes no clock or module capability along.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.rootfs import OPERATOR, Unavailable, call, root_file_system, say

STATE = Path("/var/lib/burnin-lab")
CGROUPS = Path("/sys/fs/cgroup")
NETWORKS = range(1, 250)  # 198.18.N.0/24: set aside for tests of network gear (RFC 2544), routed nowhere
MOST_NODES = 100
READY_S, GONE_S, STEP_S = 60.0, 20.0, 0.05
REBOOTED = 133  # how systemd-nspawn --keep-unit ends when the node asked for a reboot: "start me again"


class LabProblem(Exception):
    """The lab is not in the state that was expected; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Node:
    """One test node. `machine`: its name for the kernel's interfaces, which have 15 letters."""

    name: str
    machine: str
    address: str
    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "root"


@dataclass(frozen=True, slots=True)
class Lab:
    """Some nodes on one bridge. `network`: the N of 198.18.N.0/24."""

    folder: Path
    network: int
    nodes: tuple[Node, ...]

    @property
    def bridge(self) -> str:
        return f"burnin{self.network}"

    def node(self, name: str) -> Node:
        for node in self.nodes:
            if node.name == name:
                return node
        raise LabProblem(f"no node {name!r}; there are {', '.join(node.name for node in self.nodes)}")


def _make(folder: Path, network: int, prefix: str, count: int) -> Lab:
    numbers = range(1, count + 1)
    nodes = [Node(f"{prefix}{n}", f"bl{network}x{n}", f"198.18.{network}.{10 + n}", folder / f"{prefix}{n}") for n in numbers]
    return Lab(folder, network, tuple(nodes))


def find(name: str) -> Lab | None:
    """The lab of this name, when there is one."""
    try:
        told = json.loads((STATE / name / "lab.json").read_text())
    except FileNotFoundError:
        return None
    return _make(STATE / name, told["network"], told["prefix"], told["count"])


def up(name: str, count: int, prefix: str = "lab-n") -> Lab:
    """Make and start the nodes; returns when all answer. Raises Unavailable where none can be made, LabProblem when the name is taken."""
    if not 1 <= count <= MOST_NODES:
        raise LabProblem(f"{count} nodes; from 1 to {MOST_NODES} can be made")
    base = root_file_system()
    if (STATE / name).exists():
        raise LabProblem(f"a lab {name!r} is there already (down makes away with it)")
    folder = STATE / name
    (folder / "ssh").mkdir(parents=True, mode=0o700)
    lab = _make(folder, _bridge(), prefix, count)
    (folder / "lab.json").write_text(json.dumps({"network": lab.network, "prefix": prefix, "count": count}))
    call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"burnin-lab {name}", "-f", str(folder / "ssh" / "key"))
    (folder / "ssh" / "sudo_password").write_text(secrets.token_urlsafe(12) + "\n")
    for node in lab.nodes:
        _furnish(lab, node, base)
    for node in lab.nodes:
        _boot(lab, node)
    for node in lab.nodes:
        wait_ready(node)
    return lab


def _bridge() -> int:
    """A bridge with a free number; making it is what takes the number."""
    for number in NETWORKS:
        made = subprocess.run(["ip", "link", "add", f"burnin{number}", "type", "bridge"], capture_output=True, text=True, check=False)
        if made.returncode == 0:
            call("ip", "address", "add", f"198.18.{number}.1/24", "dev", f"burnin{number}")
            call("ip", "link", "set", f"burnin{number}", "up")
            return number
        if "File exists" not in made.stderr:
            raise Unavailable(f"a bridge cannot be made here ({made.stderr.strip()})")
    raise LabProblem(f"all {len(NETWORKS)} networks are taken; look at `ip link show type bridge`")


def _furnish(lab: Lab, node: Node, base: Path) -> None:
    """What makes a node this node: its address, its host key, who may sign in."""
    for name in ("upper", "work", "root"):
        (node.folder / name).mkdir(parents=True)
    layers = f"lowerdir={base},upperdir={node.folder / 'upper'},workdir={node.folder / 'work'}"
    call("mount", "-t", "overlay", f"burnin-{node.machine}", "-o", layers, str(node.root))
    (node.root / "etc/lab-address").write_text(f"{node.address}/24\n")
    (node.root / "etc/hostname").write_text(f"{node.name}\n")
    (node.root / "etc/hosts").write_text(f"127.0.0.1 localhost\n{node.address} {node.name}\n")
    host_key = node.root / "etc/ssh/ssh_host_ed25519_key"
    call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", node.name, "-f", str(host_key))
    with (lab.folder / "ssh" / "known_hosts").open("a") as known:
        known.write(f"{node.address} {host_key.with_suffix('.pub').read_text()}")
    allowed = (lab.folder / "ssh" / "key.pub").read_text()
    for home in ("root", f"home/{OPERATOR}"):
        (node.root / home / ".ssh/authorized_keys").write_text(allowed)
    call("chroot", str(node.root), "chpasswd", stdin=f"{OPERATOR}:{(lab.folder / 'ssh' / 'sudo_password').read_text()}")


def _hierarchies() -> list[Path]:
    """Where a node needs a group of its own: beside v1 its systemd wants one in both, else the one of v2."""
    mixed = [CGROUPS / name for name in ("systemd", "unified") if (CGROUPS / name).is_dir()]
    return mixed or [CGROUPS]


def _boot(lab: Lab, node: Node) -> None:
    groups = [place / "burnin-lab" / lab.folder.name / node.machine for place in _hierarchies()]
    for group in groups:
        group.mkdir(parents=True, exist_ok=True)
    # The shell puts itself into the groups and starts systemd-nspawn, again and again: a node that reboots itself ends it with REBOOTED.
    enter = " && ".join(f"echo $$ > {group}/cgroup.procs" for group in groups)
    script = f'{enter} || exit; while "$@"; [ $? = {REBOOTED} ]; do :; done'
    argv = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot", "--console=pipe", "--kill-signal=SIGRTMIN+3"]
    argv += ["--link-journal=no", "--resolv-conf=off", "--timezone=off"]
    argv += [f"--directory={node.root}", f"--machine={node.machine}", f"--hostname={node.name}", f"--network-bridge={lab.bridge}"]
    with (node.folder / "console.log").open("ab") as log:
        began = subprocess.Popen(
            ["sh", "-c", script, "sh", *argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    (node.folder / "pid").write_text(f"{began.pid} {_started(began.pid)}")


def _started(pid: int) -> str:
    """When a process began: a number that is given out again is told apart by it. Empty: it is gone, or a zombie of ours."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def keeper(node: Node) -> int | None:
    """The process id of the shell that holds the node, over its reboots; None when the node is off."""
    try:
        pid, started = (node.folder / "pid").read_text().split(" ")
    except FileNotFoundError:
        return None
    return int(pid) if started and _started(int(pid)) == started else None


def leader(node: Node) -> int | None:
    """The process id, outside, of the node's PID 1; None when the node is off or between two boots."""
    container = _container(node)
    return next((child for child in _children(container) if _is_first(child)), None) if container else None


def _container(node: Node) -> int | None:
    """The process id of the node's systemd-nspawn: another one for each boot."""
    holder = keeper(node)
    return next(iter(_children(holder)), None) if holder else None


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _is_first(pid: int) -> bool:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return next((line.split()[-1] == "1" for line in lines if line.startswith("NSpid:")), False)


def _until(what: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(STEP_S)
    return True


def _answers(node: Node) -> bool:
    try:
        with socket.create_connection((node.address, 22), timeout=1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def wait_ready(node: Node) -> None:
    """Until sshd answers and systemd has booted. Raises LabProblem with the end of its console."""
    if not _until(lambda: _answers(node), READY_S):
        console = (node.folder / "console.log").read_text(errors="replace")[-2000:]
        raise LabProblem(f"{node.name} did not answer within {READY_S:g} s; its console ends:\n{console}")
    state = execute(node, "systemctl", "is-system-running", "--wait").stdout.strip()
    if state not in ("running", "degraded"):
        raise LabProblem(f"{node.name}: systemd says {state!r}")
    if state == "degraded":
        say(f"{node.name}: {execute(node, 'systemctl', '--failed', '--no-legend').stdout.strip()}")


def execute(node: Node, *argv: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a program inside the node, not over its network."""
    first = leader(node)
    if first is None:
        raise LabProblem(f"{node.name} is off")
    return subprocess.run(["nsenter", "-t", str(first), "-a", "--", *argv], capture_output=True, text=True, timeout=timeout_s, check=False)


def off(node: Node) -> None:
    """Pull the plug: nothing inside gets a last word. What is on its disk stays."""
    holder = keeper(node)
    if holder is not None:
        os.kill(holder, signal.SIGSTOP)  # or a node that is about to reboot would be started again
        container, first = _container(node), leader(node)
        # nspawn ends after its child; it is killed itself only when it does not
        if first is not None:
            _kill(first)
        if container is not None and not (first and _until(lambda: not _started(container), GONE_S)):
            _kill(container)
        _kill(holder)
    if not _until(lambda: keeper(node) is None, GONE_S):
        raise LabProblem(f"{node.name}: process {holder} would not end")
    (node.folder / "pid").unlink(missing_ok=True)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def on(lab: Lab, node: Node) -> None:
    """Power on; returns when it answers."""
    if keeper(node) is not None:
        raise LabProblem(f"{node.name} is on already")
    _boot(lab, node)
    wait_ready(node)


def unplug(node: Node, *, again: bool = False) -> None:
    """Pull the network cable (`again`: put it back). The node itself works on."""
    call("ip", "link", "set", f"vb-{node.machine}", "up" if again else "down")


def down(name: str) -> None:
    """End all nodes of a lab and remove what it left, also after an `up` that got stuck half-way. Harmless when there is none."""
    lab = find(name)
    for node in lab.nodes if lab else ():
        off(node)
        if os.path.ismount(node.root):
            call("umount", str(node.root))
    for place in _hierarchies():
        _remove_groups(place / "burnin-lab" / name)
    if lab and Path(f"/sys/class/net/{lab.bridge}").exists():
        call("ip", "link", "delete", lab.bridge)
    shutil.rmtree(STATE / name, ignore_errors=True)


def _remove_groups(group: Path) -> None:
    for folder, _, _ in os.walk(group, topdown=False):
        Path(folder).rmdir()


def inventory(lab: Lab) -> dict[str, object]:
    """An Ansible inventory of the nodes. Host key checking stays on: the keys were made here and are known."""
    ssh = lab.folder / "ssh"
    options = f"-o UserKnownHostsFile={ssh / 'known_hosts'} -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes"
    hosts = {
        node.name: {"ansible_host": node.address, "burnin_rack": "L1", "burnin_position": number}
        for number, node in enumerate(lab.nodes, start=1)
    }
    ours = {
        "ansible_user": "root",
        "ansible_private_key_file": str(ssh / "key"),
        "ansible_ssh_common_args": options,
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    return {"gpu_nodes": {"hosts": hosts, "vars": ours}}
