"""The policy file: a site changes what it names, with its reasons; anything else is refused in one line."""

from __future__ import annotations

from importlib.resources import files

import pytest

from burnin.errors import PolicyError
from burnin.verdict.policy import default_policy, read_policy

HEAD = "schema: burnin.policy/1\n"
WITH = "unit: x, why: y, source: z}"


def in_unit(unit: str) -> str:
    return WITH.replace("unit: x", f"unit: '{unit}'")


def test_without_a_file_the_shipped_policy_holds() -> None:
    assert read_policy(None) == default_policy()


def test_a_site_changes_what_it_names_and_nothing_else() -> None:
    changed = read_policy(HEAD + f"name: ours\nlimits:\n  heat_margin_c: {{value: 7, {in_unit('C')}\n")

    assert (changed.name, changed.limit("heat_margin_c"), changed.limit("perf_below_median_pct")) == ("ours", 7.0, 5.0)
    assert changed.digest != default_policy().digest


def test_a_site_adds_a_sku() -> None:
    fact = "value: {}, unit: GPUs, why: y, source: z"
    text = HEAD + f"skus:\n  OURS:\n    gpus: {{{fact.format(6)}}}\n    floors:\n      gemm_bf16: {{{fact.format(100)}}}\n"

    changed = read_policy(text)

    assert (changed.expected_gpus("OURS"), changed.floor("OURS", "gemm_bf16"), changed.floor("OURS", "hbm_copy")) == (6, 100.0, None)
    assert changed.expected_gpus("A100-SXM4-80GB") == 8


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("a: [", "not YAML", id="not YAML"),
        pytest.param("- a", "holds list", id="a list"),
        pytest.param("", "holds NoneType", id="empty"),
        pytest.param("schema: other/1", "schema is 'other/1'; expected 'burnin.policy/1'", id="another schema"),
        pytest.param(HEAD + "limit: {}", "'limit' is unknown; expected schema, name, limits, skus", id="a misspelt section"),
        pytest.param(HEAD + "limits: [a]", "limits holds list", id="limits as a list"),
        pytest.param(HEAD + "skus: text", "skus holds str", id="skus as text"),
        pytest.param(HEAD + f"limits: {{heat_margn_c: {{value: 1, {WITH}}}", "did you mean heat_margin_c?", id="a misspelt limit"),
        pytest.param(HEAD + "limits: {heat_margin_c: 7}", "must give each of value, unit, why, source", id="a bare number"),
        pytest.param(HEAD + "limits: {heat_margin_c: {value: 7, unit: C, why: x}}", "must give each of", id="no source"),
        pytest.param(HEAD + f"limits: {{heat_margin_c: {{value: hot, {WITH}}}", "expected a number", id="a word"),
        pytest.param(HEAD + f"limits: {{heat_margin_c: {{value: .nan, {WITH}}}", "expected a number", id="NaN"),
        pytest.param(HEAD + f"limits: {{heat_margin_c: {{value: .inf, {WITH}}}", "expected a number", id="infinite"),
        pytest.param(HEAD + f"limits: {{heat_margin_c: {{value: -1, {WITH}}}", "zero or more", id="negative"),
        pytest.param(HEAD + f"limits: {{heat_margin_c: {{value: true, {WITH}}}", "expected a number", id="true"),
        pytest.param(
            HEAD + f"limits: {{perf_windows_over: {{value: 2.5, {in_unit('windows')}}}",
            "expected a whole number of windows",
            id="half a window",
        ),
        pytest.param(HEAD + f"limits: {{perf_below_median_pct: {{value: 100, {in_unit('%')}}}", "less than 100", id="100 percent"),
        pytest.param(HEAD + "skus: {OURS: 8}", "skus.OURS holds int", id="a SKU that is a number"),
        pytest.param(HEAD + "skus: {OURS: {gpus: 8}}", "skus.OURS.gpus must give a number as value", id="a SKU's bare number"),
        pytest.param(HEAD + f"skus: {{OURS: {{gpu: {{value: 8, {WITH}}}}}", "skus.OURS.gpu is unknown", id="a SKU's misspelt fact"),
        pytest.param(HEAD + "skus: {OURS: {floors: 3}}", "skus.OURS.floors holds int", id="floors that are a number"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(text: str, told: str) -> None:
    with pytest.raises(PolicyError) as caught:
        read_policy(text, "site.yaml")

    assert told in str(caught.value)
    assert str(caught.value).startswith("site.yaml: ")
    assert "\n" not in str(caught.value)


def test_each_shipped_limit_is_used_by_a_rule() -> None:
    """A limit that nobody reads is a promise that nobody keeps."""
    root = files("burnin.verdict")
    sources = [entry for folder in (root, root / "rules") for entry in folder.iterdir() if entry.name.endswith(".py")]
    text = "".join(entry.read_text(encoding="utf-8") for entry in sources)

    assert [name for name in default_policy().limits if f'"{name}"' not in text] == []
