"""From a right array, or the steps that make one, to a node that has it after every boot: files, mount, initramfs. Pure."""

from __future__ import annotations

import hashlib
from typing import Iterable, Mapping

from ansible.module_utils.burnin_group.model import few
from ansible.module_utils.burnin_raid import making, texts
from ansible.module_utils.burnin_raid.holding import Found, signatures_text
from ansible.module_utils.burnin_raid.model import Drive, Plan, Refused, Step, Wanted, World
from ansible.module_utils.burnin_raid.texts import md_uuid, plain_uuid

STAMP = "/var/lib/burnin/nvme_raid0-initramfs"
INITRAMFS_S, MOUNT_S, LOOK_S = 1800, 120, 60


def judge_content(world: World, wanted: Wanted, one: Found, hint: str) -> None:
    """Nothing, or our file system. Nothing at all is a creation that was cut off, and making the file system destroys nothing. Raises Refused."""
    if one.running is None or not one.running.active:
        return  # it shows once the array is assembled
    area = one.running.area
    if [signature.kind for signature in area.signatures] == [wanted.filesystem]:
        return
    if area.signatures:
        raise Refused(
            "ARRAY_LAYOUT",
            "the %s holds %s; expected %s. It is kept as it is: correct nvme_raid0_filesystem, or erase. %s"
            % (one.text, ", ".join(signatures_text(area)), wanted.filesystem, hint),
        )
    if area.raw:
        raise Refused(
            "ARRAY_HALF",
            "the %s has no file system, and is not empty (data of no known kind, %s): its creation was cut off, or something wrote to it. %s"
            % (one.text, area.raw, hint),
        )


def adopt(world: World, wanted: Wanted, selected: tuple[Drive, ...], one: Found, fs_uuid: str) -> Plan:
    """A right array: whatever it lacks around it, and nothing that erases. Raises Refused."""
    running, steps = one.running, []
    device = "/dev/md/%s" % wanted.name
    told = {"uuid": md_uuid(one.uuid), "name": one.superblocks[0].name, "device": device, "chunk_kib": one.superblocks[0].chunk_kib}
    told["members"] = [drive.serial for drive in selected]
    if running is None or not running.active:
        steps += [Step("run", ("mdadm", "--stop", "/dev/%s" % running.name))] if running else []
        argv = ("mdadm", "--assemble", device, "--uuid=%s" % md_uuid(one.uuid), *("/dev/%s" % name for name in one.inside))
        steps.append(Step("run", argv))
        return Plan("adopted", selected, tuple(steps), told, {}, {}, ("what is on the array shows once it is assembled",))
    if running.link != device and not _used(selected, running.name):
        assemble = ("mdadm", "--assemble", device, "--uuid=%s" % md_uuid(one.uuid), *("/dev/%s" % name for name in one.inside))
        steps += [Step("run", ("mdadm", "--stop", "/dev/%s" % running.name)), Step("run", assemble)]
        return Plan(
            "adopted", selected, tuple(steps), told, {}, {}, ("it runs as %s, and is assembled anew under its name" % running.name,)
        )
    notes = () if running.link == device else ("it is in use as /dev/%s; %s leads to it from the next boot on" % (running.name, device),)
    device = told["device"] = running.link or "/dev/%s" % running.name
    signature = next(iter(running.area.signatures), None)
    if signature is None:
        steps.append(making.mkfs(wanted, device, fs_uuid, tuple(drive.name for drive in selected), force=False))
    filesystem = {"uuid": signature.uuid if signature else fs_uuid, "type": wanted.filesystem}
    steps += _around(world, wanted, selected, one.uuid, filesystem["uuid"], running.dev)
    return Plan("adopted" if steps else "unchanged", selected, tuple(steps), told, filesystem, {}, notes)


def _used(selected: tuple[Drive, ...], array: str) -> bool:
    """Whether anything but the drives' own place in the array is on them."""
    return any(not (use.kind == "holder" and use.what == array) for drive in selected for use in drive.uses)


def finish(
    world: World, wanted: Wanted, selected: tuple[Drive, ...], steps: Iterable[Step], uuids: tuple[str, str], erase: Mapping[str, str]
) -> Plan:
    """A new array. Raises Refused for what would fail after the drives were written."""
    told = {
        "uuid": md_uuid(uuids[0]), "name": "%s:%s" % (world.hostname, wanted.name), "device": "/dev/md/%s" % wanted.name,
        "chunk_kib": wanted.chunk_kib, "members": [drive.serial for drive in selected],
    }  # fmt: skip
    for array in world.arrays:
        ours = any(use.what == array.name for drive in selected for use in drive.uses)
        if array.link == told["device"] and not ours:
            raise Refused(
                "ARRAY_TWICE",
                "%s is there already: %s, on %s. Set nvme_raid0_name to another"
                % (array.link, array.name, few(n for _s, n in array.members)),
            )
    after = _around(world, wanted, selected, plain_uuid(uuids[0]), uuids[1], "")
    return Plan("created", selected, (*steps, *after), told, {"uuid": uuids[1], "type": wanted.filesystem}, erase)


def digest(conf: str, dropin: str) -> str:
    """What the initramfs is made from, as far as it is ours."""
    return hashlib.sha256(("%s\0%s" % (conf, dropin)).encode()).hexdigest()


def _around(world: World, wanted: Wanted, selected: tuple[Drive, ...], array_uuid: str, fs_uuid: str, dev: str) -> list[Step]:
    """`dev`: of the running array, "" where it is still to be made."""
    mounted = _mounted(world, wanted, dev)
    _mountable(world, wanted, fs_uuid)
    _names_free(world, wanted, selected, array_uuid)
    steps = _files(world, wanted, array_uuid, fs_uuid)
    fstab_moved = any(step.path == "/etc/fstab" for step in steps)
    if fstab_moved and "systemctl" in world.tools:
        steps.append(Step("run", ("systemctl", "daemon-reload"), timeout_s=LOOK_S))
    if not mounted:
        if world.mount_holds is None:
            steps.insert(0, Step("folder", path=wanted.mount))
        steps.append(Step("mount", ("mount", "--", wanted.mount), path=wanted.mount, timeout_s=MOUNT_S))
    elif fstab_moved:
        steps.append(Step("run", ("mount", "-o", "remount", "--", wanted.mount), timeout_s=MOUNT_S))
    if world.trim == "disabled":
        steps.append(Step("run", ("systemctl", "enable", "--now", "--", "fstrim.timer"), timeout_s=LOOK_S))
    return steps + _initramfs(world, wanted, array_uuid)


def _mounted(world: World, wanted: Wanted, dev: str) -> bool:
    """Whether our file system is where it shall be. Raises Refused."""
    there = [one for one in world.mounts if one.target == wanted.mount]
    if there and (not dev or there[-1].dev != dev):
        raise Refused(
            "MOUNT_BUSY",
            "%s on device %s is mounted at %s; expected this array or nothing. Unmount it, or set nvme_raid0_mount"
            % (there[-1].filesystem, there[-1].dev, wanted.mount),
        )
    elsewhere = [one.target for one in world.mounts if dev and one.dev == dev]
    if elsewhere and not there:
        raise Refused(
            "MOUNT_BUSY", "the array is mounted at %s; expected %s. Unmount it, or set nvme_raid0_mount" % (few(elsewhere), wanted.mount)
        )
    if there and there[-1].read_only:
        raise Refused(
            "MOUNT_READ_ONLY",
            "%s is mounted read-only: an error in the file system, or a person's doing. Look at dmesg, then unmount it (and check it)"
            % wanted.mount,
        )
    return bool(there)


def _mountable(world: World, wanted: Wanted, fs_uuid: str) -> None:
    if world.read_only_folders:
        raise Refused(
            "MOUNT_READ_ONLY",
            "%s is on a read-only file system; expected to write there. Make it writable first" % few(world.read_only_folders),
        )
    there = any(one.target == wanted.mount for one in world.mounts)
    if world.mount_holds and not there:
        raise Refused("MOUNT_BUSY", "%s holds %s, which the mount would hide. Move it away" % (wanted.mount, few(world.mount_holds)))
    known = {signature.uuid for drive in world.drives for area in drive.areas for signature in area.signatures}
    known |= {signature.uuid for array in world.arrays for signature in array.area.signatures}
    for source, target, line in texts.fstab_entries(world.fstab):
        ours = texts.is_uuid(source, fs_uuid)
        if ours and target != wanted.mount:
            raise Refused("MOUNT_BUSY", "/etc/fstab has the array's file system at %s; expected %s. Correct one" % (target, wanted.mount))
        gone = source.upper().startswith("UUID=") and not any(texts.is_uuid(source, uuid) for uuid in known if uuid)
        if target == wanted.mount and not ours and not gone:
            raise Refused(
                "MOUNT_BUSY",
                "/etc/fstab has something else at %s: %s. Take that line out, or set nvme_raid0_mount"
                % (wanted.mount, " ".join(line.split())[:200]),
            )


def _names_free(world: World, wanted: Wanted, selected: tuple[Drive, ...], array_uuid: str) -> None:
    """Our name in mdadm.conf may stand for an array that is gone, never for one that is here and stays. Raises Refused."""
    chosen = {area.name for drive in selected for area in drive.areas}
    here = {
        plain_uuid(block.uuid) for drive in world.drives for area in drive.areas if area.name not in chosen for block in area.superblocks
    }
    here |= {plain_uuid(array.uuid) for array in world.arrays if not {name for _slot, name in array.members} & chosen}
    for uuid in texts.named_otherwise(world.conf or "", array_uuid, wanted.name):
        if uuid in here:
            raise Refused(
                "ARRAY_TWICE",
                "%s gives the name %s to array %s, which is here too. Set nvme_raid0_name to another, or correct that line"
                % (world.conf_path, wanted.name, md_uuid(uuid)),
            )


def _files(world: World, wanted: Wanted, array_uuid: str, fs_uuid: str) -> list[Step]:
    conf, dropin = _conf(world, wanted, array_uuid)
    pairs = [
        (world.conf_path, world.conf, conf),
        (world.dropin_path, world.dropin, dropin),
        ("/etc/fstab", world.fstab, texts.fstab(world.fstab, fs_uuid, wanted)),
    ]
    return [Step("write", path=path, before=before, content=after) for path, before, after in pairs if path and before != after]


def _conf(world: World, wanted: Wanted, array_uuid: str) -> tuple[str, str]:
    return texts.mdadm_conf(world.conf or "", array_uuid, wanted.name), texts.DROPIN if world.dropin_path else ""


def _initramfs(world: World, wanted: Wanted, array_uuid: str) -> list[Step]:
    """After the files, for it carries them (field report B09). The stamp comes last: a run that is cut off is made good by the next."""
    stamp = digest(*_conf(world, wanted, array_uuid))
    if not world.initramfs or world.stamp.strip() == stamp:
        return []
    if world.boot_free_kib < world.boot_needs_kib:
        raise Refused(
            "BOOT_SPACE",
            "%s has %d MiB free and the initramfs needs %d MiB while it is made. Take old kernels away first"
            % (world.boot_path, world.boot_free_kib // 1024, world.boot_needs_kib // 1024 + 1),
        )
    return [
        Step("run", world.initramfs, timeout_s=INITRAMFS_S),
        Step("write", path=STAMP, before=world.stamp or None, content=stamp + "\n"),
    ]
