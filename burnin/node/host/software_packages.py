"""What the package manager has on this node, and what keeps it from moving: packages, holds, pins, sources, unattended upgrades."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Dict, Iterator, List, Optional, Tuple

from burnin.node.host.reading import Reader

# Every package that a stack's holds, locks or same_version patterns may mean. A few more do no harm: the judge has the exact patterns.
OURS = re.compile(
    r"nvidia|nvsdm|nvlsm|cuda|nccl|nvcuvid|nvoptix|xnvctrl|^nsight|^gds-|^datacenter-gpu-manager|doca|mlnx|ofed|mft|rdma|ibverbs|ibumad"
    r"|^infiniband|^ibacm|opensm|^perftest|^ucx|srptools|openmpi|dkms|^kmod-|^linux-|^kernel(-|$)|-[0-9]+-[0-9]+$|^unattended-upgrades$"
)
VENDORS = re.compile(r"nvidia|mellanox|cuda|doca|mlnx|burnin", re.IGNORECASE)
MOST_PACKAGES = 3000
STATUS, STATUS_BYTES = "/var/lib/dpkg/status", 32 * 1024 * 1024
SOURCE_BYTES = 4096
DPKG = ["dpkg-query", "-W", "-f", "${db:Status-Want}\t${db:Status-Eflag}\t${db:Status-Status}\t${Package}\t${Version}\n"]
RPM = ["rpm", "-qa", "--qf", "%{NAME}\t%{EPOCHNUM}\t%{VERSION}-%{RELEASE}\n"]
RPM_DATABASES = ("/var/lib/rpm", "/usr/lib/sysimage/rpm")
LOCK_FILES, LOCK_SETTINGS = (
    ("/etc/dnf/plugins/versionlock.list", "/etc/yum/pluginconf.d/versionlock.list"),
    "/etc/dnf/plugins/versionlock.conf",
)
APT_CONFIG = re.compile(r'^(\S+?)(?:::)?\s+"(.*)";\s*$')
UPGRADES = "Unattended-Upgrade"
ORIGINS = ("Allowed-Origins", "Origins-Pattern")
# A mirror may want a name and a password; neither has a place in evidence.
USERINFO = re.compile(r"://[^/\s@]+@")
SECRET = re.compile(r"(?im)^(\s*(?:proxy_)?(?:username|password)\s*=).*$")

Package = Dict[str, Any]


def manager(reader: Reader) -> Optional[str]:
    """apt, dnf, or None where neither is at home. A Debian machine may have rpm installed as well; its own database decides."""
    if reader.exists(STATUS):
        return "apt"
    return "dnf" if any(reader.exists(place) for place in RPM_DATABASES) else None


def packages(reader: Reader, which: Optional[str]) -> Tuple[Optional[List[Package]], Optional[List[str]]]:
    """What is installed of ours, sorted; and every package that is not installed to its end ("libc6 half-configured"). None = unknown."""
    if which == "apt":
        rows = list(_dpkg(reader))
        if not rows:
            return None, None
        found = [_package(name, version, want == "hold", status) for want, _, status, name, version in rows if OURS.search(name)]
        bad = sorted(f"{name} {status}" for _, flag, status, name, _ in rows if status != "installed" or flag != "ok")
        return _bounded(reader, found), bad[:100]
    text = reader.run(RPM) if which == "dnf" else None
    if text is None:
        return None, None
    split = [line.split("\t") for line in text.splitlines()]
    found = [_package(row[0], _evr(row[1], row[2]), None, "installed") for row in split if len(row) == 3 and OURS.search(row[0])]
    return (_bounded(reader, found) if split else None), None


def _evr(epoch: str, version: str) -> str:
    return version if epoch in ("0", "(none)", "") else "%s:%s" % (epoch, version)


def _package(name: str, version: str, held: Optional[bool], status: str) -> Package:
    return {"name": name, "version": version, "held": held, "status": status}


def _bounded(reader: Reader, found: List[Package]) -> List[Package]:
    unique = {(one["name"], one["version"]): one for one in found}  # one name may be there for two architectures
    if len(unique) > MOST_PACKAGES:
        reader.fail(STATUS, "%d packages, the first %d are told" % (len(unique), MOST_PACKAGES))
    return [unique[key] for key in sorted(unique)][:MOST_PACKAGES]


def _dpkg(reader: Reader) -> Iterator[Tuple[str, str, str, str, str]]:
    """(want, error flag, status, name, version) of what is not gone. The query also sees what dpkg has not yet merged into its file."""
    text = reader.run(DPKG)
    rows = [line.split("\t") for line in text.splitlines()] if text is not None else list(_status_file(reader))
    for row in rows:
        if len(row) == 5 and row[2] not in ("not-installed", "config-files"):
            yield row[0], row[1], row[2], row[3], row[4]


def _status_file(reader: Reader) -> Iterator[List[str]]:
    for stanza in (reader.read_text(STATUS, STATUS_BYTES) or "").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line and line[0] != " ")
        status = fields.get("Status", "").split(" ")
        if len(status) == 3 and "Package" in fields:
            yield [*status, fields["Package"], fields.get("Version", "")]


def pins(reader: Reader) -> Dict[str, str]:
    """Each file of apt preferences -> its sha256."""
    found = {}
    for path in ["/etc/apt/preferences", *reader.glob("/etc/apt/preferences.d/*")]:
        content = reader.read_bytes(path)
        if content is not None:
            found[path] = hashlib.sha256(content).hexdigest()
    return found


def sources(reader: Reader) -> Dict[str, str]:
    """Each source file that is ours or names one of the vendors -> its text, without names and passwords."""
    places = ["/etc/apt/sources.list", *reader.glob("/etc/apt/sources.list.d/*"), *reader.glob("/etc/yum.repos.d/*.repo")]
    found = {}
    for path in places:
        text = reader.read_text(path, SOURCE_BYTES)
        if text and (VENDORS.search(path) or VENDORS.search(text)):
            found[path] = SECRET.sub(r"\1 ***", USERINFO.sub("://***@", text))
    return found


def upgrades(reader: Reader) -> Tuple[Optional[List[str]], Optional[List[str]]]:
    """What unattended-upgrades keeps off (regular expressions), and the origins it takes from. None where there is no apt."""
    dump = reader.run(["apt-config", "dump", UPGRADES])
    rows = list(_dumped(dump) if dump is not None else _configured(reader))
    blacklist = [value for name, value in rows if name == "%s::Package-Blacklist" % UPGRADES]
    origins = [value for name, value in rows if name in ["%s::%s" % (UPGRADES, word) for word in ORIGINS]]
    return blacklist, origins


def _dumped(text: str) -> Iterator[Tuple[str, str]]:
    """`Name:: "value";` line by line."""
    for line in text.splitlines():
        row = APT_CONFIG.match(line)
        if row and row.group(2):
            yield row.group(1), row.group(2)


def _configured(reader: Reader) -> Iterator[Tuple[str, str]]:
    """The lists as files write them: `Name { "value"; ... };`, or dumped. Far from apt's whole grammar; for roots that are not /."""
    for path in ["/etc/apt/apt.conf", *reader.glob("/etc/apt/apt.conf.d/*")]:
        text = re.sub(r"(?m)^\s*(//|#).*$", "", reader.read_text(path) or "")
        yield from _dumped(text)
        for name, body in re.findall(r"(%s::[A-Za-z-]+)\s*\{(.*?)\}\s*;" % UPGRADES, text, re.DOTALL):
            for value in re.findall(r'"([^"]*)"\s*;', body):
                yield name, value


def locks(reader: Reader) -> Optional[List[str]]:
    """The lines of dnf versionlock, in order; None without its file."""
    told = re.search(r"(?m)^\s*locklist\s*=\s*(/\S+)", reader.read_text(LOCK_SETTINGS) or "")
    found = [reader.read_text(path) for path in ([told.group(1)] if told else LOCK_FILES)]
    lines = [line.strip() for text in found if text for line in text.splitlines()]
    return None if all(text is None for text in found) else [line for line in lines if line and not line.startswith("#")]
