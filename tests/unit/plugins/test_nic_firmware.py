"""nic_firmware over a stub of mlxconfig that keeps its state: set, one reboot asked for, and no second (field report B19); each refusal sets nothing."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import ansible.module_utils
import pytest
from ansible.module_utils.testing import patch_module_args

ROOT = Path(__file__).resolve().parents[3]
ansible.module_utils.__path__.append(str(ROOT / "plugins/module_utils"))
from ansible.module_utils.burnin_nic import settings  # noqa: E402

FIRST, SECOND, FOREIGN = "0000:1a:00.0", "0000:3c:00.0", "0000:05:00.0"
ETHERNET, INFINIBAND = "ETH(2)", "IB(1)"
FLAG, MARKER = "run/burnin/reboot-required.d/nic_firmware", "var/lib/burnin/nic_firmware.json"
STUB = (ROOT / "tests/fake_mlxconfig.py").read_text(encoding="utf-8")


class Node:
    """A node with two cards and a network adapter of another maker. `boot` brings what a warm boot brings."""

    def __init__(self, root: Path) -> None:
        self.root, self.bin = root / "node", root / "bin"
        for device, vendor in ((FIRST, "0x15b3"), (SECOND, "0x15b3"), (FOREIGN, "0x8086")):
            self.write(f"sys/bus/pci/devices/{device}/vendor", vendor)
        self.bin.mkdir()
        self.tool = self.bin / "mlxconfig"
        self.tool.write_text(f"#!{sys.executable}\n{STUB}")
        self.tool.chmod(0o755)
        (self.bin / "calls").touch()
        settings = {"LINK_TYPE_P1": [INFINIBAND, ETHERNET, ETHERNET], "NUM_OF_VFS": ["0", "0", "0"]}
        self.cards: dict[str, Any] = {device: {"settings": settings} for device in (FIRST, SECOND)}
        self.save()
        self.boots = 0
        self.boot()

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def save(self) -> None:
        (self.bin / "state.json").write_text(json.dumps(self.cards))

    def boot(self) -> None:
        self.boots += 1
        self.write("proc/sys/kernel/random/boot_id", f"boot-{self.boots}\n")
        (self.root / FLAG).unlink(missing_ok=True)  # /run is gone with the boot
        self.cards = json.loads((self.bin / "state.json").read_text())
        for card in self.cards.values():
            for values in card["settings"].values():
                if card.get("reverts"):
                    values[2] = values[1]
                elif not card.get("cold_only"):
                    values[1] = values[2]
        self.save()

    @property
    def sets(self) -> list[str]:
        return [line for line in (self.bin / "calls").read_text().splitlines() if " set " in line]

    @property
    def flagged(self) -> str:
        return (self.root / FLAG).read_text() if (self.root / FLAG).exists() else ""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def play(node: Node, capsys: pytest.CaptureFixture[str]) -> Any:
    spec = importlib.util.spec_from_file_location("nic_firmware", ROOT / "plugins/modules/nic_firmware.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def ask(*devices: dict[str, Any], check: bool = False, tool: str = "") -> dict[str, Any]:
        arguments = {"devices": list(devices), "tool": tool or str(node.tool), "root": str(node.root), "_ansible_check_mode": check}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            module.main()
        told: dict[str, Any] = json.loads(capsys.readouterr().out)
        return told

    return ask


def card(device: str = FIRST, **settings: Any) -> dict[str, Any]:
    return {"device": device, "set": settings or {"LINK_TYPE_P1": 1}}


def test_it_is_set_a_reboot_is_asked_for_and_after_it_all_is_quiet(node: Node, play: Any) -> None:
    first = play(card())
    again = play(card())

    assert (first["changed"], again["changed"]) == (True, False)
    assert first["diff"] == {"before": f"{FIRST} LINK_TYPE_P1=ETH(2)\n", "after": f"{FIRST} LINK_TYPE_P1=1\n"}
    assert node.sets == [f"-d {FIRST} -y set LINK_TYPE_P1=1"]
    assert node.flagged == f"adapter firmware settings: {FIRST}: LINK_TYPE_P1=1\n"

    node.boot()
    after = play(card())

    assert (after["changed"], after["burnin"]["reboot"], node.flagged) == (False, "", "")
    assert not (node.root / MARKER).exists()
    assert len(node.sets) == 1


def test_what_a_warm_boot_does_not_bring_needs_the_power_cut_and_no_second_reboot_is_asked_for(node: Node, play: Any) -> None:
    node.cards[FIRST]["cold_only"] = True
    node.save()
    play(card())

    for _ in range(3):
        node.boot()
        node.write(FLAG, "left over")
        told = play(card())
        assert told["failed"]
        assert told["burnin"]["code"] == "POWER_CYCLE_NEEDED"
        assert f"{FIRST}: LINK_TYPE_P1 was set to 1 before the last boot, and now is ETH(2) (next boot: IB(1))" in told["msg"]
        assert "cut the node's power" in told["msg"]
        assert node.flagged == ""
    assert len(node.sets) == 1

    node.cards[FIRST]["cold_only"] = False
    node.save()
    node.boot()
    assert not play(card()).get("failed"), "the power was cut"


def test_what_the_firmware_takes_back_is_not_set_again(node: Node, play: Any) -> None:
    node.cards[FIRST]["reverts"] = True
    node.save()
    play(card())
    node.boot()

    told = play(card())

    assert told["burnin"]["code"] == "SETTING_REVERTED"
    assert (len(node.sets), node.flagged) == (1, "")


def test_the_tools_advice_to_reboot_is_not_believed(node: Node, play: Any) -> None:
    told = play(card(LINK_TYPE_P1=2))

    assert (told["changed"], told["burnin"]["reboot"], node.sets, node.flagged) == (False, "", [], "")


def test_what_another_hand_has_set_asks_for_one_reboot_and_is_not_set_again(node: Node, play: Any) -> None:
    node.cards[FIRST]["settings"]["LINK_TYPE_P1"][2] = INFINIBAND
    node.cards[FIRST]["cold_only"] = True
    node.save()

    told = play(card())

    assert (told["changed"], node.sets) == (False, [])
    assert node.flagged
    node.boot()
    assert play(card())["burnin"]["code"] == "POWER_CYCLE_NEEDED"


def test_after_a_boot_that_did_not_help_another_wish_may_be_tried(node: Node, play: Any) -> None:
    node.cards[FIRST]["cold_only"] = True
    node.save()
    play(card())
    node.boot()

    told = play(card(LINK_TYPE_P1=2))

    assert told["changed"], "the way back is not barred"
    assert node.flagged == ""


def test_two_devices_and_several_settings_in_one_call(node: Node, play: Any) -> None:
    told = play(card(FIRST, LINK_TYPE_P1="IB", NUM_OF_VFS=8), card(SECOND, NUM_OF_VFS=0))

    assert node.sets == [f"-d {FIRST} -y set LINK_TYPE_P1=IB NUM_OF_VFS=8"]
    assert [(one["device"], one["waits"]) for one in told["burnin"]["devices"]] == [
        (FIRST, {"LINK_TYPE_P1": "IB", "NUM_OF_VFS": "8"}),
        (SECOND, {}),
    ]


def test_check_mode_says_what_would_change_and_touches_nothing(node: Node, play: Any) -> None:
    told = play(card(), check=True)

    assert told["changed"]
    assert told["burnin"]["reboot"] == f"{FIRST}: LINK_TYPE_P1=1"
    assert (node.sets, node.flagged, (node.root / MARKER).exists()) == ([], "", False)


def test_without_a_description_no_tool_is_needed(node: Node, play: Any) -> None:
    told = play(tool="/nowhere/mlxconfig")

    assert (told["changed"], told.get("failed", False), (node.bin / "calls").read_text()) == (False, False, "")


REFUSALS = [
    pytest.param({"device": "mlx5_0"}, {}, "DESCRIPTION", "expected a PCI function", id="no PCI function"),
    pytest.param({"device": "0000:99:00.0"}, {}, "DEVICE_MISSING", f"is not there; expected one of {FIRST}, {SECOND}", id="a function that is not there"),
    pytest.param({"device": FOREIGN}, {}, "DEVICE_MISSING", "is of vendor 0x8086", id="another maker's card"),
    pytest.param({"set": {}}, {}, "DESCRIPTION", "has nothing to set", id="nothing to set"),
    pytest.param({"set": {"link_type": 1}}, {}, "DESCRIPTION", "expected a name like LINK_TYPE_P1", id="no setting's name"),
    pytest.param({"set": {"LINK_TYPE_P1": "1 -f x"}}, {}, "DESCRIPTION", "expected a number or a word", id="a value with arguments in it"),
    pytest.param({"set": {"LINK_TYPE_P1": [1]}}, {}, "DESCRIPTION", "expected a number or a word", id="a value that is a list"),
    pytest.param({"set": {"NO_SUCH_THING": 1}}, {}, "TOOL_FAILED", "NO_SUCH_THING", id="a setting that the firmware does not know"),
    pytest.param({}, {"locked": True}, "DEVICE_LOCKED", "the card is locked (-E- Failed to set", id="secure host"),
    pytest.param({}, {"broken": True}, "TOOL_FAILED", "ended with 3 (query)", id="a tool that fails"),
    pytest.param({}, {"columns": "Next Boot"}, "ANSWER_UNKNOWN", "no columns Default, Current and Next Boot", id="an old tool without current values"),
    pytest.param({}, {"deaf": True}, "SETTING_NOT_TAKEN", "its next boot has ETH(2)", id="a set that did nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "broken", "code", "said"), REFUSALS)
def test_a_refusal_names_it_and_leaves_the_cards_as_they_were(
    node: Node, play: Any, asked: dict[str, Any], broken: dict[str, Any], code: str, said: str
) -> None:
    node.cards[SECOND].update(broken)
    node.save()
    before = json.loads((node.bin / "state.json").read_text())

    told = play({**card(SECOND), **asked})

    assert told["failed"]
    assert (told["burnin"]["code"], told["msg"].startswith(f"{code}: ")) == (code, True)
    assert said in told["msg"]
    assert json.loads((node.bin / "state.json").read_text()) == before
    assert (node.flagged, (node.root / MARKER).exists()) == ("", False)


def test_one_bad_device_keeps_the_good_one_from_being_set(node: Node, play: Any) -> None:
    assert play(card(FIRST), card("0000:99:00.0"))["failed"]
    assert play(card(FIRST), card(FIRST))["burnin"]["code"] == "DESCRIPTION"
    assert node.sets == []


def test_no_tool_a_damaged_record_and_no_boot_id_are_refused(node: Node, play: Any) -> None:
    assert play(card(), tool="/nowhere/mlxconfig")["burnin"]["code"] == "TOOLS_MISSING"
    node.write(MARKER, '{"0000:1a:00.0": [')
    assert play(card())["burnin"]["code"] == "RECORD_DAMAGED"
    (node.root / MARKER).unlink()
    node.write("proc/sys/kernel/random/boot_id", "")
    assert play(card())["burnin"]["code"] == "BOOT_UNKNOWN"
    assert node.sets == []


TABLE = "Configurations:      Default     Current     Next Boot\n"


def test_columns_are_counted_from_the_end_and_what_is_no_row_is_passed_over() -> None:
    rows = (
        "*  RO  LINK_TYPE_P1   IB(1)  ETH(2)  IB(1)\n-W- A warning, or an answer \x1b[31mof anything\n   MODES[3]  0x0  0x8  0x8\n"
        + "x" * 10**6
    )

    found = settings.parse(FIRST, TABLE + rows)

    assert found == {"LINK_TYPE_P1": settings.Value("ETH(2)", "IB(1)"), "MODES[3]": settings.Value("0x8", "0x8")}


def test_a_setting_that_the_answer_leaves_out_is_refused_by_name() -> None:
    with pytest.raises(settings.Refusal, match="knows no SRIOV_EN") as caught:
        settings.decide(FIRST, settings.parse(FIRST, TABLE), {"SRIOV_EN": "1"}, {}, "boot-1")
    assert caught.value.code == "SETTING_UNKNOWN"


@pytest.mark.parametrize(
    ("told", "value", "equal"),
    [
        ("IB(1)", "1", True),
        ("IB(1)", "ib", True),
        ("True(1)", "1", True),
        ("0x8", "8", True),
        ("IB(1)", "2", False),
        ("10", "1", False),
        ("N/A", "0", False),
    ],
)
def test_a_value_is_told_by_word_or_by_number(told: str, value: str, equal: bool) -> None:
    assert settings.same(told, value) is equal
