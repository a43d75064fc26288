"""Makes verdict documents, run records and samples for the tests of the report: the demo's rack, a big fleet, hostile names."""

from __future__ import annotations

import math
import random
from typing import Any

Json = dict[str, Any]

TESTS = (("gemm_bf16", "TFLOPS", 731.0, 0.9), ("hbm_copy", "GB/s", 2894.0, 0.25), ("pcie_h2d", "GB/s", 54.31, 0.3))
NODES, SLOTS = 4, 8
DIES_AT_S = 1040.0

HOSTILE = (
    "<script>window.pwned=1</script>",
    '"><img src=x onerror="window.pwned=2">',
    "</style><script>window.pwned=3</script>",
    "=1+1",
    "-dash",
    "@sum",
    "+cmd",
    "\tTAB",
    "2001:db8::17",
    "fe80::1%eth0",
    "[C4]:AA-BB-11:FR22",
    "Ünï-01",
    "n|pipe",
    "a\u202etxt.exe",
    "nul\x00bell\x07esc\x1b[31m",
    "lone\ud800surrogate",
    "line\nbreak",
    "{{ 7*7 }}{% raw %}",
    "]]>&amp;<!--",
    "x" * 5000,
)


def uuid(node: int, slot: int) -> str:
    value = random.Random(node * 1000 + slot).getrandbits(128)
    text = f"{value:032x}"
    return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def serial(node: int, slot: int) -> str:
    return f"165{(node * 97 + slot * 13) % 1000:03d}{node:04d}{slot:03d}"


def finding(code: str, outcome: str, **values: Any) -> Json:
    empty = dict.fromkeys(("test", "value", "unit", "median", "deviation_pct", "cohort", "cohort_size", "windows", "cause"))
    return {"code": code, "outcome": outcome, **empty, "why": "", "action": "", "evidence": {}, **values}


def performance(test: str, deviation_pct: float, *, size: int = 31, code: str = "PERF_OK", outcome: str = "PASS", **values: Any) -> Json:
    _name, unit, median, _sigma = next(entry for entry in TESTS if entry[0] == test)
    return finding(
        code,
        outcome,
        test=test,
        unit=unit,
        median=median,
        value=median * (1 + deviation_pct / 100),
        deviation_pct=deviation_pct,
        cohort="h100-sxm5-80",
        cohort_size=size,
        windows=8,
        **values,
    )


def heat(temp_c: float, *, code: str = "HEAT_OK", outcome: str = "PASS", **values: Any) -> Json:
    evidence = {"temp_c": temp_c, "margin_c": 87.0 - temp_c, **values.pop("evidence", {})}
    return finding(code, outcome, value=temp_c, unit="C", windows=8, evidence=evidence, **values)


def gpu(node: int, slot: int, findings: list[Json], verdict: str = "PASS", *, name: str | None = None, rack: str = "A1") -> Json:
    return {
        "gpu": uuid(node, slot),
        "serial": serial(node, slot),
        "node": name or f"demo-{node:02d}",
        "slot": slot,
        "rack": rack,
        "position": node,
        "pci": f"00000000:{0x1A + slot * 0x10:02X}:00.0",
        "sku": "H100-SXM5-80GB",
        "verdict": verdict,
        "findings": findings,
    }


def slot_temp_c(slot: int) -> float:
    return 61.0 + 11.0 * (slot % 4) / 3 + (2.0 if slot >= 4 else 0.0)


def good_findings(rng: random.Random, slot: int, *, size: int = 31) -> list[Json]:
    found = [performance(test, max(-3.6, min(2.4, rng.gauss(0, sigma))), size=size) for test, _unit, _median, sigma in TESTS]
    return [*found, heat(slot_temp_c(slot) + rng.gauss(0, 1.0))]


def cohorts(size: int = 31, nodes: int = 4) -> list[Json]:
    return [
        {
            "cohort": "h100-sxm5-80",
            "test": test,
            "unit": unit,
            "better": "higher",
            "size": size,
            "nodes": nodes,
            "median": median,
            "sigma_pct": sigma,
            "line": median * 0.95,
            "temp_median_c": 67.0,
        }
        for test, unit, median, sigma in TESTS
    ]


def document(gpus: list[Json], nodes: list[Json], **values: Any) -> Json:
    words = ("RMA", "FAIL", "RETEST", "INCONCLUSIVE", "REVIEW", "PASS")
    return {
        "schema": "burnin.verdict/1",
        "run_id": "20261201T101500Z-4f9a1c",
        "digest": "9d4e1f0c7a3b5c6d8e9fa0b1c2d3e4f5",
        "plan": "acceptance",
        "policy": {"name": "default", "digest": "3b1f9c2d4e5f60718293a4b5c6d7e8f9"},
        "summary": {"gpus": len(gpus), **{word: sum(entry["verdict"] == word for entry in gpus) for word in words}},
        "gpus": gpus,
        "nodes": nodes,
        "racks": [{"rack": "A1", "verdict": "PASS", "findings": [finding("RACK_OK", "PASS", why="No rack to compare with.")]}],
        "links": [],
        "disks": [],
        "fleet": {"verdict": "PASS", "findings": [finding("FLEET_OK", "PASS", why="The medians are above the floor of the SKU.")]},
        "cohorts": cohorts(),
        **values,
    }


def demo() -> Json:
    """4 nodes x 8 GPUs with the demo's planted faults."""
    rng = random.Random(7)
    gpus = [gpu(node, slot, good_findings(rng, slot)) for node in range(1, NODES + 1) for slot in range(SLOTS)]
    place = {(entry["position"], entry["slot"]): entry for entry in gpus}
    _slow(place[1, 3])
    _throttling(place[2, 6])
    _hot(place[1, 7])
    _wrong(place[3, 1])
    missing = place[3, 5]
    missing.update(gpu=None, serial=None, pci=None, verdict="FAIL")
    missing["findings"] = [
        finding(
            "GPU_MISSING",
            "FAIL",
            cause="unknown",
            why="Slot 5 of demo-03 was bought with a GPU and shows none.",
            action="Reseat the GPU; if it stays away, send the board back with the node's record.",
        )
    ]
    for slot in range(SLOTS):
        _unjudged(place[4, slot])
    return document(gpus, _demo_nodes())


def _slow(entry: Json) -> None:
    entry["verdict"] = "RMA"
    entry["findings"][0] = performance(
        "gemm_bf16",
        -8.057,
        code="PERF_BELOW_MEDIAN",
        outcome="RMA",
        cause="silicon",
        why="gemm_bf16 ran 8.06 % below the median of 31 GPUs in 8 of 8 windows and 3 starts, at full power, normal heat and a low clock.",
        action="Send this GPU back; the windows, clocks and power of both starts are in rma/.",
        evidence={"temp_c": 68.4, "margin_c": 18.6, "power_w": 699.2, "sm_clock_mhz": 1590.0, "windows_over": 8, "starts": 3},
    )


def _throttling(entry: Json) -> None:
    entry["verdict"] = "RMA"
    entry["findings"][0] = performance(
        "gemm_bf16",
        -11.42,
        code="PERF_BELOW_MEDIAN",
        outcome="RMA",
        cause="heat",
        why="gemm_bf16 ran 11.4 % below the median of 31 GPUs in 8 of 8 windows and 3 starts, while the device slowed itself for heat.",
        action="Check the heatsink's seat and the airflow of slot 6 once; send it back if nothing was found.",
        evidence={"temp_c": 87.2, "margin_c": -0.2, "power_w": 588.0, "sm_clock_mhz": 1335.0, "windows_over": 8, "starts": 3},
    )
    entry["findings"][3] = heat(
        87.2, code="HEAT_NEAR_LIMIT", outcome="REVIEW", cause="heat", why="Less than 5 C to the limit.", action="See the slowdown."
    )
    entry["findings"].append(
        finding(
            "THERMAL_SLOWDOWN",
            "RMA",
            cause="heat",
            value=0.38,
            windows=8,
            why="Hardware thermal slowdown was active in 38 % of the steady time, in 8 windows of 3 starts; no slot peer shares it.",
            action="Send this GPU back for its cooling.",
        )
    )


def _hot(entry: Json) -> None:
    entry["verdict"] = "REVIEW"
    entry["findings"][3] = heat(
        84.1,
        code="HEAT_NEAR_LIMIT",
        outcome="REVIEW",
        cause="heat",
        why="It ran at 84.1 C, 2.9 C below its maximum operating temperature of 87 C, at full speed.",
        action="Look at the airflow of slot 7 before the rack goes into service.",
    )


def _wrong(entry: Json) -> None:
    entry["verdict"] = "RMA"
    entry["findings"].append(
        finding(
            "WRONG_RESULT",
            "RMA",
            test="gemm_bf16",
            value=3,
            unit="windows",
            cause="silicon",
            why="3 of 40 checked windows held a wrong result, reproduced on another seed.",
            action="Send this GPU back; do not run anything on it that matters.",
        )
    )


def _unjudged(entry: Json) -> None:
    entry["verdict"] = "INCONCLUSIVE"
    entry["findings"] = [
        finding(
            "TEST_MISSING", "INCONCLUSIVE", test=test, why=f"{test} has no complete window: the node stopped.", action="Run the node again."
        )
        for test, *_rest in TESTS
    ]


def _demo_nodes() -> list[Json]:
    good = finding("NODE_OK", "PASS", why="All expected parts are there.")
    short = finding(
        "PARTS_MISSING",
        "FAIL",
        value=7,
        unit="GPUs",
        cause="unknown",
        why="7 of 8 GPUs showed up; slot 5 is empty or dead.",
        action="Reseat slot 5, then run the node again.",
    )
    dead = finding(
        "NODE_UNREACHABLE",
        "INCONCLUSIVE",
        cause="unknown",
        why="The node went silent 17.3 minutes into the run; its journal ends inside the step gemm_bf16.",
        action="Look at the console and the BMC's log, then run the node again.",
    )
    listed = []
    for node, verdict, found in ((1, "PASS", good), (2, "PASS", good), (3, "FAIL", short), (4, "INCONCLUSIVE", dead)):
        listed.append({"node": f"demo-{node:02d}", "rack": "A1", "position": node, "verdict": verdict, "findings": [found]})
    return listed


def run_record() -> Json:
    limit = {
        "value": 5.0,
        "unit": "%",
        "why": "A sound GPU beyond it is one in 600 at a robust sigma of 1.7 %.",
        "source": "real V100 data, SC'22 'Not All GPUs Are Created Equal'",
    }
    near = {
        "value": 5.0,
        "unit": "C",
        "why": "Closer to the limit the device slows itself in a warm summer.",
        "source": "operating practice",
    }
    return {
        "schema": "burnin.run/1",
        "run_id": "20261201T101500Z-4f9a1c",
        "created": "2026-12-01T10:15:00Z",
        "plan": {"name": "acceptance", "steps": [{"name": "gemm_bf16"}, {"name": "hbm_copy"}, {"name": "pcie_h2d"}, {"name": "restarts"}]},
        "policy": {
            "name": "default",
            "limits": {"below_median": limit, "heat": {"margin": near}, "windows_over_line": {**limit, "value": 3, "unit": "windows"}},
        },
    }


STEPS = (("idle", 60), ("gemm_bf16", 1200), ("hbm_copy", 300), ("pcie_h2d", 180), ("restart", 120), ("restart", 120))


def samples_csv(node: int, *, every_s: int = 2, until_s: float = math.inf, slots: int = SLOTS, cut: bool = False) -> str:
    """A node's samples.csv in the format of the run folder."""
    rng = random.Random(node)
    lines = [
        "elapsed_s,step,start,phase,gpu,temp_c,mem_temp_c,power_w,sm_clock_mhz,mem_clock_mhz,hw_thermal,sw_thermal,hw_power_brake,sw_power_cap"
    ]
    temps = [34.0] * slots
    began_s = 0
    for index, (step, length_s) in enumerate(STEPS):
        for elapsed in range(began_s, began_s + length_s, every_s):
            if elapsed > until_s:
                break
            for slot in range(slots):
                if (node, slot) != (3, 5):
                    lines.append(_sample(rng, node, slot, elapsed, step, index, temps, every_s, resting=elapsed - began_s < 12))
        began_s += length_s
    text = "\n".join(lines) + "\n"
    return text[:-37] if cut else text


def _sample(
    rng: random.Random, node: int, slot: int, elapsed: int, step: str, index: int, temps: list[float], every_s: int, *, resting: bool
) -> str:
    load = 0.0 if step == "idle" or resting else {"gemm_bf16": 1.0, "hbm_copy": 0.72, "pcie_h2d": 0.25, "restart": 1.0}[step]
    goal = 33 + (slot_temp_c(slot) + {(1, 7): 10.5, (2, 6): 24.0}.get((node, slot), 0.0) - 33) * load
    temps[slot] += (goal - temps[slot]) * min(1.0, every_s / 45)
    temp = temps[slot] + rng.gauss(0, 0.5)
    slows = (node, slot) == (2, 6) and temp > 86.5 and load > 0
    power = 72 + 627 * load - (110 if slows and load == 1.0 else 0) + rng.gauss(0, 4)
    clock = 345.0 if load == 0 else 1755 - (165 if (node, slot) == (1, 3) else 0) - (420 if slows else 0) + rng.gauss(0, 12)
    clock_shown = "" if rng.random() < 0.002 else f"{clock:.0f}"
    start = max(1, index - 3)
    flags = f"{int(slows)},{int(slows)},0,{int(load == 1.0)}"
    return f"{elapsed},{step},{start},window,{uuid(node, slot)},{temp:.0f},{temp + 9:.0f},{power:.1f},{clock_shown},2619,{flags}"


def demo_samples() -> dict[int, str]:
    return {node: samples_csv(node, until_s=DIES_AT_S if node == 4 else math.inf, cut=node == 4) for node in range(1, NODES + 1)}


def fleet(gpu_count: int = 10_000, flagged: int = 200) -> Json:
    """A big fleet; every n-th GPU is flagged, with the verdicts in turn, and one node in 100 died."""
    rng = random.Random(11)
    gpus, nodes = [], []
    every = gpu_count // flagged
    for number in range(gpu_count):
        node, slot = divmod(number, SLOTS)
        entry = gpu(node, slot, good_findings(rng, slot, size=gpu_count), name=f"gpu-{node:04d}", rack=f"R{node // 8:03d}")
        if number % every == 3:
            (_slow, _throttling, _hot, _wrong)[number // every % 4](entry)
        gpus.append(entry)
    for node in range(gpu_count // SLOTS):
        verdict = "INCONCLUSIVE" if node % 100 == 57 else "PASS"
        code = "NODE_UNREACHABLE" if verdict != "PASS" else "NODE_OK"
        nodes.append(
            {
                "node": f"gpu-{node:04d}",
                "rack": f"R{node // 8:03d}",
                "position": node % 8,
                "verdict": verdict,
                "findings": [finding(code, verdict)],
            }
        )
        if verdict != "PASS":
            for entry in gpus[node * SLOTS : (node + 1) * SLOTS]:
                _unjudged(entry)
    racks = [{"rack": f"R{rack:03d}", "verdict": "PASS", "findings": []} for rack in range(math.ceil(gpu_count / SLOTS / 8))]
    return document(gpus, nodes, racks=racks, cohorts=cohorts(gpu_count, gpu_count // SLOTS))


def hostile() -> Json:
    """Every hostile name as host name, serial, rack, PCI id, sentence and code, each flagged."""
    gpus, nodes = [], []
    for index, text in enumerate(HOSTILE):
        entry = gpu(
            index,
            0,
            [performance("gemm_bf16", -6.0, code="PERF_BELOW_MEDIAN", outcome="RETEST", why=text, action=text, cause=text)],
            "RETEST",
            name=text,
        )
        entry.update(serial=text, rack=text, pci=text, sku=text, gpu=text)
        gpus.append(entry)
        nodes.append(
            {"node": text, "rack": text, "position": index, "verdict": "REVIEW", "findings": [finding("NODE_SLOW", "REVIEW", why=text)]}
        )
    return document(gpus, nodes, run_id=HOSTILE[0])
