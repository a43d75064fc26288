"""Host names and their folders (field report B56)."""

from __future__ import annotations

import hashlib
import re

import pytest

from burnin.adapters.names import check_host_name, node_folder
from burnin.errors import InventoryError

ODD = [
    "2001:db8::17",
    "fe80::1%eth0",
    "gpu node-01",
    "GPU-01",
    "[C4]:AA-BB-11:FR22",
    "Ünï-01",
    "n|pipe",
    "<b>n",
    "=1+1",
    "n" * 200,
    "節点",
    "_x",
]


@pytest.mark.parametrize("name", [*ODD, "gpu-01", "n" * 255], ids=ascii)
def test_an_odd_name_is_welcome(name: str) -> None:
    check_host_name(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "empty"),
        ("a/b", "'/'"),
        ("../../etc/x", "'/'"),
        ("..", "a folder's"),
        ("-dash", "option"),
        ("n\x001", "U+0000"),
        ("n\n1", "U+000A"),
        ("n\x7f", "U+007F"),
        ("n\x9b31m", "U+009B"),
        ("n\u202e1", "U+202E"),
        ("n\ud800", "U+D800"),
        (" n1", "space"),
        ("n" * 256, "256 characters"),
    ],
    ids=ascii,
)
def test_an_unsafe_name_is_refused_by_name(name: str, said: str) -> None:
    with pytest.raises(InventoryError, match=re.escape(said)) as caught:
        check_host_name(name)

    message = str(caught.value)
    assert ascii(name) in message
    assert message.isprintable()
    with pytest.raises(InventoryError):
        node_folder(name)


@pytest.mark.parametrize("name", ["gpu-01", "0", "a.b_c-d", "n" * 63], ids=ascii)
def test_a_plain_name_is_its_own_folder(name: str) -> None:
    assert node_folder(name) == name


@pytest.mark.parametrize(
    ("name", "readable"), [("GPU-01", "gpu-01"), ("2001:db8::17", "2001-db8-17"), ("Ünï-01", "uni-01"), ("節点", "")], ids=ascii
)
def test_an_odd_name_keeps_something_readable(name: str, readable: str) -> None:
    digest = hashlib.sha256(name.encode()).hexdigest()[:10]

    assert node_folder(name) == f"_{readable}-{digest}"


def test_no_two_names_share_a_folder_even_where_case_is_ignored() -> None:
    names = [
        *ODD,
        "gpu-01",
        "Gpu-01",
        "gpu-node-01",
        "n" * 63,
        "n" * 64,
        "n" * 201,
        "u\u0308ni-01",
        "\u00fcni-01",
        "gpu-01\u00b7",
        "N|PIPE",
    ]
    folders = [node_folder(name) for name in names]

    assert len(names) == len({folder.casefold() for folder in folders})
    assert all(re.fullmatch(r"[a-z0-9._-]{1,63}", folder) for folder in folders)


def test_nobody_can_take_the_folder_of_an_odd_name() -> None:
    """A host that is named like another's folder: the two must not meet."""
    taken = node_folder("GPU-01")

    assert node_folder(taken) != taken
    assert node_folder(taken.removeprefix("_")) != taken
