"""The part "host" of the identity document: one reading of everything, each part failing alone."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Optional

from burnin.node.host import cards, pci, system
from burnin.node.host.reading import Reader
from burnin.node.host.software import software as installed

SCHEMA = "burnin.host/1"
LEVELS = ("bare", "ready")


def host(level: str, root: str = "/", software_root: Optional[str] = None, folders: Iterable[str] = ()) -> Dict[str, Any]:
    """What the machine is (schema burnin.host/1). `software_root`: of the installed system (its release, installed kernels, clock, space, packages), where it is
    another than the hardware's.

    None = it would not say, [] = there is none. Level bare asks nothing that a driver or a package brings. `folders`: more places whose free
    space matters.
    """
    reader = Reader(root)
    other = Reader(software_root) if software_root and software_root != root else reader
    found = pci.devices(reader)
    bridging, asked = cards.bridges(reader, found)
    gpus = pci.gpus(reader, found)
    nics = cards.nics(reader, found, bridging)
    wanted = [card["address"] for card in [*gpus, *nics]]
    document: Dict[str, Any] = {
        "schema": SCHEMA,
        "level": level,
        "root": reader.root,
        "os": system.system(other),
        "kernel": system.kernel(reader, other),
        "firmware": system.firmware(reader),
        "uptime_s": system.uptime_s(reader),
        "memory_mib": system.memory_mib(reader),
        "cpus": system.cpus(reader),
        "pci_functions": len(found),
        "gpus": gpus,
        "nvswitches": pci.nvswitches(found),
        "nvlink5": True if bridging else False if asked else None,
        "nics": nics,
        "nvme": cards.nvme(reader, found),
        "iommu": system.iommu(reader, wanted),
        "acs": pci.acs(reader, found, wanted),
        "modules": system.modules(reader),
        "gpu_processes": system.gpu_processes(reader),
        "clock": system.clock(other),
        "free_mib": system.free_mib(other, folders),
    }
    document["software"] = installed(other) if level == "ready" else None
    document["errors"] = reader.errors if other is reader else [*reader.errors, *other.errors]
    return document
