#!/usr/bin/python3
"""Written by burnin (role node_tuning). What a node forgets at each boot, set and read back: PCI ports and adapters, CPUs, huge pages.

The module node_tuning runs this code; the same file is installed as /usr/local/lib/burnin/node-tuning, and burnin-node-tuning.service runs
it at each boot with what is in /etc/burnin/node-tuning.json. So it stands alone: Python 3.9, standard library, nothing beside it.
"""

from __future__ import annotations

import json
import os
import re
import stat
import struct
import sys
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

CONFIG = "/etc/burnin/node-tuning.json"
SCHEMA = "burnin.node_tuning/1"
DEVICES, RDMA, CPUS, NODES = "/sys/bus/pci/devices", "/sys/class/infiniband", "/sys/devices/system/cpu", "/sys/devices/system/node"
TRANSPARENT = "/sys/kernel/mm/transparent_hugepage/enabled"
NUMA_BALANCING = "/proc/sys/kernel/numa_balancing"
LOCKDOWN = "/sys/kernel/security/lockdown"
ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
PATTERN = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2,6}")
EXPRESS, ACS = 0x10, 0x0D  # capability and extended capability
REDIRECTS = {0x04: "ReqRedir", 0x08: "CmpltRedir"}
RELAXED, READ_SHIFT, READ_MASK = 0x0010, 12, 0x7000
# The bridges to the NVSwitches of HGX B200 and B300 are InfiniBand devices and nobody's network.
NVLINK5_MARK = b"SW_MNG"
# Root ports for which Linux itself turns relaxed ordering off (drivers/pci/quirks.c): completions would be lost or slow.
NO_RELAXED_ORDERING = {
    "8086": {"%04x" % number for first in (0x2F01, 0x6F01) for number in range(first, first + 14)},
    "1022": {"1a00", "1a01", "1a02"},
}
MOST_BYTES, FEW = 4096, 4


@dataclass(frozen=True)
class Spot:
    """One place with a value. `write` makes it what it should be."""

    name: str
    has: str
    wants: str
    write: Callable[[], None]


@dataclass(frozen=True)
class Look:
    """All places of a setting. `absent`: why there are none; `locked`: why they may not be written; `skipped`: what would not be read."""

    spots: Tuple[Spot, ...] = ()
    absent: str = ""
    locked: str = ""
    skipped: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What became of a setting. `state`: ok, changed, unsupported, failed (the module adds pending_reboot)."""

    state: str
    before: str
    after: str
    detail: str = ""


@dataclass(frozen=True)
class Wanted:
    """`settings`: name -> value. The cards: prefixes of vendor:class, as 10de:0302."""

    settings: Dict[str, Any] = field(default_factory=dict)
    gpus: Tuple[str, ...] = ()
    nics: Tuple[str, ...] = ()


def few(names: Sequence[str]) -> str:
    """At most four of them, and how many more."""
    shown = ", ".join(names[:FEW])
    return shown if len(names) <= FEW else "%s and %d more" % (shown, len(names) - FEW)


def told(spots: Sequence[Spot]) -> str:
    """What the places have, the value of the fewest named by place: `powersave on cpu3; performance on 223`."""
    by_value: Dict[str, List[str]] = {}
    for spot in spots:
        by_value.setdefault(spot.has, []).append(spot.name)
    if len(by_value) <= 1:
        return next(iter(by_value), "")
    parts = sorted(by_value.items(), key=lambda item: (len(item[1]), item[0]))
    rarest = ["%s on %s" % (value, few(names)) for value, names in parts[:-1][:FEW]]
    return "; ".join([*rarest, "%s on %d" % (parts[-1][0], len(parts[-1][1]))])


def at(root: str, path: str) -> str:
    """A path of the node below the root."""
    return root.rstrip("/") + path


def content(path: str) -> bytes:
    """The first 4 KiB of a file; b"" where it is not there or will not be read."""
    try:
        with open(path, "rb") as file:
            return file.read(MOST_BYTES)
    except OSError:
        return b""


def line(path: str) -> str:
    """What a small file says, stripped."""
    return content(path).decode("utf-8", "replace").strip()


def names(folder: str) -> List[str]:
    """What is in a folder, sorted by its numbers; [] where it is not there."""
    try:
        return sorted(os.listdir(folder), key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])
    except OSError:
        return []


def numbered(root: str, folder: str, kind: str) -> List[str]:
    """cpu0, cpu1, ... or node0, node1, ... of a folder that holds more than those."""
    return [name for name in names(at(root, folder)) if re.fullmatch(kind + r"\d+", name)]


def put(path: str, text: str) -> Callable[[], None]:
    """Writes a value into a file that is there."""

    def write() -> None:
        with open(path, "wb", buffering=0) as file:
            file.write(text.encode())

    return write


def cards(root: str, patterns: Sequence[str], rdma: bool = False) -> List[str]:
    """The functions whose vendor:class begins like one of the patterns; with `rdma` also whatever carries an RDMA device. No virtual ones."""
    found = []
    carrying = _rdma(root) if rdma else set()
    for address in names(at(root, DEVICES)):
        place = at(root, "%s/%s" % (DEVICES, address))
        if not ADDRESS.fullmatch(address) or os.path.exists(place + "/physfn"):
            continue
        kind = "%s:%s" % (line(place + "/vendor")[2:], line(place + "/class")[2:])
        if any(kind.startswith(pattern) for pattern in patterns) or address in carrying:
            found.append(address)
    return found


def _rdma(root: str) -> set:
    paths = [os.path.realpath(at(root, "%s/%s" % (RDMA, name))) for name in names(at(root, RDMA))]
    return {next((part for part in reversed(path.split("/")) if ADDRESS.fullmatch(part)), "") for path in paths}


def above(root: str, address: str) -> List[str]:
    """The ports between a function and the root, the root port first."""
    path = os.path.realpath(at(root, "%s/%s" % (DEVICES, address)))
    return [part for part in path.split("/")[:-1] if ADDRESS.fullmatch(part)]


def space(root: str, address: str) -> bytes:
    """Its configuration space; b"" where it cannot be read, or the device has fallen off the bus."""
    found = content(at(root, "%s/%s/config" % (DEVICES, address)))
    return b"" if found[:4] == b"\xff\xff\xff\xff" else found


def express(config: bytes) -> Optional[int]:
    """Where the PCI Express capability begins."""
    place = config[0x34] & 0xFC if len(config) >= 0x40 and config[0x06] & 0x10 else 0
    for _ in range(48):
        if place < 0x40 or place + 10 > len(config):
            return None
        if config[place] == EXPRESS:
            return place
        place = config[place + 1] & 0xFC
    return None


def extended(config: bytes, wanted: int) -> Optional[int]:
    """Where an extended capability begins."""
    place = 0x100
    for _ in range(96):
        if not 0x100 <= place <= len(config) - 8:
            return None
        head = struct.unpack_from("<I", config, place)[0]
        if head & 0xFFFF == wanted:
            return place
        place = head >> 20
    return None


def register(root: str, address: str, offset: int, clear: int, put_in: int) -> Callable[[], None]:
    """Changes these bits of a 16-bit register, read again right before: the others are the kernel's. The next register is not touched."""

    def write() -> None:
        with open(at(root, "%s/%s/config" % (DEVICES, address)), "r+b", buffering=0) as file:
            value = struct.unpack("<H", os.pread(file.fileno(), 2, offset))[0]
            os.pwrite(file.fileno(), struct.pack("<H", value & ~clear & 0xFFFF | put_in), offset)

    return write


def _locked(root: str) -> str:
    mode = re.search(r"\[(integrity|confidentiality)\]", line(at(root, LOCKDOWN)))
    return "the kernel is locked down (%s, as under Secure Boot) and lets nobody write configuration space" % mode[1] if mode else ""


def acs_redirect(root: str, _value: Any, wanted: Wanted) -> Look:
    """The two redirect bits of each port above a GPU or an adapter; ports elsewhere are left alone."""
    chosen = sorted({*cards(root, wanted.gpus), *cards(root, wanted.nics, rdma=True)})
    drivers = {card: os.path.basename(os.path.realpath(at(root, "%s/%s/driver" % (DEVICES, card)))) for card in chosen}
    kept_apart = [card for card in chosen if drivers[card] == "vfio-pci"]
    if kept_apart:
        return Look(absent="%s is handed to a virtual machine (vfio-pci), and ACS is what keeps those apart" % few(kept_apart))
    spots, skipped = [], []
    for port in sorted({port for card in chosen for port in above(root, card)}):
        config = space(root, port)
        if len(config) <= 0x100:
            skipped.append("%s: its extended configuration space would not be read" % port)
            continue
        place = extended(config, ACS)
        if place is not None:
            control = struct.unpack_from("<H", config, place + 6)[0]
            has = " ".join(name + "+" for bit, name in REDIRECTS.items() if control & bit) or "no redirect"
            spots.append(Spot(port, has, "no redirect", register(root, port, place + 6, sum(REDIRECTS), 0)))
    absent = "" if spots else "no port above a GPU or an adapter has ACS" + (" that could be read" if skipped else "")
    return Look(tuple(spots), absent, _locked(root), tuple(skipped))


def _adapters(root: str, wanted: Wanted) -> List[str]:
    found = cards(root, wanted.nics, rdma=True)
    return [card for card in found if NVLINK5_MARK not in content(at(root, "%s/%s/vpd" % (DEVICES, card)))]


def _control(root: str, wanted: Wanted, spot: Callable[[str, int, int], Spot], usable: Callable[[str], str]) -> Look:
    """Over the device control registers of the adapters: `spot(address, offset, value)`; `usable` says why one is left alone."""
    spots, skipped = [], []
    for card in _adapters(root, wanted):
        config = space(root, card)
        place, why = express(config), usable(card)
        if place is None or why:
            skipped.append("%s: %s" % (card, why or "its PCI Express capability would not be read"))
        else:
            spots.append(spot(card, place + 8, struct.unpack_from("<H", config, place + 8)[0]))
    absent = "" if spots else skipped[0] if skipped else "there is no network adapter of the kinds asked for"
    return Look(tuple(spots), absent, _locked(root), tuple(skipped))


def max_read_request(root: str, value: Any, wanted: Wanted) -> Look:
    """How much an adapter may ask for in one read, in bytes."""
    code = (int(value) // 128).bit_length() - 1

    def spot(card: str, offset: int, control: int) -> Spot:
        has = str(128 << ((control & READ_MASK) >> READ_SHIFT))
        return Spot(card, has, str(value), register(root, card, offset, READ_MASK, code << READ_SHIFT))

    return _control(root, wanted, spot, lambda _card: "")


def relaxed_ordering(root: str, _value: Any, wanted: Wanted) -> Look:
    """Whether an adapter may mark its writes as free to overtake each other."""

    def usable(card: str) -> str:
        port = at(root, "%s/%s" % (DEVICES, (above(root, card) or [card])[0]))
        flawed = line(port + "/device")[2:] in NO_RELAXED_ORDERING.get(line(port + "/vendor")[2:], ())
        return "its root port is one for which the kernel turns relaxed ordering off" if flawed else ""

    def spot(card: str, offset: int, control: int) -> Spot:
        return Spot(card, "on" if control & RELAXED else "off", "on", register(root, card, offset, 0, RELAXED))

    return _control(root, wanted, spot, usable)


def cpu_governor(root: str, value: Any, _wanted: Wanted) -> Look:
    """Of every CPU that has one."""
    spots, lacking = [], []
    for cpu in numbered(root, CPUS, "cpu"):
        place = at(root, "%s/%s/cpufreq" % (CPUS, cpu))
        has = line(place + "/scaling_governor")
        if has and value in line(place + "/scaling_available_governors").split():
            spots.append(Spot(cpu, has, str(value), put(place + "/scaling_governor", str(value))))
        elif has:
            lacking.append("%s has no governor %s" % (cpu, value))
    nothing = [*lacking, "the kernel does not steer the CPUs' frequency here (a virtual machine, or the firmware does it)"]
    return Look(tuple(spots), "" if spots else nothing[0], skipped=tuple(lacking))


def cpu_idle_latency_us(root: str, value: Any, _wanted: Wanted) -> Look:
    """Idle states that take longer to leave than `value` are disabled; the others are left as they are."""
    spots = []
    for cpu in numbered(root, CPUS, "cpu"):
        place = at(root, "%s/%s/cpuidle" % (CPUS, cpu))
        for state in names(place):
            latency, has = line("%s/%s/latency" % (place, state)), line("%s/%s/disable" % (place, state))
            if latency.isdigit() and has and int(latency) > int(value):
                label = "%s %s" % (cpu, line("%s/%s/name" % (place, state)) or state)
                spots.append(Spot(label, "open" if has == "0" else "closed", "closed", put("%s/%s/disable" % (place, state), "1")))
    if not spots and names(at(root, CPUS + "/cpu0/cpuidle")):
        spots = [Spot("all", "closed", "closed", lambda: None)]
    return Look(tuple(spots), "" if spots else "the kernel has no idle states to choose from here")


def _kernel(path: str, has: str, value: Any, name: str) -> Look:
    return Look((Spot("kernel", has, str(value), put(path, str(value))),)) if has else Look(absent="the kernel has no " + name)


def numa_balancing(root: str, value: Any, _wanted: Wanted) -> Look:
    """The sysctl, 0 or 1."""
    path = at(root, NUMA_BALANCING)
    return _kernel(path, line(path), value, "NUMA balancing")


def transparent_huge_pages(root: str, value: Any, _wanted: Wanted) -> Look:
    """always, madvise or never."""
    path = at(root, TRANSPARENT)
    return _kernel(path, "".join(re.findall(r"\[(\w+)\]", line(path))), value, "transparent huge pages")


def huge_pages(root: str, value: Any, _wanted: Wanted) -> Look:
    """`value`: {"size_kib", "per_node"}. On each NUMA node that has CPUs: the memory of Grace's GPUs is a node without any."""
    spots, count = [], str(value["per_node"])
    for node in numbered(root, NODES, "node"):
        path = at(root, "%s/%s/hugepages/hugepages-%dkB/nr_hugepages" % (NODES, node, value["size_kib"]))
        if line(path) and line(at(root, "%s/%s/cpulist" % (NODES, node))):
            spots.append(Spot(node, line(path), count, put(path, count)))
    return Look(tuple(spots)) if spots else Look(absent="the kernel has no huge pages of %d KiB" % value["size_kib"])


LOOKS: Dict[str, Callable[[str, Any, Wanted], Look]] = {
    "acs_redirect": acs_redirect,
    "max_read_request": max_read_request,
    "relaxed_ordering": relaxed_ordering,
    "cpu_governor": cpu_governor,
    "cpu_idle_latency_us": cpu_idle_latency_us,
    "numa_balancing": numa_balancing,
    "transparent_huge_pages": transparent_huge_pages,
    "huge_pages": huge_pages,
}


def settle(root: str, name: str, wanted: Wanted, check: bool = False) -> Outcome:
    """Make it so where it is not, and look again. With `check` nothing is written and it is said what would come of it."""
    value, look = wanted.settings[name], LOOKS[name]
    found = look(root, value, wanted)
    skipped = "left out: " + few(found.skipped) if found.skipped else ""
    if found.absent:
        return Outcome("unsupported", "", "", found.absent)
    wrong = [spot for spot in found.spots if spot.has != spot.wants]
    before = told(found.spots)
    if not wrong:
        return Outcome("ok", before, before, skipped)
    if found.locked:
        return Outcome("unsupported", before, before, found.locked)
    if check:
        return Outcome("changed", before, wrong[0].wants, skipped)
    problems = []
    for spot in wrong:
        try:
            spot.write()
        except OSError as problem:
            problems.append("%s: %s" % (spot.name, problem.strerror or problem))
    spots = look(root, value, wanted).spots
    left = [spot for spot in spots if spot.has != spot.wants]
    if left or len(spots) < len(found.spots):
        words = ["%s of %s" % (spot.has, spot.name) for spot in left] or ["%d places are gone" % (len(found.spots) - len(spots))]
        detail = "still %s, expected %s" % (few(words), wrong[0].wants) + ("; " + few(problems) if problems else "")
        return Outcome("failed", before, told(spots), detail)
    return Outcome("changed", before, told(spots), skipped)


def parse(text: str) -> Wanted:
    """What the file asks for. Raises ValueError."""
    told_all = json.loads(text)
    if not isinstance(told_all, dict) or told_all.get("schema") != SCHEMA:
        raise ValueError("its schema is not " + SCHEMA)
    settings, gpus, nics = told_all.get("settings"), told_all.get("gpu_cards"), told_all.get("nic_cards")
    if not isinstance(settings, dict) or not set(settings) <= set(LOOKS):
        raise ValueError("settings are of %s" % ", ".join(LOOKS))
    for patterns in (gpus, nics):
        if not isinstance(patterns, list) or not all(isinstance(one, str) and PATTERN.fullmatch(one) for one in patterns):
            raise ValueError("cards are told as vendor:class, like 10de:0302")
    return Wanted(settings, tuple(gpus), tuple(nics))


def trusted(file: Any) -> str:
    """The text of the open file. Raises ValueError where others than root could have written it."""
    status = os.fstat(file.fileno())
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError("others than root could write it")
    return str(file.read(65_536).decode("utf-8"))


def main(path: str = CONFIG, root: str = "/") -> int:
    """All that the file asks for. Exit 0: it is so, or this machine has it not; 1: something is not; 2: the file is not to be trusted."""
    try:
        with open(at(root, path), "rb") as file:
            wanted = parse(trusted(file))
    except (OSError, ValueError) as problem:
        sys.stderr.write("%s: %s; nothing was set. Run the role node_tuning\n" % (path, problem))
        return 2
    failed = 0
    for name in wanted.settings:
        outcome = settle(root, name, wanted)
        failed += outcome.state == "failed"
        sys.stdout.write("%s: %s (%s -> %s) %s\n" % (name, outcome.state, outcome.before, outcome.after, outcome.detail))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
