"""What must hold for any fleet: less evidence is never a better verdict, the unit's size and the order change nothing."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnin.verdict.document import build, dump
from burnin.verdict.engine import judge
from unit.verdict.fleets import POLICY, TEST, Fleet, Gpu, evidence, fleet, judged
from unit.verdict.folders import Folder, folder, verdicts

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
RATES = st.sampled_from([100.0, 100.5, 99.0, 97.4, 96.9, 95.0, 94.9, 90.0, 60.0])


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    """Three to five nodes of four or eight GPUs, a few of them slow, hot, throttling or wrong."""
    made = fleet(nodes=draw(st.integers(3, 5)), gpus=draw(st.sampled_from([4, 8])))
    for place in draw(st.lists(st.sampled_from(sorted(made)), max_size=10, unique=True)):
        shows: dict[str, Any] = {
            "values": {TEST: tuple(draw(st.lists(RATES, min_size=1, max_size=6)))},
            "temp_c": draw(st.sampled_from([None, 55.0, 60.0, 69.0, 83.0])),
            "thermal": draw(st.sampled_from([(0.0,), (0.2,), (0.2, 0.0, 0.0)])),
            "wrong": draw(st.sampled_from([(0,), (0,), (1,), (0, 0, 1)])),
        }
        made[place] = replace(made[place], **shows)
    return made


def bare(document: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Who has which verdict by which findings."""
    kinds = [
        (one["gpu"], one["verdict"], [(what["code"], what["outcome"], what["cause"]) for what in one["findings"]])
        for one in document["gpus"]
    ]
    return [*kinds, *((one["node"], one["verdict"]) for one in document["nodes"]), document["fleet"]["verdict"]]


@QUICK
@given(fleets(), st.integers(0, 2**32))
def test_the_order_changes_nothing(made: Fleet, seed: int) -> None:
    shown = evidence(made)
    parts = list(shown.parts)
    random.Random(seed).shuffle(parts)
    mixed = replace(shown, parts=tuple(parts), windows=shown.windows.sample(fraction=1.0, shuffle=True, seed=seed))

    assert dump(build(judge(mixed, POLICY))) == dump(build(judge(shown, POLICY)))


@QUICK
@given(fleets(), st.sampled_from([1e-3, 0.3048, 3.0, 1e3]))
def test_the_size_of_the_unit_changes_nothing(made: Fleet, factor: float) -> None:
    def scaled(gpu: Gpu) -> Gpu:
        values = gpu.values[TEST]
        told = tuple(value * factor for value in values if value) if isinstance(values, tuple) else float(values) * factor  # type: ignore[arg-type]
        return replace(gpu, values={TEST: told})

    assert bare(build(judged({place: scaled(gpu) for place, gpu in made.items()}).verdict)) == bare(build(judged(made).verdict))


@QUICK
@given(fleets())
def test_the_direction_of_the_unit_changes_no_ratio(made: Fleet) -> None:
    """Seconds instead of rates, the same GPUs. Odd numbers of windows and GPUs: between two middle ones the two medians differ."""

    def odd(gpu: Gpu) -> tuple[float, ...]:
        told = gpu.values[TEST]
        values = tuple(float(value or 0) for value in told) if isinstance(told, tuple) else (100.0,) * 5
        return values if len(values) % 2 else values[:-1]

    places = sorted(made)[: len(made) - 1 + len(made) % 2]
    rates = {place: replace(made[place], values={TEST: odd(made[place])}, wrong=(0,)) for place in places}
    times = {place: replace(rates[place], values={TEST: tuple(1 / value for value in odd(rates[place]))}) for place in places}

    fast, slow = judged(rates), judged(times, better="lower")

    assert [one.ratio for one in slow.verdict.measured] == [pytest.approx(one.ratio, rel=1e-9) for one in fast.verdict.measured]
    assert [one.over for one in slow.verdict.measured] == [one.over for one in fast.verdict.measured]


def broken(run: Folder, name: str, keep: list[bool], which: str) -> Folder:
    """The run without some lines of one file of a node."""
    texts = (getattr(run.nodes[name], which) or "").splitlines(keepends=True)
    left = [line for number, line in enumerate(texts) if keep[number % len(keep)]]
    return run.changed(name, **{which: "".join(left)})


SOUND = folder()


@QUICK
@given(st.lists(st.booleans(), min_size=3, max_size=40).filter(lambda keep: not all(keep)), st.sampled_from(["measurements", "journal"]))
def test_who_lost_evidence_is_never_passed(keep: list[bool], which: str) -> None:
    run = broken(SOUND, "n0", keep, which)
    left = run.nodes["n0"].measurements or ""
    owed = (SOUND.nodes["n0"].measurements or "").count('"GPU-n0-0"')
    whole = {slot for slot in range(8) if left.count(f'"GPU-n0-{slot}"') == owed}

    document = run.document()

    passed = {slot for slot, verdict in enumerate(verdicts(document)) if verdict in ("PASS", "REVIEW")}
    assert document["summary"]["gpus"] == 32
    assert passed <= whole
    if which == "journal" and not (run.nodes["n0"].journal or "").endswith((SOUND.nodes["n0"].journal or "").splitlines()[-1] + "\n"):
        assert passed == set()


@QUICK
@given(st.data())
def test_a_faulty_gpu_that_loses_evidence_is_never_passed(data: st.DataObject) -> None:
    """Slow, hot or wrong: whatever is taken away of it, it does not come out well."""

    def faulty(made: Any) -> None:
        for one in made.measurements:
            if one["gpu"] == "GPU-n0-0":
                one.update({"value": one["value"] * 0.9, "wrong": 1})

    run = folder(faulty)
    records = [json.loads(line) for line in (run.nodes["n0"].measurements or "").splitlines()]
    mine = [number for number, one in enumerate(records) if one["gpu"] == "GPU-n0-0"]
    gone = set(data.draw(st.lists(st.sampled_from(mine), min_size=1, unique=True)))
    text = "".join(json.dumps(one) + "\n" for number, one in enumerate(records) if number not in gone)

    assert verdicts(run.changed("n0", measurements=text).document())[0] in ("RMA", "RETEST", "INCONCLUSIVE")


@QUICK
@given(st.text(max_size=300), st.sampled_from(["identity", "journal", "measurements", "collected"]))
def test_any_text_at_all_is_judged(text: str, which: str) -> None:
    document = SOUND.changed("n0", **{which: text}).document()

    assert len(verdicts(document)) == 8
    assert "RMA" not in verdicts(document)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["gpus", "gpu", "health", "value", "event", "step"]) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)


@QUICK
@given(JSON, st.sampled_from(["identity", "journal", "measurements", "collected"]))
def test_any_json_at_all_is_judged(value: Any, which: str) -> None:
    document = SOUND.changed("n0", **{which: json.dumps(value) + "\n"}).document()

    assert len(verdicts(document)) == 8
    assert {"RMA", "PASS"}.isdisjoint(verdicts(document)) or which == "collected"
