"""Every test that a plan may name: its unit, direction, scope and what it stresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict


@dataclass(frozen=True)
class Test:
    """One measured thing. `better` is higher or lower; `scope` is gpu, node or disk; `stresses` is compute, memory, link or disk."""

    name: str
    unit: str
    better: str
    scope: str
    stresses: str


TESTS: Dict[str, Test] = {
    test.name: test
    for test in (
        Test("gemm_bf16", "TFLOPS", "higher", "gpu", "compute"),
        Test("gemm_fp32", "TFLOPS", "higher", "gpu", "compute"),
        Test("gemm_fp64", "TFLOPS", "higher", "gpu", "compute"),
        Test("hbm_copy", "GB/s", "higher", "gpu", "memory"),
        Test("mem_copy", "GB/s", "higher", "gpu", "memory"),
        Test("nvme_read", "GB/s", "higher", "disk", "disk"),
    )
}
