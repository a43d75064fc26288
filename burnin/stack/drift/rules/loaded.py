"""What runs now: the loaded modules against the libraries on disk, and whether a reboot is owed."""

from __future__ import annotations

from collections.abc import Iterator

from burnin.stack.drift.case import Case, mapping, text, texts
from burnin.stack.drift.finding import Finding, listed

# In any of these the node's own libnvidia-ml lies, by distribution.
LIBRARY_PACKAGES = {
    "libnvidia-ml": ("^libnvidia-ml1?$", "^libnvidia-compute"),
    "libcuda": ("^libcuda1$", "^libnvidia-compute", "^nvidia-driver-cuda-libs$"),
    "libnvidia-nscq": ("^libnvidia-nscq",),
}


def judge(case: Case) -> Iterator[Finding]:
    """Module != library is owed a reboot, and never the hardware's fault (shine-cluster issue 30)."""
    if case.group("driver")["packages"]:
        yield from _driver(case)
        yield from _libraries(case)
    yield from _ofed(case)
    if owed := texts(case.software.get("reboot_required")):
        yield Finding("REBOOT_PENDING", "node", f"asked for by {listed(owed)}", "no reboot owed", tuple(owed))


def _driver(case: Case) -> Iterator[Finding]:
    version = case.group("driver")["version"]
    if case.loaded("nouveau") is not None:
        yield Finding("NOUVEAU_LOADED", "driver", "nouveau is loaded", "nouveau kept out")
    module = case.loaded("nvidia")
    if module is None:
        if case.has_gpus and case.loaded("nouveau") is None:
            yield Finding("DRIVER_NOT_LOADED", "driver", "no nvidia module is loaded", f"module {version}")
        return
    disk = _on_disk(case)
    if not module or disk is None:
        return
    what, there = disk
    if module != there:
        then = "" if there == version else f" (and the stack file pins {version}: provision first)"
        yield Finding("DRIVER_REBOOT_NEEDED", "driver", f"module {module}, {what} {there}{then}", f"{version} for both")
    elif module != version:
        yield Finding("DRIVER_NOT_PINNED", "driver", f"module {module}, {what} {there}", version)


def _on_disk(case: Case) -> tuple[str, str] | None:
    """What a new process would get: the library, else what the driver's packages are."""
    found = mapping(case.software.get("libraries"))
    for name in ("libnvidia-ml", "libcuda"):
        if version := text(found.get(name)):
            return f"library {name}", version
    packages = case.matching(LIBRARY_PACKAGES["libnvidia-ml"])
    return (packages[0].name, packages[0].upstream) if packages else None


def _libraries(case: Case) -> Iterator[Finding]:
    """A library that is not its package's: a .run installer went over it, or brought it where no package is."""
    strange = []
    expected = case.group("driver")["version"]
    for name, patterns in LIBRARY_PACKAGES.items():
        version = text(mapping(case.software.get("libraries")).get(name))
        packages = case.matching(patterns)
        if version and case.read and not any(one.is_of(version) for one in packages):
            strange.append(f"{name} {version} ({packages[0]})" if packages else f"{name} {version} (of no package)")
            expected = packages[0].upstream if packages else expected
    nccl = text(mapping(case.software.get("libraries")).get("libnccl"))
    packages = case.matching(("^libnccl2?$",))
    if nccl and packages and packages[0].upstream != nccl:
        strange.append(f"libnccl {nccl} ({packages[0]})")
        expected = packages[0].upstream
    if strange:
        yield Finding("LIBRARY_NOT_PACKAGE", "driver", listed(strange), f"the package's own, {expected}", tuple(strange))


def _ofed(case: Case) -> Iterator[Finding]:
    running, loaded = case.running, case.loaded("mlx5_core")
    files = case.software.get("module_files")
    for one in files if isinstance(files, list) else []:
        row = mapping(one)
        version = text(row.get("version"))
        if row.get("module") == "mlx5_core" and row.get("kernel") == running and version and loaded and version != loaded:
            yield Finding("OFED_REBOOT_NEEDED", "ofed", f"mlx5_core {loaded} is loaded, {version} on disk", "the same")
