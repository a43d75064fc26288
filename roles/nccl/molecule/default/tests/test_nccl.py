"""nccl on two nodes, one with the defaults and one with everything changed."""

from __future__ import annotations

import pytest

from lab import verify

VERSION = "2.28.3-1+cuda12.9"
LINES = {
    "node-1": [],
    "node-2": [
        "NCCL_DMABUF_ENABLE=0", "NCCL_IB_TIMEOUT=22", "NCCL_IB_RETRY_CNT=7", "NCCL_IB_QPS_PER_CONNECTION=8", "NCCL_IB_TC=106", "NCCL_IB_GID_INDEX=5",
        "NCCL_IB_HCA==mlx5_0,mlx5_1", "NCCL_SOCKET_IFNAME==eno1", "NCCL_CROSS_NIC=0",
    ],
}  # fmt: skip


def name_of(host) -> str:
    return host.backend.get_hostname()


def test_check_mode_changes_nothing_and_what_is_pinned_stays_when_newer_builds_come() -> None:
    verify.stays_put()


def test_a_dist_upgrade_would_move_nothing(host) -> None:
    assert verify.moved_by_dist_upgrade(host) == []


def test_library_and_headers_are_the_pair_that_is_pinned_and_held(host) -> None:
    packages = verify.installed(host)

    assert {name: version for name, version in packages.items() if name.startswith("libnccl")} == {
        "libnccl2": VERSION,
        "libnccl-dev": VERSION,
    }
    assert {"libnccl2", "libnccl-dev"} <= verify.held(host)
    assert VERSION in host.file("/etc/apt/preferences.d/burnin-nccl").content_string


def test_nccl_conf_has_a_reason_above_each_line(host) -> None:
    conf = host.file("/etc/nccl.conf")
    lines = conf.content_string.splitlines()

    assert [line for line in lines if line and not line.startswith("#")] == LINES[name_of(host)]
    assert conf.mode == 0o644
    for number, line in enumerate(lines):
        if line and not line.startswith("#"):
            assert lines[number - 1].startswith("# ")


def test_a_debug_variable_is_refused_and_nothing_changes(host) -> None:
    if name_of(host) != "node-1":
        pytest.skip("once is enough: the play is on both nodes")
    before = verify.now()

    refused = verify.play("refuse.yml")

    assert refused["rc"] == 2
    assert refused["changed"] == []
    assert {failed["host"] for failed in refused["failed"]} == {"node-1", "node-2"}
    for failed in refused["failed"]:
        assert "NCCL_DEBUG is refused" in failed["message"]
    assert verify.touched(before, refused) == {"node-1": [], "node-2": []}
