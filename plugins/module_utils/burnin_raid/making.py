"""The steps that write to drives. Pure."""

from __future__ import annotations

from ansible.module_utils.burnin_raid.model import Drive, Step, Wanted, World
from ansible.module_utils.burnin_raid.texts import md_uuid

MKFS_S, CREATE_S, WIPE_S = 1800, 120, 120
XFS_LOG_STRIPE_KIB = 32  # XFS takes 256 KiB at most, and falls back to this by itself with a warning; said outright, so that nothing warns


def erasing(world: World, selected: tuple[Drive, ...], erase: dict[str, str], keys: dict[str, Drive]) -> list[Step]:
    """Stop what runs on them; partitions before the drive; then look that nothing is left."""
    steps: list[Step] = []
    victims = {keys[key].name for key in erase}
    for array in world.arrays:
        if any(use.kind == "holder" and use.what == array.name for drive in selected if drive.name in victims for use in drive.uses):
            steps.append(Step("run", ("mdadm", "--stop", "/dev/%s" % array.name), timeout_s=WIPE_S))
    for key in sorted(erase):
        drive = keys[key]
        for area in (*drive.partitions, drive.disk):
            if any(one.kind.endswith("raid_member") for one in area.signatures) or area.superblocks:
                steps.append(
                    Step(
                        "run", ("mdadm", "--zero-superblock", "/dev/%s" % area.name), drives=(drive.name,), area=area.name, timeout_s=WIPE_S
                    )
                )
            if area.signatures:
                steps.append(
                    Step("wipe", ("wipefs", "--all", "/dev/%s" % area.name), drives=(drive.name,), area=area.name, timeout_s=WIPE_S)
                )
    if steps:
        steps.append(Step("gone", drives=tuple(sorted(victims))))
    return steps


def creating(world: World, wanted: Wanted, selected: tuple[Drive, ...], uuids: tuple[str, str]) -> list[Step]:
    device = "/dev/md/%s" % wanted.name
    everyone = tuple(drive.name for drive in selected)
    create = (
        "mdadm", "--create", device, "--run", "--metadata=1.2", "--homehost=%s" % world.hostname, "--name=%s" % wanted.name, "--level=0",
        "--chunk=%d" % wanted.chunk_kib, "--raid-devices=%d" % len(selected), "--uuid=%s" % md_uuid(uuids[0]),
        *("/dev/%s" % name for name in everyone),
    )  # fmt: skip
    return [Step("run", create, drives=everyone, timeout_s=CREATE_S), mkfs(wanted, device, uuids[1], everyone, force=True)]


def mkfs(wanted: Wanted, device: str, uuid: str, everyone: tuple[str, ...], force: bool) -> Step:
    """Aligned to the array; told outright, so that it does not hang on what the program finds out. `force`: on an array that this run made

    of consented drives, where the file system of an array before it may show through at the same place.
    """
    chunk, count = wanted.chunk_kib, len(everyone)
    if wanted.filesystem == "xfs":
        stripe = "su=%dk,sw=%d" % (chunk, count)
        argv = [
            "mkfs.xfs",
            *(["-f"] if force else []),
            "-q",
            "-m",
            "uuid=%s" % uuid,
            "-d",
            stripe,
            "-l",
            "su=%dk" % min(chunk, XFS_LOG_STRIPE_KIB),
            device,
        ]
    else:
        stripe = "stride=%d,stripe_width=%d" % (chunk // 4, chunk // 4 * count)
        argv = ["mkfs.ext4", *(["-F"] if force else []), "-q", "-b", "4096", "-U", uuid, "-E", stripe, device]
    return Step("run", tuple(argv), drives=everyone, timeout_s=MKFS_S)
