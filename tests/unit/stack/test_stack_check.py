"""The stack file: each wrong one names its fault; each floor is tried on both sides; nothing in it makes the reader crash."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from burnin.stack.checking import check
from burnin.stack.compat import compat
from burnin.stack.model import Cuda, Driver, Level, Nccl, Problem, Stack, errors
from burnin.stack.reading import read_stack, read_text

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tests" / "data" / "stack"
TODAY = date(2026, 12, 1)
CASES = sorted(DATA.glob("*.yml"))


def problems_of(text: str, today: date = TODAY) -> list[Problem]:
    stack, problems = read_text(text)
    return problems + (check(stack, today) if stack else [])


def explained(problems: list[Problem]) -> bool:
    return all(one.field and one.found and one.expected and one.remedy and one.source and one.code.isupper() for one in problems)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_wrong_file_names_its_fault(path: Path) -> None:
    problems = problems_of(path.read_text(encoding="utf-8"))

    found = sorted((one.level.value, one.code, one.field) for one in problems)
    assert sorted((one["level"], one["code"], one["field"]) for one in json.loads(path.with_suffix(".json").read_text())) == found
    assert explained(problems)


def test_there_are_enough_wrong_files() -> None:
    assert len(CASES) >= 12


def test_the_example_is_right() -> None:
    text = (ROOT / "inventory/example/group_vars/all/stack.yml").read_text(encoding="utf-8")

    assert problems_of(text) == []


def test_every_code_is_on_the_page_and_seen_in_a_case() -> None:
    page = (ROOT / "docs/stack.md").read_text(encoding="utf-8")
    seen = {one["code"] for path in DATA.glob("*.json") for one in json.loads(path.read_text(encoding="utf-8"))}
    written = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `") and line.split("`")[1].isupper()}

    assert seen
    assert seen | {"TOO_LARGE"} == written


def codes(
    driver: str, *toolkits: str, today: date = TODAY, nccl: Nccl | None = None, flavour: str = "open", sku: str = ""
) -> dict[str, Level]:
    stack = Stack(Driver(driver, flavour), Cuda(toolkits, toolkits[0]) if toolkits else None, nccl)
    return {one.code: one.level for one in check(stack, today, [sku] if sku else [])}


@pytest.mark.parametrize(("toolkit", "known"), list(compat().toolkits.items()), ids=lambda value: value if isinstance(value, str) else "")
def test_both_sides_of_every_toolkits_driver(toolkit: str, known: Any) -> None:
    if not known.driver.value:
        assert codes("620.10.01", toolkit)["CUDA_UNKNOWN"] is Level.WARNING
        return
    first, *rest = known.driver.value.split(".")
    below = ".".join([first, f"{int(rest[0]) - 1:02}", *rest[1:]])
    floor = compat().floors[int(toolkit.partition(".")[0])].value

    at, under = codes(known.driver.value, toolkit), codes(below, toolkit)

    assert not {"CUDA_BELOW_FLOOR", "CUDA_BELOW_TOOLKIT_DRIVER", "CUDA_UNKNOWN"} & set(at)
    wanted = ("CUDA_BELOW_FLOOR", Level.ERROR) if known.driver.value == floor else ("CUDA_BELOW_TOOLKIT_DRIVER", Level.WARNING)
    assert under[wanted[0]] is wanted[1]


@pytest.mark.parametrize(
    ("driver", "toolkit", "error"),
    [
        ("525.60.13", "12.9.1", False),
        ("525.60.12", "12.9.1", True),
        ("580.65.06", "13.2.0", False),
        ("575.57.08", "13.2.0", True),
        ("579.99.99", "13.0.0", True),
    ],
)
def test_both_sides_of_the_minor_floor(driver: str, toolkit: str, error: bool) -> None:
    assert ("CUDA_BELOW_FLOOR" in codes(driver, toolkit)) is error


@pytest.mark.parametrize(
    ("driver", "last_day"),
    [
        ("535.183.01", date(2026, 6, 30)),
        ("570.124.06", date(2026, 2, 28)),
        ("580.126.09", date(2028, 6, 30)),
        ("610.43.02", date(2026, 8, 31)),
    ],
)
def test_a_branch_lives_through_its_last_month(driver: str, last_day: date) -> None:
    assert "BRANCH_ENDED" not in codes(driver, today=last_day)
    assert codes(driver, today=date.fromordinal(last_day.toordinal() + 1))["BRANCH_ENDED"] is Level.WARNING


def test_an_ended_branch_is_told_with_its_date() -> None:
    (problem,) = check(Stack(Driver("535.183.01", "open")), TODAY)

    assert "2026-06" in problem.found
    assert "580 until 2028-06" in problem.expected


@pytest.mark.parametrize(
    ("driver", "flavour", "sku", "code"),
    [
        ("580.126.09", "proprietary", "GH200", "FLAVOUR_WRONG"),
        ("580.126.09", "proprietary", "GB300", "FLAVOUR_WRONG"),
        ("580.126.09", "open", "P40", "FLAVOUR_WRONG"),
        ("580.126.09", "open", "T4", None),
        ("580.126.09", "proprietary", "H100-SXM5-80GB", None),
        ("580.126.09", "proprietary", "V100-SXM2-16GB", None),
        ("620.10.01", "proprietary", "H100-SXM5-80GB", "FLAVOUR_GONE"),
        ("610.43.02", "proprietary", "H100-SXM5-80GB", None),
        ("570.86.15", "open", "B200-SXM-180GB", None),
        ("565.57.01", "open", "B200-SXM-180GB", "BRANCH_BEFORE_GPU"),
        ("580.126.09", "open", "CPU", None),
    ],
)
def test_flavour_and_branch_go_with_the_gpu(driver: str, flavour: str, sku: str, code: str | None) -> None:
    found = {one for one, level in codes(driver, flavour=flavour, sku=sku).items() if level is Level.ERROR}

    assert found == ({code} if code else set())


def test_what_is_only_believed_says_so() -> None:
    (problem,) = errors(check(Stack(Driver("620.10.01", "proprietary")), TODAY))

    assert problem.confidence == "low"
    assert "low confidence" in problem.sentence


def test_nccl_of_an_older_minor_of_the_same_major_is_fine() -> None:
    assert codes("580.126.09", "13.0.2", nccl=Nccl("2.28.9", "13.0")) == {}
    assert "NCCL_OTHER_CUDA" not in codes("595.58.03", "13.2.1", nccl=Nccl("2.28.9", "13.0"))


def test_a_number_shows_what_was_written() -> None:
    (problem,) = errors(
        problems_of('burnin_stack: {driver: {version: "580.126.09", flavour: open}, nccl: {version: "2.28.9", cuda: 12.10}}')
    )

    assert problem.found.startswith("12.10 ")
    assert "quotes" in problem.remedy


def test_ansibles_numbers_are_refused_too() -> None:
    stack, problems = read_stack({"driver": {"version": 580.1, "flavour": "open"}})

    assert stack is None
    assert [(one.code, one.field) for one in problems] == [("NOT_TEXT", "burnin_stack.driver.version")]


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.sampled_from(["580.126.09", "open", "12.9.1", "doca", "hold"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.text(max_size=6) | st.integers() | st.sampled_from(["driver", "cuda", "nccl", "ofed", "dcgm", "kernel", "skus", "repositories", "version", "flavour",
                                                              "toolkits", "default", "kind", "url", "burnin_stack", "key_sha256", "ubuntu2404"]),
        inner, max_size=5,
    ),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(plain)
def test_no_value_makes_the_reader_crash(value: object) -> None:
    stack, problems = read_stack(value)

    assert (stack is None) == bool(errors(problems))
    assert explained(problems)
    if stack is not None:
        assert explained(check(stack, TODAY))


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200) | plain.map(lambda value: yaml.safe_dump({"burnin_stack": value})))
def test_no_text_makes_the_reader_crash(text: str) -> None:
    stack, problems = read_text(text)

    assert (stack is None) == bool(errors(problems))
    assert explained(problems)


@pytest.mark.parametrize(
    "text",
    ["[" * 5000, "{a: " * 3000, "!!binary x", "? [a]\n: b", "<<: 1", "&a [*a]", "burnin_stack: &a {driver: *a}", "x" * 300_000, "\0"],
)
def test_hostile_yaml_is_a_sentence(text: str) -> None:
    stack, problems = read_text(text)

    assert stack is None
    assert errors(problems)
    assert explained(problems)
