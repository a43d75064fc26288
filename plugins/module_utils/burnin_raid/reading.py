"""Read the node, below one root: drives, arrays, what uses them, and the files around. Nothing is written, nothing is decided."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Callable, Mapping

from ansible.module_utils.burnin_raid import probing, surroundings
from ansible.module_utils.burnin_raid.model import Area, Array, Drive, Superblock, Use, Wanted, World, clean
from ansible.module_utils.burnin_raid.probing import Unreadable
from ansible.module_utils.burnin_raid.using import Uses

SECTOR = 512  # /sys/class/block/*/size counts these, whatever the drive's own
NO_DRIVES = re.compile(r"(loop|ram|zram|sr|fd|nbd|md|dm-|nvme\d+c\d+n)\d*")
NO_EUI = re.compile(r"0*")


class Reader:
    """`root` other than / is for tests: the devices below its /dev may be files."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def world(self, wanted: Wanted, chosen: Callable[[World], tuple[Drive, ...]]) -> World:
        """First what the kernel shows, then, on the drives that `chosen` picks from it, everything; on others what may reach over drives."""
        shown = World(self._drives(), (), **surroundings.read_all(self.root, wanted))
        shown = replace(shown, arrays=self._arrays())
        shown = replace(shown, drives=self._with_uses(shown))
        picked = {drive.name for drive in chosen(shown)}
        drives = tuple(self._looked_at(drive, drive.name in picked) for drive in shown.drives)
        blocks = {area.name: block for drive in drives for area in drive.areas for block in area.superblocks}
        arrays = tuple(self._named(array, blocks, picked) for array in shown.arrays)
        return replace(shown, drives=drives, arrays=arrays)

    def path(self, name: str) -> str:
        """The device node."""
        return str(self.root / "dev" / name)

    def _sys(self, name: str) -> Path:
        return self.root / "sys/class/block" / name

    def _text(self, path: Path) -> str:
        try:
            return path.read_bytes()[:4096].decode("utf-8", "replace").strip("\0 \n\t")
        except OSError:
            return ""

    def _number(self, path: Path) -> int:
        told = self._text(path)
        return int(told) if re.fullmatch(r"-?\d+", told, re.ASCII) else 0

    def _names(self) -> list[str]:
        folder = self.root / "sys/block"
        return sorted((entry.name for entry in folder.iterdir()), key=_natural) if folder.is_dir() else []

    def _drives(self) -> tuple[Drive, ...]:
        names = [name for name in self._names() if not NO_DRIVES.match(name) and self._text(self._sys(name) / "hidden") != "1"]
        return tuple(self._drive(name) for name in names)

    def _area(self, name: str, number: int = 0) -> Area:
        folder = self._sys(name)
        return Area(name, self._text(folder / "dev"), self._number(folder / "size") * SECTOR, number)

    def _partitions(self, name: str) -> tuple[Area, ...]:
        folder = self._sys(name)
        found = [(self._number(entry / "partition"), entry.name) for entry in folder.glob(name + "*") if (entry / "partition").is_file()]
        return tuple(self._area(part, number) for number, part in sorted(found))

    def _drive(self, name: str) -> Drive:
        folder, device = self._sys(name), self._sys(name) / "device"
        disk = self._area(name)
        serial, model = self._text(device / "serial"), self._text(device / "model")
        namespace = self._text(folder / "nsid") or (re.sub(r"nvme\d+n", "", name) if name.startswith("nvme") else "")
        return Drive(
            name, disk.dev, clean(serial, 60), clean(model, 60), disk.size_bytes, disk, self._partitions(name),
            firmware=clean(self._text(device / "firmware_rev"), 20),
            namespace=clean(namespace, 10),
            ids=self._ids(name, serial, model, namespace),
            nvme=bool(re.fullmatch(r"nvme\d+n\d+", name)),
            read_only=self._text(folder / "ro") == "1",
            sequence=self._text(folder / "diskseq"),
        )  # fmt: skip

    def _ids(self, name: str, serial: str, model: str, namespace: str) -> tuple[str, ...]:
        """What udev makes /dev/disk/by-id/nvme-* of, and the bare ones."""
        folder = self._sys(name)
        told = []
        if serial:
            told += [serial, "%s_%s" % (serial, namespace)]
            told += ["%s_%s" % (model, serial), "%s_%s_%s" % (model, serial, namespace)] if model else []
        eui, nguid = (self._text(folder / kind).replace(" ", "").replace("-", "") for kind in ("eui", "nguid"))
        if not NO_EUI.fullmatch(eui):
            told.append("eui." + eui)
        if not NO_EUI.fullmatch(nguid):
            told += ["nguid." + nguid, "eui." + nguid]
        uuid = self._text(folder / "uuid")
        told += ["uuid." + uuid] if re.search("[1-9a-f]", uuid) else []
        told += [self._text(folder / "wwid")]
        return tuple(dict.fromkeys(clean(one, 200) for one in told if one))

    def _arrays(self) -> tuple[Array, ...]:
        return tuple(self._array(name) for name in self._names() if (self._sys(name) / "md").is_dir())

    def _array(self, name: str) -> Array:
        folder = self._sys(name) / "md"
        members, failed = [], []
        for entry in sorted(folder.glob("dev-*")):
            member, slot, state = entry.name[4:].replace("!", "/"), self._text(entry / "slot"), self._text(entry / "state")
            members.append((int(slot) if slot.isdigit() else -1, member))
            failed += ["%s is %s" % (member, clean(state))] if re.search("faulty|blocked|want_replacement", state) else []
        state = self._text(folder / "array_state")
        failed += ["its state is %s" % state] if state == "broken" else []
        return Array(
            name, self._text(self._sys(name) / "dev"), clean(self._text(folder / "uuid"), 60), self._area(name),
            level=self._text(folder / "level"),
            metadata=self._text(folder / "metadata_version"),
            chunk_kib=self._number(folder / "chunk_size") // 1024,
            devices=self._number(folder / "raid_disks"),
            active=state not in ("", "clear", "inactive"),
            failed=tuple(failed),
            members=tuple(sorted(members)),
            link=surroundings.link(self.root, name),
        )  # fmt: skip

    def _named(self, array: Array, blocks: Mapping[str, Superblock], picked: set[str]) -> Array:
        """Its UUID is that of its members' superblocks; what is on it is read where it is over the drives that are meant."""
        uuids = {blocks[name].uuid for _slot, name in array.members if name in blocks}
        uuid = uuids.pop() if len(uuids) == 1 else array.uuid
        ours = array.active and any(_disk_of(name) in picked for _slot, name in array.members)
        return replace(array, uuid=uuid, area=self._probed(array.area, deep=True, all_of=False) if ours else array.area)

    def _with_uses(self, world: World) -> tuple[Drive, ...]:
        uses = Uses(self.root)
        return tuple(replace(drive, uses=uses.of(drive)) for drive in world.drives)

    def _looked_at(self, drive: Drive, chosen: bool) -> Drive:
        """A drive whose areas are read. Claims are tried on the chosen alone, and never where the kernel's own record explains one."""
        known = any(use.kind in ("mount", "swap", "holder") for use in drive.uses)
        disk, *parts = (self._probed(area, chosen and not area.number, chosen) for area in drive.areas)
        claimed = [area.name for area in drive.areas if chosen and not known and self._claim(area.name)]
        claims = tuple(Use("claim", "%s is claimed by the kernel (a pool or file system that does not show)" % name) for name in claimed)
        return replace(drive, disk=disk, partitions=tuple(parts), uses=drive.uses + claims)

    def _claim(self, name: str) -> bool:
        try:
            return probing.claimed(self.path(name))
        except Unreadable:
            return True

    def _probed(self, area: Area, deep: bool, all_of: bool) -> Area:
        """`deep`: also samples; `all_of`: mdadm is asked even where nobody saw md."""
        path = self.path(area.name)
        try:
            seen = probing.signatures(path)
            blocks = probing.superblocks(path, seen) if all_of or any(one.kind == probing.MD for one in seen) else ()
            sampled = probing.raw(path, area.size_bytes) if deep else ""
        except Unreadable as problem:
            return replace(area, trouble=str(problem))
        return replace(area, signatures=seen, superblocks=blocks, raw=sampled)


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _disk_of(name: str) -> str:
    return re.sub(r"(?<=\d)p\d+$", "", name) if name.startswith(("nvme", "md", "mmc")) else re.sub(r"\d+$", "", name)
