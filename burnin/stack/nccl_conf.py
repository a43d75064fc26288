"""The text of /etc/nccl.conf: by SKU (what the resolution says of it), by profile and by site, each line with its reason. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from burnin.errors import StackError
from burnin.stack.compat import load

NAME = re.compile(r"NCCL_[A-Z0-9_]+")
DEVICE = re.compile(r"[A-Za-z0-9_.-]+(:[0-9]+)?")
HEAD = (
    "# Written by burnin (role nccl): what is changed by hand here is gone after the next run. A job's own environment has the last word.\n"
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One line, and the comment above it. `why` holds no `=`: NCCL before 2.23 reads such a comment as a variable."""

    name: str
    value: str
    why: str

    @property
    def lines(self) -> str:
        return f"# {self.why.replace('=', ':').strip()}\n{self.name}={self.value}\n"


def nccl_conf(
    resolution: Mapping[str, Any],
    profile: str = "none",
    hca: Sequence[str] = (),
    gid_index: int = 3,
    socket_interfaces: Sequence[str] = (),
    settings: Sequence[Mapping[str, Any]] = (),
) -> str:
    """The file as the node is to have it. Raises StackError for what may not stand in it, naming what to do.

    `hca` and `socket_interfaces` match exactly: without the second `=` mlx5_1 is mlx5_10 too (NCCL's documentation of NCCL_IB_HCA).
    """
    data = load("nccl.yaml")
    found = [Setting(one["name"], one["value"], one["why"]) for one in data["settings"] if _holds(one["when"], resolution)]
    found += _profile(data, profile, gid_index)
    found += _exact("NCCL_IB_HCA", hca, "these adapters and no others; the second sign makes the names exact, else mlx5_1 is mlx5_10 too")
    found += _exact("NCCL_SOCKET_IFNAME", socket_interfaces, "bootstrap and sockets over these interfaces and no others")
    theirs = [_of_site(one, data) for one in settings]
    named = [one.name for one in theirs]
    if twice := sorted({name for name in named if named.count(name) > 1}):
        raise StackError(f"nccl_settings: {', '.join(twice)} is given twice; keep one")
    return HEAD + "".join(f"\n{one.lines}" for one in [*(one for one in found if one.name not in named), *theirs])


def _holds(when: Mapping[str, Sequence[str]], resolution: Mapping[str, Any]) -> bool:
    return all(resolution[key] in values for key, values in when.items())


def _profile(data: Mapping[str, Any], profile: str, gid_index: int) -> Iterator[Setting]:
    if profile == "none":
        return
    if profile not in data["profiles"]:
        raise StackError(f"nccl_profile: found {profile!r}; expected none or {', '.join(data['profiles'])}")
    yield from (Setting(one["name"], one["value"], one["why"]) for one in data["profiles"][profile])
    yield Setting(
        "NCCL_IB_GID_INDEX", str(gid_index), "the entry of the adapters' GID table that is RoCE v2 over IPv4 at this site (show_gids)"
    )


def _exact(name: str, devices: Sequence[str], why: str) -> list[Setting]:
    if wrong := [one for one in devices if not DEVICE.fullmatch(one)]:
        raise StackError(f"{name}: found {wrong[0]!r}; expected a device's name, as mlx5_0 or mlx5_0:1, without = or ^")
    return [Setting(name, f"={','.join(devices)}", why)] if devices else []


def _of_site(one: Mapping[str, Any], data: Mapping[str, Any]) -> Setting:
    name, value, why = (str(one.get(key, "")).strip() for key in ("name", "value", "why"))
    if not NAME.fullmatch(name):
        raise StackError(f"nccl_settings: found {name!r}; expected the name of a variable, NCCL_...")
    for refused in data["refused"]:
        if name.startswith(refused["prefix"]):
            raise StackError(f"nccl_settings: {name} is refused: {refused['why']}; set it in the job's own environment")
    if not value or "\n" in value or "\n" in why:
        raise StackError(f"nccl_settings: {name}: found {value!r}; expected one line that is not empty")
    if not why:
        raise StackError(f"nccl_settings: {name} has no `why`; say what it is for, it stands above it in the file")
    return Setting(name, value, why)
