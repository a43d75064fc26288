"""The boot loader of a node: which one, what it starts next, and how to change that. GRUB by a drop-in of ours, EL's by grubby."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ansible.module_utils.burnin_boot import grub

CONFIG, ENVIRONMENT = "boot/grub/grub.cfg", "boot/grub/grubenv"
# The last of the folder, so that no other file there has a later word.
DROP_IN = "/etc/default/grub.d/zz-burnin-kernel.cfg"
NOTE = "# Written by burnin: the kernel of the stack file boots, although a newer one may be installed. To undo: remove this file, run update-grub.\n"
MOST_BYTES = 4_000_000
TIMEOUT_S = 120


class Trouble(Exception):
    """The message says what was found, what was expected and what to do."""


@dataclass(frozen=True)
class Boot:
    """`loader`: grub, grubby, or "" where none of ours is there. `kernel`: what starts next, None when that cannot be told."""

    loader: str
    kernel: str | None


def read(root: Path = Path("/")) -> Boot:
    """Reads only. A grub.cfg without a kernel in it (EL's, filled in by blscfg) leaves the word to grubby."""
    entry = grub.default(_text(root / CONFIG), _text(root / ENVIRONMENT))
    if entry is not None:
        return Boot("grub", entry.kernel)
    if root == Path("/") and shutil.which("grubby"):
        said = _run(["grubby", "--default-kernel"]).strip()
        return Boot("grubby", said.rpartition("/vmlinuz-")[2] or None)
    return Boot("", None)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _run(argv: list[str]) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise Trouble(f"{argv[0]} could not be run: {problem}") from problem
    if done.returncode:
        raise Trouble(f"{' '.join(argv)} exited {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout


def drop_in(kernel: str) -> str:
    """The text of the drop-in that makes this kernel GRUB's default. Raises Trouble where the menu lacks it, naming what it has."""
    text = _text(Path("/") / CONFIG)
    entry = grub.of_kernel(text, kernel)
    if entry is None:
        known = ", ".join(dict.fromkeys(one.kernel for one in grub.entries(text)))
        raise Trouble(
            f"GRUB's menu has no entry for kernel {kernel}, only for {known or 'none'}: is its image installed (/boot/vmlinuz-{kernel})?"
        )
    return f'{NOTE}GRUB_DEFAULT="{entry.path}"\n'


def make_default(kernel: str, loader: str) -> None:
    """Make it so, and look again. Raises Trouble."""
    if loader == "grubby":
        _run(["grubby", f"--set-default=/boot/vmlinuz-{kernel}"])
    else:
        if grub.of_kernel(_text(Path("/") / CONFIG), kernel) is None:
            _run(["update-grub"])  # a kernel whose package did not do it
        path = Path(DROP_IN)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(drop_in(kernel), encoding="utf-8")
        partial.replace(path)
        _run(["update-grub"])
    now = read()
    if now.kernel != kernel:
        raise Trouble(
            f"kernel {kernel} was made the default of {loader}, but {now.kernel} would boot; look at /etc/default/grub and (now written) {DROP_IN}"
        )
