"""The disk of the test machines: Debian 12 with its own kernel and boot loader, and one machine of it saved while it ran. Built once, kept in the cache.

The initramfs holds only what these machines need (MODULES=list, gzip): stock, update-initramfs takes minutes where nothing but software runs the code.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab import qemu, rootfs
from lab.rootfs import Unavailable, call, say

PROGRAMS = {
    "mmdebstrap": "mmdebstrap",
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mke2fs": "e2fsprogs",
    "zstd": "zstd",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}
PACKAGES = (
    "systemd,systemd-sysv,dbus,udev,openssh-server,sudo,iproute2,procps,psmisc,kmod,util-linux-extra,python3,python3-apt,python3-numpy,"
    "linux-image-amd64,initramfs-tools,busybox,zstd,grub-pc-bin,grub2-common,mdadm,xfsprogs,e2fsprogs,btrfs-progs,lvm2,cryptsetup-bin,gdisk,fdisk,parted,"
    "nvme-cli,fio,smartmontools,pciutils,rdma-core,ibverbs-utils,ibverbs-providers,perftest,infiniband-diags,ethtool"
)
LEFT_OUT = (
    *rootfs.LEFT_OUT, "/lib/modules/*/kernel/sound/*",
    *(f"/lib/modules/*/kernel/drivers/{kind}/*" for kind in ("gpu", "media", "net/wireless", "staging")),
)  # fmt: skip
MASKED = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "console-getty.service", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service",
    "fstrim.timer", "getty.target", "serial-getty@ttyS0.service", "logrotate.timer", "man-db.timer", "mdcheck_start.timer", "mdcheck_continue.timer",
    "nvmf-autoconnect.service", "systemd-binfmt.service", "smartmontools.service", "systemd-logind.service", "lvm2-monitor.service", "systemd-pstore.service",
    "systemd-update-utmp.service", "systemd-update-utmp-runlevel.service", "systemd-journal-flush.service", "iscsid.service",
)  # fmt: skip
INITRAMFS = "MODULES=list\nCOMPRESS=gzip\nCOMPRESSLEVEL=1\nRESUME=none\n"
MODULES = ("virtio_pci", "virtio_blk", "nvme", "ext4")
# Without these the guest works around faults that its CPU has not got, and measures a clock while other guests run.
PARAMETERS = "noresume mitigations=off net.ifnames=0 tsc=reliable no_timer_check console=ttyS0 systemd.show_status=0"
GRUB_MODULES = ("biosdisk", "part_msdos", "ext2", "search", "search_label", "linux", "normal", "configfile", "boot")
# The menu until the machine's own update-grub has made one, of the same parameters.
GRUB_CFG = (
    f"search --no-floppy --set=root --label lab-root\nlinux /vmlinuz root=LABEL=lab-root ro quiet {PARAMETERS}\ninitrd /initrd.img\nboot\n"
)
GRUB_DEFAULT = (
    f'GRUB_DEFAULT=0\nGRUB_TIMEOUT=0\nGRUB_TERMINAL=console\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX="{PARAMETERS}"\n'
)
# lab0 is QEMU's own network, lab1 the group's: its address is the last byte of its hardware address. Called by udev for each card that comes.
NETWORK = """\
#!/bin/sh
case "$1" in
lab0) ip address replace 10.0.2.15/24 dev lab0; ip link set lab0 up; ip route replace default via 10.0.2.2 ;;
lab1) ip address replace "192.0.2.$((0x$(cut -d: -f6 /sys/class/net/lab1/address)))/24" dev lab1; ip link set lab1 up ;;
esac
"""
UDEV = "".join(
    f'ACTION=="add", SUBSYSTEM=="net", ATTR{{address}}=="52:54:00:4c:{net:02x}:*", NAME="lab{net}", RUN+="/usr/local/sbin/lab-network lab{net}"\n'
    for net in (0, 1)
)
# Hardware that q35 has and nothing here uses; each costs a second or two at boot.
BLACKLIST = "".join(f"blacklist {name}\n" for name in ("ahci", "i2c_i801", "iTCO_wdt", "kvm_amd", "kvm_intel", "lpc_ich", "pcspkr"))
SSHD = "UseDNS no\nUsePAM no\nHostKey /etc/ssh/ssh_host_ed25519_key\nMaxStartups 100\nMaxSessions 100\n"
DISK_MIB, FIRST_SECTOR, SECTOR = 6144, 2048, 512
TEMPLATE_MIB = 1024
VERSION = 1  # of what the functions here do
BOOT_S, SAVE_S = 180.0, 240.0


@dataclass(frozen=True, slots=True)
class Image:
    """What machines are made of. `base`: the raw disk; `disk` and `state`: the template's disk and memory; `key`, `host_key`: for ssh."""

    folder: Path

    @property
    def base(self) -> Path:
        return self.folder / "base.raw"

    @property
    def disk(self) -> Path:
        return self.folder / "template.qcow2"

    @property
    def state(self) -> Path:
        return self.folder / "state.zst"

    @property
    def key(self) -> Path:
        return self.folder / "ssh" / "key"

    @property
    def host_key(self) -> Path:
        return self.folder / "ssh" / "host_key"


def mac(network: int, number: int) -> str:
    """The hardware address that the machine's own lab-network knows."""
    return f"52:54:00:4c:{network:02x}:{number:02x}"


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _recipe() -> str:
    ours = (
        VERSION,
        rootfs.SUITE,
        PACKAGES,
        LEFT_OUT,
        MASKED,
        INITRAMFS,
        MODULES,
        GRUB_CFG,
        GRUB_DEFAULT,
        GRUB_MODULES,
        NETWORK,
        UDEV,
        BLACKLIST,
        SSHD,
        DISK_MIB,
    )
    # A saved machine goes on only in the QEMU that saved it.
    engine = call("qemu-system-x86_64", "--version").splitlines()[0]
    return _digest(*ours, engine, qemu.ENGINE, qemu.PORTS, TEMPLATE_MIB, rootfs.OPERATOR)


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    place.mkdir(parents=True, exist_ok=True)
    with (place / ".vm-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def image() -> Image:
    """The image, built when it is not there (two minutes). Raises Unavailable."""
    rootfs.install_programs(PROGRAMS)
    place = rootfs.cache()
    made = Image(place / f"vm-{_recipe()}")
    with _locked(place):
        if not made.folder.is_dir():
            partial = Image(place / f"{made.folder.name}.partial")
            qemu_left_over(partial.folder)
            shutil.rmtree(partial.folder, ignore_errors=True)
            partial.folder.mkdir()
            _build(partial)
            partial.folder.rename(made.folder)
    return made


def qemu_left_over(folder: Path) -> None:
    """End the QEMU of a folder that was left by a process that was killed."""
    if folder.is_dir():
        qemu.kill(folder)


def _build(made: Image) -> None:
    say(f"building the machines' image in {made.folder.parent} (minutes; only once)")
    began, root = time.monotonic(), made.folder / "tree"
    hook = f'mkdir -p "$1/etc/initramfs-tools/conf.d" && printf %s {shlex.quote(INITRAMFS)} >"$1/etc/initramfs-tools/conf.d/lab"'
    rootfs.debootstrap(root, PACKAGES, LEFT_OUT, (f"--essential-hook={hook}",))
    _finish(made, root)
    _write_disk(made, root)
    shutil.rmtree(root)
    built = time.monotonic()
    _save_template(made)
    say(f"the machines' image took {built - began:.0f} s, their template {time.monotonic() - built:.0f} s")


def _finish(made: Image, root: Path) -> None:
    (root / "usr/local/sbin/lab-network").write_text(NETWORK)
    (root / "usr/local/sbin/lab-network").chmod(0o755)
    (root / "etc/udev/rules.d/10-lab.rules").write_text(UDEV)
    (root / "etc/modprobe.d/lab.conf").write_text(BLACKLIST)
    (root / "etc/ssh/sshd_config.d/lab.conf").write_text(SSHD)
    (root / "etc/fstab").write_text("LABEL=lab-root / ext4 errors=remount-ro,noinit_itable 0 0\n")
    (root / "etc/machine-id").write_text("")
    (root / "etc/hostname").write_text("lab-template\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    (root / "etc/resolv.conf").write_text("nameserver 10.0.2.3\n")
    _keys(made, root)
    call("chroot", str(root), "useradd", "--create-home", "--shell", "/bin/bash", "--groups", "sudo", rootfs.OPERATOR)
    call("systemctl", f"--root={root}", "--quiet", "enable", "ssh.service")
    call("systemctl", f"--root={root}", "--quiet", "mask", *MASKED)
    with (root / "etc/initramfs-tools/modules").open("a") as modules:
        modules.write("\n".join(MODULES) + "\n")
    call("chroot", str(root), "update-initramfs", "-u", "-k", "all", timeout_s=300)
    (root / "boot/grub").mkdir(exist_ok=True)
    (root / "boot/grub/grub.cfg").write_text(GRUB_CFG)
    (root / "etc/default/grub").write_text(GRUB_DEFAULT)
    shutil.copytree(root / "usr/lib/grub/i386-pc", root / "boot/grub/i386-pc")
    prefix = ("-O", "i386-pc", "-p", "(hd0,msdos1)/boot/grub", "-o", "/boot/grub/core.img")
    call("chroot", str(root), "grub-mkimage", *prefix, *GRUB_MODULES)


def _keys(made: Image, root: Path) -> None:
    """The same keys for all machines: a clone's sshd runs already. They open nothing but these."""
    made.key.parent.mkdir(mode=0o700)
    for key, whose in ((made.key, "burnin-lab"), (made.host_key, "burnin-lab-machine")):
        call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", whose, "-f", str(key))
    for theirs in (root / "etc/ssh").glob("ssh_host_*"):
        theirs.unlink()
    for suffix in ("", ".pub"):
        shutil.copy(f"{made.host_key}{suffix}", root / f"etc/ssh/ssh_host_ed25519_key{suffix}")
    (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
    shutil.copy(f"{made.key}.pub", root / "root/.ssh/authorized_keys")


def _write_disk(made: Image, root: Path) -> None:
    """One partition with the tree, GRUB before it: its first stage in sector 0 loads what begins in sector 1, which is how both are made."""
    first, core = (root / "usr/lib/grub/i386-pc/boot.img").read_bytes()[:440], (root / "boot/grub/core.img").read_bytes()
    if len(core) > (FIRST_SECTOR - 1) * SECTOR:
        raise Unavailable(f"GRUB's image has {len(core)} bytes; it does not fit before the first partition")
    options = f"offset={FIRST_SECTOR * SECTOR},lazy_itable_init=0,lazy_journal_init=0"
    call("mke2fs", "-q", "-t", "ext4", "-L", "lab-root", "-E", options, "-d", str(root), str(made.base), f"{DISK_MIB - 1}M", timeout_s=300)
    sectors = (DISK_MIB - 1) * 1024 * 1024 // SECTOR
    entry = struct.pack("<B3sB3sII", 0x80, b"\xfe\xff\xff", 0x83, b"\xfe\xff\xff", FIRST_SECTOR, sectors)
    with made.base.open("r+b") as disk:
        disk.write(first + struct.pack("<IH", 0x6C6162, 0) + entry + bytes(48) + b"\x55\xaa" + core)
        disk.truncate(DISK_MIB * 1024 * 1024)


def system_disk(node: str) -> list[str]:
    """QEMU's words for a boot drive that is not an NVMe drive."""
    return ["-device", f"virtio-blk-pci,drive={node},bootindex=1,addr=08.0"]


def _save_template(made: Image) -> None:
    """Boot one machine and save it while it runs. It has no NVMe drive: a machine that has one cannot be saved."""
    call("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", made.base.name, str(made.disk))
    port = qemu.free_port()
    argv = qemu.command(made.folder, memory_mib=TEMPLATE_MIB, mac=mac(0, 1), forward=port)
    argv += ["-blockdev", json.dumps(qemu.file_node("system", made.disk, "qcow2")), *system_disk("system")]
    qemu.start(argv, made.folder)
    try:
        with qemu.Monitor(made.folder) as monitor:
            _warm(made, port)
            monitor.do("stop")
            monitor.do("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
            monitor.do("migrate", uri=f"exec:zstd -q -1 > {shlex.quote(str(made.state))}")
            if not qemu.until(lambda: monitor.do("query-migrate").get("status") in ("completed", "failed"), SAVE_S, 0.2):
                raise Unavailable(f"the template could not be saved within {SAVE_S:g} s")
            told = monitor.do("query-migrate")
            if told["status"] != "completed":
                raise Unavailable(f"the template could not be saved: {told.get('error-desc', told['status'])}")
            monitor.do("quit")
        qemu.until(lambda: qemu.running(made.folder) is None, qemu.END_S)
    except qemu.MonitorProblem as problem:
        raise Unavailable(f"the template of the machines: {problem}") from None
    finally:
        qemu.kill(made.folder)


def _warm(made: Image, port: int) -> None:
    """Until the template answers; then what every clone would do first is done once."""
    known = made.folder / "ssh" / "known_hosts"
    known.write_text(f"[127.0.0.1]:{port} {made.host_key.with_suffix('.pub').read_text()}")
    log = made.folder / "console.log"
    argv = [
        *ssh_words(made.key, known, port),
        "root@127.0.0.1",
        "systemctl is-system-running --wait; modprobe nvme; python3 -c 'import json, subprocess'; perl -e 1; sync",
    ]
    said: list[str] = []

    def answers() -> bool:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=BOOT_S, check=False, stdin=subprocess.DEVNULL)
        said[:] = [done.stdout, done.stderr]
        return done.returncode == 0

    try:
        came = qemu.until(answers, BOOT_S, 0.5)
    except subprocess.TimeoutExpired:
        came = False
    if not came:
        raise Unavailable(
            f"the template did not answer within {BOOT_S:g} s ({' '.join(said).strip()}); its console ({log}) ends:\n{qemu.tail(log)}"
        )
    if said[0].strip() != "running":
        say(f"the template's systemd says {said[0].strip()!r}")


def ssh_words(key: Path, known: Path, port: int) -> list[str]:
    """ssh and its options up to the host's name: no question, no key but ours, the host's key checked."""
    options = {
        "BatchMode": "yes", "IdentitiesOnly": "yes", "UserKnownHostsFile": str(known), "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes", "ConnectTimeout": "10", "ServerAliveInterval": "10", "ServerAliveCountMax": "6", "LogLevel": "ERROR",
    }  # fmt: skip
    return [
        "ssh",
        "-F",
        os.devnull,
        "-i",
        str(key),
        "-p",
        str(port),
        *(word for name, value in options.items() for word in ("-o", f"{name}={value}")),
    ]
