"""A tree of Debian's own network programs (netplan, nmcli, systemd-networkd, udevadm), built once: to ask the real ones whether they take a file.

Nothing in it is started but by a test: it is entered by chroot, or booted as a container of its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from lab import rootfs

INCLUDE = "systemd,systemd-sysv,udev,dbus,iproute2,netplan.io,network-manager,rdma-core,ibverbs-providers,python3-minimal"
VERSION = 1


def tree() -> Path:
    """Where it is; builds it when it is not there (a minute). Raises rootfs.Unavailable."""
    rootfs.install_programs()
    place = rootfs.cache()
    place.mkdir(parents=True, exist_ok=True)
    recipe = hashlib.sha256(json.dumps((VERSION, rootfs.SUITE, INCLUDE, rootfs.LEFT_OUT, platform.machine())).encode()).hexdigest()[:16]
    root = place / f"network-{recipe}"
    with (place / ".network.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.is_dir():
            rootfs.say(f"building a tree of network programs in {place}")
            partial = place / f"{root.name}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            rootfs.debootstrap(partial, INCLUDE, rootfs.LEFT_OUT)
            (partial / "etc/machine-id").write_text("")
            partial.rename(root)
    return root


def needed() -> Path:
    """The tree, for a test; skips with the reason where it cannot be had, never in CI."""
    try:
        return tree()
    except rootfs.Unavailable as problem:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have the network programs: {problem}")
        pytest.skip(str(problem))


def inside(
    root: Path, *argv: str, stdin: str = "", binds: Mapping[Path, str] | None = None, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run a program of the tree, over it: in a mount and network namespace of its own, what it writes is thrown away but for `binds`."""
    script = ["set -e", "mount -t tmpfs none /mnt", "mkdir /mnt/up /mnt/work /mnt/root"]
    script.append(f"mount -t overlay overlay -o lowerdir={root},upperdir=/mnt/up,workdir=/mnt/work /mnt/root")
    script += ["mount -t proc proc /mnt/root/proc", "mount -t sysfs sysfs /mnt/root/sys", "mount -t tmpfs none /mnt/root/run"]
    for source, target in (binds or {}).items():
        script += [f"mkdir -p /mnt/root{target}", f"mount --bind '{source}' /mnt/root{target}"]
    script.append('exec chroot /mnt/root env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"')
    return subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--fork", "sh", "-c", "\n".join(script), "sh", *argv],
        input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip
