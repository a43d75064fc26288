"""cuda_toolkit on two nodes, one with two toolkits and the profile script, one with neither."""

from __future__ import annotations

import pytest

from lab import verify

TOOLKITS = {"node-1": {"cuda-toolkit-12-9": "12.9.1-1", "cuda-toolkit-13-0": "13.0.2-1"}, "node-2": {"cuda-toolkit-12-9": "12.9.1-1"}}
PROFILE = "/etc/profile.d/burnin-cuda.sh"


def name_of(host) -> str:
    return host.backend.get_hostname()


def test_check_mode_changes_nothing_and_what_is_pinned_stays_when_newer_builds_come() -> None:
    verify.stays_put()


def test_a_dist_upgrade_would_move_nothing(host) -> None:
    assert verify.moved_by_dist_upgrade(host) == []


def test_exactly_the_toolkits_of_the_stack_are_there_and_none_brought_a_driver(host) -> None:
    packages = verify.installed(host)

    toolkits = {name: version for name, version in packages.items() if name.startswith("cuda-toolkit-") and not name.endswith("common")}
    assert toolkits == TOOLKITS[name_of(host)]
    assert [name for name in packages if name.startswith(("cuda-drivers", "cuda-runtime", "nvidia-", "libnvidia-"))] == []


def test_what_belongs_to_them_is_held(host) -> None:
    versioned = {name for name in verify.installed(host) if name.endswith(("-12-9", "-13-0"))}

    assert len(versioned) >= 4
    assert versioned <= verify.held(host)


def test_the_default_is_what_usr_local_cuda_leads_to(host) -> None:
    assert host.file("/usr/local/cuda").exists
    assert host.check_output("readlink -f /usr/local/cuda") == "/usr/local/cuda-12.9"
    assert "release 12.9" in host.check_output("/usr/local/cuda/bin/nvcc --version")
    assert "manual" in host.check_output("update-alternatives --query cuda"), "the next toolkit's priority would take it"


def test_a_login_shell_finds_it_in_lib64_and_a_second_one_adds_nothing(host) -> None:
    if name_of(host) == "node-2":
        assert not host.file(PROFILE).exists
        return

    path, libraries, home = host.check_output(
        f"sh -ec '. {PROFILE}; . {PROFILE}; echo $PATH; echo $LD_LIBRARY_PATH; echo $CUDA_HOME'"
    ).splitlines()

    assert path.split(":").count("/usr/local/cuda/bin") == 1
    assert libraries == "/usr/local/cuda/lib64"
    assert home == "/usr/local/cuda"


def test_another_default_is_one_change_and_back(host) -> None:
    if name_of(host) != "node-1":
        pytest.skip("once is enough: the play is on both nodes")

    there = verify.play("default.yml", CUDA_DEFAULT="13.0.2")
    now = host.check_output("readlink -f /usr/local/cuda")
    back = verify.play("default.yml", CUDA_DEFAULT="12.9.1")

    assert (there["rc"], back["rc"]) == (0, 0)
    assert now == "/usr/local/cuda-13.0"
    assert host.check_output("readlink -f /usr/local/cuda") == "/usr/local/cuda-12.9"
    assert {step["task"] for step in there["changed"]} == {"Install | Put the pinned toolkits in place"}
