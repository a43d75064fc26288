"""Whether a name still leads to the drive that was looked at, and holding it so that nobody else takes it before it is written."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path
from typing import Iterable

from ansible.module_utils.burnin_raid import probing
from ansible.module_utils.burnin_raid.model import Drive, Refused, names
from ansible.module_utils.burnin_raid.using import read

BLKRRPART = 0x125F  # linux/fs.h: read the partition table again
AGAIN = "Nothing may be written to a guess: look at dmesg, then run again"


class Held:
    """The drives of a plan. Opened exclusively, read-only (closing a writable handle would wake udev), but for those that a program needs."""

    def __init__(self, root: Path, drives: Iterable[Drive]) -> None:
        self.root = root
        self.drives = {drive.name: drive for drive in drives}
        self.open: dict[str, int] = {}

    def node(self, name: str) -> str:
        return str(self.root / "dev" / name)

    def check(self) -> None:
        """Each name leads to the same device, and that is the same drive. Raises Refused DRIVE_VANISHED or TARGET_MOVED."""
        for drive in self.drives.values():
            self._check(drive)

    def _check(self, drive: Drive) -> None:
        folder = self.root / "sys/class/block" / drive.name
        if not folder.exists() or not os.path.exists(self.node(drive.name)):
            raise Refused("DRIVE_VANISHED", "%s is no longer there; it was when the node was read. %s" % (names([drive]), AGAIN))
        status = os.stat(self.node(drive.name))
        number = "%d:%d" % (os.major(status.st_rdev), os.minor(status.st_rdev)) if stat.S_ISBLK(status.st_mode) else ""
        pairs = [
            ("device number", drive.dev, read(folder / "dev").strip()),
            ("serial", drive.serial, " ".join(read(folder / "device/serial").split())),
            ("sequence number", drive.sequence, read(folder / "diskseq").strip()),
            ("sectors", str(drive.size_bytes // 512), read(folder / "size").strip()),
        ]
        # Only below another root (tests) a drive may be a file.
        pairs += [("device number of its node", drive.dev, number)] if number or self.root == Path("/") else []
        moved = ["%s was %s and is %s" % (what, before or "none", now or "none") for what, before, now in pairs if before != now]
        if moved:
            raise Refused("TARGET_MOVED", "%s now leads to something else: %s. %s" % (names([drive]), "; ".join(moved), AGAIN))

    def take(self, but: Iterable[str] = ()) -> None:
        """Hold each that is not held, but for `but`. Raises Refused."""
        for drive in self.drives.values():
            if drive.name in but or drive.name in self.open:
                continue
            try:
                self.open[drive.name] = os.open(self.node(drive.name), os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
            except FileNotFoundError:
                raise Refused("DRIVE_VANISHED", "%s is no longer there. %s" % (names([drive]), AGAIN)) from None
            except OSError as problem:
                raise Refused(
                    "DISK_IN_USE", "%s cannot be had alone (%s): something took it since it was read" % (names([drive]), problem.strerror)
                ) from None

    def release(self, which: Iterable[str] | None = None) -> None:
        """Let go of some, or of all."""
        for name in list(self.open) if which is None else which:
            if name in self.open:
                os.close(self.open.pop(name))

    def same_content(self, but: Iterable[str] = ()) -> None:
        """What was read is still what is there. Raises Refused."""
        for drive in self.drives.values():
            if drive.name in but:
                continue
            for area in drive.areas:
                try:
                    same = probing.signatures(self.node(area.name)) == area.signatures
                    same = same and (bool(area.number) or probing.raw(self.node(area.name), area.size_bytes) == area.raw)
                except probing.Unreadable as problem:
                    raise Refused("DRIVE_VANISHED", "%s cannot be read any more: %s. %s" % (names([drive]), problem, AGAIN)) from None
                if not same:
                    raise Refused(
                        "TARGET_MOVED",
                        "%s of %s holds something else than when it was read: somebody writes to it. %s"
                        % (area.name, names([drive]), AGAIN),
                    )

    def read_tables_again(self) -> None:
        """udev may have had a partition open when its table went; the kernel then keeps the partition."""
        for name in self.drives:
            if not self.partitions(name) or self.root != Path("/"):
                continue
            handle = os.open(self.node(name), os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.ioctl(handle, BLKRRPART)
            except OSError:  # still open somewhere: that the partition is there is told by who looks
                continue
            finally:
                os.close(handle)

    def partitions(self, name: str) -> list[str]:
        """That the kernel has now."""
        folder = self.root / "sys/class/block" / name
        return sorted(entry.name for entry in folder.glob(name + "*") if (entry / "partition").is_file())
