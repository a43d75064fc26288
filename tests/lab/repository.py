"""Signed apt repositories of stub packages, as NVIDIA, Mellanox and Debian publish them: `publish` says which builds are there *now*.

A later `publish` into the same folder moves the repository on (or takes builds away); its key stays the same. Needs gpg, nothing else.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

from lab import catalogue
from lab.debs import Deb, build

KEYS = ".keys"  # beside the repositories: the secret halves, which a repository does not serve
PLACES = {"cuda": "compute/cuda/repos/{distro}/x86_64", "doca": "doca/{distro}/x86_64", "debian": "debian/{distro}"}


@dataclass(frozen=True, slots=True)
class Published:
    """A flat repository (suite `./`) in `folder`, `place` below the site. `key`: its public key, armored, in the folder as the vendor has it."""

    folder: Path
    place: str
    label: str
    key: Path
    fingerprint: str
    packages: tuple[tuple[str, str], ...]

    @property
    def key_sha256(self) -> str:
        return hashlib.sha256(self.key.read_bytes()).hexdigest()

    def url(self, site: str = "") -> str:
        """Where it is: below `site` (http://host:port), else the folder itself by file:."""
        return f"{site.rstrip('/')}/{self.place}/" if site else f"file://{self.folder}/"

    def deb822(self, signed_by: Path | str = "", site: str = "") -> str:
        """A `.sources` file. `signed_by`: where the key lies on the node, else the repository's own copy."""
        return f"Types: deb\nURIs: {self.url(site)}\nSuites: ./\nSigned-By: {signed_by or self.key}\n"

    def preferences(self, priority: int = 990) -> str:
        """A pin of the whole repository, for what another one has newer (Debian's real kernels)."""
        return f"Package: *\nPin: release l={self.label}\nPin-Priority: {priority}\n"


def publish(
    site: Path,
    repository: str = "cuda",
    distro: str = "debian12",
    chosen: Mapping[str, Sequence[str]] | None = None,
    *,
    key: str = "",
    release: Mapping[str, str] | None = None,
) -> Published:
    """Make what is to be found in one repository of the site. Raises ValueError for builds that packages.yaml lacks.

    `chosen`: thing -> builds (catalogue.builds names all); None = everything. `key`: another name makes another key, as if stolen or
    rotated. `release`: fields of the Release file to change, e.g. Origin and Label, for what unattended-upgrades looks at.
    """
    told = catalogue.catalogue()["repositories"][repository]
    place = PLACES[repository].format(distro=distro)
    folder = site / place
    found = catalogue.debs(repository, distro, catalogue.builds(repository) if chosen is None else chosen)
    (folder / "pool").mkdir(parents=True, exist_ok=True)
    index = "\n".join(_stanza(folder, deb) for deb in sorted(found, key=lambda deb: (deb.name, deb.version)))
    fields = {"Origin": told["origin"], "Label": told["label"], **(release or {})}
    fingerprint = _sign(site, folder, key or repository, _release(folder, index, fields), told["key_file"])
    for file in (folder / "pool").iterdir():
        if file.name not in {deb.file_name for deb in found}:
            file.unlink()
    packages = tuple(sorted((deb.name, deb.version) for deb in found))
    return Published(folder, place, fields["Label"], folder / told["key_file"], fingerprint, packages)


def _stanza(folder: Path, deb: Deb) -> str:
    content = build(deb)
    _replace(folder / "pool" / deb.file_name, content)
    digest = hashlib.sha256(content).hexdigest()
    return f"{deb.control}Filename: ./pool/{deb.file_name}\nSize: {len(content)}\nSHA256: {digest}\n"


def _release(folder: Path, index: str, fields: Mapping[str, str]) -> str:
    files = {"Packages": index.encode(), "Packages.gz": gzip.compress(index.encode(), compresslevel=1, mtime=0)}
    told = {**fields, "Architectures": "amd64 all", "Date": format_datetime(datetime.now(UTC)).replace("+0000", "UTC")}
    lines = [f"{name}: {value}" for name, value in told.items()] + ["SHA256:"]
    for name, content in files.items():
        _replace(folder / name, content)
        lines.append(f" {hashlib.sha256(content).hexdigest()} {len(content):>9} {name}")
    return "\n".join(lines) + "\n"


def _replace(path: Path, content: bytes) -> None:
    """At once, so that who reads while we publish sees the old file or the new one; untouched where nothing differs.

    apt asks for what is newer, in whole seconds: what comes after within the same second is dated one later.
    """
    before = path.stat().st_mtime if path.exists() else 0
    if before and path.read_bytes() == content:
        return
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(content)
    dated = max(int(before) + 1, partial.stat().st_mtime)
    os.utime(partial, (dated, dated))
    partial.replace(path)


def _gpg(home: str, *argv: str, stdin: bytes = b"") -> bytes:
    command = ["gpg", "--homedir", home, "--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback", "--passphrase", "", *argv]
    return subprocess.run(command, input=stdin, check=True, capture_output=True, timeout=60).stdout


@contextmanager
def keyring(site: Path, name: str) -> Iterator[tuple[str, str]]:
    """A gpg home with the site's secret key `name` (made when there is none), and the key's fingerprint. Its agent ends with it."""
    kept = site / KEYS / f"{name}.asc"
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    home = tempfile.mkdtemp(prefix="gpg-", dir="/tmp")  # the agent's socket must have a short path
    try:
        if kept.exists():
            _gpg(home, "--import", stdin=kept.read_bytes())
        else:
            _gpg(home, "--quick-generate-key", f"burnin lab {name} <lab@example.invalid>", "ed25519", "sign", "never")
            kept.write_bytes(_gpg(home, "--armor", "--export-secret-keys"))
            kept.chmod(0o600)
        shown = _gpg(home, "--with-colons", "--list-keys").decode().splitlines()
        yield home, next(line.split(":")[9] for line in shown if line.startswith("fpr:"))
    finally:
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False, capture_output=True, timeout=60)
        shutil.rmtree(home, ignore_errors=True)


def _sign(site: Path, folder: Path, key: str, release: str, key_file: str) -> str:
    with keyring(site, key) as (home, fingerprint):
        signed = _gpg(home, "--clearsign", "--digest-algo", "SHA512", stdin=release.encode())
        _replace(folder / key_file, _gpg(home, "--armor", "--export"))
        _replace(folder / "Release", release.encode())
        _replace(folder / "InRelease", signed)
    return fingerprint


def described(published: Published) -> str:
    """As JSON, for a playbook: where, which key, what is in it."""
    told = {"url": published.url(), "place": published.place, "label": published.label, "key": str(published.key)}
    told |= {"key_fingerprint": published.fingerprint, "key_sha256": published.key_sha256}
    return json.dumps({**told, "packages": [f"{name}={version}" for name, version in published.packages]}, indent=1)
