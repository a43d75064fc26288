"""What is installed on this node, as far as a pinned stack has something to say about it. Reads only; None = it would not say."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from burnin.node.host import software_modules as modules
from burnin.node.host import software_packages as packages
from burnin.node.host.reading import Reader

UNITS = (
    "nvidia-persistenced.service", "nvidia-fabricmanager.service", "nvidia-imex.service", "nvidia-dcgm.service", "openibd.service",
    "unattended-upgrades.service", "apt-daily-upgrade.timer", "dnf-automatic.timer", "dnf-automatic-install.timer",
)  # fmt: skip
SHOW = ["systemctl", "show", "--property=Id,LoadState,ActiveState,UnitFileState", *UNITS]
REASONS = "/run/burnin/reboot-required.d"


def software(reader: Reader) -> Dict[str, Any]:
    """The part `software` of the host document (burnin.host/1)."""
    which = packages.manager(reader)
    found, broken = packages.packages(reader, which)
    blacklist, origins = packages.upgrades(reader) if which == "apt" else (None, None)
    return {
        "manager": which,
        "packages": found,
        "audit": broken,
        "pins": packages.pins(reader),
        "sources": packages.sources(reader),
        "blacklist": blacklist,
        "unattended_origins": origins,
        "locks": packages.locks(reader),
        "dkms": modules.dkms(reader),
        "module_files": modules.module_files(reader),
        "services": services(reader),
        "alternatives": {"cuda": modules.default_toolkit(reader)},
        "libraries": modules.libraries(reader),
        "ofed_info": _line(reader.run(["ofed_info", "-s"])),
        "cuda_toolkits": modules.toolkits(reader),
        "reboot_required": _reasons(reader),
    }


def services(reader: Reader) -> Optional[Dict[str, Dict[str, Optional[str]]]]:
    """Unit -> {"active", "enabled"} as systemd calls them, of those that are there; None where systemd does not answer."""
    text = reader.run(SHOW)
    blocks = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in (text or "").split("\n\n")]
    known = [block for block in blocks if block.get("Id")]
    if not known:
        return None
    return {
        block["Id"]: {"active": block.get("ActiveState") or None, "enabled": block.get("UnitFileState") or None}
        for block in known
        if block.get("LoadState") not in ("not-found", "error", "bad-setting")
    }


def _line(text: Optional[str]) -> Optional[str]:
    return (text or "").strip().splitlines()[0].strip()[:200] if (text or "").strip() else None


def _reasons(reader: Reader) -> List[str]:
    """Why a reboot was asked for, by whom; the folder is in memory, so a reboot empties it."""
    return ["%s: %s" % (path.rpartition("/")[2], reader.line(path) or "no reason given") for path in reader.glob(REASONS + "/*")]
