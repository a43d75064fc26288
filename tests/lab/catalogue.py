"""What packages.yaml says, as packages: names, versions and relations filled in, and the files that a node would look at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lab.debs import Deb, File
from lab.elf import kernel_module, library

HERE = Path(__file__).parent
RELATIONS = ("source", "depends", "recommends", "provides", "conflicts", "replaces")
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
KNOWN = {
    "name", "version", "distro", "from", "before", "arch", "texts", "links", "programs", "libraries", "library_version", "units", "modules",
    "modules_version", "alternative", "kernel", *RELATIONS,
}  # fmt: skip
# Without a chroot dpkg runs the scripts on this machine and says in DPKG_ROOT where the node's files are.
PREAMBLE = '#!/bin/sh\nset -e\nroot=${DPKG_ROOT:-}\nlive() { [ -z "$root" ] && [ -d /run/systemd/system ]; }\n'
UNIT = "[Unit]\nDescription=stub of {name}\n[Service]\nExecStart={program}\n[Install]\nWantedBy=multi-user.target\n"

Filled = Mapping[str, str]


@cache
def catalogue() -> dict[str, Any]:
    """Both files as one. Raises ValueError where a package has a word that nothing reads."""
    told: dict[str, Any] = yaml.safe_load((HERE / "packages.yaml").read_text(encoding="utf-8"))
    told["things"] |= yaml.safe_load((HERE / "packages-driver.yaml").read_text(encoding="utf-8"))["things"]
    for thing, entry in told["things"].items():
        for package in entry["packages"]:
            if unknown := set(package) - KNOWN:
                raise ValueError(f"packages.yaml: {thing}: {package['name']}: nothing reads {', '.join(sorted(unknown))}")
    return told


def builds(repository: str) -> dict[str, tuple[str, ...]]:
    """Thing -> all its builds in that repository."""
    things = catalogue()["things"].items()
    return {thing: tuple(entry["builds"]) for thing, entry in things if entry["repository"] == repository}


def debs(repository: str, distro: str, chosen: Mapping[str, Sequence[str]]) -> list[Deb]:
    """The packages of the chosen builds, each once. `distro` is debian12, ubuntu2404, ... Raises ValueError for what is not in the file."""
    known, found = builds(repository), {}
    for thing, wanted in chosen.items():
        if missing := [build for build in wanted if build not in known.get(thing, ())]:
            raise ValueError(f"{repository}: no {thing} {', '.join(missing)}; there are {known.get(thing) or known}")
        for build in wanted:
            found.update({(deb.name, deb.version): deb for deb in _debs(thing, build, distro.rstrip("0123456789"))})
    return list(found.values())


def _debs(thing: str, build: str, distro: str) -> Iterator[Deb]:
    entry = catalogue()["things"][thing]
    branch = build.partition(".")[0]
    filled = {"v": build, "branch": branch, **entry["builds"][build]}
    for package in entry["packages"]:
        number = int(branch)
        if package.get("from", 0) <= number < package.get("before", number + 1) and package.get("distro", distro) == distro:
            yield _deb(package, filled)


def fill(text: str, filled: Filled) -> str:
    """`{word}` by its value; braces around anything else stay."""
    return re.sub(r"\{(\w+)\}", lambda found: filled.get(found[1], found[0]), text)


def _deb(package: Mapping[str, Any], filled: Filled) -> Deb:
    name, version = fill(package["name"], filled), fill(package["version"], filled)
    fields = {relation.capitalize(): fill(package[relation], filled) for relation in RELATIONS if relation in package}
    files = dict(_files(package, filled))
    files[f"/usr/share/doc/{name}/stub"] = File(f"{name} {version}\n".encode())
    return Deb(
        name, version, package.get("arch", "amd64"), fields, files, _scripts(package, filled), "ldconfig" if "libraries" in package else ""
    )


def _stub(name: str, filled: Filled) -> File:
    return File(fill((HERE / "stubs" / name).read_text(encoding="utf-8"), filled).encode(), 0o755)


def _files(package: Mapping[str, Any], filled: Filled) -> Iterator[tuple[str, File]]:
    for path, text in package.get("texts", {}).items():
        yield fill(path, filled), File(fill(text, filled).encode(), 0o755 if text.startswith("#!") else 0o644)
    for path, target in package.get("links", {}).items():
        yield fill(path, filled), File(link=fill(target, filled))
    for path, stub in package.get("programs", {}).items():
        yield fill(path, filled), _stub(stub, filled)
    for soname in package.get("libraries", ()):
        whole = f"{soname.rpartition('.')[0]}.{fill(package.get('library_version', '{v}'), filled)}"
        yield f"{LIBRARIES}/{whole}", File(library(soname))
        yield f"{LIBRARIES}/{soname}", File(link=whole)
    for name in package.get("units", ()):
        unit = catalogue()["units"][name]
        yield unit["program"], _stub(unit["stub"], filled)
        yield f"/lib/systemd/system/{name}.service", File(fill(UNIT, {"name": name, **unit}).encode())
    if "modules" in package:
        yield from _sources(package, filled)


def _module(package: Mapping[str, Any], filled: Filled) -> tuple[dict[str, Any], str]:
    return catalogue()["modules"][package["modules"]], fill(package.get("modules_version", "{v}"), filled)


def _sources(package: Mapping[str, Any], filled: Filled) -> Iterator[tuple[str, File]]:
    """What dkms finds under /usr/src; the stub of dkms copies the modules, that of a real one would compile."""
    set_, version = _module(package, filled)
    folder = f"/usr/src/{set_['module']}-{version}"
    yield f"{folder}/dkms.conf", File(f'PACKAGE_NAME="{set_["module"]}"\nPACKAGE_VERSION="{version}"\nAUTOINSTALL="yes"\n'.encode())
    for name in set_["names"]:
        yield f"{folder}/{name}.ko", File(kernel_module({"license": set_["licence"], "version": version, "name": name.replace("-", "_")}))


def _scripts(package: Mapping[str, Any], filled: Filled) -> dict[str, str]:
    after: list[str] = []
    before: list[str] = []
    for name in package.get("units", ()):
        start = f"systemctl enable --quiet {name}.service; systemctl restart {name}.service" if catalogue()["units"][name]["starts"] else ""
        again = f"systemctl try-restart {name}.service"
        after.append(f"if live; then systemctl daemon-reload; {start or again}; fi")
        before.append(f'if [ "$1" = remove ] && live; then systemctl disable --now --quiet {name}.service; fi')
    if "modules" in package:
        set_, version = _module(package, filled)
        what = f"{set_['module']}/{version}"
        after.append(f'[ -d "$root/var/lib/dkms/{what}" ] || "$root/usr/sbin/dkms" add {what}')
        after.append('for headers in "$root"/lib/modules/*/build; do\n    [ -e "$headers" ] || [ -L "$headers" ] || continue')
        after.append("    kernel=${headers%/build}\n    kernel=${kernel##*/}")
        after.append(f'    "$root/usr/sbin/dkms" install {what} -k "$kernel"\ndone')
        before.append(f'[ ! -d "$root/var/lib/dkms/{what}" ] || "$root/usr/sbin/dkms" remove {what} --all')
    if "alternative" in package:
        told = {key: fill(value, filled) for key, value in package["alternative"].items()}
        after.append(f"update-alternatives --quiet --install {told['link']} {told['name']} {told['path']} {told['priority']}")
        before.append(f'[ "$1" != remove ] || update-alternatives --quiet --remove {told["name"]} {told["path"]}')
    if "kernel" in package:
        hook = "$root/etc/kernel/postinst.d/dkms"
        after.append(f'if [ -x "{hook}" ]; then DPKG_MAINT_PACKAGE=linux "{hook}" {fill(package["kernel"], filled)}; fi')
    parts = {"postinst": ('[ "$1" = configure ] || exit 0', after), "prerm": ("", before)}
    return {name: PREAMBLE + "\n".join([first, *lines]) + "\n" for name, (first, lines) in parts.items() if lines}
