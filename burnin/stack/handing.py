"""What the package roles hand to their modules: plain data of a resolution, narrowed to what the node is. Pure.

`system` is what the module burnin_system found, `host` the preflight's host document ({} where no preflight ran); unknown is None, never no.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from burnin.errors import StackError
from burnin.stack.bridge import check_plain, resolve_plain
from burnin.stack.distros import arch_of, distro, distro_of

# ID of os-release -> Ansible's name for it, which distro_of knows.
SYSTEMS = {
    "ubuntu": "Ubuntu",
    "debian": "Debian",
    "rhel": "RedHat",
    "rocky": "Rocky",
    "almalinux": "AlmaLinux",
    "ol": "OracleLinux",
    "centos": "CentOS",
}
# Parts that a node without NVSwitch has no use for; burnin/stack/groups/driver.py writes the part before the reason.
SWITCHED = ("fabricmanager", "nscq", "nvsdm", "nvlsm", "infiniband_diags")
SWITCH_SERVICES = ("nvidia-fabricmanager.service",)
NVLINK5 = ("nvsdm", "nvlsm")


def place(system: Mapping[str, Any]) -> dict[str, str]:
    """distro, arch and release of a node; `problem` says what is not one of ours, else "". Raises nothing."""
    told = system["os"]
    try:
        distro = distro_of(SYSTEMS.get(told["id"], told["id"]), told["version"])
        return {"distro": distro, "arch": arch_of(system["machine"]), "release": told["version"], "problem": ""}
    except StackError as problem:
        return {"distro": "", "arch": "", "release": "", "problem": f"{told['pretty'] or told['id'] or 'no /etc/os-release'}: {problem}"}


def problems(stack: object, system: Mapping[str, Any], sku: str, today: date) -> list[str]:
    """Why this node cannot be given this stack, one thing each; [] when it can."""
    if stack is None:
        return ["There is no burnin_stack; expected the site's pinned versions (inventory/example/group_vars/all/stack.yml shows one)"]
    where = place(system)
    found = [where["problem"].rstrip(".")] if where["problem"] else []
    try:
        found += check_plain(stack, today, [sku] if sku else ())["error_text"]
        if not found:
            resolve_plain(stack, where["distro"], where["arch"], sku)
    except StackError as problem:  # a SKU that nobody knows, or that does not come with that architecture
        found.append(str(problem))
    return found


def repositories(resolution: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The repositories that the group needs."""
    sources = resolution["groups"][name]["sources"]
    return [one for one in resolution["repositories"] if one["source"] in sources]


def group(resolution: Mapping[str, Any], name: str, host: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One group. The driver's is without fabric manager and its kin where the node was looked at and has no NVSwitch."""
    found = dict(resolution["groups"][name])
    if name != "driver" or not _without_switches(found, host or {}):
        return found
    packages = [one for one in found["packages"] if _part(one) not in SWITCHED]
    services = [one for one in found["services"] if one not in SWITCH_SERVICES]
    return {
        **found, "packages": packages, "services": services, "names": [one["name"] for one in packages], "specs": [one["spec"] for one in packages],
    }  # fmt: skip


def kernel_group(resolution: Mapping[str, Any], system: Mapping[str, Any], headers_of_running: bool = False) -> dict[str, Any]:
    """The kernel's group; with the headers of the running kernel too, where that is asked and another one is pinned."""
    found = group(resolution, "kernel")
    running = str(system["kernel"])
    if not headers_of_running or resolution["kernel"]["release"] in ("", running) or running not in system["kernels"]:
        return found
    bare = running.removesuffix(".x86_64").removesuffix(".aarch64")
    names = [template.format(kernel=bare) for template in distro(str(resolution["distro"])).headers]
    more = [
        {"name": name, "version": "", "spec": name, "why": "headers of the running kernel, until the pinned one runs"} for name in names
    ]
    return {
        **found, "packages": [*found["packages"], *more], "names": [*found["names"], *names], "specs": [*found["specs"], *names],
        "locks": [*found["locks"], *(names if resolution["manager"] == "dnf" else [])],
    }  # fmt: skip


def dkms_name(resolution: Mapping[str, Any]) -> str:
    """What the driver's modules are called in dkms: NVIDIA's packages and Debian's own differ."""
    driver = resolution["driver"]
    if driver["source"] == "nvidia":
        return "nvidia"
    return "nvidia-current-open" if driver["flavour"] == "open" else "nvidia-current"


def _part(package: Mapping[str, Any]) -> str:
    return str(package["why"]).partition(":")[0]


def _without_switches(driver: Mapping[str, Any], host: Mapping[str, Any]) -> bool:
    """Only a look that could have found one says no: it saw GPUs; and NVLink5's are told by the VPD of RDMA devices, so it saw one of these."""
    if not host.get("gpus") or host.get("nvswitches") != 0 or host.get("nvlink5") is not False:
        return False
    fifth = any(_part(one) in NVLINK5 for one in driver["packages"])
    return not fifth or any(nic.get("rdma") for nic in host.get("nics") or ())


def kernel_wanted(resolution: Mapping[str, Any], system: Mapping[str, Any]) -> str:
    """The kernel that must boot: the pinned one, else the one that runs, where it is installed here (in a container it is not)."""
    pinned = str(resolution["kernel"]["release"])
    running = str(system["kernel"])
    return pinned or (running if running in system["kernels"] else "")


def modules_for(resolution: Mapping[str, Any], system: Mapping[str, Any]) -> list[str]:
    """The kernels that the driver's modules are built for: the one that will boot, and the one that runs where it has headers."""
    running = [str(system["kernel"])] if system["kernel"] in system["headers"] else []
    return sorted({one for one in (kernel_wanted(resolution, system), *running) if one})


def built(system: Mapping[str, Any], module: str, version: str, kernels: Iterable[str]) -> bool:
    """Whether this version of a DKMS module is installed for each of these kernels."""
    there = {one["kernel"] for one in system["dkms"] if one["installed"] and (one["module"], one["version"]) == (module, version)}
    return set(kernels) <= there


def stale(system: Mapping[str, Any], module: str, after: str) -> bool:
    """Whether a module is older, for some kernel, than the one it is built against."""
    newest = {one["kernel"]: one["built_s"] for one in system["dkms"] if one["installed"] and one["module"] == after}
    return any(one["built_s"] < newest.get(one["kernel"], 0) for one in system["dkms"] if one["installed"] and one["module"] == module)


def said(resolution: Mapping[str, Any], checked: Mapping[str, Any], system: Mapping[str, Any]) -> list[str]:
    """What a person should know before anything is changed: the stack's warnings, and the resolution's notes that hold for this node."""
    notes = [one["text"] for one in resolution["notes"] if one["code"] != "SECURE_BOOT" or system["secure_boot"] is not False]
    if kernel_wanted(resolution, system) and not system["boot"]["loader"]:
        notes.append("There is no boot loader here that we know (GRUB, grubby): which kernel boots is not settled by the role kernel.")
    return [*checked["warning_text"], *notes]
