"""What nvme_raid0 is told, what it finds on a node, and what it would do: nothing here touches the machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping

from ansible.module_utils.burnin_group.model import Refusal, few

# What an operating system lives on. Other mounts make a drive busy, these make it the system's.
SYSTEM_TARGETS = ("/", "/boot", "/boot/efi", "/efi", "/usr", "/var", "/home", "/root", "/opt", "/var/lib", "/var/log")
LONGEST_TEXT = 120


class Refused(Refusal):
    """With the drives that would have to be named for erasure, where that would help."""

    def __init__(self, code: str, message: str, erase: Mapping[str, str] | None = None) -> None:
        super().__init__(code, message)
        self.erase = dict(erase or {})


def clean(text: str, most: int = LONGEST_TEXT) -> str:
    """What a drive says of itself, fit for a terminal and a file: one line, bounded."""
    one_line = " ".join("".join(letter if letter.isprintable() else "?" for letter in text).split())
    return one_line if len(one_line) <= most else one_line[: most - 3] + "..."


@dataclass(frozen=True)
class Wanted:
    """What the inventory asks for. `erase`: serial -> what the person read there; "" is anything."""

    drives: int
    least: int = 4
    model: str = ""
    size_gb: float = 0.0
    ids: tuple[str, ...] = ()
    name: str = "scratch"
    chunk_kib: int = 512
    filesystem: str = "xfs"
    mount: str = "/scratch"
    mount_options: tuple[str, ...] = ("noatime",)
    device_timeout_s: int = 10
    erase: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Signature:
    """One magic number, as wipefs and blkid name it. `by`: which of them saw it."""

    kind: str
    offset: int = -1
    uuid: str = ""
    label: str = ""
    by: tuple[str, ...] = ("wipefs", "blkid")


@dataclass(frozen=True)
class Superblock:
    """What mdadm --examine says of a member. `role`: its place in the array, -1 where it has none (spare, faulty)."""

    uuid: str
    name: str = ""
    level: str = "raid0"
    metadata: str = "1.2"
    chunk_kib: int = 512
    devices: int = 0
    role: int = -1


@dataclass(frozen=True)
class Area:
    """A whole drive (number 0), a partition, or a running array: its signatures. `trouble`: why they could not be read."""

    name: str
    dev: str
    size_bytes: int
    number: int = 0
    signatures: tuple[Signature, ...] = ()
    superblocks: tuple[Superblock, ...] = ()
    raw: str = ""  # a digest of what is sampled there; "" where that is all zero (or all 0xff, as some drives return it)
    trouble: str = ""


@dataclass(frozen=True)
class Use:
    """One use of a drive. `kind`: mount, swap, holder, handle, claim. `through`: the devices between the drive and that use."""

    kind: str
    what: str
    through: tuple[str, ...] = ()
    system: bool = False

    def text(self) -> str:
        """For a person."""
        said = {
            "mount": "mounted at %s", "swap": "swap (%s)", "holder": "part of %s", "handle": "opened by %s", "claim": "in use: %s",
        }[self.kind] % self.what  # fmt: skip
        return said + (" through %s" % " > ".join(self.through) if self.through else "")


@dataclass(frozen=True)
class Drive:
    """One block device that is a drive. For NVMe one namespace; `ids` are what it may be named by, without the prefix nvme-."""

    name: str
    dev: str
    serial: str
    model: str
    size_bytes: int
    disk: Area
    partitions: tuple[Area, ...] = ()
    firmware: str = ""
    namespace: str = ""
    ids: tuple[str, ...] = ()
    uses: tuple[Use, ...] = ()
    nvme: bool = True
    read_only: bool = False
    sequence: str = ""  # diskseq: another number means another device, whatever its name

    @property
    def areas(self) -> tuple[Area, ...]:
        return (self.disk, *self.partitions)

    @property
    def system(self) -> tuple[Use, ...]:
        return tuple(use for use in self.uses if use.system)


@dataclass(frozen=True)
class Array:
    """An array that the kernel has. `members`: place in it -> area name."""

    name: str
    dev: str
    uuid: str
    area: Area
    level: str = "raid0"
    metadata: str = "1.2"
    chunk_kib: int = 512
    devices: int = 0
    active: bool = True
    failed: tuple[str, ...] = ()
    members: tuple[tuple[int, str], ...] = ()
    link: str = ""  # /dev/md/..., where there is one


@dataclass(frozen=True)
class Mounted:
    """One line of mountinfo of the host."""

    dev: str
    target: str
    filesystem: str
    read_only: bool = False


@dataclass(frozen=True)
class World:
    """All that is decided on."""

    drives: tuple[Drive, ...]
    arrays: tuple[Array, ...] = ()
    hostname: str = "node"
    mounts: tuple[Mounted, ...] = ()
    mount_holds: tuple[str, ...] | None = (
        None  # names in the folder at the mount point where nothing is mounted; None where there is no folder
    )
    fstab: str = ""
    conf_path: str = "/etc/mdadm/mdadm.conf"
    conf: str | None = None
    dropin_path: str = ""  # of dracut, where the initramfs is dracut's
    dropin: str | None = None
    stamp: str = ""  # what the initramfs was last made with
    initramfs: tuple[str, ...] = ()  # the command that makes it; none where there is none
    boot_path: str = "/boot"
    boot_free_kib: int = 0
    boot_needs_kib: int = 0
    read_only_folders: tuple[str, ...] = ()
    tools: frozenset[str] = frozenset()
    trim: str = ""  # fstrim.timer: enabled, disabled, or "" where there is none
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """One thing to do. `kind`: run, wipe (runs until the area is clean), write, folder, gone (verify that nothing is left), mount."""

    kind: str
    argv: tuple[str, ...] = ()
    path: str = ""
    content: str = ""
    before: str | None = None
    drives: tuple[str, ...] = ()  # names of the drives whose bytes change
    area: str = ""
    timeout_s: int = 120

    def plain(self) -> list[str]:
        """For the answer: a command as it is run, and for the rest the kind and the path."""
        return list(self.argv) if self.argv else ["(%s)" % self.kind, self.path or self.area or ", ".join(self.drives)]


@dataclass(frozen=True)
class Plan:
    """What would be done, and what is there."""

    state: str
    selected: tuple[Drive, ...]
    steps: tuple[Step, ...] = ()
    array: Mapping[str, Any] = field(default_factory=dict)
    filesystem: Mapping[str, str] = field(default_factory=dict)
    erase: Mapping[str, str] = field(default_factory=dict)  # serial -> what is erased
    notes: tuple[str, ...] = ()


def names(drives: tuple[Drive, ...] | list[Drive], most: int = 16) -> str:
    """Kernel name and serial: the first to look at now, the second to hold in the hand."""
    return few(["%s (serial %s)" % (drive.name, drive.serial or "none") for drive in drives], most)
