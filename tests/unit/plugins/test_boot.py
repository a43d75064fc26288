"""Which kernel GRUB would boot, and by which name another is made the default; over a grub.cfg as grub-mkconfig writes it."""

from __future__ import annotations

from pathlib import Path

import ansible.module_utils
import pytest

ROOT = Path(__file__).resolve().parents[3]
ansible.module_utils.__path__.append(str(ROOT / "plugins/module_utils"))
from ansible.module_utils.burnin_boot import grub, loader  # noqa: E402

TEXT = (ROOT / "tests/data/grub/two-kernels.cfg").read_text(encoding="utf-8")
UUID = "3f0c2f0e-6f6a-4b7e-9d0b-8a1c52a0f1de"
NEW, OLD = "6.1.0-41-amd64", "6.1.0-40-amd64"
OLD_PATH = f"gnulinux-advanced-{UUID}>gnulinux-{OLD}-advanced-{UUID}"


def with_default(value: str) -> str:
    return TEXT.replace('set default="0"', f'set default="{value}"')


def booted(text: str, environment: str = "") -> str | None:
    entry = grub.default(text, environment)
    return entry.kernel if entry else None


def test_every_entry_that_boots_a_kernel_is_found_and_nothing_else() -> None:
    assert [(entry.kernel, entry.recovery, entry.places) for entry in grub.entries(TEXT)] == [
        (NEW, False, (0,)), (NEW, False, (1, 0)), (NEW, True, (1, 1)), (OLD, False, (1, 2)), (OLD, True, (1, 3)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "kernel"),
    [
        pytest.param("0", NEW, id="by number, the newest"),
        pytest.param("1>2", OLD, id="by number, inside the submenu"),
        pytest.param(OLD_PATH, OLD, id="by id"),
        pytest.param(f"Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux {OLD}", OLD, id="by title"),
        pytest.param("1", NEW, id="a submenu alone enters it at its first entry"),
        pytest.param("gnulinux-gone", NEW, id="one that is not there is the first"),
        pytest.param(f"gnulinux-advanced-{UUID}>gnulinux-6.1.0-39-amd64-advanced-{UUID}", NEW, id="a kernel that was removed is the first"),
    ],
)
def test_what_boots_is_what_grub_would_make_of_the_default(value: str, kernel: str) -> None:
    assert booted(with_default(value)) == kernel


def test_the_default_for_one_boot_is_not_the_lasting_one() -> None:
    assert 'set default="${next_entry}"' in TEXT
    assert grub.chosen(with_default("1>2"), "next_entry=0") == "1>2"


def test_a_saved_default_is_read_from_the_environment() -> None:
    saved = with_default("${saved_entry}")

    assert booted(saved, f"# GRUB Environment Block\nsaved_entry={OLD_PATH}\n#####") == OLD
    assert booted(saved, "# GRUB Environment Block\n#####") == NEW


def test_the_name_for_the_older_kernel_is_the_id_below_the_submenu_and_never_the_recovery_entry() -> None:
    entry = grub.of_kernel(TEXT, OLD)

    assert entry is not None
    assert entry.path == OLD_PATH
    assert booted(with_default(entry.path)) == OLD


def test_a_recovery_entry_is_not_taken_although_it_comes_first() -> None:
    """As where somebody's script sorts the menu."""
    swapped = TEXT.replace(f"gnulinux-{OLD}-advanced-", "?").replace(f"gnulinux-{OLD}-recovery-", f"gnulinux-{OLD}-advanced-")
    swapped = swapped.replace("?", f"gnulinux-{OLD}-recovery-").replace(f"Linux {OLD} (recovery mode)", "!")
    swapped = swapped.replace(f"Linux {OLD}'", f"Linux {OLD} (recovery mode)'").replace("!", f"Linux {OLD}")

    entry = grub.of_kernel(swapped, OLD)

    assert entry is not None
    assert entry.places == (1, 3)
    assert entry.path == OLD_PATH


def test_the_newest_kernel_is_named_too_and_not_by_the_entry_that_is_whatever_is_newest() -> None:
    entry = grub.of_kernel(TEXT, NEW)

    assert entry is not None
    assert entry.path == f"gnulinux-advanced-{UUID}>gnulinux-{NEW}-advanced-{UUID}"


def test_a_menu_without_submenus_is_read_as_well() -> None:
    flat = "\n".join(line for line in TEXT.splitlines() if not line.startswith("submenu"))

    entry = grub.of_kernel(flat, OLD)

    assert entry is not None
    assert entry.path == f"gnulinux-{OLD}-advanced-{UUID}"


def test_entries_without_ids_are_named_by_their_titles() -> None:
    plain = TEXT.replace("$menuentry_id_option", "--unrestricted #")

    entry = grub.of_kernel(plain, OLD)

    assert entry is not None
    assert entry.path.endswith(f">Debian GNU/Linux, with Linux {OLD}")


def test_a_kernel_that_the_menu_lacks_is_not_made_up() -> None:
    assert grub.of_kernel(TEXT, "6.1.0-39-amd64") is None


def test_a_menu_that_blscfg_fills_in_has_no_entry_of_ours() -> None:
    assert grub.default("set default=0\ninsmod blscfg\nblscfg\n") is None


def test_a_node_without_a_boot_loader_says_so(tmp_path: Path) -> None:
    assert loader.read(tmp_path) == loader.Boot("", None)


def test_a_node_with_grub_tells_what_boots(tmp_path: Path) -> None:
    (tmp_path / "boot/grub").mkdir(parents=True)
    (tmp_path / "boot/grub/grub.cfg").write_text(with_default(OLD_PATH), encoding="utf-8")

    assert loader.read(tmp_path) == loader.Boot("grub", OLD)
