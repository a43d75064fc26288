"""The vendors' repositories for one distribution, or a site's mirrors of them."""

from __future__ import annotations

from burnin.stack.asking import Ask
from burnin.stack.distros import Key, Source, keys, sources
from burnin.stack.model import Override
from burnin.stack.resolution import Repository
from burnin.stack.versions import minor, older

SUPERSEDED = {"cuda": ("^cuda-keyring$", "^cuda-repo-", "^nvidia-driver-local-repo-"), "doca": ("^doca-host$",), "mlnx": ("^doca-host$",)}


def repository(ask: Ask, name: str) -> Repository:
    """The repository `name` (cuda, doca, mlnx) as this node is to have it."""
    source = sources()[name]
    override = ask.stack.repositories.get(name, Override())
    key = keys()[ask.distro.key if name == "cuda" else "mellanox"]
    url = _filled(ask, source, override.url or source.url).rstrip("/") + "/"
    key_url = _filled(ask, source, override.key_url) if override.key_url else _beside(url, source, key, override)
    ours = not (override.key_url or override.key_sha256 or override.key_fingerprint)
    key_path = f"/etc/apt/keyrings/burnin-{name}.asc" if ask.apt else f"/etc/pki/rpm-gpg/RPM-GPG-KEY-burnin-{name}"
    return Repository(
        source=name,
        name=f"burnin-{name}",
        url=url,
        label=source.label,
        key_url=key_url,
        key_fingerprint=(override.key_fingerprint or (key.fingerprint if ours else "")).upper(),
        key_sha256=(override.key_sha256 or (key.sha256 if ours else "")).lower(),
        key_path=key_path,
        path=f"/etc/apt/sources.list.d/burnin-{name}.sources" if ask.apt else f"/etc/yum.repos.d/burnin-{name}.repo",
        deb822={"Types": "deb", "URIs": url, "Suites": source.suite, "Signed-By": key_path} if ask.apt else {},
        yum={} if ask.apt else {"baseurl": url, "gpgkey": f"file://{key_path}", "gpgcheck": "1", "enabled": "1"},
        supersedes=tuple(pattern.format(directory=ask.distro.directories[name]) for pattern in source.supersedes if _ours(ask, pattern)),
        supersedes_packages=SUPERSEDED[name],
        confidence=ask.distro.confidence if name != "cuda" else key.fact.confidence,
    )


def _ours(ask: Ask, pattern: str) -> bool:
    return pattern.startswith("/etc/apt/") == ask.apt


def _beside(url: str, source: Source, key: Key, override: Override) -> str:
    """The key where the vendor has it: beside the packages (CUDA, and any mirror), or at DOCA's root."""
    if source.name == "cuda" or override.url:
        return url + key.file
    return source.url.partition("{version}")[0] + key.file


def _filled(ask: Ask, source: Source, template: str) -> str:
    ofed = ask.stack.ofed
    known = {
        "distro": ask.distro.name,
        "arch": source.arches[ask.arch],
        "version": ofed.version if ofed else "",
        "directory": _directory(ask, source),
        "release": ask.release or "{release}",
    }
    for name, value in known.items():
        template = template.replace(f"{{{name}}}", value)
    return template


def _directory(ask: Ask, source: Source) -> str:
    """The vendor's word for the distribution. DOCA before 3.2 has one EL directory per minor release."""
    found = ask.distro.directories[source.name]
    ofed = ask.stack.ofed
    per_minor = (
        source.name == "doca"
        and ask.distro.family == "el"
        and ofed
        and older(minor(ofed.version), ask.compat.rules["ofed.doca_source_from"].value)
    )
    return ("rhel{release}" if per_minor else found).replace("{release}", ask.release or "{release}")
