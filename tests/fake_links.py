"""A node to be given IPoIB interfaces: a tree of tests/lab/fake_root.py, looked at, planned for and written to as the module does it."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import ansible.module_utils

from burnin.node.host.document import host as identity
from lab import fake_root

ROOT = Path(__file__).resolve().parents[1]
ansible.module_utils.__path__.append(str(ROOT / "plugins/module_utils"))
from ansible.module_utils.burnin_ib import asking, making, model, planning, reading  # noqa: E402

SYSTEMS = {
    "netplan": "ID=ubuntu\nID_LIKE=debian\n",
    "networkd": "ID=debian\n",
    "networkmanager": 'ID="rocky"\nID_LIKE="rhel centos fedora"\n',
}
PARAMS: dict[str, Any] = {
    "ports": [], "pattern": "", "order": "pci", "addresses": {}, "mtu": 0, "mode": "datagram", "p_keys": [], "expected": 0, "exclude": [],
    "renderer": "auto", "rdma_naming": "keep", "allow_connected": False, "allow_kernel_names": False,
}  # fmt: skip


def handed_on(root: Path) -> dict[str, Any]:
    """What preflight tells of the adapters, through the same function."""
    spec = importlib.util.spec_from_file_location("burnin_preflight_action", ROOT / "plugins/action/burnin_preflight.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    told: dict[str, Any] = module.in_short({"host": identity("bare", str(root))})
    return told


class Node:
    """`tree` may be changed before it is written; `write` again makes the node as it is after a boot or a swap of cards."""

    def __init__(self, root: Path, kind: str = "hgx-h100", system: str = "netplan") -> None:
        self.root, self.system = root, system
        self.tree = fake_root.KINDS[kind]()
        self.write()

    def write(self) -> None:
        for folder in ("sys/class/net", "sys/class/infiniband", "sys/bus/pci/devices"):
            for link in (self.root / folder).glob("*"):
                link.unlink()
        self.tree.files = {path: text for path, text in self.tree.files.items() if not path.startswith("/sys/devices")}
        self.tree.links = {
            path: to for path, to in self.tree.links.items() if not path.startswith(("/sys/class/net", "/sys/class/infi", "/sys/bus"))
        }
        self.tree.files["/etc/os-release"] = SYSTEMS[self.system]
        self.tree.write(self.root)

    def put(self, path: str, text: str, mode: int = 0o644) -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(mode)

    def text(self, path: str) -> str:
        return (self.root / path.lstrip("/")).read_text()

    def files(self) -> dict[str, str]:
        """Path -> text of all that is below /etc."""
        return {f"/{path.relative_to(self.root)}": path.read_text() for path in sorted((self.root / "etc").rglob("*")) if path.is_file()}

    def params(self, **asked: Any) -> dict[str, Any]:
        assert set(asked) <= set(PARAMS)
        return {**PARAMS, **asked}

    def plan(self, world: dict[str, Any] | None = None, **asked: Any) -> model.Plan:
        """What would be done; `world`: what is otherwise than read. Raises Refusal."""
        wanted = asking.asked(self.params(**asked))
        read = reading.world(str(self.root), str(self.root), wanted.rdma_naming == "kernel")
        return planning.plan(wanted, reading.hardware(handed_on(self.root)), replace(read, **(world or {})))

    def give(self, **asked: Any) -> model.Plan:
        """Do it."""
        plan = self.plan(**asked)
        making.do(plan, str(self.root))
        return plan


def names(plan: model.Plan) -> Mapping[str, str]:
    """RDMA device -> the name of its interface."""
    return {one.port.rdma: one.name for one in plan.interfaces}
