"""The GPUs' own network adapters: driver, link layer, state, rate, firmware. What no driver has told yet is not judged at level bare."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from burnin.preflight.case import Case, Raw, Rule, card_name, few

CODES = ("NIC_WITHOUT_DRIVER", "NIC_LINK_LAYER", "NIC_DOWN", "NIC_RATE_LOW", "FIRMWARE_DIFFERS")
CAUSES = {"Polling": "no cable, or nothing at its other end", "Disabled": "turned off", "Sleep": "turned off"}


def judge(case: Case) -> Rule:
    """One finding a code, naming the adapters."""
    if not case.judge_parts:
        return
    own = case.own_nics()
    silent = [nic for nic in own if not nic.get("rdma")]
    if case.level == "ready" and silent:
        yield Raw("NIC_WITHOUT_DRIVER", f"{len(silent)} of {len(own)} adapters have no RDMA device: {few([*map(card_name, silent)])}.")
    yield from _layer(case, own)
    down = [nic for nic in own if nic.get("state") not in (None, "ACTIVE")]
    if down:
        told = few([f"{card_name(nic)} is {nic['state']} ({_cause(nic)})" for nic in down])
        yield Raw("NIC_DOWN", f"Not active: {told}.")
    rate = case.part("nic_rate_gb_s")
    slow = [nic for nic in own if rate and nic.get("state") == "ACTIVE" and (nic.get("rate_gb_s") or rate.number) < rate.number]
    if rate and slow:
        told = few([f"{card_name(nic)} at {nic['rate_gb_s']:g}" for nic in slow])
        yield Raw("NIC_RATE_LOW", f"Below {rate.number:g} Gb/s: {told}.", rate.confidence)
    yield from _firmware(case, own)


def _cause(nic: Mapping[str, Any]) -> str:
    if nic.get("state") == "INIT":
        return "no subnet manager has seen it"
    return CAUSES.get(str(nic.get("physical_state")), f"its link is {nic.get('physical_state') or 'not told'}")


def _layer(case: Case, own: list[Mapping[str, Any]]) -> Rule:
    wanted = case.part("nic_link_layer")
    others = [nic for nic in own if wanted and nic.get("link_layer") not in (None, wanted.value)]
    if wanted and others:
        told = few([f"{card_name(nic)} is {nic['link_layer']}" for nic in others])
        yield Raw("NIC_LINK_LAYER", f"{wanted.value} was expected, and {told}.", wanted.confidence)


def _firmware(case: Case, own: list[Mapping[str, Any]]) -> Rule:
    """Against the site's word where it gives one, else against the others of the same board in this node: the minority is named."""
    said = case.part("nic_firmware")
    groups: dict[object, list[Mapping[str, Any]]] = defaultdict(list)
    for nic in own:
        if nic.get("firmware"):
            groups[nic.get("board_id")].append(nic)
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
