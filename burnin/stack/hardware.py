"""What a GPU asks of the stack, by SKU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache

from burnin.errors import StackError
from burnin.stack.compat import load
from burnin.stack.model import ARCHES


@dataclass(frozen=True, slots=True)
class Hardware:
    """One SKU. `flavours` empty: no GPU. `last_branch` None: no end known. PCI ids are devices of vendor 10de, upper case."""

    sku: str
    generation: str
    flavours: tuple[str, ...]
    arches: tuple[str, ...]
    pci_ids: tuple[str, ...]
    nvswitch: bool
    nvlink5: bool
    imex: bool
    first_branch: int
    last_branch: int | None
    first_cuda: str
    last_cuda: str
    why: str
    source: str
    confidence: str

    @property
    def has_gpu(self) -> bool:
        return bool(self.flavours)

    @property
    def traits(self) -> frozenset[str]:
        """The names that `needs` in compat.yaml may ask for."""
        return frozenset(name for name in ("nvswitch", "nvlink5", "imex") if getattr(self, name))


@cache
def known() -> Mapping[str, Hardware]:
    """SKU -> what it asks for."""
    data = load("hardware.yaml")
    found = {}
    for name, sku in data["skus"].items():
        generation = data["generations"][sku["generation"]]
        doubts = {sku["confidence"], generation["confidence"]}
        found[name] = Hardware(
            sku=name,
            generation=sku["generation"],
            flavours=tuple(generation["value"]),
            arches=tuple(sku["arches"]),
            pci_ids=tuple(sku["pci_ids"]),
            nvswitch=sku.get("nvswitch", False),
            nvlink5=sku.get("nvlink5", False),
            imex=sku.get("imex", False),
            first_branch=generation.get("first_branch", 0),
            last_branch=generation.get("last_branch"),
            first_cuda=generation.get("first_cuda", ""),
            last_cuda=generation.get("last_cuda", ""),
            why=generation["why"],
            source=f"{generation['source']}; {sku['source']}",
            confidence=next(one for one in ("low", "medium", "high") if one in doubts),
        )
    return found


# Asked about without a SKU: any flavour and architecture, and nothing that only some GPUs need.
ANY = Hardware(
    sku="",
    generation="",
    flavours=("open", "proprietary"),
    arches=ARCHES,
    pci_ids=(),
    nvswitch=False,
    nvlink5=False,
    imex=False,
    first_branch=0,
    last_branch=None,
    first_cuda="",
    last_cuda="",
    why="no SKU was named",
    source="burnin/stack/hardware.py",
    confidence="low",
)


def hardware(sku: str) -> Hardware:
    """What that SKU asks for. Raises StackError, naming the nearest."""
    if sku not in known():
        near = get_close_matches(str(sku), sorted(known()), 1, cutoff=0.4)
        raise StackError(
            f"SKU {sku!r}: not known to the stack" + (f"; did you mean {near[0]!r}?" if near else "") + f" Known: {', '.join(known())}"
        )
    return known()[sku]


def by_pci_id(device: str) -> Hardware | None:
    """The SKU of a PCI device id (2330, 0x2330 or 10de:2330); None when it is none of ours."""
    wanted = device.lower().removeprefix("10de:").removeprefix("0x").upper()
    return next((one for one in known().values() if wanted in one.pci_ids), None)
