"""The node's own programs and files, below one root: run with a limit, files replaced at once, services, alternatives, who holds a device."""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ansible.module_utils.burnin_group.model import Refusal, few

ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "LANGUAGE": "C",
    "DEBIAN_FRONTEND": "noninteractive",
    "NEEDRESTART_MODE": "l",
    "UCF_FORCE_CONFFOLD": "1",
}
KEPT = ("APT_CONFIG", "DPKG_ADMINDIR", "http_proxy", "https_proxy", "no_proxy")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LOOK_S, INITRAMFS_S, SERVICE_S = 60, 1800, 90
SAID_MOST = 262_144
# They hold a GPU's device open and compute nothing; as /proc/PID/comm has them, 15 letters. The preflight's list: limit gpu_daemons.
OWN_DAEMONS = (b"nvidia-persiste", b"nv-fabricmanage", b"nv-hostengine", b"nvidia-imex", b"dcgm-exporter")
FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux
PENDING = "/var/lib/burnin/initramfs-pending"
REBOOT_FLAGS = "/run/burnin/reboot-required.d"
ALTERNATIVES = ("/var/lib/dpkg/alternatives/", "/var/lib/alternatives/")


def _environment() -> Dict[str, str]:
    return {**{name: os.environ[name] for name in KEPT if name in os.environ}, **ENVIRONMENT, "PATH": PATH, "HOME": "/root"}


def run(argv: Sequence[str], timeout_s: float = LOOK_S, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    """Never raises for an exit code; 127 where the program is not there, 124 where it took too long."""
    environment = _environment()
    try:
        process = subprocess.Popen(
            list(argv), env=environment, encoding="utf-8", errors="replace", start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
    except OSError as error:
        return subprocess.CompletedProcess(list(argv), 127, "", str(error))
    try:
        stdout, stderr = process.communicate(stdin, timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with its children: they hold the pipes open
        process.communicate()
        return subprocess.CompletedProcess(list(argv), 124, "", "%s took longer than %d s" % (argv[0], timeout_s))
    return subprocess.CompletedProcess(list(argv), process.returncode, stdout, stderr)


def run_to_its_end(argv: Sequence[str], timeout_s: float, stdin: str = "", apart: bool = False) -> "subprocess.CompletedProcess[str]":
    """As `run`, for what must not be cut off: in a session of its own, writing to a file, so that it goes on when the connection or we end.

    124 where it still works after that time; it is left alone. stdout and stderr are both in `stdout`, the last 256 KiB; `apart`: each in its own.
    """
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as talk, tempfile.TemporaryFile() as asked:
        asked.write(stdin.encode())
        asked.seek(0)
        try:
            process = subprocess.Popen(
                list(argv),
                env=_environment(),
                start_new_session=True,
                stdin=asked,
                stdout=said,
                stderr=talk if apart else subprocess.STDOUT,
            )
        except OSError as error:
            return subprocess.CompletedProcess(list(argv), 127, "", str(error))
        try:
            code, late = process.wait(timeout_s), ""
        except subprocess.TimeoutExpired:
            code, late = 124, "%s still works after %d s as process %d; it is left to end" % (argv[0], timeout_s, process.pid)
        return subprocess.CompletedProcess(list(argv), code, _end_of(said, 64 * SAID_MOST if apart else SAID_MOST), late or _end_of(talk))


def _end_of(file: IO[bytes], most: int = SAID_MOST) -> str:
    file.seek(max(0, os.fstat(file.fileno()).st_size - most))
    return file.read(most).decode("utf-8", "replace")


def last_words(done: "subprocess.CompletedProcess[str]", lines: int = 6) -> str:
    """The end of what a program said, in one line."""
    said = [line.strip() for line in (done.stderr.strip() or done.stdout.strip()).splitlines() if line.strip()]
    return " | ".join(said[-lines:])[-1200:] or "exit %d without a word" % done.returncode


def at(root: Path, path: str) -> Path:
    """A path of the node below the root."""
    return root / path.lstrip("/")


def read(path: Path, most: int = 4_000_000) -> Optional[bytes]:
    """None where there is no such file. Raises Refusal for a folder or a device in its place."""
    if path.exists() and not path.is_file():
        raise Refusal("NOT_A_FILE", "%s is no file; expected one that can be replaced. Move it away" % path)
    try:
        with path.open("rb") as file:
            return file.read(most)
    except (FileNotFoundError, ProcessLookupError):
        return None


def replace(path: Path, content: bytes, mode: int) -> None:
    """At once, so that nobody reads half of it, and on the disk before it counts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=str(path.parent), prefix=".burnin-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(partial, mode)
        os.replace(partial, str(path))
    except OSError:
        Path(partial).unlink()
        raise


def lock_holder(path: Path) -> int:
    """The process that has an fcntl lock on the file; 0 where none has."""
    try:
        with path.open("rb+") as file:
            asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, _whence, _start, _length, pid = struct.unpack(FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    except OSError:
        return 0
    return 0 if kind == fcntl.F_UNLCK else pid


def process(pid: int) -> str:
    """As a person can look for it."""
    name = (read(Path("/proc/%d/comm" % pid), 64) or b"?").decode("utf-8", "replace").strip()
    return "process %d (%s)" % (pid, name)


def wait_for_locks(paths: Iterable[Path], timeout_s: float, remedy: str) -> None:
    """Until nobody holds any of them. Raises Refusal LOCKED."""
    until = time.monotonic() + timeout_s
    while True:
        held = sorted({pid for pid in map(lock_holder, paths) if pid})
        if not held:
            return
        if time.monotonic() >= until:
            raise Refusal(
                "LOCKED", "%s kept the package manager locked for longer than %g s; %s" % (", ".join(map(process, held)), timeout_s, remedy)
            )
        time.sleep(min(1.0, max(0.05, until - time.monotonic())))


def users_of(root: Path, patterns: Sequence[str]) -> List[str]:
    """Processes that have one of these devices open, but for daemons that only look: those always have."""
    devices = {os.path.realpath(path) for pattern in patterns for path in glob.glob(str(at(root, pattern)))}
    if not devices:
        return []
    found = []
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        if folder.name == str(os.getpid()) or not _opens(folder) & devices:
            continue
        if (read(folder / "comm", 64) or b"").strip() not in OWN_DAEMONS:
            found.append(process(int(folder.name)))
    return found


def _opens(folder: Path) -> set:
    try:
        return {os.readlink(str(link)) for link in (folder / "fd").iterdir()}
    except OSError:  # it ended while we looked
        return set()


def has_systemd(root: Path) -> bool:
    """Whether units can be started here."""
    return root == Path("/") and Path("/run/systemd/system").is_dir() and shutil.which("systemctl", path=PATH) is not None


def units(names: Sequence[str]) -> Dict[str, Mapping[str, str]]:
    """Unit -> its LoadState, UnitFileState and ActiveState."""
    done = run(["systemctl", "show", "--property=Id,LoadState,UnitFileState,ActiveState", "--", *names])
    found = {}
    for block in done.stdout.strip().split("\n\n"):
        told = dict(line.partition("=")[::2] for line in block.splitlines())
        if told.get("Id"):
            found[told["Id"]] = told
    return found


def settle_services(names: Sequence[str], start: bool, check: bool) -> Tuple[List[str], List[str]]:
    """Enable and start them: what changed, and notes. One that does not start is a note: before the reboot it may have no driver to talk to."""
    changed, notes = [], []
    for name, told in units(names).items() if names else ():
        if told.get("LoadState") != "loaded":
            notes.append("%s is not there yet" % name)
            continue
        if told.get("UnitFileState") not in ("enabled", "static", "enabled-runtime", "alias", "indirect", "generated"):
            changed.append("%s enabled" % name)
            if not check:
                done = run(["systemctl", "enable", "--", name], SERVICE_S)
                if done.returncode:
                    raise Refusal("SERVICE_FAILED", "%s could not be enabled: %s" % (name, last_words(done)))
        if start and told.get("ActiveState") not in ("active", "activating", "reloading"):
            if check:
                changed.append("%s started" % name)
                continue
            run(["systemctl", "start", "--", name], SERVICE_S)
            if units([name]).get(name, {}).get("ActiveState") == "active":
                changed.append("%s started" % name)
            else:
                notes.append("%s did not start; look at it after the reboot (journalctl -u %s)" % (name, name))
    return changed, notes


def settle_alternative(root: Path, name: str, path: str, check: bool) -> bool:
    """Have the alternative lead there; whether it changed. Raises Refusal where that is none of its choices."""
    # Read from its file, which begins alike in Debian's and in EL's alternatives: EL's program has no --query.
    text = next((found for place in ALTERNATIVES if (found := read(at(root, place + name)))), b"").decode("utf-8", "replace")
    mode, *rest = text.splitlines() or [""]
    link = at(root, "/etc/alternatives/" + name)
    if mode == "manual" and link.is_symlink() and os.readlink(str(link)) == path:
        return False
    choices = [line for line in rest[1:] if line.startswith("/")]
    if path not in choices:
        if check:  # its package is not there yet
            return True
        raise Refusal(
            "ALTERNATIVE_MISSING",
            "%s is none of the alternatives of %s (%s); expected its package to have brought it"
            % (path, name, few(choices) or "it has none"),
        )
    if not check:
        where = [] if root == Path("/") else ["--root", str(root)]
        done = run(["update-alternatives", *where, "--set", name, path])
        if done.returncode:
            raise Refusal("ALTERNATIVE_FAILED", "%s could not be made the alternative %s: %s" % (path, name, last_words(done)))
    return True


def rebuild_initramfs(root: Path) -> str:
    """ "" when it is done, else why there is nothing to do. Raises Refusal; then the next run tries again."""
    if root != Path("/"):
        return "the initramfs of another root is not rebuilt"
    for argv in (["update-initramfs", "-u", "-k", "all"], ["dracut", "--force", "--regenerate-all"]):
        if shutil.which(argv[0], path=PATH):
            done = run(argv, INITRAMFS_S)
            if done.returncode:
                raise Refusal("INITRAMFS_FAILED", "%s exited %d: %s" % (" ".join(argv), done.returncode, last_words(done)))
            return ""
    return "there is no initramfs to rebuild (neither update-initramfs nor dracut is here)"


def free_kib(path: Path) -> int:
    """What root may still write to the file system of this path, or of its nearest folder that exists."""
    while not path.exists():
        path = path.parent
    told = os.statvfs(str(path))
    return told.f_bavail * told.f_frsize // 1024
