"""Makes fleets to judge: GPUs with what they show, as evidence; and the verdict on them as short words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from burnin.verdict.case import Where
from burnin.verdict.document import build
from burnin.verdict.engine import Verdict, judge
from burnin.verdict.model import WINDOW_COLUMNS, Evidence, Finding, Health, NodeFacts, Part
from burnin.verdict.policy import Policy, default_policy
from burnin.verdict.windows import SCHEMA

POLICY = default_policy()
TEST = "gemm_bf16"
SOUND = Health(lost=False, row_remap_failure=False, row_remap_pending=False, sram_threshold_exceeded=False)
STARTS = (1, 1, 1, 2, 2, 2)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU and what it shows in each test: a value (the same in all windows) or one value per window; `starts` says which start each is of."""

    node: str | None
    slot: int | None
    values: Mapping[str, float | Sequence[float | None]] = field(default_factory=lambda: {TEST: 100.0})
    starts: tuple[int, ...] = STARTS
    seeds: tuple[int, ...] | None = None
    wrong: tuple[int, ...] = (0,)
    steady: tuple[bool, ...] = (True,)
    thermal: tuple[float | None, ...] = (0.0,)
    sw_thermal: float = 0.0
    temp_c: float | None = 60.0
    margin_c: float | None = None
    power_w: float | None = 700.0
    sm_clock_mhz: float | None = 1700.0
    rack: str | None = "A"
    kin: str = "h100"
    fingerprint: str = "sw1"
    sku: str | None = None
    serial: str | None = None
    max_operating_c: float | None = None
    health: Health = SOUND
    losses: tuple[str, ...] = ()
    model: str = "h100"
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    uuid: str | None = None
    has_sensors: bool = True
    temps: Mapping[str, float | None] = field(default_factory=dict)  # test -> temperature, where it is not temp_c

    @property
    def key(self) -> str:
        return f"{self.node}|{self.name}"

    @property
    def name(self) -> str:
        return self.uuid or f"GPU-{self.node}-{self.slot}"

    def part(self) -> Part:
        same = (
            "serial", "node", "slot", "rack", "sku", "kin", "fingerprint", "max_operating_c", "health", "has_sensors", "losses", "model",
            "power_limit_w", "power_limit_default_w",
        )  # fmt: skip
        return Part(key=self.key, gpu=self.name, **{name: getattr(self, name) for name in same})

    def rows(self, better: str) -> Iterable[dict[str, Any]]:
        for test, told in self.values.items():
            values = told if isinstance(told, Sequence) else [told] * len(self.starts)
            for number, value in enumerate(values):
                start = self.starts[number % len(self.starts)]
                yield {
                    "part": self.key, "test": test, "unit": "TFLOPS", "better": better, "step": "soak", "start": str(start),
                    "window": str(number), "seed": self.seeds[number % len(self.seeds)] if self.seeds else start, "value": value,
                    "steady": self.steady[number % len(self.steady)], "checked": 100, "wrong": self.wrong[number % len(self.wrong)],
                    "temp_c": self.temps.get(test, self.temp_c), "margin_c": self.margin_c, "power_w": self.power_w, "sm_clock_mhz": self.sm_clock_mhz,
                    "hw_thermal_fraction": self.thermal[number % len(self.thermal)], "sw_thermal_fraction": self.sw_thermal,
                    "hw_power_brake_fraction": 0.0,
                }  # fmt: skip


Fleet = dict[tuple[str, int], Gpu]


def fleet(nodes: int = 4, gpus: int = 8, racks: int = 1, **shows: Any) -> Fleet:
    """So many sound nodes: n0, n1, ... in racks A, B, ..., each with its slots."""
    return {
        (f"n{node}", slot): replace(Gpu(f"n{node}", slot, rack="ABCDEFGH"[node * racks // nodes]), **shows)
        for node in range(nodes)
        for slot in range(gpus)
    }


def but(sound: Fleet, changes: Mapping[tuple[str, int], Mapping[str, Any]]) -> Fleet:
    """The fleet, but for some GPUs."""
    return sound | {place: replace(sound[place], **change) for place, change in changes.items()}


def each(sound: Fleet, change: Callable[[Gpu], Gpu]) -> Fleet:
    return {place: change(gpu) for place, gpu in sound.items()}


def evidence(gpus: Mapping[Any, Gpu] | Iterable[Gpu], *, better: str = "higher", nodes: Iterable[NodeFacts] = (), **more: Any) -> Evidence:
    """The evidence that these GPUs make; as of a run that asked for just these windows, unless `more` says otherwise."""
    listed = list(gpus.values()) if isinstance(gpus, Mapping) else list(gpus)
    rows = [row for gpu in listed for row in gpu.rows(better)]
    frame = pl.DataFrame(rows, schema=SCHEMA).select(WINDOW_COLUMNS)
    return Evidence(tuple(gpu.part() for gpu in listed), frame, tuple(nodes), **more)


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict, asked for in short."""

    verdict: Verdict

    def gpu(self, node: str | None, slot: int | None) -> str:
        """'RMA', ... of the one GPU there."""
        return self.verdict.outcome(Where("gpu", self.key(node, slot))).value

    def key(self, node: str | None, slot: int | None) -> str:
        found = [part.key for part in self.verdict.evidence.parts if (part.node, part.slot) == (node, slot)]
        assert len(found) == 1, found
        return found[0]

    def one(self, node: str | None, slot: int | None, code: str) -> Finding:
        """The one finding of that code there."""
        return self._one(Where("gpu", self.key(node, slot)), code)

    def codes(self, kind: str, key: str) -> dict[str, str]:
        """code -> outcome of the findings there that are no PASS."""
        return {what.code: what.outcome.value for what in self.verdict.of(Where(kind, key)) if what.outcome.value != "PASS"}  # type: ignore[arg-type]

    def gpu_codes(self, node: str | None, slot: int | None) -> dict[str, str]:
        return self.codes("gpu", self.key(node, slot))

    def node(self, node: str, code: str) -> Finding:
        return self._one(Where("node", node), code)

    def fleet(self, code: str) -> Finding:
        return self._one(Where("fleet", ""), code)

    def _one(self, where: Where, code: str) -> Finding:
        found = [what for what in self.verdict.of(where) if what.code == code]
        assert len(found) == 1, [(what.code, what.outcome) for what in self.verdict.of(where)]
        return found[0]

    def counts(self) -> dict[str, int]:
        """verdict -> GPUs, without the zeros."""
        summary = build(self.verdict)["summary"]
        return {name: count for name, count in summary.items() if name != "gpus" and count}

    def worst_but(self, *places: tuple[str | None, int | None]) -> set[str]:
        """The verdicts of all GPUs but those."""
        left = [part for part in self.verdict.evidence.parts if (part.node, part.slot) not in places]
        return {self.verdict.outcome(Where("gpu", part.key)).value for part in left}


def judged(
    gpus: Mapping[Any, Gpu] | Iterable[Gpu], *, policy: Policy = POLICY, reference: Mapping[str, float] | None = None, **more: Any
) -> Judged:
    """The verdict on these GPUs."""
    return Judged(judge(evidence(gpus, **more), policy, reference))


def limits(**changed: float) -> Policy:
    """The shipped policy with these limits changed."""
    return replace(POLICY, limits={**POLICY.limits, **{name: {**POLICY.limits[name], "value": value} for name, value in changed.items()}})
