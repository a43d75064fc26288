"""The kernel: the pinned one with its headers, or the one that runs, kept where it is."""

from __future__ import annotations

from burnin.stack.asking import Ask
from burnin.stack.resolution import Group, Package

NAME = "kernel"
MACHINES = {"x86_64": "x86_64", "sbsa": "aarch64"}


def pinned(ask: Ask) -> str | None:
    """The version the file asks for on this distribution; None keeps what runs."""
    return ask.stack.kernel.get(ask.distro.name)


def _bare(version: str) -> str:
    """EL's `uname -r` ends in the architecture, its package versions do not."""
    return version.removesuffix(".x86_64").removesuffix(".aarch64")


def state(ask: Ask) -> dict[str, str]:
    """policy (pinned or hold), version, and the `uname -r` to expect ("" = whatever runs)."""
    version = pinned(ask)
    if version is None:
        return {"policy": "hold", "version": "", "release": ""}
    release = f"{_bare(version)}.{MACHINES[ask.arch]}" if ask.distro.family == "el" else version
    return {"policy": "pinned", "version": version, "release": release}


def build(ask: Ask) -> Group:
    """Names carry the version, so no pin is needed; the meta packages that would bring the next one are held."""
    version = pinned(ask)
    templates, known = (ask.distro.kernel, version) if version else (ask.distro.headers, ask.kernel)
    why = "the pinned kernel and its headers" if version else "headers of the running kernel, for DKMS"
    packages = tuple(_package(one.format(kernel=_bare(known)), why) for one in templates) if known else ()
    locks = ask.locks((), *(one.spec for one in packages))
    # Nothing known of the kernel: keep new ones out altogether, but let its headers in.
    loose = not ask.apt and not known
    return Group(
        NAME,
        version=version or "",
        packages=packages,
        hold=ask.distro.kernel_held,
        blacklist=ask.distro.kernel_held if ask.apt else (),
        locks=locks,
        excludes={"main": ("kernel", "kernel-core", "kernel-modules*")} if loose else {},
    )


def _package(name: str, why: str) -> Package:
    return Package(name, "", name, why)
