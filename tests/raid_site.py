"""The role nvme_raid0 on one virtual machine, which stands in the inventory under one or several names, each of which asks something else of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from burnin.adapters.ansible import HostResult, PlayRequest, play
from lab import vms
from lab.vms import Machine, Unavailable, Vm

ROOT = Path(__file__).resolve().parents[1]
ROLE = "---\n- name: Raid\n  hosts: gpu_nodes\n  gather_facts: false\n  roles:\n    - nvme_raid0\n"
PATIENCE_S = 570


@contextmanager
def machine(group: str, asked: Machine) -> Iterator[Vm]:
    """One machine, gone afterwards. In CI it must be there."""
    try:
        yield vms.up(group, [asked])[asked.name]
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have virtual machines: {why}")
        pytest.skip(str(why))
    finally:
        vms.down(group)


class Site:
    """`wanted`: what each name asks for where it does not say otherwise."""

    def __init__(self, place: Path, group: str, vm: Vm, wanted: dict[str, Any]) -> None:
        self.place, self.vm, self.wanted = place, vm, wanted
        vms.inventory(group, place / "vm.yml")
        nodes = yaml.safe_load((place / "vm.yml").read_text())["gpu_nodes"]
        self.reached = {**nodes["vars"], **nodes["hosts"][vm.name]}
        (place / "raid.yml").write_text(ROLE)

    def write(self, asked: dict[str, dict[str, Any]], **variables: Any) -> Path:
        """An inventory of these names."""
        path = self.place / "hosts.yml"
        hosts = {name: {**self.reached, **self.wanted, **own} for name, own in asked.items()}
        path.write_text(yaml.safe_dump({"gpu_nodes": {"hosts": hosts, "vars": variables}}))
        return path

    def roles(self, asked: dict[str, dict[str, Any]], *, check: bool = False, **extra: Any) -> dict[str, HostResult]:
        """The role for each name, one after the other: they are one machine. `extra`: what -e gives."""
        done = play(
            PlayRequest(
                project=ROOT, playbook=str(self.place / "raid.yml"), inventory=(self.write(asked),), hosts=tuple(asked), extravars=extra,
                timeout_s=PATIENCE_S, forks=1, check=check, work_base=self.place / "work",
            )
        )  # fmt: skip
        assert done.status == "finished", done.detail
        return done.hosts

    def role(self, *, check: bool = False, **asked: Any) -> HostResult:
        return self.roles({"n1": asked}, check=check)["n1"]

    def said(self, *argv: str) -> str:
        return self.vm.run(*argv, timeout=120).stdout.strip()

    def bytes(self, serials: Iterable[str], namespaces: int = 1) -> dict[str, str]:
        """Drive, as serial_namespace -> digest of all of it."""
        self.vm.run("sync")
        images = {f"{serial}_{n}": self.vm.image(serial, n) for serial in serials for n in range(1, namespaces + 1)}
        return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in images.items()}
