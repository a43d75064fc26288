"""Files of others that name or configure an interface of ours: told and refused, never changed. Pure."""

from __future__ import annotations

import fnmatch
import re
from typing import Dict, Iterator, List, Mapping, Sequence, Tuple

from ansible.module_utils.burnin_ib import comparing
from ansible.module_utils.burnin_ib.model import Interface, Refusal, World

NAMED_BY_RULE = re.compile(r'\bNAME\s*:?=\s*"([^"]+)"')
IFUPDOWN = re.compile(r"^\s*(?:iface|auto|allow-\S+)\s+(.+)$", re.MULTILINE)
OURS_FROM = "60-burnin-ib-"


def claims(world: World, interfaces: Sequence[Interface]) -> Iterator[Tuple[str, str, str]]:
    """Path, the interface, and what the file does with it."""
    names: Dict[str, str] = {}
    for one in interfaces:
        for name in (one.name, one.now, *(one.child_name(child) for child in one.children)):
            if name:
                names[name] = one.port.guid
    wanted = {one.name for one in interfaces}
    for path in sorted(world.others):
        text = world.others[path]
        for name, what in _told(path, text, names):
            # A rule or .link that gives a name is in the way only where it gives one of ours; the old name is anybody's.
            if what != "gives its name" or name in wanted:
                yield path, name, what


def refuse(world: World, interfaces: Sequence[Interface]) -> None:
    """Raises Refusal where there is one."""
    found = list(claims(world, interfaces))
    if found:
        said = "; ".join("%s (%s %s)" % (path, what, name) for path, name, what in found[:10])
        raise Refusal(
            "FOREIGN_PROFILE",
            "others have a word about these interfaces: %s. Two profiles for one interface fight at every boot: remove those, or leave the port out"
            % said,
        )


def _told(path: str, text: str, names: Mapping[str, str]) -> Iterator[Tuple[str, str]]:
    folder, _, file = path.rpartition("/")
    if file.endswith(".rules"):
        yield from ((name, "gives its name") for line in _code(text) for name in NAMED_BY_RULE.findall(line) if name in names)
    elif file.endswith(".link"):
        yield from ((name, "gives its name") for name in comparing.fields(text).get(("Link", "Name"), []) if name in names)
    elif file.endswith(".network"):
        yield from ((name, "configures") for name in names if _networkd(file, comparing.fields(text), name))
    elif folder.endswith("/netplan"):
        yield from ((name, "configures") for name in names if _netplan("\n".join(_code(text)), name))
    elif folder.endswith("/system-connections"):
        yield from ((name, "configures") for name, guid in names.items() if _keyfile(comparing.fields(text), name, guid))
    elif folder.endswith("/network-scripts"):
        yield from ((name, "configures") for name in names if re.search(r'(?m)^\s*DEVICE\s*=\s*["\']?%s["\']?\s*$' % re.escape(name), text))
    elif "/etc/network/" in path:
        told = {word for words in IFUPDOWN.findall("\n".join(_code(text))) for word in words.split()}
        yield from ((name, "configures") for name in names if name in told)


def _code(text: str) -> List[str]:
    return [line for line in text.splitlines() if not line.lstrip().startswith("#")]


def _networkd(file: str, told: comparing.Fields, name: str) -> bool:
    """By name: always. By a glob or by kind: where it comes before ours, for the first that matches is taken."""
    globs = [word for value in told.get(("Match", "Name"), []) for word in value.split()]
    if name in globs:
        return True
    kinds = [word for value in told.get(("Match", "Type"), []) for word in value.split()]
    if file > OURS_FROM or (kinds and "infiniband" not in kinds):
        return False
    if not globs:
        return "infiniband" in kinds
    return not globs[0].startswith("!") and any(fnmatch.fnmatchcase(name, one) for one in globs)


def _netplan(text: str, name: str) -> bool:
    key = r"""["']?%s["']?""" % re.escape(name)
    return bool(re.search(r"(?m)(?:^|[\s{,])%s\s*:|\bset-name\s*:\s*%s(?:[\s,}]|$)" % (key, key), text))


def _keyfile(told: comparing.Fields, name: str, guid: str) -> bool:
    if told.get(("connection", "type")) != ["infiniband"] and told.get(("connection", "interface-name")) != [name]:
        return False
    if told.get(("connection", "interface-name")) == [name]:
        return True
    mac = "".join(told.get(("infiniband", "mac-address"), [])).replace(":", "").lower()
    return bool(guid) and mac.endswith(guid) and not told.get(("infiniband", "p-key"))
