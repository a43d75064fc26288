"""The two files of the node that say which arrays and mounts there shall be, as functions of what is wanted. Pure; other lines stay as they are."""

from __future__ import annotations

import re
from typing import Iterator

from ansible.module_utils.burnin_raid.model import Wanted

DROPIN = '# By burnin (nvme_raid0): the initramfs carries mdadm.conf, else an array may come up as md127.\nmdadmconf="yes"\n'


def plain_uuid(text: str) -> str:
    """32 hex digits, whatever stands between them: mdadm writes colons, blkid dashes."""
    return re.sub(r"[^0-9a-f]", "", text.lower())


def md_uuid(text: str) -> str:
    """As mdadm writes it."""
    digits = plain_uuid(text)
    return ":".join(digits[at : at + 8] for at in range(0, 32, 8))


def array_lines(conf: str) -> Iterator[tuple[str, str, str]]:
    """Device, UUID (plain) and the text of each ARRAY line, its continuation lines with it; others with two empty strings."""
    for lines in _logical(conf):
        words = " ".join(line.partition("#")[0] for line in lines.splitlines()).split()
        if words and len(words[0]) >= 3 and "array".startswith(words[0].lower()):
            device = next((word for word in words[1:] if "=" not in word), "")
            uuid = next((word.partition("=")[2] for word in words[1:] if word.lower().startswith("uuid=")), "")
            yield device, plain_uuid(uuid), lines
        else:
            yield "", "", lines


def _logical(text: str) -> Iterator[str]:
    """A line that begins with a blank goes on the one before it (mdadm.conf(5))."""
    held = ""
    for line in text.splitlines(keepends=True):
        if held and not (line[:1] in " \t" and line.strip()):
            yield held
            held = ""
        held += line
    if held:
        yield held


def _same_device(device: str, name: str) -> bool:
    return device in (name, "md/%s" % name, "/dev/md/%s" % name)


def mdadm_conf(conf: str, uuid: str, name: str) -> str:
    """One line for our array, where its first one stood; none of another array under our name; the rest untouched."""
    ours = "ARRAY /dev/md/%s metadata=1.2 UUID=%s\n" % (name, md_uuid(uuid))
    told, done = "", False
    for device, found, lines in array_lines(conf):
        if (found and found == plain_uuid(uuid)) or _same_device(device, name):
            told += "" if done else ours
            done = True
        else:
            told += lines
    if done:
        return told
    return told + ("" if not told or told.endswith("\n") else "\n") + ours


def named_otherwise(conf: str, uuid: str, name: str) -> list[str]:
    """UUIDs (plain) that the file gives our array's name to."""
    return [found for device, found, _lines in array_lines(conf) if _same_device(device, name) and found != plain_uuid(uuid)]


def mount_options(wanted: Wanted) -> str:
    """nofail and the time come first: a missing array must not stop the boot (field report B14)."""
    ours = ["nofail", "x-systemd.device-timeout=%ds" % wanted.device_timeout_s]
    return ",".join(ours + [option for option in wanted.mount_options if option not in ours and option not in ("defaults", "")])


def fstab_line(uuid: str, wanted: Wanted) -> str:
    """By the file system's UUID, never by a device (field report B09). No check at boot: scratch is made again, not mended."""
    return "UUID=%s %s %s %s 0 0\n" % (uuid, _escaped(wanted.mount), wanted.filesystem, mount_options(wanted))


def _escaped(path: str) -> str:
    return path.replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011")


def unescaped(path: str) -> str:
    """As fstab and mountinfo write a blank."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), path)


def fstab_entries(fstab: str) -> Iterator[tuple[str, str, str]]:
    """Source, mount point and the line; others with two empty strings."""
    for line in fstab.splitlines(keepends=True):
        words = line.split()
        if len(words) >= 2 and not words[0].startswith("#"):
            yield words[0], unescaped(words[1]).rstrip("/") or "/", line
        else:
            yield "", "", line


def is_uuid(source: str, uuid: str) -> bool:
    """Whether an entry's source names the file system with that UUID."""
    name, _equals, value = source.partition("=")
    given = value.strip("\"'") if name.upper() == "UUID" else source.rpartition("/by-uuid/")[2] if "/by-uuid/" in source else ""
    return bool(given) and given.lower() == uuid.lower()


def fstab(text: str, uuid: str, wanted: Wanted) -> str:
    """Our line where the first of its file system or mount point stood. Whether others may be replaced is decided before (planning.py)."""
    ours, told, done = fstab_line(uuid, wanted), "", False
    for source, target, line in fstab_entries(text):
        if target and (target == wanted.mount or is_uuid(source, uuid)):
            told += "" if done else ours
            done = True
        else:
            told += line
    if done:
        return told
    return told + ("" if not told or told.endswith("\n") else "\n") + ours
