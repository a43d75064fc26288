"""A consent to erase drives: written for a person, taken back from a person, never from what a node or an inventory would have it be."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from burnin import erasing
from burnin.errors import InventoryError, UsageError

HOSTS = {"gpu-01", "gpu-02"}
DRIVES = {"S4X0NA01": "ext4 labelled 'scratch'", "007": "GPT with 2 partitions"}


def refusal(**changed: Any) -> dict[str, Any]:
    return {"code": "DISK_NOT_BLANK", "erase": DRIVES} | changed


def test_a_refusal_that_a_consent_settles_asks_for_its_drives() -> None:
    assert erasing.asked_for(refusal()) == (DRIVES, 0)


@pytest.mark.parametrize("erase", [{}, None, [], "S4X0NA01", 7])
def test_a_refusal_that_no_consent_settles_asks_for_nothing(erase: object) -> None:
    assert erasing.asked_for(refusal(erase=erase)) == ({}, 0)


@pytest.mark.parametrize(
    ("serial", "text"),
    [
        pytest.param("S1", "{{ lookup('pipe', 'id') }}", id="a label that is a template"),
        pytest.param("{% raw %}", "ext4", id="a serial that is one"),
        pytest.param("S1", "ext4\nall: {}", id="a second line"),
        pytest.param("S1", "\x1b[2Jext4", id="a control sequence"),
        pytest.param("S1", "ext4 \u202etxe", id="letters that turn the line round"),
        pytest.param("S1", "x" * 1001, id="a text without end"),
        pytest.param("S" * 1001, "ext4", id="a serial without end"),
        pytest.param("", "ext4", id="no serial"),
        pytest.param("S1", ["ext4"], id="no text"),
        pytest.param(7, "ext4", id="a number"),
    ],
)
def test_what_a_node_says_that_is_no_plain_text_is_left_out_and_counted(serial: Any, text: Any) -> None:
    assert erasing.asked_for(refusal(erase={serial: text, "S2": "xfs"})) == ({"S2": "xfs"}, 1)


def test_a_node_with_more_drives_than_any_machine_has_does_not_fill_the_file() -> None:
    kept, left_out = erasing.asked_for(refusal(erase={f"S{n:03}": "ext4" for n in range(70)}))

    assert list(kept) == [f"S{n:03}" for n in range(64)]
    assert left_out == 6


def test_the_file_says_the_same_however_the_nodes_came() -> None:
    told = {"n2": {"B": "xfs", "A": "ext4"}, "n1": {"C": ""}}

    text = erasing.render(told, {"n2": "w", "n1": "v"})

    assert text == erasing.render({"n1": {"C": ""}, "n2": {"A": "ext4", "B": "xfs"}}, {"n1": "v", "n2": "w"})
    assert list(yaml.safe_load(text)["nvme_raid0_erase"]) == ["n1", "n2"]
    assert list(yaml.safe_load(text)["nvme_raid0_erase"]["n2"]) == ["A", "B"]


def test_the_file_handed_back_is_what_was_written_and_a_consent() -> None:
    hard = {"007": "yes", "1e5": "12:30", "0x1F": "#no comment", "null": "'\"\\: - [x], & * ! |", "S 1": "~"}
    told = {"gpu-01": hard, "gpu-02": {"no": "on"}}

    back = yaml.safe_load(erasing.render(told, {}))["nvme_raid0_erase"]

    assert back == told
    erasing.check(back, HOSTS)


def test_the_file_opens_with_what_handing_it_back_does() -> None:
    head = erasing.render({"gpu-01": DRIVES}, {}).partition("nvme_raid0_erase:")[0]

    assert all(line.startswith(("#", "---")) for line in head.splitlines())
    for told in (
        "ERASES every drive that is named here",
        "Nothing has been erased",
        "for one call",
        "-e @erase.yml",
        "In an inventory it is refused",
    ):
        assert told in head


def test_what_a_node_refused_with_stands_above_its_drives_and_cannot_become_more_than_a_remark() -> None:
    why = {"gpu-01": "ARRAY_DEGRADED: it has 3 of 4 members\ngpu-02: {S9: ''}\u2028\x85  x: y", "gpu-02": "w" * 5000}

    text = erasing.render({"gpu-01": DRIVES, "gpu-02": {"S2": "xfs"}}, why)

    assert yaml.safe_load(text) == {"nvme_raid0_erase": {"gpu-01": DRIVES, "gpu-02": {"S2": "xfs"}}}
    lines = text.splitlines()
    assert lines[lines.index('  "gpu-01":') + 1].startswith("    # ARRAY_DEGRADED: it has 3 of 4 members\\n")
    assert len(lines[lines.index('  "gpu-02":') + 1]) < 320


@pytest.mark.parametrize("drives", [DRIVES, ["S4X0NA01", "007"], {"S1": ""}])
def test_a_consent_by_serial_is_taken(drives: Any) -> None:
    erasing.check({"gpu-01": drives}, HOSTS)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param(True, "found True", id="a switch"),
        pytest.param("gpu-01", "found 'gpu-01'", id="text, as K=V gives it"),
        pytest.param(["gpu-01"], "found \\['gpu-01'\\]", id="hosts without drives"),
        pytest.param({"gpu-1": DRIVES}, "no host 'gpu-1'; did you mean 'gpu-01'", id="a host that the inventory lacks"),
        pytest.param({"all": DRIVES}, "no host 'all'", id="a group"),
        pytest.param({"gpu-01": "S4X0NA01"}, "gpu-01: found 'S4X0NA01'", id="a serial alone"),
        pytest.param({"gpu-01": True}, "gpu-01: found True", id="a whole host"),
        pytest.param({"gpu-01": {}}, "gpu-01: found {}", id="a host without drives"),
        pytest.param({"gpu-01": {42798: "ext4"}}, "gpu-01: found 42798; expected text.*quotes", id="a serial that YAML made a number of"),
        pytest.param({"gpu-01": {"S1": None}}, "gpu-01: found None; expected text", id="nothing said of a drive"),
        pytest.param({"gpu-01": {"S1": "{{ x }}"}}, "gpu-01: '{{ x }}' is a template", id="a template"),
        pytest.param({"gpu-01": ["{% x %}"]}, "is a template", id="a serial that is one"),
        pytest.param({"gpu-01": {" ": "ext4"}}, "gpu-01: an empty serial", id="an empty serial"),
    ],
)
def test_what_is_no_consent_is_refused_by_name(given: object, told: str) -> None:
    with pytest.raises(UsageError, match=told) as raised:
        erasing.check(given, HOSTS)

    assert raised.value.exit_code == 2
    assert str(raised.value).startswith("-e nvme_raid0_erase: ")


def test_a_consent_in_the_inventory_is_refused_where_it_stands() -> None:
    with pytest.raises(
        InventoryError, match=r"^site/group_vars/all\.yml:3: nvme_raid0_erase stands in the inventory \(of n0, .* and 4 more\).*-e"
    ):
        erasing.refuse_kept([f"n{n}" for n in range(10)], ["site/group_vars/all.yml:3"])
    erasing.refuse_kept([], [])
