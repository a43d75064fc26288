"""The kernel's parameters in the boot loader: ours are added and taken away, nobody else's is ever lost. GRUB by a drop-in, EL by grubby."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Dict, List, Sequence, Tuple

from ansible.module_utils.burnin_boot import grub
from ansible.module_utils.burnin_group import node
from ansible.module_utils.burnin_group.model import Refusal, few
from ansible.module_utils.burnin_tuning import files, live
from ansible.module_utils.burnin_tuning.host import Host

DEFAULTS, DROP_INS = "/etc/default/grub", "/etc/default/grub.d"
# The last of the folder; beside the kernel's own (zz-burnin-kernel.cfg), which says what boots and not with which parameters.
DROP_IN = DROP_INS + "/zz-burnin-node-tuning.cfg"
MENU, ENVIRONMENT = "/boot/grub/grub.cfg", "/boot/grub/grubenv"
LINE = re.compile(r"^\s*GRUB_CMDLINE_LINUX(?:_DEFAULT)?=(.*)$", re.MULTILINE)
SAFE = re.compile(r"[A-Za-z0-9_.,=-]+")
# What says the opposite of passthrough, whatever the processor.
AGAINST_PASSTHROUGH = ("iommu=off", "iommu=nopt", "iommu.passthrough=0", "intel_iommu=off", "amd_iommu=off")
SAME = {"iommu=pt": "iommu.passthrough=1", "iommu.passthrough=1": "iommu=pt"}
UPDATE_S = 600


def passthrough(processor: str) -> Tuple[str, ...]:
    """What asks for it: Intel's IOMMU must be turned on first, AMD's and ARM's are."""
    return {"intel": ("intel_iommu=on", "iommu=pt"), "arm": ("iommu.passthrough=1",)}.get(processor, ("iommu=pt",))


def given(word: str, words: Sequence[str]) -> bool:
    """Whether the words say it already: the last of its key counts, and a value may be a list (intel_iommu=on,sm_on)."""
    key, _, value = word.partition("=")
    said = [one.partition("=")[2] for one in words if one.partition("=")[0] == key]
    return (bool(said) and value in said[-1].split(",")) or SAME.get(word, "") in words


def conflicts(wanted: Sequence[str], words: Sequence[str]) -> List[str]:
    """Words that say something else of what is wanted."""
    keys = {word.partition("=")[0] for word in wanted if not given(word, words)}
    against = AGAINST_PASSTHROUGH if set(wanted) & {"iommu=pt", "iommu.passthrough=1"} else ()
    return list(dict.fromkeys(word for word in words if word.partition("=")[0] in keys or word in against))


def without(words: Sequence[str], ours: Sequence[str]) -> List[str]:
    """The words that are not ours; of a word that stands there twice one is."""
    left = list(words)
    for word in ours:
        if word in left:
            left.reverse()
            left.remove(word)
            left.reverse()
    return left


@dataclass(frozen=True)
class Boot:
    """`loader`: grub, grubby or "". `words`: of the entry that boots next; `ours`: those of them that we put there."""

    loader: str
    words: Tuple[str, ...] = ()
    ours: Tuple[str, ...] = ()

    @property
    def foreign(self) -> List[str]:
        return without(self.words, self.ours)


def read(host: Host, held: Sequence[str]) -> Boot:
    """`held`: what we added when last asked (grubby keeps no file of ours)."""
    entry = grub.default(host.text(MENU), host.text(ENVIRONMENT))
    if entry is not None:
        found = re.search(r'^GRUB_CMDLINE_LINUX="\$GRUB_CMDLINE_LINUX (.*)"$', host.text(DROP_IN), re.MULTILINE)
        return Boot("grub", entry.words, tuple(found[1].split()) if found else ())
    done = host.run(["grubby", "--info=DEFAULT"], node.LOOK_S)
    if done.returncode == 0:
        found = re.search(r'^args="(.*)"$', done.stdout, re.MULTILINE)
        return Boot("grubby", tuple(found[1].split()) if found else (), tuple(word for word in held if found and word in found[1].split()))
    return Boot("")


def configured(host: Host) -> Dict[str, List[str]]:
    """Path -> words that GRUB's files give the kernel, our own file apart: what the next update-grub would bring."""
    paths = [DEFAULTS, *("%s/%s" % (DROP_INS, name) for name in live.names(str(host.at(DROP_INS))) if name.endswith(".cfg"))]
    found: Dict[str, List[str]] = {}
    for path in paths:
        for value in LINE.findall(host.text(path)) if path != DROP_IN else ():
            found.setdefault(path, []).extend(_words(value))
    return found


def _words(value: str) -> List[str]:
    try:
        return [word for part in shlex.split(value, comments=True) for word in part.split()]
    except ValueError:
        return value.strip("\"'").split()


def refuse_conflicts(host: Host, boot: Boot, wanted: Sequence[str]) -> None:
    """Raises Refusal KERNEL_PARAMETER_CONFLICT: somebody asked for the opposite, and it is theirs to take back."""
    places = {path: conflicts(wanted, words) for path, words in configured(host).items()} if boot.loader == "grub" else {}
    named = ["%s (%s)" % (word, path) for path, words in places.items() for word in words]
    named += [word for word in conflicts(wanted, boot.foreign) if not any(word in words for words in places.values())]
    if named:
        raise Refusal(
            "KERNEL_PARAMETER_CONFLICT",
            "the boot loader gives the kernel %s; expected nothing against %s. Nothing was changed: take it out there, "
            "or leave the setting alone (node_tuning_iommu: leave)" % (few(named), " ".join(wanted)),
        )


def drop_in(words: Sequence[str]) -> str:
    """The text of our file; "" where there is nothing to add."""
    if not words:
        return ""
    return (
        '# %s: added to what others ask for. To undo: remove this file, run update-grub.\nGRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX %s"\n'
        % (
            files.MARK,
            " ".join(words),
        )
    )


def added(boot: Boot, wanted: Sequence[str]) -> List[str]:
    """What is ours to add: what nobody else gives already."""
    return [word for word in wanted if not given(word, boot.foreign)]


def settled(host: Host, boot: Boot, wanted: Sequence[str]) -> bool:
    """Whether the next boot has all of it, and nothing of ours beyond."""
    ours = added(boot, wanted)
    file_right = boot.loader != "grub" or host.text(DROP_IN) == drop_in(ours)
    return file_right and sorted(boot.ours) == sorted(ours) and all(given(word, boot.words) for word in wanted)


def write(host: Host, boot: Boot, wanted: Sequence[str]) -> Boot:
    """Have the next boot so, and look again. Raises Refusal; then the boot loader is as it was."""
    ours = added(boot, wanted)
    if not all(SAFE.fullmatch(word) for word in ours):
        raise Refusal("TUNING_INPUT", "%s is no parameter that can be written down" % few(ours))
    kept = {path: node.read(host.at(path)) or b"" for path in (MENU, DROP_IN)} if boot.loader == "grub" else {}
    now = _grub(host, boot, ours, kept) if boot.loader == "grub" else _grubby(host, boot, ours)
    lost = [word for word in boot.foreign if word not in now.words]
    lacking = [word for word in wanted if not given(word, now.words)]
    if lost or lacking:
        undone = _undo(host, boot, kept)
        raise Refusal(
            "KERNEL_PARAMETER_LOST",
            "with %s the menu %s%s; expected what was there and ours. %s. If somebody meant that (/etc/default/grub), let update-grub show it first"
            % (
                " ".join(ours) or "nothing of ours",
                "would lose %s" % few(lost) if lost else "",
                (" and " if lost and lacking else "") + ("lacks %s" % few(lacking) if lacking else ""),
                undone,
            ),
        )
    return now


def _grub(host: Host, boot: Boot, ours: Sequence[str], kept: Dict[str, bytes]) -> Boot:
    _place(host, DROP_IN, drop_in(ours).encode())
    done = host.run(["update-grub"], UPDATE_S)
    if done.returncode:
        words = node.last_words(done)
        raise Refusal("COMMAND_FAILED", "update-grub exited %d: %s. %s" % (done.returncode, words, _undo(host, boot, kept)))
    return read(host, ())


def _place(host: Host, path: str, content: bytes) -> None:
    if content:
        node.replace(host.at(path), content, 0o644)
    elif host.at(path).exists():
        host.at(path).unlink()


def _undo(host: Host, boot: Boot, kept: Dict[str, bytes]) -> str:
    if kept:
        _place(host, DROP_IN, kept[DROP_IN])
        node.replace(host.at(MENU), kept[MENU], host.at(MENU).stat().st_mode & 0o7777)
        return "Our file and the menu were put back"
    _grubby_set(host, [], [word for word in read(host, ()).words if word not in boot.words])
    return "What was added was taken out again"


def _grubby(host: Host, boot: Boot, ours: Sequence[str]) -> Boot:
    _grubby_set(host, [word for word in ours if word not in boot.words], [word for word in boot.ours if word not in ours])
    return read(host, ours)


def _grubby_set(host: Host, come: Sequence[str], gone: Sequence[str]) -> None:
    for option, words in (("--args=", come), ("--remove-args=", gone)):
        argv = ["grubby", "--update-kernel=ALL", option + " ".join(words)]
        done = host.run(argv, UPDATE_S) if words else None
        if done is not None and done.returncode:
            raise Refusal("COMMAND_FAILED", "%s exited %d: %s" % (" ".join(argv), done.returncode, node.last_words(done)))
