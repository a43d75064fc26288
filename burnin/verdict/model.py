"""What the judgement reads (evidence) and what it says (findings)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from burnin.outcome import Outcome, overall

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Finding:
    """One judged fact with a stable code (burnin.verdict.codes). Deviation is in rate: negative is slower, whatever the unit's direction."""

    code: str
    outcome: Outcome
    why: str
    action: str
    test: str | None = None
    value: float | None = None
    unit: str | None = None
    median: float | None = None
    deviation_pct: float | None = None
    cohort: str | None = None
    cohort_size: int | None = None
    windows: int | None = None
    cause: str | None = None
    evidence: dict[str, float | int | None] = field(default_factory=dict)


HEALTH_FLAGS = ("lost", "row_remap_failure", "row_remap_pending", "sram_threshold_exceeded")


@dataclass(frozen=True, slots=True)
class Health:
    """What a part says of itself. None = it would not say, which is neither good nor bad."""

    lost: bool | None = None
    row_remap_failure: bool | None = None
    row_remap_pending: bool | None = None
    sram_threshold_exceeded: bool | None = None
    recovery_action: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One GPU that showed up. `key` is unique in this evidence; `kin` is what may be compared; serials are text."""

    key: str
    gpu: str
    serial: str | None = None
    node: str | None = None
    slot: int | None = None
    rack: str | None = None
    position: int | None = None
    pci: str | None = None
    sku: str | None = None
    kin: str = ""
    fingerprint: str = ""
    max_operating_c: float | None = None  # as the device says; the SKU's stands in (rules.heat.margin_c)
    has_sensors: bool = True  # False: a host's processor, which tells neither health nor heat
    model: str = ""  # `kin` without what a person can set: the power limit
    power_limit_w: float | None = None  # the lowest at any look
    power_limit_default_w: float | None = None
    health: Health = Health()
    losses: tuple[str, ...] = ()  # where it fell off the bus, in words: once for each start in which it did
    duplicate_on: tuple[str, ...] = ()  # where else its UUID or serial was seen, itself included
    invalid: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Disk:
    """One drive: `part` is what is compared (kin: model and size, fingerprint: firmware). Counts are the worse of two looks; None = not told."""

    part: Part
    model: str | None = None
    firmware: str | None = None
    size_bytes: int | None = None
    gone: bool = False  # it was not there any more at the second look
    read_problem: str | None = None
    smart_problem: str | None = None
    critical_warning: int | None = None  # the bits of both looks
    media_errors: int | None = None
    new_media_errors: int = 0  # between the two looks
    untold: tuple[str, ...] = ()  # the counts that one of the two looks does not tell
    percentage_used: int | None = None
    temp_c: int | None = None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What is known of one node of the inventory, judged against what was bought."""

    node: str
    rack: str | None = None
    position: int | None = None
    sku: str | None = None
    expected_gpus: int | None = None
    seen_slots: tuple[int | None, ...] = ()
    burn_in: bool = True  # False: a preflight, which looks and measures nothing
    shown: bool = True  # its list of GPUs was there to read, and belongs to this run
    trouble: str | None = None  # what the controller saw: unreachable, preflight failed, ...
    trouble_code: str | None = None
    unreadable: tuple[str, ...] = ()
    damaged: bool = False  # a checksum says that its files are not what the node wrote: nothing in them can condemn
    complete: bool = True  # its journal says the plan was run to its end
    stopped: str | None = None  # who or what stopped it
    rebooted: bool = False
    where: str = ""  # where the journal ends, in words
    skipped: tuple[tuple[str, str], ...] = ()  # (test, reason)
    simulated: bool = False  # its identity says that its GPUs are simulated
    preflight: tuple[Finding, ...] = ()  # what the newest preflight of it found, as it was judged then


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that the judgement may look at. `windows` has the columns of WINDOW_COLUMNS, one row per part, test and window."""

    parts: tuple[Part, ...]
    windows: pl.DataFrame
    nodes: tuple[NodeFacts, ...] = ()
    planned: dict[str, int] = field(default_factory=dict)  # test -> windows that each GPU should have; empty in a table
    run_id: str | None = None
    plan: str | None = None
    from_table: bool = False
    simulated: bool = False  # some node said that its GPUs are simulated
    ledger: tuple[str, ...] = ()  # what is wrong with the controller's own record of the run
    notes: tuple[str, ...] = ()  # what a person should know beside the findings
    disks: tuple[Disk, ...] = ()  # empty where the plan tests no drives
    disk_windows: pl.DataFrame | None = None  # as `windows`, of drives
    disks_planned: dict[str, int] = field(default_factory=dict)  # test -> windows that each drive should have


WINDOW_COLUMNS = (
    "part", "test", "unit", "better", "step", "start", "window", "seed", "value", "steady", "checked", "wrong",
    "temp_c", "margin_c", "power_w", "sm_clock_mhz", "hw_thermal_fraction", "sw_thermal_fraction", "hw_power_brake_fraction",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judged:
    """A part, node, rack or the fleet with its findings."""

    findings: tuple[Finding, ...]
    of: Any = None

    @property
    def verdict(self) -> Outcome:
        """The worst finding; none at all is INCONCLUSIVE."""
        return overall(finding.outcome for finding in self.findings)
