"""What a person should know of a resolution before it is done."""

from __future__ import annotations

from collections.abc import Iterator

from burnin.stack.asking import Ask
from burnin.stack.groups import driver as driver_group
from burnin.stack.groups.kernel import pinned
from burnin.stack.resolution import Note, Repository
from burnin.stack.versions import minor, older


def unsigned_modules(ask: Ask) -> tuple[str, ...]:
    """Modules that are built on the node: under Secure Boot they load only when signed by a key the machine has enrolled."""
    ofed = ask.stack.ofed
    built = ofed is not None and not (ofed.kind == "doca" and older(minor(ofed.version), ask.compat.rules["ofed.doca_source_from"].value))
    return (
        *(("mlx5_core", "mlx5_ib", "ib_core", "ib_umad") if built else ()),
        *(("nvidia", "nvidia_uvm", "nvidia_modeset") if ask.hardware.has_gpu else ()),
    )


def notes(ask: Ask, repositories: tuple[Repository, ...]) -> Iterator[Note]:
    """Each with a code that does not change."""
    modules = unsigned_modules(ask)
    if modules:
        yield Note(
            "SECURE_BOOT", f"Built on the node, so under Secure Boot not loaded unless signed with an enrolled key: {', '.join(modules)}."
        )
    if pinned(ask) is None and ask.kernel is None:
        yield Note("KERNEL_UNKNOWN", "The kernel stays as it is; which one runs was not looked at, so its headers are not in this list.")
    for one in repositories:
        if not one.key_sha256:
            against = "its fingerprint alone" if one.key_fingerprint else "nothing"
            yield Note(
                "KEY_SHA256_UNKNOWN", f"The key of {one.source} is checked against {against}; give repositories.{one.source}.key_sha256."
            )
    if not ask.hardware.has_gpu:
        yield Note("NO_GPU", f"{ask.hardware.sku} has no GPU: no driver, CUDA, NCCL or DCGM.")
        return
    if not ask.hardware.sku:
        yield Note("SKU_UNKNOWN", "No SKU was named, so fabric manager, NSCQ, NVSDM, NVLSM and IMEX are not in this list.")
    yield from _doubts(ask)
    if ask.distro.sqv and ask.distro.key == "cuda-apt":
        yield Note(
            "KEY_SHA1",
            f"apt of {ask.distro.name} may refuse the SHA-1 self-signature of NVIDIA's key; then give another in repositories.cuda.",
        )
    if ask.stack.driver.source == "distribution":
        yield Note(
            "DEBIAN_NON_FREE", "Debian's components contrib, non-free and non-free-firmware must be enabled: the driver comes from them."
        )
    elif ask.distro.family == "debian":
        yield Note("DEBIAN_CONTRIB", "Debian's contrib component must be enabled for the driver's dependencies.")
    if ask.stack.driver.flavour == "proprietary" and ask.stack.ofed is not None:
        yield Note(
            "PEERMEM", "Proprietary modules have no dma-buf: load nvidia_peermem, and rebuild the driver's modules whenever OFED changes."
        )


def _doubts(ask: Ask) -> Iterator[Note]:
    driver = ask.stack.driver
    if driver.branch < ask.distro.first_branch:
        yield Note(
            "BRANCH_NOT_SEEN",
            f"NVIDIA's repository for {ask.distro.name} began with branch {ask.distro.first_branch}: check that it has {driver.version}.",
        )
    for part, entries in driver_group.parts(ask).items():
        for one in entries:
            if one.fact.confidence == "low" and one.packages:
                yield Note("NAME_LOW_CONFIDENCE", f"{part}: {', '.join(one.packages)}: {one.fact.why} ({one.fact.source}).")
    for toolkit in ask.stack.cuda.toolkits if ask.stack.cuda else ():
        known = ask.compat.toolkits.get(toolkit)
        if known is not None and ask.distro.name not in known.distros:
            yield Note("TOOLKIT_NOT_SEEN", f"CUDA {toolkit} has not been seen for {ask.distro.name}: check that the repository has it.")
    if ask.stack.ofed is not None and ask.distro.confidence == "low":
        yield Note("OFED_DIRECTORY", f"The {ask.stack.ofed.kind} directory for {ask.distro.name} is not verified: {ask.distro.source}.")
