"""The kernel's parameters over GRUB and grubby: ours come and go, nobody else's is ever lost, the opposite is refused by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import ansible.module_utils
import pytest

from fake_tuning import Node

ROOT = Path(__file__).resolve().parents[3]
ansible.module_utils.__path__.append(str(ROOT / "plugins/module_utils"))
from ansible.module_utils.burnin_group.model import Refusal  # noqa: E402
from ansible.module_utils.burnin_tuning import core, kernel  # noqa: E402

SETTING = {
    "acs_redirect": "leave", "kernel_parameters": "leave", "max_read_request": 0, "relaxed_ordering": False, "cpu_governor": "",
    "numa_balancing": "leave", "memlock": "leave", "open_files": 0, "time_sync": False, "persistence": False,
}  # fmt: skip


def lines(node: Node) -> list[str]:
    """What each entry of the menu tells its kernel."""
    return re.findall(r"^\s*linux\s+\S+ root=\S+ (.*)$", node.text("/boot/grub/grub.cfg"), re.MULTILINE)


def refused(node: Node, **params: object) -> Refusal:
    before = node.files()
    with pytest.raises(Refusal) as caught:
        node.tune(**{**SETTING, **params})  # type: ignore[arg-type]
    assert node.files() == before, "the menu and our file are as they were"
    return caught.value


@pytest.mark.parametrize(
    ("processor", "words"),
    [
        pytest.param("GenuineIntel", "intel_iommu=on iommu=pt", id="Intel"),
        pytest.param("AuthenticAMD", "iommu=pt", id="AMD, whose IOMMU is on"),
    ],
)
def test_each_processor_gets_its_own_words_in_every_entry(tmp_path: Path, processor: str, words: str) -> None:
    node = Node(tmp_path, processor=processor)

    done = node.tune(**SETTING)

    assert (done.settings["iommu"].state, done.settings["iommu"].applies) == ("pending_reboot", "at next boot")
    assert all(line.split() == ["ro", *words.split(), "quiet"] for line in lines(node))
    assert node.text(kernel.DROP_IN).endswith(f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {words}"\n')
    assert node.text("/run/burnin/reboot-required.d/node_tuning").startswith("iommu: the kernel that runs was not told")


@pytest.mark.parametrize(
    ("table", "words"),
    [pytest.param("DMAR", ["intel_iommu=on", "iommu=pt"], id="Intel's"), pytest.param("IVRS", ["iommu=pt"], id="AMD's")],
)
def test_the_firmwares_table_says_whose_iommu_it_is(tmp_path: Path, table: str, words: list[str]) -> None:
    node = Node(tmp_path, processor={"DMAR": "AuthenticAMD", "IVRS": "GenuineIntel"}[table])
    node.put(f"/sys/firmware/acpi/tables/{table}", "")

    node.tune(**SETTING)

    assert lines(node)[0].split() == ["ro", *words, "quiet"]


def test_grace_gets_its_own_words(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.put("/proc/sys/kernel/arch", "aarch64\n")

    done = node.tune(**{**SETTING, "kernel_parameters": "auto"})

    assert lines(node)[0].split() == ["ro", "iommu.passthrough=1", "init_on_alloc=0", "numa_balancing=disable", "quiet"]
    assert {name: one.state for name, one in done.settings.items()} == {"iommu": "pending_reboot", "kernel_parameters": "pending_reboot"}


def test_the_flag_goes_when_nothing_waits_any_more(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.tune(**SETTING)
    assert node.there("/run/burnin/reboot-required.d/node_tuning")
    node.boot()

    done = node.tune(**SETTING)

    assert (done.reboot, done.settings["iommu"].state, done.changed) == ("", "ok", False)
    assert not node.there("/run/burnin/reboot-required.d/node_tuning")


def test_what_a_person_asks_for_already_is_not_added_twice(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.put("/etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet console=ttyS0 intel_iommu=on,sm_on"\nGRUB_CMDLINE_LINUX="iommu=pt"\n')
    node.run(["update-grub"])
    before = node.text("/boot/grub/grub.cfg")

    done = node.tune(**SETTING)

    assert done.settings["iommu"].state == "pending_reboot"
    assert (done.settings["iommu"].changed, node.there(kernel.DROP_IN), node.text("/boot/grub/grub.cfg")) == (False, False, before)


def test_a_persons_parameters_are_all_there_afterwards_and_when_we_go(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.put("/etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX="crashkernel=512M console=tty0 console=ttyS0"\n')
    node.put("/etc/default/grub.d/50-cloud.cfg", 'GRUB_CMDLINE_LINUX_DEFAULT="nosplash"\n')
    node.run(["update-grub"])
    before = lines(node)

    node.tune(**SETTING)
    between = lines(node)
    node.tune(**{**SETTING, "iommu": "leave"})

    assert [[word for word in line.split() if "iommu" not in word] for line in between] == [line.split() for line in before]
    assert lines(node) == before


CONFLICTS = [
    pytest.param("/etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet iommu=off"', "iommu=off (/etc/default/grub)", id="turned off"),
    pytest.param("/etc/default/grub.d/50-site.cfg", "GRUB_CMDLINE_LINUX='intel_iommu=off'",
                 "intel_iommu=off (/etc/default/grub.d/50-site.cfg)", id="Intel's turned off in a drop-in"),
    pytest.param("/etc/default/grub", 'GRUB_CMDLINE_LINUX="amd_iommu=off"', "amd_iommu=off", id="the other maker's turned off"),
    pytest.param("/etc/default/grub", 'GRUB_CMDLINE_LINUX="iommu=pt iommu=nopt"', "iommu=nopt", id="the last word counts"),
    pytest.param("/etc/default/grub", 'GRUB_CMDLINE_LINUX="iommu.passthrough=0"', "iommu.passthrough=0", id="by its long name"),
]  # fmt: skip


@pytest.mark.parametrize("shown", [True, False], ids=["in the menu", "not yet in the menu"])
@pytest.mark.parametrize(("path", "text", "named"), CONFLICTS)
def test_the_opposite_is_refused_by_name_and_nothing_changes(tmp_path: Path, path: str, text: str, named: str, shown: bool) -> None:
    node = Node(tmp_path)
    node.put(path, text + "\n")
    if shown:
        node.run(["update-grub"])

    refusal = refused(node)

    assert refusal.code == "KERNEL_PARAMETER_CONFLICT"
    assert named in refusal.message


def test_an_opposite_that_only_the_menu_has_is_found_too(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.put("/boot/grub/grub.cfg", node.text("/boot/grub/grub.cfg").replace("ro quiet", "ro quiet iommu=off"))

    assert "gives the kernel iommu=off;" in refused(node).message


def test_a_menu_that_would_lose_somebodys_parameter_is_put_back(tmp_path: Path) -> None:
    """It was in the menu and is no longer in /etc/default/grub: whoever took it out did not run update-grub, or somebody edited the menu."""
    node = Node(tmp_path)
    node.put("/boot/grub/grub.cfg", node.text("/boot/grub/grub.cfg").replace("ro quiet", "ro quiet crashkernel=512M"))

    refusal = refused(node)

    assert refusal.code == "KERNEL_PARAMETER_LOST"
    assert "would lose crashkernel=512M" in refusal.message
    assert "Our file and the menu were put back" in refusal.message


def test_a_menu_that_does_not_take_ours_is_put_back(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.hooks["update-grub"] = lambda _argv: (0, "")

    refusal = refused(node)

    assert (refusal.code, "lacks intel_iommu=on, iommu=pt" in refusal.message) == ("KERNEL_PARAMETER_LOST", True)


def test_an_update_grub_that_fails_leaves_the_menu_as_it_was(tmp_path: Path) -> None:
    node = Node(tmp_path)

    def half(_argv: Sequence[str]) -> tuple[int, str]:
        node.put("/boot/grub/grub.cfg", "set default=0\n")
        return 1, "no space left on device"

    node.hooks["update-grub"] = half

    refusal = refused(node)

    assert (refusal.code, "no space left on device" in refusal.message) == ("COMMAND_FAILED", True)


def test_our_file_taken_away_is_drift(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.tune(**SETTING)
    (tmp_path / kernel.DROP_IN[1:]).unlink()
    node.run(["update-grub"])
    assert "iommu" not in node.text("/boot/grub/grub.cfg")

    done = node.tune(**SETTING)

    assert (done.settings["iommu"].drift, done.files) == (True, (kernel.DROP_IN,))
    assert "iommu=pt" in node.text("/boot/grub/grub.cfg")


def test_told_and_still_translating_is_a_failure(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.tune(**SETTING)
    node.boot()
    for place in (tmp_path / "sys/kernel/iommu_groups").glob("*/type"):
        place.write_text("DMA\n")

    done = node.tune(**SETTING).settings["iommu"]

    assert done.state == "failed"
    assert "and still translates" in done.detail


@pytest.mark.parametrize("where", ["iommu", "loader"])
def test_a_node_without_iommu_or_boot_loader_says_so(tmp_path: Path, where: str) -> None:
    node = Node(tmp_path)
    if where == "loader":
        (tmp_path / "boot/grub/grub.cfg").unlink()
    else:
        for place in (tmp_path / "sys/kernel/iommu_groups", tmp_path / "sys/class/iommu"):
            place.rename(place.with_name("gone"))

    done = node.tune(**SETTING).settings["iommu"]

    assert done.state == "unsupported"
    assert {"iommu": "shows no IOMMU", "loader": "no boot loader here that we know"}[where] in done.detail


class Grubby:
    """EL's: one line of arguments for all kernels."""

    def __init__(self, node: Node, args: str) -> None:
        self.args = args.split()
        (node.root / "boot/grub/grub.cfg").unlink()
        node.hooks["grubby"] = self

    def __call__(self, argv: Sequence[str]) -> tuple[int, str]:
        for option in argv[1:]:
            name, _, words = option.partition("=")
            if name == "--args":
                self.args += words.split()
            if name == "--remove-args":
                self.args = [word for word in self.args if word not in words.split()]
        return 0, f'index=0\nargs="{" ".join(self.args)}"\nroot="UUID=1"\n'


def test_grubby_adds_ours_and_takes_only_ours_away(tmp_path: Path) -> None:
    node = Node(tmp_path)
    grubby = Grubby(node, "ro crashkernel=1G iommu=pt")

    first = node.tune(**SETTING)
    added = list(grubby.args)
    second = node.tune(**SETTING)
    node.tune(**{**SETTING, "iommu": "leave"})

    assert (first.settings["iommu"].state, second.changed) == ("pending_reboot", False)
    assert added == ["ro", "crashkernel=1G", "iommu=pt", "intel_iommu=on"]
    assert grubby.args == ["ro", "crashkernel=1G", "iommu=pt"], "a person's iommu=pt stays"


def test_grubby_refuses_the_opposite_too(tmp_path: Path) -> None:
    node = Node(tmp_path)
    Grubby(node, "ro intel_iommu=off")

    assert "intel_iommu=off" in refused(node).message


def test_a_required_iommu_that_waits_for_its_boot_is_no_failure(tmp_path: Path) -> None:
    done = Node(tmp_path).tune(**{**SETTING, "require": ["iommu"]})

    assert isinstance(done, core.Done)
    assert done.settings["iommu"].state == "pending_reboot"
