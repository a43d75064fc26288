"""The udev rules that give the names: interfaces by GUID or PCI function, RDMA devices by rdma_rename. Pure."""

from __future__ import annotations

from typing import Iterable, List

from ansible.module_utils.burnin_ib.model import HEAD, INFINIBAND_TYPE, Asked, Interface

NAMING = """\
# The kernel's names of RDMA devices stay (mlx5_0); in the place of the distribution's file of this name, which would rename them.
"""


def _tail(guid: str) -> str:
    return ":".join(guid[at : at + 2] for at in range(0, 16, 2))


def _gid(guid: str) -> str:
    return ":".join(guid[at : at + 4] for at in range(0, 16, 4))


def interfaces(found: Iterable[Interface], asked: Asked) -> str:
    """Only the last 8 of the address's 20 bytes are the port's; those before change at each boot. `KERNEL!="*.*"`: a partition's interface has its
    parent's address and PCI function, and must not get its name. Names whose card is away stay known by their comment.
    """
    lines = [HEAD]
    if asked.pattern:
        lines.append("# order=%s pattern=%s" % (asked.order, asked.pattern))
    for one in sorted(found, key=lambda one: (one.port.pci, one.port.number)):
        match = ['SUBSYSTEM=="net"', 'ACTION=="add"', 'ATTR{type}=="%d"' % INFINIBAND_TYPE, 'KERNEL!="*.*"']
        if one.pinned == "guid":
            match.append('ATTR{address}=="?*%s"' % _tail(one.port.guid))
        else:
            match += ['KERNELS=="%s"' % one.port.pci, 'ATTR{dev_port}=="%d"' % (one.port.number - 1)]
        lines += [given(one.port.pci, one.port.number, one.name), ", ".join([*match, 'NAME="%s"' % one.name])]
    return "\n".join(lines) + "\n"


def given(pci: str, port: int, name: str) -> str:
    """The comment by which a name is known again; choosing.GIVEN reads it."""
    return "# pci=%s port=%d name=%s" % (pci, port, name)


def rdma(found: Iterable[Interface]) -> str:
    """Before the distribution's own rule (60-): its rdma_rename then finds no device of the old name, and leaves ours alone. "" where none is asked for."""
    lines: List[str] = []
    for one in sorted(found, key=lambda one: one.port.pci):
        if one.rdma_name:
            where = 'KERNELS=="%s"' % one.port.pci
            if one.pinned == "guid":
                where = 'ATTR{ports/%d/gids/0}=="*:%s"' % (one.port.number, _gid(one.port.guid))
            lines.append('ACTION=="add", SUBSYSTEM=="infiniband", %s, PROGRAM="rdma_rename %%k NAME_FIXED %s"' % (where, one.rdma_name))
    return "\n".join([HEAD, *lines]) + "\n" if lines else ""


def naming(asked: Asked) -> str:
    """The distribution's rule, put out of work; "" where it is kept."""
    return HEAD + "\n" + NAMING if asked.rdma_naming == "kernel" else ""
