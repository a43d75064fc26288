"""Real arithmetic on the host's processor, and a check that sees one flipped bit."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from burnin.node.backends import cpu
from burnin.node.backends.base import LoadProblem
from burnin.node.backends.cpu import CpuBackend

TESTS = ("gemm_fp32", "gemm_fp64", "mem_copy")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Any:
    """NumPy, and work that takes no time."""
    monkeypatch.setattr(cpu, "GEMM_N", 64)
    monkeypatch.setattr(cpu, "COPY_BYTES", 1 << 20)
    return pytest.importorskip("numpy", reason="the cpu backend's loads need NumPy")


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.usefixtures("small")
def test_sound_work_is_counted_and_never_called_wrong(test: str) -> None:
    work = CpuBackend().load(test, 1, 1).run_for(0.2)

    (done,) = work.values()
    assert done.amount > 0
    assert done.checked > 10
    assert done.wrong == 0
    assert 0 < done.seconds <= 0.3


@pytest.mark.parametrize("test", ["gemm_fp32", "gemm_fp64"])
@pytest.mark.parametrize("at", [0, 64 * 64 - 1])
def test_the_lowest_bit_of_one_product_flipped_is_one_wrong_result(monkeypatch: pytest.MonkeyPatch, small: Any, test: str, at: int) -> None:
    calls = {"made": 0}
    real = small.matmul

    def flips(a: Any, b: Any, out: Any) -> Any:
        real(a, b, out=out)
        calls["made"] += 1
        if calls["made"] == 3:
            out.reshape(-1).view(f"u{out.dtype.itemsize}")[at] ^= 1
        return out

    monkeypatch.setattr(small, "matmul", flips)
    (done,) = CpuBackend().load(test, 1, 1).run_for(0.1).values()

    assert calls["made"] > 3
    assert done.wrong == 1


def test_one_bit_flipped_in_a_copy_is_seen_wherever_it_is(monkeypatch: pytest.MonkeyPatch, small: Any) -> None:
    real = small.copyto

    def flips(target: Any, source: Any) -> None:
        real(target, source)
        target[12345] ^= 1 << 40

    monkeypatch.setattr(small, "copyto", flips)
    (done,) = CpuBackend().load("mem_copy", 1, 1).run_for(0.05).values()

    assert done.wrong == done.checked > 0


def test_a_seed_gives_its_own_numbers(small: Any) -> None:
    loads = [cpu.GemmLoad("g", seed, "float32") for seed in (1, 1, 2)]

    assert small.array_equal(loads[0]._a, loads[1]._a)
    assert not small.array_equal(loads[0]._a, loads[2]._a)


@pytest.mark.parametrize("test", TESTS)
def test_without_numpy_a_test_says_what_it_needs_and_identity_works(monkeypatch: pytest.MonkeyPatch, test: str) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)

    with pytest.raises(LoadProblem, match=f"{test} on the cpu backend needs NumPy; install"):
        CpuBackend().load(test, 1, 1)
    assert CpuBackend().identity()["software"] == {"numpy": None}
    assert [sample.gpu for sample in CpuBackend().samples()] == [CpuBackend().identity()["gpus"][0]["gpu"]]


@pytest.mark.usefixtures("small")
def test_too_little_memory_skips_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "COPY_BYTES", 1 << 60)

    with pytest.raises(LoadProblem, match="too little free"):
        CpuBackend().load("mem_copy", 1, 1)


def test_a_test_that_it_has_not_is_skipped() -> None:
    with pytest.raises(LoadProblem, match="backend cpu has no gemm_bf16"):
        CpuBackend().load("gemm_bf16", 1, 1)
