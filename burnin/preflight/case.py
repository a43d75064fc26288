"""What a rule may look at: one node's host document, and what is expected of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from burnin.preflight.expected import Expected, Parts
from burnin.stack.hardware import Hardware

MOST_NAMED = 4


class Raw(NamedTuple):
    """What a rule says: a code, a sentence for a person, how sure the expectation is, and what to do where that is not the code's own."""

    code: str
    why: str
    confidence: str = "high"
    action: str = ""


@dataclass(frozen=True, slots=True)
class Site:
    """What the controller knows beside the document. None: not asked."""

    free_mib: int | None = None  # where the evidence goes
    need_mib: int | None = None
    run_root: str = ""
    skew_s: float | None = None  # the node's clock less ours
    most_skew_s: float | None = None
    reach: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """`parts`: empty where none are expected. `judge_parts`: cards and links; `judge_machine`: what runs on it and how
    it is set up. A simulated node's place is judged alone. `stack`: the node's resolution (Resolution.as_dict), None where no stack is
    given, or where `stack_problem` says why it came to none.
    """

    host: Mapping[str, Any]
    level: str
    sku: str | None = None
    hardware: Hardware | None = None
    expected_gpus: int | None = None
    parts: Parts = field(default_factory=dict)
    stack: Mapping[str, Any] | None = None
    stack_problem: str | None = None
    site: Site = field(default_factory=Site)
    judge_parts: bool = True
    judge_machine: bool = True
    problem: str | None = None  # what the backend said when it was asked for the GPUs

    def cards(self, name: str) -> list[Mapping[str, Any]]:
        """A list of the document: gpus, nics, nvme, ...; what is no mapping in it is passed over."""
        found = self.host.get(name)
        return [card for card in found if isinstance(card, Mapping)] if isinstance(found, list) else []

    def own_nics(self) -> list[Mapping[str, Any]]:
        """The adapters that are the GPUs' own: of the expected kinds, and no bridge to an NVSwitch."""
        kinds = self.parts.get("nic_devices")
        wanted = None if kinds is None else {f"15b3:{kind}" for kind in kinds.value}
        return [nic for nic in self.cards("nics") if not nic.get("nvlink5_bridge") and (wanted is None or nic.get("device") in wanted)]

    def part(self, name: str) -> Expected | None:
        return self.parts.get(name) if self.judge_parts else None

    def fact(self, *path: str) -> Any:
        """A value deep in the document; None where a step is missing."""
        found: Any = self.host
        for step in path:
            found = found.get(step) if isinstance(found, Mapping) else None
        return found


def few(names: Sequence[object]) -> str:
    """A list for a sentence, cut where it gets long."""
    shown = ", ".join(str(name) for name in names[:MOST_NAMED])
    return shown if len(names) <= MOST_NAMED else f"{shown} and {len(names) - MOST_NAMED} more"


def card_name(card: Mapping[str, Any]) -> str:
    """What a person finds a card by."""
    name = str(card.get("rdma") or card.get("name") or "")
    slot = card.get("slot")
    return " ".join(piece for piece in (name, str(card.get("address")), f"(slot {slot})" if slot else "") if piece)


Rule = Iterator[Raw]
