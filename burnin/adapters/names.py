"""Host names: which are refused, and the folder of a node in a run (field report B56)."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from burnin.errors import InventoryError

MAX_NAME_CHARACTERS = 255
PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
SLUG_CHARACTERS = 40
DIGEST_CHARACTERS = 10
# Control, format (they turn text round on a screen), surrogate, line and paragraph separator.
INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def check_host_name(name: str) -> None:
    """Raises InventoryError for a name that is unsafe as a file name, an argument or a line of text; odd but safe ones are welcome."""
    if fault := _fault(name):
        raise InventoryError(f"host {name!a}: {fault}; rename it in the inventory and put its address in ansible_host")


def _fault(name: str) -> str:
    hidden = next((f"U+{ord(character):04X}" for character in name if unicodedata.category(character) in INVISIBLE), "")
    faults = {
        "the name is empty": not name,
        f"the name has {len(name)} characters, {MAX_NAME_CHARACTERS} is the most": len(name) > MAX_NAME_CHARACTERS,
        "the name is a folder's": name in {".", ".."},
        "the name starts with '-', programs would read it as an option": name.startswith("-"),
        "the name has a '/', it would leave its folder": "/" in name,
        f"the name has the character {hidden}, which cannot be seen": bool(hidden),
        "the name starts or ends with a space, Ansible's --limit would not find it": name != name.strip(),
    }
    return next((fault for fault, found in faults.items() if found), "")


def node_folder(name: str) -> str:
    """The folder of a node: its name where that is plain lower case, else '_', a readable part and a digest of the name.

    No two names share a folder, also where the file system ignores case: a plain name never starts with '_', and of two names with one
    readable part the digests differ. Raises InventoryError as check_host_name does.
    """
    check_host_name(name)
    if PLAIN_NAME.fullmatch(name):
        return name
    plain = unicodedata.normalize("NFKD", name.casefold()).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^a-z0-9.]+", "-", plain).strip("-.")[:SLUG_CHARACTERS]
    return f"_{slug}-{hashlib.sha256(name.encode()).hexdigest()[:DIGEST_CHARACTERS]}"
