"""Debian packages written without dpkg-deb: an ar archive of two tars. The same content gives the same bytes."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

MADE = 1_764_547_200  # seconds; a fixed time, so that nothing differs between two builds


@dataclass(frozen=True, slots=True)
class File:
    """A file in a package; `link` makes it a symbolic link."""

    content: bytes = b""
    mode: int = 0o644
    link: str = ""


@dataclass(frozen=True, slots=True)
class Deb:
    """One package. `fields`: the rest of its control file, e.g. Depends; `scripts`: maintainer scripts; `files` by absolute path.

    `trigger`: what its coming and going sets off, e.g. ldconfig.
    """

    name: str
    version: str
    arch: str = "amd64"
    fields: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, File] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    trigger: str = ""

    @property
    def file_name(self) -> str:
        """As apt archives write it: without the epoch."""
        return f"{self.name}_{self.version.rpartition(':')[2]}_{self.arch}.deb"

    @property
    def control(self) -> str:
        first = {"Package": self.name, "Version": self.version, "Architecture": self.arch, "Maintainer": "burnin lab <lab@example.invalid>"}
        rest = {"Section": "misc", "Priority": "optional", **self.fields, "Description": f"stub of {self.name}, for tests only"}
        return "".join(f"{name}: {value}\n" for name, value in (first | rest).items())


def _tar(files: Iterable[tuple[str, File]]) -> bytes:
    buffer = io.BytesIO()
    made: set[str] = set()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path, file in sorted(files):
            inside = PurePosixPath("." + path)
            for folder in reversed(inside.parents):
                if str(folder) not in made:
                    made.add(str(folder))
                    tar.addfile(_member(f"./{folder}" if str(folder) != "." else ".", tarfile.DIRTYPE, 0o755))
            member = _member(f"./{inside}", tarfile.SYMTYPE if file.link else tarfile.REGTYPE, file.mode)
            member.linkname, member.size = file.link, len(file.content)
            tar.addfile(member, io.BytesIO(file.content))
    return gzip.compress(buffer.getvalue(), compresslevel=1, mtime=0)


def _member(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.mtime = kind, mode, MADE
    member.uname = member.gname = "root"
    return member


def _entry(name: str, content: bytes) -> bytes:
    return f"{name:<16}{MADE:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode() + content + b"\n" * (len(content) % 2)


def build(deb: Deb) -> bytes:
    """The bytes of the `.deb`."""
    control = {"/control": File(deb.control.encode())}
    control |= {f"/{name}": File(text.encode(), 0o755) for name, text in deb.scripts.items()}
    if deb.trigger:
        control["/triggers"] = File(f"activate-noawait {deb.trigger}\n".encode())
    configured = [path for path in deb.files if path.startswith("/etc/")]
    if configured:
        control["/conffiles"] = File("".join(f"{path}\n" for path in sorted(configured)).encode())
    archive = _entry("debian-binary", b"2.0\n") + _entry("control.tar.gz", _tar(control.items()))
    return b"!<arch>\n" + archive + _entry("data.tar.gz", _tar(deb.files.items()))
