"""What dkms has built, read from its tree; what must be built again; and the look at a node as a whole."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import ansible.module_utils
import pytest

ROOT = Path(__file__).resolve().parents[3]
ansible.module_utils.__path__.append(str(ROOT / "plugins/module_utils"))
from ansible.module_utils.burnin_dkms import building, tree  # noqa: E402

KERNEL, OTHER = "6.1.0-40-amd64", "6.1.0-41-amd64"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"plugins/modules/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def plant(root: Path, name: str, version: str, kernel: str, built_s: float, *, installed: bool = True) -> None:
    folder = root / "var/lib/dkms" / name / version / kernel / "x86_64/module"
    folder.mkdir(parents=True)
    (folder / f"{name}.ko").write_text("stub")
    os.utime(folder / f"{name}.ko", (built_s, built_s))
    if installed:
        (root / "var/lib/dkms" / name / f"kernel-{kernel}-x86_64").symlink_to(f"{version}/{kernel}/x86_64")


def test_builds_are_read_with_their_state_and_time(tmp_path: Path) -> None:
    plant(tmp_path, "nvidia", "580.126.09", KERNEL, 1000)
    plant(tmp_path, "nvidia", "570.172.08", KERNEL, 900, installed=False)

    assert [(one.version, one.kernel, one.installed, one.built_s) for one in tree.builds(tmp_path)] == [
        ("570.172.08", KERNEL, False, 900.0), ("580.126.09", KERNEL, True, 1000.0),
    ]  # fmt: skip


def test_a_node_without_dkms_has_no_builds(tmp_path: Path) -> None:
    assert tree.builds(tmp_path) == []


def test_a_module_that_is_only_added_is_no_build(tmp_path: Path) -> None:
    (tmp_path / "var/lib/dkms/nvidia/580.126.09/build").mkdir(parents=True)

    assert tree.builds(tmp_path) == []


@pytest.mark.parametrize(
    ("ofed_s", "stale"),
    [
        pytest.param(1001, [KERNEL], id="OFED is newer"),
        pytest.param(999, [], id="OFED is older"),
        pytest.param(1000, [], id="the same second"),
    ],
)
def test_a_driver_that_was_built_before_ofed_is_stale(tmp_path: Path, ofed_s: float, stale: list[str]) -> None:
    plant(tmp_path, "nvidia", "580.126.09", KERNEL, 1000)
    plant(tmp_path, "mlnx-ofed-kernel", "25.10", KERNEL, ofed_s)

    assert [one.kernel for one in tree.stale(tree.builds(tmp_path), "nvidia", "mlnx-ofed-kernel")] == stale


def test_ofed_for_another_kernel_makes_nothing_stale(tmp_path: Path) -> None:
    plant(tmp_path, "nvidia", "580.126.09", KERNEL, 1000)
    plant(tmp_path, "mlnx-ofed-kernel", "25.10", OTHER, 2000)

    assert tree.stale(tree.builds(tmp_path), "nvidia", "mlnx-ofed-kernel") == []


PARAMS = {"name": "nvidia", "version": "580.126.09", "kernels": [KERNEL], "after": "mlnx-ofed-kernel", "again": False}


@pytest.mark.parametrize(
    ("changed", "jobs"),
    [
        pytest.param({}, [], id="it is there"),
        pytest.param({"again": True}, [("580.126.09", KERNEL, True)], id="told to build again"),
        pytest.param({"kernels": [KERNEL, OTHER]}, [("580.126.09", OTHER, False)], id="a kernel that lacks it"),
        pytest.param({"version": "580.150.02"}, [("580.150.02", KERNEL, False)], id="another version"),
        pytest.param({"version": "", "kernels": []}, [], id="whatever is there"),
        pytest.param({"version": "", "kernels": [], "again": True}, [("580.126.09", KERNEL, True)], id="whatever is there, again"),
        pytest.param({"name": "other", "version": "", "kernels": [KERNEL]}, [], id="a module that is not there at all"),
    ],
)
def test_only_what_is_missing_or_stale_is_built(tmp_path: Path, changed: dict[str, object], jobs: list[object]) -> None:
    plant(tmp_path, "nvidia", "580.126.09", KERNEL, 1000)

    assert module("burnin_dkms").wanted({**PARAMS, **changed}, tree.builds(tmp_path)) == jobs


def test_a_stale_build_is_a_job(tmp_path: Path) -> None:
    plant(tmp_path, "nvidia", "580.126.09", KERNEL, 1000)
    plant(tmp_path, "mlnx-ofed-kernel", "25.10", KERNEL, 2000)

    assert module("burnin_dkms").wanted(PARAMS, tree.builds(tmp_path)) == [("580.126.09", KERNEL, True)]


def test_headers_and_sources_are_looked_for_where_dkms_does(tmp_path: Path) -> None:
    assert (building.headers(KERNEL, tmp_path), building.sources("nvidia", "580.126.09", tmp_path)) == (False, False)

    (tmp_path / "lib/modules" / KERNEL / "build").mkdir(parents=True)
    (tmp_path / "usr/src/nvidia-580.126.09").mkdir(parents=True)
    (tmp_path / "usr/src/nvidia-580.126.09/dkms.conf").write_text("")

    assert (building.headers(KERNEL, tmp_path), building.sources("nvidia", "580.126.09", tmp_path)) == (True, True)


def test_a_node_is_read_in_one_look(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text('PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nID=debian\n')
    (tmp_path / "boot").mkdir()
    (tmp_path / f"boot/vmlinuz-{KERNEL}").write_text("")
    (tmp_path / "lib/modules" / OTHER / "build").mkdir(parents=True)
    (tmp_path / "lib/modules" / OTHER / "vmlinuz").write_text("")
    plant(tmp_path, "nvidia", "580.126.09", KERNEL, 1000)

    told = module("burnin_system").read(tmp_path)

    assert told["os"] == {"id": "debian", "version": "12", "pretty": "Debian GNU/Linux 12 (bookworm)"}
    assert told["kernels"] == [KERNEL, OTHER]
    assert told["headers"] == [OTHER]
    assert told["secure_boot"] is False
    assert told["boot"] == {"loader": "", "kernel": None}
    assert told["dkms"][0]["version"] == "580.126.09"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"\x06\0\0\0\x01", True, id="on"),
        pytest.param(b"\x06\0\0\0\x00", False, id="off"),
        pytest.param(b"", None, id="empty"),
        pytest.param(None, None, id="UEFI without its variables"),
    ],
)
def test_secure_boot_is_told_or_unknown(tmp_path: Path, content: bytes | None, told: bool | None) -> None:
    system = module("burnin_system")
    variable = tmp_path / system.SECURE_BOOT
    variable.parent.mkdir(parents=True)
    if content is not None:
        variable.write_bytes(content)

    assert system.secure_boot(tmp_path) is told
