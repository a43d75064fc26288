"""The root file system of the test nodes: built once from Debian's own packages, kept outside the repository under its recipe's digest."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PROGRAMS = {
    "mmdebstrap": "mmdebstrap",
    "systemd-nspawn": "systemd-container",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "mount": "mount",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}
SUITE = "bookworm"
MIRRORS = ("deb http://deb.debian.org/debian bookworm main", "deb http://deb.debian.org/debian-security bookworm-security main")
INCLUDE = "systemd,systemd-sysv,dbus,python3,python3-numpy,openssh-server,sudo,iproute2,procps"
LEFT_OUT = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*")
# What a node does not need, and what would reach for the machine under it: its clock, its devices, its sysctls.
MASKED = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "console-getty.service", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer",
    "getty.target", "systemd-logind.service", "systemd-modules-load.service", "systemd-sysctl.service", "systemd-udev-trigger.service",
    "systemd-udevd.service",
)  # fmt: skip
# The node gives itself its address: no DHCP, and the same again after a reboot.
NETWORK_UNIT = """\
[Unit]
Description=The address of a test node
DefaultDependencies=no
Before=network-pre.target ssh.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -ec 'ip link set lo up; ip address replace "$(cat /etc/lab-address)" dev host0; ip link set host0 up'
[Install]
WantedBy=multi-user.target
"""
SSHD = "UseDNS no\nHostKey /etc/ssh/ssh_host_ed25519_key\nMaxStartups 100\nMaxSessions 100\n"
OPERATOR = "ops"  # may sudo with a password, as a site's users do
VERSION = 1  # of what `_finish` does


class Unavailable(Exception):
    """Test nodes cannot be made here; the message says why."""


def say(text: str) -> None:
    """A line for a person."""
    print(f"lab: {text}", file=sys.stderr, flush=True)


def call(*argv: str, stdin: str | None = None, timeout_s: float = 60) -> str:
    """What a program printed. Raises CalledProcessError; its words are on stderr."""
    return subprocess.run(argv, check=True, input=stdin, text=True, stdout=subprocess.PIPE, timeout=timeout_s).stdout


def install_programs(programs: Mapping[str, str] = PROGRAMS) -> None:
    """What the lab itself needs (program -> Debian package), by apt where root may. Raises Unavailable."""
    if platform.system() != "Linux":
        raise Unavailable(f"test nodes are containers: they need Linux, this is {platform.system()}")
    if os.geteuid() != 0:
        raise Unavailable("test nodes are containers with a network of their own: only root can make them")
    missing = sorted({package for program, package in programs.items() if shutil.which(program) is None})
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise Unavailable(f"{', '.join(missing)} are not here, and neither is apt-get to install them")
    say(f"installing {' '.join(missing)} with apt-get")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for argv in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", *missing]):
        done = subprocess.run(["apt-get", *argv], env=quiet, stdout=subprocess.DEVNULL, timeout=600, check=False)
        if done.returncode != 0:
            raise Unavailable(f"apt-get {argv[0]} exited {done.returncode}; {', '.join(missing)} are needed")


def cache() -> Path:
    """Where root file systems are kept: $XDG_CACHE_HOME/burnin-lab, else /var/cache/burnin-lab (it is root's, not a user's)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "/var/cache") / "burnin-lab"


def _recipe() -> str:
    parts = (VERSION, SUITE, INCLUDE, LEFT_OUT, MASKED, NETWORK_UNIT, SSHD, OPERATOR, platform.machine())
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def root_file_system() -> Path:
    """The tree, read-only by agreement: nodes lie over it. Builds it when it is not there (half a minute). Raises Unavailable."""
    install_programs()
    place = cache()
    place.mkdir(parents=True, exist_ok=True)
    root = place / _recipe()
    with (place / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.is_dir():
            partial = place / f"{root.name}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            _build(partial)
            partial.rename(root)
    return root


def _mirrors() -> list[str]:
    """The machine's own sources of the suite, whatever form they are written in; Debian's where it has none."""
    shown = call("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages")
    wanted = (SUITE, f"{SUITE}-updates", f"{SUITE}-security")
    rows = [row.split() for row in dict.fromkeys(shown.splitlines())]
    return [f"deb {row[0]} {row[1]} main" for row in rows if len(row) == 3 and row[1] in wanted and row[2] == "main"] or list(MIRRORS)


def _build(root: Path) -> None:
    say(f"building the nodes' root file system in {root.parent}")
    debootstrap(root, INCLUDE, LEFT_OUT)
    _finish(root)


def debootstrap(root: Path, include: str, left_out: Sequence[str], more: Sequence[str] = ()) -> None:
    """A tree of Debian's packages. Raises Unavailable."""
    argv = ["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", f"--include={include}", *more]
    argv += [f"--dpkgopt=path-exclude={path}" for path in left_out]
    done = subprocess.run([*argv, SUITE, str(root), *_mirrors()], timeout=900, check=False, stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Unavailable(f"mmdebstrap exited {done.returncode}; can this machine reach Debian's packages?")


def _finish(root: Path) -> None:
    (root / "etc/systemd/system/lab-network.service").write_text(NETWORK_UNIT)
    (root / "etc/ssh/sshd_config.d/lab.conf").write_text(SSHD)
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()  # each node gets its own, known before it starts
    (root / "etc/machine-id").write_text("")
    (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
    call("chroot", str(root), "useradd", "--create-home", "--shell", "/bin/bash", "--groups", "sudo", OPERATOR)
    call("chroot", str(root), "install", "-d", "-m", "700", "-o", OPERATOR, "-g", OPERATOR, f"/home/{OPERATOR}/.ssh")
    call("systemctl", f"--root={root}", "--quiet", "enable", "lab-network.service", "ssh.service")
    call("systemctl", f"--root={root}", "--quiet", "mask", *MASKED)
