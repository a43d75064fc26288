"""The driver and all that must have its version: fabric manager, NSCQ, NVSDM, IMEX, the persistence daemon."""

from __future__ import annotations

from burnin.stack.asking import PRIORITY, Ask
from burnin.stack.compat import Names
from burnin.stack.resolution import Group, Package

NAME = "driver"
PARTS = ("driver", "persistenced", "fabricmanager", "nscq", "nvsdm", "imex", "nvlsm", "infiniband_diags")
SERVICES = {"persistenced": "nvidia-persistenced.service", "fabricmanager": "nvidia-fabricmanager.service", "imex": "nvidia-imex.service"}
# The form NVIDIA documents, and by name what might come from a source of another name.
PINNED = "src:*nvidia*:any src:cuda-drivers:any src:cuda-compat:any nvidia-fabricmanager* libnvidia-nscq* libnvsdm* nvidia-imex*"
ARCHIVE = {"ubuntu": "Ubuntu", "debian": "Debian"}
# What the driver's packages are called; container tools, EGL platforms, GPUDirect Storage and Optimus have versions of their own.
SAME_VERSION = (
    "^libnvidia-(?!container|egl)", "^nvidia-(?!container|egl|fs|gds|prime|settings|modprobe|xconfig|cuda|driver-(pinning|assistant|local-repo))",
    "^libnvsdm", "^cuda-drivers", "^libcuda(debugger)?1$", "^libnv(cuvid|optix)1$", "^lib(egl|gles|glx)-nvidia", "^firmware-nvidia-gsp",
    "^xserver-xorg-video-nvidia",
)  # fmt: skip
# Debian builds these from source packages of their own, with versions of their own.
APART = "container|egl|cuda|fs|opencl-dev|support|installer-cleanup|kernel-common|modprobe|settings|persistenced|xconfig|cudnn|cg|profiler|visual|openjdk|tesla"
SAME_VERSION_DISTRIBUTION = (f"^(lib)?nvidia-(?!{APART})", "^libcuda(debugger)?1$", "^firmware-nvidia-gsp$", "^libnv(cuvid|optix)1$")
HELD = (
    "^(lib)?nvidia-(?!container)", "^libnvsdm", "^cuda-drivers", "^cuda-compat-", "^libxnvctrl", "^xserver-xorg-video-nvidia", "^nvlsm$",
    "^firmware-nvidia", "^libcuda(debugger)?1$", "^libnv(cuvid|optix)1$", "^lib(egl|glx|gles)-nvidia", "^kmod-nvidia",
)  # fmt: skip
# What HELD names, for a hold that somebody released; apt reads these too, so as POSIX has them.
BLACKLIST = (
    "^nvidia-", "^libnvidia-", "^libnvsdm", "^cuda-drivers", "^cuda-compat-", "^libxnvctrl", "^xserver-xorg-video-nvidia", "^nvlsm", "^firmware-nvidia",
    "^libcuda(debugger)?1$", "^libnv(cuvid|optix)1$", "^lib(egl|glx|gles)-nvidia",
)  # fmt: skip
OPEN = (
    "^nvidia-open(-[0-9]+)?$",
    "^nvidia-dkms(-[0-9]+(-server)?)?-open$",
    "^nvidia-kernel-open-dkms$",
    "^nvidia-driver(-[0-9]+(-server)?)?-open$",
    "^kmod-nvidia-open-dkms$",
)
PROPRIETARY = (
    "^cuda-drivers(-[0-9]+)?$",
    "^nvidia-dkms(-[0-9]+(-server)?)?$",
    "^nvidia-kernel-dkms$",
    "^nvidia-driver-[0-9]+(-server)?$",
    "^kmod-nvidia-latest-dkms$",
)
# What a later branch calls what this one gives a number: on the way back it has no version here, and must go.
UNNUMBERED_580 = "^(nvidia-fabricmanager|libnvidia-nscq|libnvsdm|nvidia-imex)$"
UNNUMBERED_590 = (
    "^libnvidia-(cfg1|common|compute|decode|encode|extra|fbc1|gl|gpucomp)$",
    "^nvidia-(compute-utils|dkms|driver|firmware|headless|headless-no-dkms|kernel-common|kernel-source|utils)(-open)?$",
)

# The tree that EL's packages drag in; they all have epoch 3 (NVIDIA's version-locking page). Patterns lock names too.
EL_TREE = ("nvidia-driver*", "nvidia-kmod-common", "nvidia-libXNVCtrl*", "nvidia-modprobe", "nvidia-settings", "nvidia-xconfig", "libnvidia-ml", "libnvidia-cfg",
           "libnvidia-fbc", "libnvidia-gpucomp", "xorg-x11-nvidia", "kmod-nvidia-*")  # fmt: skip


def parts(ask: Ask) -> dict[str, list[Names]]:
    """Part -> the entries that name its packages here. A node without a GPU has none."""
    return {part: found for part in PARTS if (found := ask.names(part))} if ask.hardware.has_gpu else {}


def build(ask: Ask) -> Group:
    """One transaction. Each package of the tree is pinned before, for a meta package's `>=` floats (dstack issue 2355)."""
    found = parts(ask)
    if not found:
        return Group(NAME)
    driver = ask.stack.driver
    packages = _packages(ask, found)
    theirs = driver.source == "distribution"
    return Group(
        NAME,
        version=driver.version,
        packages=packages,
        pins=ask.pin("nvidia-driver", *_kept_out(ask), (PINNED, f"version {driver.version}*", PRIORITY)),
        hold=HELD,
        same_version=SAME_VERSION_DISTRIBUTION if theirs else SAME_VERSION,
        absent=_absent(ask),
        blacklist=BLACKLIST if ask.apt else (),
        locks=ask.locks(packages, *(f"{name}-3:{driver.version}-*" for name in EL_TREE)),
        module_streams=(f"nvidia-driver:{driver.branch}-{'open' if driver.flavour == 'open' else 'dkms'}",) if ask.distro.modular else (),
        services=tuple(SERVICES[part] for part in found if part in SERVICES and _shipped(part, found)),
        sources=() if theirs else ("cuda",),
    )


def _kept_out(ask: Ask) -> list[tuple[str, str, int]]:
    """The archive that must not be a candidate: both have packages of these names, and the versions of one may be the other's."""
    if ask.stack.driver.source == "distribution":
        return [(PINNED, "release l=NVIDIA CUDA", -1)]
    # The distribution's own archive turns old branches into transitional packages.
    own = ARCHIVE.get(ask.distro.family, "")
    return [("src:nvidia-graphics-drivers*:any linux-modules-nvidia-*", f"release o={own}", -1)] if own else []


def _shipped(part: str, found: dict[str, list[Names]]) -> bool:
    """Whether the part's service is there: in its own package, or (the persistence daemon of old) inside another."""
    return part == "persistenced" or any(one.packages for one in found[part])


def _packages(ask: Ask, found: dict[str, list[Names]]) -> tuple[Package, ...]:
    driver = ask.stack.driver
    return tuple(
        ask.package(
            name.format(branch=driver.branch),
            driver.version if one.pinned else "",
            f"{part}: {one.fact.why}",
            epoch="" if ask.apt else one.epoch,
        )
        for part, entries in found.items()
        for one in entries
        for name in one.packages
    )


def _absent(ask: Ask) -> tuple[str, ...]:
    driver = ask.stack.driver
    if driver.source == "distribution":
        return (
            "^nvidia-kernel-dkms$" if driver.flavour == "open" else "^nvidia-open-kernel-dkms$",
            "^nvidia-open(-[0-9]+)?$",
            "^nvidia-kernel-open-dkms$",
            "^cuda-drivers(-[0-9]+)?$",
            "^nvidia-driver-(cuda|pinning-.*)$",
            "^nvidia-tesla-",
        )
    other = PROPRIETARY if driver.flavour == "open" else OPEN
    # Before 580 (and on Ubuntu before 590) names carry the branch: those of any other branch are leftovers.
    numbered = driver.branch < (590 if ask.distro.family == "ubuntu" else 580)
    own = f"(?!{driver.branch}$|{driver.branch}-open$)" if numbered else ""
    leftovers = f"^(lib)?nvidia-[a-z0-9-]+?-{own}[0-9]{{3}}(-server)?(-open)?$", f"^libnvsdm-{own}[0-9]{{3}}$"
    later: tuple[str, ...] = (UNNUMBERED_580,) if ask.apt and driver.branch < 580 else ()
    later += UNNUMBERED_590 if ask.distro.family == "ubuntu" and driver.branch < 590 else ()
    manager = ("^nvidia-fabric-manager$" if driver.branch >= 580 else "^nvidia-fabricmanager$",) if not ask.apt else ()
    return (*other, *leftovers, *later, *manager, "^nvidia-driver-pinning-", "^nvidia-tesla-")
