"""/etc/nccl.conf: every line has its reason, names match exactly, debug variables never."""

from __future__ import annotations

from typing import Any

import pytest

from burnin.errors import StackError
from burnin.stack.nccl_conf import nccl_conf

OPEN, PROPRIETARY = {"peer_memory": "dma-buf"}, {"peer_memory": "nvidia_peermem"}


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_most_skus_need_nothing() -> None:
    assert lines(nccl_conf(OPEN)) == []


def test_what_follows_from_the_sku() -> None:
    assert lines(nccl_conf(PROPRIETARY)) == ["NCCL_DMABUF_ENABLE=0"]


def test_the_profile_for_roce_is_the_field_tested_one() -> None:
    assert lines(nccl_conf(OPEN, "roce", gid_index=5)) == [
        "NCCL_IB_TIMEOUT=22", "NCCL_IB_RETRY_CNT=7", "NCCL_IB_QPS_PER_CONNECTION=8", "NCCL_IB_TC=106", "NCCL_IB_GID_INDEX=5",
    ]  # fmt: skip


def test_adapters_and_interfaces_match_exactly() -> None:
    assert lines(nccl_conf(OPEN, hca=["mlx5_0", "mlx5_1:1"], socket_interfaces=["eno1"])) == [
        "NCCL_IB_HCA==mlx5_0,mlx5_1:1",
        "NCCL_SOCKET_IFNAME==eno1",
    ]


def test_every_line_has_its_reason_above_it_and_no_comment_could_be_read_as_a_variable() -> None:
    site = [{"name": "NCCL_CROSS_NIC", "value": "0", "why": "a rail per switch; a=b"}]

    text = nccl_conf(PROPRIETARY, "roce", ["mlx5_0"], 3, ["eno1"], site)

    assert len(lines(text)) == 9
    for block in text.split("\n\n")[1:]:
        comment, line = block.strip().split("\n")
        assert comment.startswith("# ")
        assert "=" not in comment, "NCCL before 2.23 takes any line with = for a variable"
        assert not line.startswith("#")
    assert "=" not in text.split("\n\n", maxsplit=1)[0]


def test_a_site_has_the_last_word_on_a_line() -> None:
    text = nccl_conf(OPEN, "roce", settings=[{"name": "NCCL_IB_TC", "value": "41", "why": "our switches use another class"}])

    assert [line for line in lines(text) if line.startswith("NCCL_IB_TC")] == ["NCCL_IB_TC=41"]
    assert len(lines(text)) == 5


@pytest.mark.parametrize(
    ("more", "says"),
    [
        pytest.param({"name": "NCCL_DEBUG", "value": "INFO", "why": "x"}, "NCCL_DEBUG is refused", id="debug"),
        pytest.param({"name": "NCCL_DEBUG_SUBSYS", "value": "ALL", "why": "x"}, "NCCL_DEBUG_SUBSYS is refused", id="debug of a part"),
        pytest.param({"name": "CUDA_VISIBLE_DEVICES", "value": "0", "why": "x"}, "found 'CUDA_VISIBLE_DEVICES'", id="not NCCL's"),
        pytest.param({"name": "NCCL_ALGO", "value": "", "why": "x"}, "NCCL_ALGO: found ''", id="no value"),
        pytest.param({"name": "NCCL_ALGO", "value": "a\nNCCL_DEBUG=INFO", "why": "x"}, "one line", id="two lines"),
        pytest.param({"name": "NCCL_ALGO", "value": "Ring", "why": ""}, "no `why`", id="no reason"),
    ],
)
def test_what_may_not_stand_there_is_refused_by_name(more: dict[str, Any], says: str) -> None:
    with pytest.raises(StackError) as raised:
        nccl_conf(OPEN, settings=[more])

    assert says in str(raised.value)


@pytest.mark.parametrize("device", ["=mlx5_0", "^mlx5_0", "mlx5_0,mlx5_1", "", "mlx5_0 "])
def test_a_device_is_a_name_and_no_pattern(device: str) -> None:
    with pytest.raises(StackError, match="NCCL_IB_HCA"):
        nccl_conf(OPEN, hca=[device])


def test_a_variable_given_twice_is_refused() -> None:
    one = {"name": "NCCL_ALGO", "value": "Ring", "why": "x"}

    with pytest.raises(StackError, match="twice"):
        nccl_conf(OPEN, settings=[one, {**one, "value": "Tree"}])


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(StackError, match="expected none or roce"):
        nccl_conf(OPEN, "rocev2")
