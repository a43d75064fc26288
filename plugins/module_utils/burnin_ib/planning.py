"""What is to be done on the node: interfaces as they shall be against the node as it is -> steps. Pure."""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

from ansible.module_utils.burnin_ib import asking, choosing, comparing, foreign, rendering
from ansible.module_utils.burnin_ib.model import (
    HEAD,
    KEYFILES,
    MODULES,
    NETPLAN,
    NETWORKD,
    RDMA_NAMING,
    RDMA_RULES,
    RULES,
    Asked,
    Hardware,
    Interface,
    Plan,
    Refusal,
    Step,
    World,
)

EL = ("rhel", "centos", "fedora", "rocky", "almalinux", "ol")
PROGRAM = {"netplan": "netplan", "networkmanager": "nmcli", "networkd": "networkctl"}
SERVICE = {"netplan": "systemd-networkd", "networkmanager": "NetworkManager", "networkd": "systemd-networkd"}


def renderer(asked: Asked, world: World) -> str:
    """netplan on Ubuntu, NetworkManager on EL, systemd-networkd on Debian, unless the site says. Raises Refusal."""
    kinds = (world.system, *world.like)
    chosen = asked.renderer
    if chosen == "auto":
        chosen = ""
        if any(kind in EL for kind in kinds):
            chosen = "networkmanager"
        elif world.system == "ubuntu" or ("ubuntu" in kinds and world.system != "debian"):
            chosen = "netplan"
        elif "debian" in kinds:
            manager = "NetworkManager" in world.active and "systemd-networkd" not in world.active
            chosen = "networkmanager" if manager else "networkd"
    if not chosen:
        raise Refusal(
            "SYSTEM_UNKNOWN",
            "%s is no system whose network we know (Ubuntu, Debian, EL); set ib_interface_renderer to netplan, networkmanager or networkd"
            % (asking.shown(world.system) or "this"),
        )
    if PROGRAM[chosen] not in world.programs:
        raise Refusal(
            "TOOL_MISSING",
            "%s is not on this node, and %s configures the links here; install it, or set ib_interface_renderer"
            % (PROGRAM[chosen], chosen),
        )
    return chosen


def _owned(path: str, text: str) -> bool:
    """A keyfile that NetworkManager has written anew lost its comment, not its name."""
    return HEAD in text or (path.startswith(KEYFILES) and "\nid=burnin-ib-" in "\n" + text)


def plan(asked: Asked, hardware: Hardware, world: World) -> Plan:
    """All that is to be done; no steps: nothing is. Raises Refusal."""
    how = renderer(asked, world)
    for path, text in sorted(world.ours.items()):
        if not _owned(path, text):
            raise Refusal("FOREIGN_PROFILE", "%s is there, and not by us; move it away, for it has the name of a file of ours" % path)
    interfaces, left_out = choosing.chosen(asked, hardware, world, world.ours.get(RULES, ""))
    foreign.refuse(world, interfaces)
    start = _must_start(how, world)
    wanted = rendering.files(interfaces, asked, how)
    wanted[RULES] = (_with_absent(wanted[RULES][0], interfaces, asked, world), wanted[RULES][1])
    files, differs = _files(wanted, world)
    changed = [step.path for step in files]
    reboot = _renaming(interfaces, world)
    moves = _moves(interfaces, world)
    live = _reloads(how, files, interfaces, world, start)
    steps = (*files, *_udev(changed, world), *_module(changed, interfaces, world), *moves, *live)
    return Plan(how, interfaces, left_out, steps, tuple(differs), tuple(reboot), tuple(_notes(interfaces, asked)), start)


def _with_absent(text: str, interfaces: Sequence[Interface], asked: Asked, world: World) -> str:
    """Names that were given to cards which are away now stay in the file as comments: they are not given to others."""
    here = {(one.port.pci, one.port.number) for one in interfaces}
    before = choosing.given_before(world.ours.get(RULES, ""), asked) if asked.pattern else {}
    lost = ["# pci=%s port=%d name=%s (away)" % (*key, name) for key, name in sorted(before.items()) if key not in here]
    return text + "".join(line + "\n" for line in lost)


def _must_start(how: str, world: World) -> bool:
    """Whether its service is to be started. Starting networkd also puts into force what others have written for it; then it is refused."""
    service = SERVICE[how]
    if service in world.active:
        return False
    if how == "networkmanager":
        raise Refusal(
            "RENDERER_NOT_RUNNING",
            "NetworkManager does not run here, so nothing would read its files; start it, or set ib_interface_renderer",
        )
    waiting = [path for path in world.others if path.endswith(".network") and path.startswith(("/etc/", "/run/"))]
    waiting += [path for path in world.others if "/netplan/" in path and how != "netplan"]
    if waiting:
        raise Refusal(
            "RENDERER_NOT_RUNNING",
            "systemd-networkd does not run here, and starting it would put into force what others wrote for it: %s. Start it yourself, or set "
            "ib_interface_renderer" % ", ".join(sorted(waiting)[:5]),
        )
    return True


def _files(wanted: rendering.Files, world: World) -> Tuple[List[Step], List[str]]:
    steps, differs = [], []
    for path, (text, mode) in sorted(wanted.items()):
        now = world.ours.get(path)
        why = [path] if now is None else comparing.differences(path, now, text)
        if now is not None and world.modes.get(path, mode) != mode:
            why.append("%s: mode %o" % (path, world.modes[path]))
        if why:
            steps.append(Step("write", path, text, mode))
            differs += why
    for path in sorted(set(world.ours) - set(wanted)):
        steps.append(Step("remove", path))
        differs.append("%s: no longer asked for" % path)
    return steps, differs


def _udev(changed: Sequence[str], world: World) -> List[Step]:
    if "udev" in world.active and any(path in (RULES, RDMA_RULES, RDMA_NAMING) for path in changed):
        return [Step("run", argv=("udevadm", "control", "--reload"), why="new rules")]
    return []


def _module(changed: Sequence[str], interfaces: Sequence[Interface], world: World) -> List[Step]:
    """Without ib_ipoib no port has an interface; rdma-core loads it at boot, others may not."""
    if MODULES in changed and "ib_ipoib" not in world.active and "modprobe" in world.programs and any(not one.now for one in interfaces):
        return [Step("run", argv=("modprobe", "ib_ipoib"), why="ports without an interface")]
    return []


def _movable(one: Interface, world: World) -> bool:
    """A link that is down, to a name that nobody has: it can be renamed now, and nobody's work is on it."""
    device = next((device for device in world.netdevs if device.name == one.now), None)
    return "ip" in world.programs and device is not None and not device.up and all(device.name != one.name for device in world.netdevs)


def _moves(interfaces: Sequence[Interface], world: World) -> List[Step]:
    return [
        Step("rename", argv=("ip", "link", "set", "dev", one.now, "name", one.name), why="%s is down" % one.now)
        for one in interfaces
        if one.now and one.now != one.name and _movable(one, world)
    ]


def _renaming(interfaces: Sequence[Interface], world: World) -> List[str]:
    """Why a boot is needed: links that are up keep their name until then, for renaming takes them down."""
    reasons = []
    for one in interfaces:
        if one.now and one.now != one.name and not _movable(one, world):
            reasons.append("%s becomes %s: it is up, or the name is another port's until then" % (one.now, one.name))
        if one.rdma_name and one.port.rdma and one.rdma_name != one.port.rdma:
            reasons.append("RDMA device %s becomes %s" % (one.port.rdma, one.rdma_name))
    return reasons


def _reloads(how: str, files: Sequence[Step], interfaces: Sequence[Interface], world: World, start: bool) -> List[Step]:
    """Only links whose files changed are touched: networkd and NetworkManager are told to read, not to start anew."""
    touched = [step.path for step in files if step.path.startswith((NETWORKD, KEYFILES)) or step.path == NETPLAN]
    steps: List[Step] = []
    if how == "netplan" and NETPLAN in touched:
        steps.append(Step("run", argv=("netplan", "generate"), why="its YAML changed"))
    if start:
        steps += [
            Step("run", argv=("systemctl", "enable", "systemd-networkd.service"), why="it does not run"),
            Step("run", argv=("systemctl", "start", "systemd-networkd.service"), why="it does not run"),
        ]
        if "systemd-networkd-wait-online" not in world.enabled:
            # `enable` brings it along, and it would wait two minutes at every boot for links that are none of networkd's.
            waits = Step(
                "run", argv=("systemctl", "disable", "systemd-networkd-wait-online.service"), why="it would wait for others' links"
            )
            steps.insert(-1, waits)
    elif how in ("netplan", "networkd") and touched:
        steps.append(Step("run", argv=("networkctl", "reload"), why="%d files changed" % len(touched)))
    if how == "networkmanager":
        steps += _manager(files, interfaces)
    return steps


def _manager(files: Sequence[Step], interfaces: Sequence[Interface]) -> List[Step]:
    written = [step.path for step in files if step.kind == "write" and step.path.startswith(KEYFILES)]
    steps = []
    if any(step.kind == "remove" and step.path.startswith(KEYFILES) for step in files):
        steps.append(Step("run", argv=("nmcli", "connection", "reload"), why="a connection was removed"))
    if written:
        steps.append(Step("run", argv=("nmcli", "connection", "load", *written), why="%d connections changed" % len(written)))
    names: Dict[str, str] = {}
    for one in interfaces:
        for name in (one.name, *(one.child_name(child) for child in one.children)):
            names["%s/%s.nmconnection" % (KEYFILES, rendering.connection(name))] = name
    steps += [Step("activate", argv=(names[path],), why="its connection changed") for path in written if path in names]
    return steps


def _notes(interfaces: Sequence[Interface], asked: Asked) -> List[str]:
    notes = []
    kernels = [one.name for one in interfaces if asking.KERNEL_NAMES.fullmatch(one.name)]
    if kernels:
        notes.append("%s: the kernel's own names; at a boot that finds the ports in another order a rename may fail" % ", ".join(kernels))
    for one in interfaces:
        limited = ["0x%04x" % child.p_key for child in one.children if not child.p_key & asking.FULL_MEMBER]
        if limited:
            notes.append(
                "%s: limited members (%s) talk to full members only, and most kernels set the full-member bit anyway"
                % (one.name, ", ".join(limited))
            )
        if not one.addresses and not any(child.addresses for child in one.children):
            notes.append("%s gets no address" % one.name)
    return notes
