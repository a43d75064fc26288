"""The GPUs' own network adapters as cards: driver and firmware. Their ports are rules/ports.py's. What no driver has told yet is not judged at level bare."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from burnin.preflight.case import Case, Raw, Rule, card_name, few

CODES = ("NIC_WITHOUT_DRIVER", "FIRMWARE_DIFFERS")


def judge(case: Case) -> Rule:
    """One finding a code, naming the adapters."""
    if not case.judge_parts:
        return
    own = case.own_nics()
    silent = [nic for nic in own if not nic.get("rdma")]
    if case.level == "ready" and silent:
        yield Raw("NIC_WITHOUT_DRIVER", f"{len(silent)} of {len(own)} adapters have no RDMA device: {few([*map(card_name, silent)])}.")
    yield from _firmware(case, own)


def _firmware(case: Case, own: list[Mapping[str, Any]]) -> Rule:
    """Against the site's word where it gives one, else against the others of the same board in this node: the minority is named."""
    said = case.part("nic_firmware")
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for nic in own:
        if nic.get("firmware"):
            groups[str(nic.get("board_id"))].append(nic)
    odd = []
    for alike in groups.values():
        counted = Counter(str(nic["firmware"]) for nic in alike)
        right = str(said.value) if said else sorted(counted, key=lambda version: (-counted[version], version))[0]
        odd += [f"{card_name(nic)} has {nic['firmware']}, not {right}" for nic in alike if nic["firmware"] != right]
    bios = case.part("bios_version")
    found = case.fact("firmware", "bios_version")
    if bios and found and found != bios.value:
        odd.append(f"the BIOS is {found}, not {bios.value}")
    if odd:
        yield Raw("FIRMWARE_DIFFERS", f"Firmware differs: {few(odd)}.")
