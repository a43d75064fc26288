"""Rule 7: a GPU that fell off the bus and does so again, as the journal and the two looks tell it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from unit.verdict.fleets import Gpu, but, each, fleet, judged
from unit.verdict.folders import Json, Node, folder, gpu_codes, node_codes, verdicts

Change = Callable[[Node], None]
Event = tuple[str, str, int, Any]
SILENT, BACK = "gpu_silent", "gpu_back"


def journal(*events: Event, gpus: tuple[int, ...] = (0,), gone: bool = False, attempt: int = 1) -> Change:
    """These events of some GPUs of n0, before the end of its journal; (what, step, start, whether its sensors answered)."""

    def change(made: Node) -> None:
        for slot in gpus:
            told = [
                {"event": what, "gpu": f"GPU-n0-{slot}", "step": step, "test": "gemm_bf16", "start": start, "window": 1, "attempt": attempt}
                | ({} if answers is None else {"answers": answers})
                for what, step, start, answers in events
            ]
            made.journal[-1:-1] = told
        if gone:
            made.identity["after"]["gpus"] = [one for one in made.identity["after"]["gpus"] if one["slot"] not in gpus]

    return change


ONCE = (SILENT, "restart", 1, False)
CAME_BACK = (BACK, "restart", 2, None)
AGAIN = (SILENT, "restart", 2, False)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(journal(ONCE, CAME_BACK, AGAIN), "RMA", id="off, back and off again in another start"),
        pytest.param(journal(ONCE, CAME_BACK, gone=True), "RMA", id="off, back, and gone at the second look"),
        pytest.param(journal(ONCE, CAME_BACK), "RETEST", id="off and back"),
        pytest.param(journal(ONCE, gone=True), "RETEST", id="off, and still gone at the second look"),
        pytest.param(journal(ONCE), "RETEST", id="off, and there at the second look"),
        pytest.param(journal(gone=True), "RETEST", id="gone at the second look"),
        pytest.param(journal(ONCE, AGAIN), "RETEST", id="told twice, and never back"),
        pytest.param(journal(ONCE, (BACK, "restart", 1, None), ONCE), "RETEST", id="off, back and off in one start"),
    ],
)
def test_once_is_a_suspect_and_twice_is_the_part(change: Change, expected: str) -> None:
    document = folder(change).document()

    assert gpu_codes(document)["GPU_LOST"] == expected
    assert verdicts(document)[1:] == ["PASS"] * 7


def test_a_start_of_another_attempt_is_another_start() -> None:
    def change(made: Node) -> None:
        journal(ONCE, CAME_BACK)(made)
        journal(ONCE, attempt=2)(made)

    assert gpu_codes(folder(change).document())["GPU_LOST"] == "RMA"


@pytest.mark.parametrize("answers", [True, None, "no", 0])
def test_a_gpu_that_only_gave_no_work_has_not_fallen_off_the_bus(answers: Any) -> None:
    change = journal((SILENT, "restart", 1, answers), CAME_BACK, (SILENT, "restart", 2, answers))

    assert "GPU_LOST" not in gpu_codes(folder(change).document())


def test_it_is_told_where_it_was_lost() -> None:
    document = folder(journal(ONCE, CAME_BACK, AGAIN)).document()
    why = next(one["why"] for one in document["gpus"][0]["findings"] if one["code"] == "GPU_LOST")

    assert why == (
        "It fell off the bus 2 times (in start 1 of 'restart' (gemm_bf16); in start 2 of 'restart' (gemm_bf16)) "
        "and came back between: it does so again."
    )


@pytest.mark.parametrize(("gpus", "expected"), [(5, "RMA"), (6, "RETEST")], ids=["5 of 8", "6 of 8, three quarters"])
def test_gpus_that_fall_off_together_share_the_reason(gpus: int, expected: str) -> None:
    document: Json = folder(journal(ONCE, CAME_BACK, AGAIN, gpus=tuple(range(gpus)))).document()

    assert gpu_codes(document)["GPU_LOST"] == expected
    assert node_codes(document) == ({"GPUS_LOST_TOGETHER": "FAIL"} if expected == "RETEST" else {"NODE_OK": "PASS"})


def test_a_gpu_lost_alone_in_a_node_of_one_shares_nothing() -> None:
    places = ("in start 1 of 'a'", "in start 2 of 'a'")

    assert judged(but(fleet(nodes=20, gpus=1), {("n0", 0): {"losses": places}})).gpu("n0", 0) == "RMA"


def test_the_lost_do_not_vote() -> None:
    slow = each(fleet(nodes=2), lambda gpu: Gpu(gpu.node, gpu.slot, losses=("a", "b") if gpu.slot == 0 else ()))

    assert judged(slow).verdict.cohorts()[0].size == 14
