"""What programs keep: the clock, and the driver's persistence mode. The first is started where one is installed, the second only read."""

from __future__ import annotations

from typing import Dict, List, Mapping

from ansible.module_utils.burnin_group import node
from ansible.module_utils.burnin_group.model import few
from ansible.module_utils.burnin_tuning import live
from ansible.module_utils.burnin_tuning.host import Host
from ansible.module_utils.burnin_tuning.model import CHANGED, FAILED, PENDING, UNSUPPORTED, Setting

CLOCKS = ("chrony.service", "chronyd.service", "ntpsec.service", "ntp.service", "ntpd.service", "systemd-timesyncd.service")
RUNNING = ("active", "activating", "reloading")
NVIDIA = ("10de:0300", "10de:0302")


def units(host: Host, names: List[str]) -> Dict[str, Mapping[str, str]]:
    """Unit -> its states, as node.units, over the host's own `run`."""
    done = host.run(["systemctl", "show", "--property=Id,LoadState,UnitFileState,ActiveState", "--", *names], node.LOOK_S)
    blocks = [dict(line.partition("=")[::2] for line in block.splitlines()) for block in done.stdout.strip().split("\n\n")]
    return {told["Id"]: told for told in blocks if told.get("Id")}


def time_sync(host: Host, check: bool) -> Setting:
    """One program that keeps the clock: started where it is installed, never installed, and never a second one."""
    found = {name: told for name, told in units(host, list(CLOCKS)).items() if told.get("LoadState") == "loaded"} if host.systemd else {}
    active = [name for name, told in found.items() if told.get("ActiveState") in RUNNING]
    before = few(active) or "none runs"
    if not found:
        words = "no program that keeps the clock is installed (%s); the site's image brings one" % few([name[:-8] for name in CLOCKS])
        return Setting("running", before, before, UNSUPPORTED, detail=words if host.systemd else "there is no systemd to ask")
    if len(active) > 1:
        return Setting("running", before, before, FAILED, detail="%s both set the clock; disable all but one" % few(active))
    name = active[0] if active else next(iter(found))
    enabled = found[name].get("UnitFileState") in ("enabled", "static", "alias", "generated", "enabled-runtime")
    if active and enabled:
        return Setting("running", before, before)
    if check:
        return Setting("running", before, name, CHANGED, changed=True)
    for verb in ("enable", "start"):
        host.run(["systemctl", verb, "--", name], node.SERVICE_S)
    now = units(host, [name]).get(name, {})
    if now.get("ActiveState") not in RUNNING:
        return Setting(
            "running", before, "none runs", FAILED, changed=True, detail="%s does not start; journalctl -u %s says why" % (name, name)
        )
    return Setting("running", before, name, CHANGED, changed=True)


def persistence(host: Host) -> Setting:
    """Of every GPU, as nvidia-smi says it. Before the reboot that a new driver wants, off is no failure."""
    if not live.cards(str(host.root), NVIDIA):
        return Setting("on", state=UNSUPPORTED, detail="there is no NVIDIA GPU")
    done = host.run(["nvidia-smi", "--query-gpu=pci.bus_id,persistence_mode", "--format=csv,noheader"], node.LOOK_S)
    if done.returncode:
        words = "no driver is loaded" if done.returncode == 127 else "nvidia-smi does not answer: " + node.last_words(done, 1)
        state = PENDING if host.flags() else UNSUPPORTED
        return Setting("on", state=state, detail=words + "; the role nvidia_driver brings it")
    pairs = [tuple(part.strip() for part in line.split(",")) for line in done.stdout.splitlines() if "," in line]
    off = [pair[0] for pair in pairs if pair[1] != "Enabled"]
    before = "on" if pairs and not off else "off on %s" % few(off) if off else "not told"
    if before == "on":
        return Setting("on", before, before)
    state = PENDING if host.flags() else FAILED
    return Setting("on", before, before, state, detail="%s; the role nvidia_driver sets it (nvidia_driver_persistence)" % before)
