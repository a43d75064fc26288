"""The texts of dnf: versionlock's list is shared with people, what a spec means, repositories and streams."""

from __future__ import annotations

from pathlib import Path

import ansible.module_utils
import pytest

ROOT = Path(__file__).resolve().parents[3]
ansible.module_utils.__path__.append(str(ROOT / "plugins/module_utils"))
from ansible.module_utils.burnin_group import dnf_files as files  # noqa: E402

THEIRS = "# the site's own\nvim-enhanced-2:8.2*\n"
MINE = ["nvidia-open-3:580.126.09-*"]


def package(name: str, evr: str, arch: str = "x86_64") -> files.Installed:
    return files.Installed(name, arch, evr)


def test_a_block_is_added_replaced_and_taken_out_and_no_other_byte_changes() -> None:
    added = files.with_block(THEIRS, "driver", MINE)
    replaced = files.with_block(added + "bash-0:5*\n", "driver", ["other-1-1"])

    assert added.startswith(THEIRS)
    assert files.blocks(added) == {"driver": MINE}
    assert files.blocks(replaced) == {"driver": ["other-1-1"]}
    assert files.with_block(replaced, "driver", []) == THEIRS + "bash-0:5*\n"
    assert files.with_block(added, "driver", MINE) == added


def test_groups_have_blocks_of_their_own() -> None:
    text = files.with_block(files.with_block("", "driver", MINE), "nccl", ["libnccl-2.28.9-1+cuda12.9"])

    assert files.with_block(text, "driver", []) == files.with_block("", "nccl", ["libnccl-2.28.9-1+cuda12.9"])


@pytest.mark.parametrize("end", ["begin", "end"])
def test_a_block_whose_other_end_somebody_took_out_swallows_nothing(end: str) -> None:
    marks = {"begin": files.BEGIN.format("driver"), "end": files.END.format("driver")}
    broken = f"{marks[end]}\nbash-0:5*\n" + files.with_block("", "nccl", ["libnccl-1-1"])

    mended = files.with_block(broken, "driver", MINE)

    assert mended == "bash-0:5*\n" + files.with_block("", "nccl", ["libnccl-1-1"]) + files.with_block("", "driver", MINE)


def test_a_list_without_a_last_line_break_keeps_its_last_line() -> None:
    assert files.rules(files.with_block("bash-0:5*", "driver", MINE)) == ["bash-0:5*", *MINE]


def test_another_group_takes_over_the_exact_locks_of_what_it_moves() -> None:
    text = files.with_block(
        THEIRS + "kernel-mft-0:4-1.*\n", "kernel", ["kernel-core-0:5.14.0-1.*", "kernel-mft-0:4.33.0-1.*", "kernel-mft-*"]
    )

    left = files.without(text, ["kernel-mft"])

    assert files.blocks(left) == {"kernel": ["kernel-core-0:5.14.0-1.*", "kernel-mft-*"]}
    assert left.startswith(THEIRS + "kernel-mft-0:4-1.*\n")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param("nvidia-open", True, id="a name"),
        pytest.param("nvidia-open.x86_64", True, id="a name and an architecture"),
        pytest.param("nvidia-open-3:580.126.09-*", True, id="the epoch and any release"),
        pytest.param("nvidia-open-580.126.09-1.el9", True, id="no epoch is any epoch, as dnf has it"),
        pytest.param("nvidia-open-580.126.09", True, id="no release"),
        pytest.param("nvidia-open-3:580.126.09-1.el9.*", True, id="as versionlock writes it"),
        pytest.param("nvidia-*-3:580.126.09-*", True, id="a glob in the name"),
        pytest.param("nvidia-open-0:580.126.09-*", False, id="another epoch"),
        pytest.param("nvidia-open-3:580.126.0-*", False, id="another version"),
        pytest.param("nvidia-open-3:580.126.09-1.el9.aarch64", False, id="another architecture"),
        pytest.param("nvidia", False, id="part of a name"),
    ],
)
def test_what_a_spec_means(spec: str, expected: bool) -> None:
    assert package("nvidia-open", "3:580.126.09-1.el9").fits(spec) is expected


def test_unlocked_is_what_no_line_locks_at_its_version() -> None:
    here = [package("nvidia-open", "3:580.126.09-1.el9"), package("nvidia-settings", "3:580.126.09-1.el9"), package("bash", "0:5.1-1")]

    found = files.unlocked(here, "nvidia-open-3:580.126.09-*\nnvidia-settings-3:570.1-*\n!bash-0:5.1-1.*\n# bash\n")

    assert [one.name for one in found] == ["nvidia-settings", "bash"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("nvidia-open-3:570.172.08-1.el9.*", True, id="another version"),
        pytest.param("nvidia-open", True, id="any version"),
        pytest.param("nvidia-*", True, id="any version of a glob"),
        pytest.param("nvidia-open-570.172.08", True, id="no release"),
        pytest.param("nvidia-open-3:580.126.09-*", False, id="the same version"),
        pytest.param("nvidia-3:570.172.08-1", False, id="a package whose name ours begins with"),
        pytest.param("nvidia-open-extras-3:570-1", False, id="a package whose name begins with ours"),
        pytest.param("!nvidia-open", False, id="an exclude lets nothing through"),
    ],
)
def test_a_line_that_lets_another_version_through(line: str, expected: bool) -> None:
    ours = files.wanted("nvidia-open", "3:580.126.09-*")

    assert bool(files.loosening(f"{line}\n", [ours])) is expected
    assert not files.loosening(files.with_block("", "driver", [line]), [ours])


def test_what_a_group_excludes_counts_for_other_groups_too() -> None:
    lines = files.block(["doca-ofed-3.2.1-*"], {"cuda": ["mft*", "kernel-mft*"], "main": ["kernel"]})

    text = files.with_block(THEIRS, "ofed", lines)

    assert files.rules(text) == ["vim-enhanced-2:8.2*", "doca-ofed-3.2.1-*", "!kernel"]
    assert files.recorded(text) == {"cuda": ["mft*", "kernel-mft*"]}


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("3:580.126.09-1.el9", "3:570.172.08-1.el9"), ("1:1-1", "0:2-1"), ("0:1.10-1", "0:1.9-1"), ("0:1.0-1", "0:1.0~rc1-1"), ("0:1.0^git1-1", "0:1.0-1"),
        ("0:1.0.1-1", "0:1.0^git1-1"), ("0:1.0.1-1", "0:1.0a-1"), ("0:1.0a-1", "0:1.0-1"), ("0:1-2", "0:1-1"), ("0:2.28.9-1+cuda13.0", "0:2.28.9-1+cuda12.9"),
    ],
)  # fmt: skip
def test_newer_is_what_rpm_says(newer: str, older: str) -> None:
    assert files.newer(newer, older)
    assert not files.newer(older, newer)
    assert not files.newer(newer, newer)


def test_rpm_is_read_without_its_keys_and_an_odd_line_is_refused() -> None:
    said = "bash\tx86_64\t0:5.1-1\ngpg-pubkey\t(none)\t0:db87-6\nkernel\tx86_64\t0:2-1\nkernel\tx86_64\t0:1-1\n"

    assert [one.lock for one in files.installed(said)] == ["bash-0:5.1-1.*", "kernel-0:1-1.*", "kernel-0:2-1.*"]
    with pytest.raises(ValueError, match="not name, architecture and version"):
        files.installed("bash 5.1\n")


def test_two_versions_at_once_are_told_but_of_kernels() -> None:
    here = [package("kernel-devel", "0:1-1"), package("kernel-devel", "0:2-1"), package("libnccl", "0:1-1"), package("libnccl", "0:2-1")]
    both = [package("glibc", "0:1-1"), package("glibc", "0:1-1", "i686")]

    assert files.twice([*here, *both]) == {"libnccl.x86_64": ["0:1-1", "0:2-1"]}


def test_a_repository_has_its_excludes_once_and_no_line_of_its_own_making() -> None:
    options = {"baseurl": "https://mirror.example/", "gpgcheck": "1", "excludepkgs": "mft*"}

    text = files.repository("burnin-cuda", "NVIDIA CUDA", options, ["mft*", "kernel-mft*"])

    assert text == (
        "# Written by burnin, which owns this file.\n[burnin-cuda]\nname=NVIDIA CUDA\nbaseurl=https://mirror.example/\ngpgcheck=1\n"
        "excludepkgs=mft* kernel-mft*\n"
    )
    with pytest.raises(ValueError, match="line break"):
        files.repository("burnin-cuda", "x\n[other]", {}, [])


def test_the_urls_of_a_repo_file_that_is_on() -> None:
    text = "[a]\nbaseurl=https://one/ https://two/\n[b]\nenabled=0\nbaseurl=https://three/\n[c]\nmirrorlist=https://four/\n"

    assert dict(files.sources(text)) == {"a": ["https://one/", "https://two/"], "c": [""]}
    assert dict(files.sources("no repo file")) == {}


def test_the_stream_that_is_enabled() -> None:
    text = "[nvidia-driver]\nname=nvidia-driver\nstream=580-open\nprofiles=\nstate={}\n"

    assert files.stream(text.format("enabled"), "nvidia-driver") == "580-open"
    assert files.stream(text.format("disabled"), "nvidia-driver") == ""
    assert files.stream("", "nvidia-driver") == ""
