"""What is asked of a node, why, and what is told of it; pure. Names of settings are the module's options."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ansible.module_utils.burnin_group.model import Refusal

SETTINGS = (
    "acs_redirect", "iommu", "kernel_parameters", "max_read_request", "relaxed_ordering", "cpu_governor", "cpu_idle_latency_us",
    "numa_balancing", "huge_pages", "transparent_huge_pages", "memlock", "open_files", "time_sync", "persistence",
)  # fmt: skip
OK, CHANGED, PENDING, UNSUPPORTED, FAILED = "ok", "changed", "pending_reboot", "unsupported", "failed"
NOW, NEXT_BOOT, NEW_PROCESSES = "now", "at next boot", "now, for logins and daemons that start from here on"
# setting -> why, source. The tags [S], [D], [T], [K] say how it is known: source read, vendor's document, third party, common knowledge.
REASONS: Dict[str, Tuple[str, str]] = {
    "acs_redirect": (
        "with a redirect bit set a transfer between GPU and adapter goes up to the root and back, at a fraction of the speed",
        "NCCL user guide, troubleshooting, PCI access control services [D]; provisioning facts (ACS, mask 0x0C)",
    ),
    "iommu": (
        "an IOMMU that translates costs every transfer of GPUs and adapters a look-up, and sends peer-to-peer traffic up to the root",
        "NVIDIA NIM, multi-GPU systems: iommu=pt [D]; cloud-native-stack, azhpc-images [S]",
    ),
    "kernel_parameters": (
        "Grace zeroes and moves pages behind a job's back unless told otherwise; init_on_alloc=0 gives up a defence against leaks of memory",
        "Grace CPU benchmarking guide, platform configuration [D]; azhpc-images for GB200 [S]",
    ),
    "max_read_request": (
        "small read requests leave a 400 Gb/s adapter waiting for its own data",
        "vendor tuning guides for ConnectX adapters: MaxReadReq 4096 [T]",
    ),
    "relaxed_ordering": (
        "strict order makes an adapter's writes queue behind each other; NCCL uses relaxed ordering where it may",
        "NCCL NCCL_IB_PCI_RELAXED_ORDERING [S]; PCI Express base specification: on by default [K]",
    ),
    "cpu_governor": (
        "a CPU that must first speed up delays every launch and every message that it handles",
        "Grace CPU benchmarking guide, platform configuration [D]; vendor tuning guides [T]",
    ),
    "cpu_idle_latency_us": (
        "a CPU in deep sleep answers an adapter tens to hundreds of microseconds late; staying awake costs power in every idle hour",
        "latencies as the kernel tells them (cpuidle); off by default, no source asks for it on every GPU node [K]",
    ),
    "numa_balancing": (
        "automatic NUMA balancing unmaps pages to watch them: stalls in jobs that have bound their memory themselves",
        "Grace CPU benchmarking guide: numa_balancing=disable [D]; azhpc-images [S]",
    ),
    "huge_pages": (
        "pages set aside for programs that ask for them; nothing else can use that memory",
        "a site's own need; off by default",
    ),
    "transparent_huge_pages": (
        "larger pages without asking: fewer look-ups, more stalls for compaction; which is better depends on the jobs",
        "a site's own need; left alone by default",
    ),
    "memlock": (
        "RDMA pins memory; with the usual limit registration fails, in logins (limits.d) and in a scheduler's daemons (systemd), which are set apart",
        "azhpc-images: DefaultLimitMEMLOCK [S]; provisioning facts (memlock)",
    ),
    "open_files": (
        "a rank holds a few files per peer open; 1024 is too few for a large job",
        "azhpc-images and vendor guides: nofile 1048576 [S]",
    ),
    "time_sync": (
        "logs and telemetry of a fleet can only be laid side by side when its clocks agree",
        "preflight CLOCK_FREE_RUNNING",
    ),
    "persistence": (
        "without persistence mode the driver sets a GPU up anew for each job; read only, the role nvidia_driver owns it",
        "NVIDIA driver persistence documentation [D]",
    ),
}  # fmt: skip
GRACE_PARAMETERS = ("init_on_alloc=0", "numa_balancing=disable")
CARD = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}([0-9a-f]{2}){0,2}")
GOVERNOR = re.compile(r"[a-z_]{1,16}")
READ_REQUESTS = (128, 256, 512, 1024, 2048, 4096)
MOST_FILES, LEAST_FILES, MOST_LATENCY_US, MOST_PAGES = 1_073_741_816, 1024, 100_000, 10_000_000


@dataclass(frozen=True)
class Setting:
    """What is told of one setting. `drift`: it had been set, and somebody else changed it since."""

    wanted: str
    before: str = ""
    after: str = ""
    state: str = OK
    changed: bool = False
    drift: bool = False
    applies: str = NOW
    detail: str = ""

    def plain(self, name: str) -> Dict[str, Any]:
        """For Ansible: bounded, and nothing that acts on a terminal."""
        why, source = REASONS[name]
        return {
            key: _clean(value) if isinstance(value, str) else value for key, value in {**asdict(self), "why": why, "source": source}.items()
        }


def _clean(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:600]


@dataclass(frozen=True)
class Wish:
    """The module's options, checked. `auto` of ACS and IOMMU: where the node has a GPU and an adapter."""

    values: Mapping[str, Any]
    gpus: Tuple[str, ...]
    nics: Tuple[str, ...]
    require: Tuple[str, ...] = ()
    auto: Tuple[str, ...] = field(default=())


def wish(params: Mapping[str, Any]) -> Wish:
    """What the options ask for; what is left alone is not in it. Raises Refusal TUNING_INPUT, naming the option."""
    _check(params)
    values: Dict[str, Any] = {}
    for name, word in (("acs_redirect", "clear"), ("iommu", "passthrough"), ("kernel_parameters", "grace")):
        if params[name] != "leave":
            values[name] = word
    for name in ("max_read_request", "cpu_idle_latency_us", "open_files", "cpu_governor"):
        if params[name]:
            values[name] = params[name]
    for name, word in (("relaxed_ordering", "on"), ("time_sync", "running"), ("persistence", "on")):
        if params[name]:
            values[name] = word
    if params["numa_balancing"] == "disable":
        values["numa_balancing"] = "0"
    if params["memlock"] == "unlimited":
        values["memlock"] = "unlimited"
    if params["transparent_huge_pages"] != "leave":
        values["transparent_huge_pages"] = params["transparent_huge_pages"]
    if params["huge_pages_per_numa_node"]:
        values["huge_pages"] = {"size_kib": params["huge_page_kib"], "per_node": params["huge_pages_per_numa_node"]}
    auto = tuple(name for name in ("acs_redirect", "iommu", "kernel_parameters") if params[name] == "auto")
    require = tuple(params["require"])
    lacking = [name for name in require if name not in values]
    if lacking:
        raise _wrong("require", lacking[0], "a setting that is asked for", "set it too, or take it out of node_tuning_require")
    ordered = {name: values[name] for name in SETTINGS if name in values}
    return Wish(ordered, tuple(params["gpu_cards"]), tuple(params["nic_cards"]), require, auto)


def _wrong(option: str, found: Any, expected: str, remedy: str = "correct the inventory") -> Refusal:
    return Refusal(
        "TUNING_INPUT", "node_tuning_%s is %s; expected %s. Nothing was changed; %s" % (option, str(found)[:80], expected, remedy)
    )


def _check(params: Mapping[str, Any]) -> None:
    for option in ("gpu_cards", "nic_cards"):
        for card in params[option]:
            if not CARD.fullmatch(card):
                raise _wrong(option, repr(card), "vendor:class in lower hex digits, like 10de:0302")
    if params["max_read_request"] not in (0, *READ_REQUESTS):
        raise _wrong("max_read_request", params["max_read_request"], "0 (left alone) or one of %s" % ", ".join(map(str, READ_REQUESTS)))
    if params["cpu_governor"] and not GOVERNOR.fullmatch(params["cpu_governor"]):
        raise _wrong("cpu_governor", repr(params["cpu_governor"]), "a governor's name, like performance")
    for option, least, most in (
        ("cpu_idle_latency_us", 1, MOST_LATENCY_US), ("open_files", LEAST_FILES, MOST_FILES), ("huge_pages_per_numa_node", 1, MOST_PAGES),
    ):  # fmt: skip
        if params[option] and not least <= params[option] <= most:
            raise _wrong(option, params[option], "0 (left alone) or %d to %d" % (least, most))
    unknown = sorted(set(params["require"]) - set(SETTINGS))
    if unknown:
        raise _wrong("require", repr(unknown[0]), "names of settings: %s" % ", ".join(SETTINGS))


def failures(settings: Mapping[str, Setting], require: Sequence[str]) -> List[str]:
    """One sentence for each setting that is not as it shall be, failed ones first."""
    failed = ["%s: %s" % (name, one.detail) for name, one in settings.items() if one.state == FAILED]
    return failed + unsupported(settings, require)


def unsupported(settings: Mapping[str, Setting], require: Sequence[str]) -> List[str]:
    """Those that are required and that this node has not."""
    return [
        "%s is required and not to be had here: %s" % (name, one.detail)
        for name, one in settings.items()
        if name in require and one.state == UNSUPPORTED
    ]
