"""burnin_stack on two nodes: it reads, and it refuses before anything is changed."""

from __future__ import annotations

import json

import pytest

from lab import verify

VARIABLE = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def name_of(host) -> str:
    return host.backend.get_hostname()


def refusal(**wrong: object) -> tuple[dict, list[str]]:
    before = verify.events()[-1]
    record = verify.play("refuse.yml", REFUSE_WITH=json.dumps(wrong))
    assert verify.touched(before, record) == {"node-1": [], "node-2": []}
    return record, [failed["message"] for failed in record["failed"]]


def test_it_reads_and_changes_nothing_in_check_mode_and_out_of_it() -> None:
    before, *records = verify.events()[-3:]

    assert [record["check"] for record in records] == [True, False]
    for record in records:
        assert verify.sound(record)
        assert record["changed"] == []
        assert verify.touched(before, record) == {"node-1": [], "node-2": []}


def test_it_runs_once_however_often_it_is_asked_for() -> None:
    once = {host["ok"] for host in verify.events()[-1]["hosts"].values()}

    assert once == {6}, "argument spec, read, three decisions and what is said"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        pytest.param({"sku": "V100-SXM2-16GB"}, "[FLAVOUR_WRONG]", id="open modules on Volta"),
        pytest.param({"sku": "H100-SMX5"}, "did you mean 'H100-SXM5-80GB'", id="a SKU that is misspelt"),
        pytest.param({"stack": {"driver": {"version": "580"}}}, "driver", id="a version that is none"),
    ],
)
def test_a_stack_that_does_not_fit_is_refused_with_the_nodes_name(host, wrong: dict, says: str) -> None:
    if name_of(host) != "node-1":
        pytest.skip("once is enough: the play is on both nodes")
    record, messages = refusal(**wrong)

    assert record["rc"] == 2
    assert len(messages) == 2
    for name, message in zip(("node-1", "node-2"), sorted(messages), strict=True):
        assert message.startswith(f"{name} (")
        assert says in message
        assert "Nothing was changed" in message


def test_a_distribution_that_is_none_of_ours_is_refused(host) -> None:
    host.check_output(
        "mkdir -p /run/fedora/etc && echo 'ID=fedora\nVERSION_ID=44\nPRETTY_NAME=\"Fedora Linux 44\"' >/run/fedora/etc/os-release"
    )
    if name_of(host) != "node-2":
        pytest.skip("once is enough, and both must be planted")

    record, messages = refusal(root="/run/fedora")

    assert record["rc"] == 2
    assert len(messages) == 2
    assert all("Fedora Linux 44" in message and "Known: ubuntu2204" in message for message in messages)


def test_modules_that_secure_boot_would_not_load_are_refused_unless_the_key_is_enrolled(host) -> None:
    root = "/run/secure"
    host.check_output(
        f"mkdir -p {root}/etc $(dirname {root}/{VARIABLE}) && cp /etc/os-release {root}/etc/ && printf '\\006\\000\\000\\000\\001' >{root}/{VARIABLE}"
    )
    if name_of(host) != "node-2":
        pytest.skip("once is enough, and both must be planted")

    record, messages = refusal(root=root)

    assert [failed["host"] for failed in record["failed"]] == ["node-1"], "node-2 has burnin_stack_secure_boot_ok"
    assert "Secure Boot is on" in messages[0]
    assert "nvidia_uvm" in messages[0]
    assert "mokutil" in messages[0]
