"""What limits a login and a daemon get, read as PAM and systemd read their files; pure but for the reading."""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, Tuple

from ansible.module_utils.burnin_group import node
from ansible.module_utils.burnin_tuning import live
from ansible.module_utils.burnin_tuning.host import Host

FILE, FOLDER, PAM = "/etc/security/limits.conf", "/etc/security/limits.d", "/etc/pam.d"
INFINITE = ("unlimited", "infinity", "-1", "18446744073709551615")


def texts(host: Host) -> List[Tuple[str, str]]:
    """(path, text) of PAM's files in the order in which they are read; a later word wins."""
    paths = [FILE, *("%s/%s" % (FOLDER, name) for name in sorted(live.names(str(host.at(FOLDER)))) if name.endswith(".conf"))]
    return [(path, host.text(path)) for path in paths]


def effective(read: List[Tuple[str, str]], item: str) -> Dict[str, str]:
    """`* soft`, `* hard`, `root soft`, `root hard` -> the value that a login gets; missing where no line says so."""
    found: Dict[str, str] = {}
    for _, text in read:
        for line in text.splitlines():
            words = line.partition("#")[0].split()
            if len(words) == 4 and words[0] in ("*", "root") and words[2] == item and words[1] in ("soft", "hard", "-"):
                for kind in ("soft", "hard") if words[1] == "-" else (words[1],):
                    found["%s %s" % (words[0], kind)] = "unlimited" if words[3] in INFINITE else words[3]
    return found


def told(values: Mapping[str, str]) -> str:
    """For a person; one value where all are the same."""
    if len(values) == 4 and len(set(values.values())) == 1:
        return next(iter(values.values()))
    return ", ".join("%s %s" % one for one in sorted(values.items())) or "the kernel's"


def logins_have_pam(host: Host) -> bool:
    """Whether any service of PAM loads pam_limits; without it limits.d is a file that nobody reads."""
    lines = [line for name in live.names(str(host.at(PAM))) for line in host.text("%s/%s" % (PAM, name)).splitlines()]
    return any(re.match(r"\s*-?session\s.*\bpam_limits\.so\b", line) for line in lines)


def daemons(host: Host, word: str) -> str:
    """DefaultLimit... as systemd has it now; "" where it cannot be asked."""
    if not host.systemd:
        return ""
    done = host.run(["systemctl", "show", "--property=DefaultLimit" + word], node.LOOK_S)
    value = done.stdout.strip().partition("=")[2] if done.returncode == 0 else ""
    return "unlimited" if value in INFINITE else value
