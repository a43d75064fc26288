"""Builds the node program: one file that any Python from 3.9 on can run, with the same bytes every time."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import zipfile
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from pathlib import Path

from burnin.errors import BrokenError

SHEBANG = b"#!/usr/bin/env python3\n"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time a zip can hold
KINDS = (".py", ".json")  # what the node package is made of; .pyc and editors' leavings stay out
NVML = "nvidia-ml-py"
# Readable by Python 2.7 and 3.6: an interpreter that is too old must get to the sentence that says so.
MAIN = b"""import sys

if sys.version_info < (3, 9):
    sys.stderr.write("burnin node: needs Python 3.9 or newer; {0} is {1}\\n".format(sys.executable, sys.version.split()[0]))
    sys.exit(2)

from burnin.node.__main__ import main

sys.exit(main())
"""


def build(target: Path) -> str:
    """Write the zipapp to `target` (mode 0755, replaced at once); returns its sha256. Raises BrokenError when a part cannot be found.

    The entries are stored, not deflated: the bytes then depend on no zlib, and so on no controller.
    """
    content = io.BytesIO()
    content.write(SHEBANG)
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for name, data in sorted(contents().items()):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, data)
    data = content.getvalue()
    _write(target, data)
    return hashlib.sha256(data).hexdigest()


def contents() -> dict[str, bytes]:
    """What goes into the zipapp: name -> bytes."""
    package = resources.files("burnin")
    found = {"__main__.py": MAIN, "burnin/__init__.py": (package / "__init__.py").read_bytes(), "pynvml.py": _pynvml()}
    found.update(_walk(package / "node", "burnin/node"))
    if "burnin/node/__main__.py" not in found:
        raise BrokenError("burnin/node is not in this installation of burnin; install it again")
    return found


def _walk(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{name}/{entry.name}")
        elif entry.name.endswith(KINDS):
            yield f"{name}/{entry.name}", entry.read_bytes()


def _pynvml() -> bytes:
    """NVIDIA's own binding. The old package `pynvml` installs a module of the same name over it and returns bytes for text (B27)."""
    try:
        files = metadata.files(NVML) or []
    except metadata.PackageNotFoundError:
        raise BrokenError(f"{NVML} is not installed in the controller's environment; install burnin's lock again") from None
    record = next((file for file in files if str(file) == "pynvml.py"), None)
    if record is None:
        raise BrokenError(f"{NVML} is installed without its pynvml.py; install it again")
    data = Path(str(record.locate())).read_bytes()
    if record.hash is not None and record.hash.mode == "sha256":
        expected = urlsafe_b64decode(record.hash.value + "=" * (-len(record.hash.value) % 4))
        if hashlib.sha256(data).digest() != expected:
            raise BrokenError(f"pynvml.py is not the one that {NVML} installed; uninstall the package 'pynvml', then install {NVML} again")
    return data


def _write(target: Path, data: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(partial).chmod(0o755)
        Path(partial).replace(target)
    except OSError:
        Path(partial).unlink(missing_ok=True)
        raise
