"""What a node of a SKU is expected to hold: shipped data, and the site's own word over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from burnin.errors import InventoryError

SITE = "site"
LAYERS = ("InfiniBand", "Ethernet")
MOST = 1_000_000
TEXTS = ("nic_link_layer", "nic_firmware", "bios_version")
LISTS = ("nic_devices",)
NUMBERS = (
    "gpu_pcie_generation", "gpu_pcie_width", "nvswitches", "nvlink5_bridges", "nics", "nic_rate_gb_s", "nic_link_width", "nic_pcie_generation",
    "nic_pcie_width", "hcas_per_gpu", "nvme", "memory_gib",
)  # fmt: skip
NAMES = (*NUMBERS, *TEXTS, *LISTS)


@dataclass(frozen=True, slots=True)
class Expected:
    """One fact. `confidence`: high, medium, low; or site: the inventory says so itself."""

    value: Any
    why: str
    confidence: str

    @property
    def number(self) -> float:
        return float(self.value)


Parts = Mapping[str, Expected]


@cache
def _shipped() -> Mapping[str, Any]:
    found: dict[str, Any] = yaml.safe_load(files("burnin.data").joinpath("skus.yaml").read_text(encoding="utf-8"))
    return found


def shipped_boards() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Board -> part -> {value, unit, why, source, confidence}, as shipped."""
    found: Mapping[str, Mapping[str, Mapping[str, Any]]] = _shipped()["boards"]
    return found


def boards() -> Mapping[str, str]:
    """SKU -> its board."""
    found: Mapping[str, str] = _shipped()["parts"]
    return found


def expected_parts(sku: str | None, site: object = None) -> dict[str, Expected]:
    """What is expected of a node of that SKU; nothing where no SKU is named. Raises InventoryError for what the site wrote wrongly.

    `site` is burnin_sku_parts: name -> value; null takes the expectation away.
    """
    board = _shipped()["boards"][boards()[sku]] if sku and sku in boards() else {}
    found = {name: Expected(fact["value"], fact["why"], fact["confidence"]) for name, fact in board.items()}
    if site in (None, ""):
        return found
    if not isinstance(site, Mapping):
        raise InventoryError(f"burnin_sku_parts: found {type(site).__name__}; expected a mapping like {{nics: 9, nvme: 10}}")
    for name, value in site.items():
        if name not in NAMES:
            near = get_close_matches(str(name), NAMES, 1)
            raise InventoryError(
                f"burnin_sku_parts: {str(name)[:60]!r} is no part that we look for; "
                + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(NAMES)}")
            )
        found.pop(name, None)
        if value is not None:
            found[name] = Expected(_site_value(name, value), "the site says so (burnin_sku_parts)", SITE)
    return found


def _site_value(name: str, value: object) -> Any:
    if name in LISTS:
        if isinstance(value, list | tuple) and value and all(isinstance(one, str) for one in value):
            return [str(one).lower().removeprefix("0x") for one in value]
        raise InventoryError(f"burnin_sku_parts: {name} is {str(value)[:60]!r}; expected a list of PCI device ids in quotes, like ['1021']")
    if name in TEXTS:
        if isinstance(value, str) and value and (name != "nic_link_layer" or value in LAYERS):
            return value
        wanted = " or ".join(LAYERS) if name == "nic_link_layer" else "text in quotes"
        raise InventoryError(f"burnin_sku_parts: {name} is {str(value)[:60]!r}; expected {wanted}")
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        raise InventoryError(f"burnin_sku_parts: {name} is {str(value)[:60]!r}; expected a number, zero or more")
    return value
