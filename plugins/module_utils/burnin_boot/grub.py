"""Reads a grub.cfg as grub-mkconfig writes it: its entries, and which of them is the default. Pure."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

ENTRY = re.compile(r"^\s*(menuentry|submenu)\s")
DEFAULT = re.compile(r"^\s*set\s+default=(.*)$")
KERNEL = re.compile(r"^\s*linux(?:16|efi)?\s+\S*/vmlinu[xz]-(\S+)(.*)$")
ID_OPTIONS = ("$menuentry_id_option", "--id")


@dataclass(frozen=True)
class Entry:
    """A menu entry that boots Linux. `names`: per level of the menu its id, else its title; `places`: its numbers; `kernel`: as `uname -r`;
    `words`: what the kernel is told."""

    names: tuple[str, ...]
    titles: tuple[str, ...]
    places: tuple[int, ...]
    kernel: str
    words: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """What GRUB_DEFAULT is given. A title that holds `>` is doubled, as GRUB wants it."""
        return ">".join(name.replace(">", ">>") if name in self.titles else name for name in self.names)

    @property
    def recovery(self) -> bool:
        return "-recovery-" in self.names[-1] or "recovery mode" in self.titles[-1]


@dataclass
class _Block:
    """What is open while the lines are read; a function or a submenu has no kernel."""

    kind: str
    title: str = ""
    name: str = ""
    place: int = 0
    inside: int = 0
    kernel: str = ""
    words: tuple[str, ...] = ()


def entries(text: str) -> list[Entry]:
    """All that boot a kernel, in the order of the menu. A menu of none, or one that `blscfg` fills in, gives an empty list."""
    found: list[Entry] = []
    open_blocks = [_Block("menu")]
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.endswith("{"):
            open_blocks.append(_opened(stripped, open_blocks[-1]))
        elif stripped == "}" and len(open_blocks) > 1:
            block = open_blocks.pop()
            if block.kind == "menuentry" and block.kernel:
                level = [one for one in open_blocks if one.kind == "submenu"] + [block]
                found.append(
                    Entry(
                        tuple(one.name for one in level),
                        tuple(one.title for one in level),
                        tuple(one.place for one in level),
                        block.kernel,
                        block.words,
                    )
                )
        elif (kernel := KERNEL.match(line)) and open_blocks[-1].kind == "menuentry":
            open_blocks[-1].kernel, open_blocks[-1].words = kernel[1], tuple(kernel[2].split())
    return found


def _opened(line: str, above: _Block) -> _Block:
    if not (kind := ENTRY.match(line)):
        return _Block("other")
    words = shlex.split(line[:-1])
    title = words[1] if len(words) > 1 else ""
    name = next((words[at + 1] for at, word in enumerate(words[:-1]) if word in ID_OPTIONS), title)
    block = _Block(kind[1], title, name, above.inside)
    above.inside += 1
    return block


def chosen(text: str, environment: str = "") -> str:
    """What the file says is the default: a path of ids, titles or numbers. `environment`: the text of grubenv, for `saved`."""
    said = [found[1].strip().strip("\"'") for line in text.splitlines() if (found := DEFAULT.match(line))]
    value = said[-1] if said else "0"  # the one before it is for a single boot (next_entry)
    if value in ("${saved_entry}", "$saved_entry"):
        kept = dict(line.partition("=")[::2] for line in environment.splitlines() if "=" in line)
        value = kept.get("saved_entry", "")
    return value or "0"


def default(text: str, environment: str = "") -> Entry | None:
    """The entry that boots when nobody touches a key. One that is named and not there is as GRUB does it: the first. None: there is none."""
    found = entries(text)
    steps = [step.replace("\0", ">") for step in chosen(text, environment).replace(">>", "\0").split(">")]
    left = found
    for level, step in enumerate(steps):
        left = [one for one in left if len(one.names) > level and _is(one, level, step)]
    return next(iter(left), found[0] if found else None)


def _is(entry: Entry, level: int, step: str) -> bool:
    return entry.places[level] == int(step) if step.isdigit() else step in (entry.names[level], entry.titles[level])


def of_kernel(text: str, kernel: str) -> Entry | None:
    """The entry that boots this kernel in the ordinary way; one named after the kernel, for the first of the menu is whatever is newest."""
    fitting = [one for one in entries(text) if one.kernel == kernel and not one.recovery]
    return max(fitting, key=lambda one: kernel in one.names[-1], default=None)
