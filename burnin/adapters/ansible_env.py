"""The surroundings of one call of Ansible: its private folder, its environment, its programs.

What of the caller's ANSIBLE_* variables is kept: how to sign in and how to find the inventory (`KEPT`). All others are dropped, for they
change what a play means without a trace: ANSIBLE_SKIP_TAGS would skip our checks, ANSIBLE_LOG_PATH would write secrets to a file. The
settings are the project's ansible.cfg; who wants another setting says so in `PlayRequest.envvars`.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import secrets
import shutil
import stat
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from burnin.errors import BrokenError

PLAIN_PATH = re.compile(r"[A-Za-z0-9_./+@%=-]+")
PREFIX = "bi-"
HELD = "held"  # locked while the play lasts
STALE_AFTER_S = 300.0
MARK = "BURNIN_PLAY"
LOCAL_REMOTE_TEMP = ".ansible/tmp"  # Ansible's default remote_tmp, which for a local connection is here, in the home
MIN_FREE_BYTES = 16 << 20
# A Unix socket's path has at most 104 (macOS) or 108 bytes; ssh adds 28 to the folder (a name of Ansible's, a suffix of its own).
MAX_SOCKET_FOLDER_BYTES = 64
# Above this the runner's callback throws a task's whole result away; its default is 700,000 characters (X10).
MAX_RESULT_CHARACTERS = 64_000_000
KEPT = (
    "ANSIBLE_VAULT_", "ANSIBLE_BECOME", "ANSIBLE_SSH_", "ANSIBLE_SCP_", "ANSIBLE_SFTP_", "ANSIBLE_PARAMIKO_", "ANSIBLE_REMOTE_",
    "ANSIBLE_CONNECTION_PASSWORD_FILE", "ANSIBLE_HOST_KEY_CHECKING", "ANSIBLE_PRIVATE_KEY_FILE", "ANSIBLE_TIMEOUT", "ANSIBLE_PIPELINING",
    "ANSIBLE_COLLECTIONS_PATH", "ANSIBLE_INVENTORY_ENABLED", "ANSIBLE_INVENTORY_PLUGINS",
)  # fmt: skip
# A question on a terminal that nobody sees would hang for ever; a socket path of the user's would be shared between plays.
DROPPED_OF_KEPT = ("ANSIBLE_BECOME_ASK_PASS", "ANSIBLE_SSH_CONTROL_PATH", "ANSIBLE_SSH_CONTROL_PATH_DIR")
# Variables of the runner's callback; Jenkins and batch systems set JOB_ID too, and a JOB_ID that is no number breaks every event.
RUNNERS_OWN = (
    "AWX_LIB_DIRECTORY", "AWX_ISOLATED_DATA_DIR", "AD_HOC_COMMAND_ID", "JOB_ID", "PROJECT_UPDATE_ID", "MAX_EVENT_RES", "RUNNER_OMIT_EVENTS",
    "RUNNER_ONLY_FAILED_EVENTS", "ORIGINAL_STDOUT_CALLBACK",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Workplace:
    """The folders of one call, absolute and 0700; `mark` stands in the environment of every process of it."""

    folder: Path
    sockets: Path
    ident: str

    @property
    def mark(self) -> str:
        return f"{MARK}={self.ident}"

    def write(self, name: str, text: str) -> Path:
        """A new file, 0600 from the first moment on."""
        path = self.folder / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        return path


@contextmanager
def workplace(base: Path | None) -> Iterator[Workplace]:
    """A fresh private place under `base`, else in memory where there is room; all of it is gone afterwards, come what may (B48, B49).

    A `base` with a space or another letter that Ansible's --limit would read as a pattern's separator cannot hold the file of hosts: then
    memory is taken.
    """
    usable = base is not None and PLAIN_PATH.fullmatch(str(base.absolute()))
    with _private(base if base is not None and usable else _memory()) as folder:
        sockets = folder / "s"
        if len(os.fsencode(sockets)) <= MAX_SOCKET_FOLDER_BYTES:
            sockets.mkdir(mode=0o700)
            yield Workplace(folder, sockets, secrets.token_hex(8))
        else:
            with _private(_memory()) as sockets:
                yield Workplace(folder, sockets, secrets.token_hex(8))


def environment(place: Workplace, project: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of Ansible's process: the caller's less what is dropped, then `extra`, then what only we may decide."""
    kept = {name: value for name, value in os.environ.items() if _kept(name)} | dict(extra)
    ours = {
        "ANSIBLE_CONFIG": str(project / "ansible.cfg"),
        "ANSIBLE_HOME": str(place.folder / "h"),
        "ANSIBLE_LOCAL_TEMP": str(place.folder / "t"),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(place.sockets),
        "ANSIBLE_PERSISTENT_CONTROL_PATH_DIR": str(place.sockets),
        # The runner would keep facts in files named for the host: a '/' in one name ends the play for all (B56).
        "ANSIBLE_CACHE_PLUGIN": "memory",
        # An inventory file that is half read gives half the hosts, a warning and rc 0.
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true",
        "ANSIBLE_INVENTORY_UNPARSED_FAILED": "true",
        "ANSIBLE_NOCOLOR": "1",
        "MAX_EVENT_RES": str(MAX_RESULT_CHARACTERS),
        "PATH": os.pathsep.join([str(program("ansible-playbook").parent), kept.get("PATH") or os.defpath]),
        MARK: place.ident,
    }
    return kept | _utf8(kept) | ours


def remove_leavings(killed: Iterable[int]) -> None:
    """A worker that was killed on a local connection left its task's arguments in the folder named for it; secrets among them (B48)."""
    # Ansible asks for the home of the user by name, so HOME alone does not tell where that is.
    homes = {Path(os.environ.get("HOME", "/")), Path(pwd.getpwuid(os.getuid()).pw_dir)}
    for folder in [found for home in homes for number in killed for found in (home / LOCAL_REMOTE_TEMP).glob(f"ansible-tmp-*-{number}-*")]:
        _remove(folder)


def program(name: str) -> Path:
    """A program of Ansible's from the environment we run in; never another that PATH happens to hold. Raises BrokenError."""
    places = [Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))]
    for place in places:
        if os.access(place / name, os.X_OK):
            return place / name
    raise BrokenError(f"{name}: is not in {places[0]}; burnin and ansible-core must be in one environment: install requirements.txt there")


def _kept(name: str) -> bool:
    if name.startswith("ANSIBLE_"):
        return name.startswith(KEPT) and name not in DROPPED_OF_KEPT
    return name not in RUNNERS_OWN


def _utf8(env: Mapping[str, str]) -> dict[str, str]:
    """Ansible does not start in a locale that is not UTF-8 (cron, LC_ALL=C); an own UTF-8 locale of the caller's stays."""
    chosen = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or ""
    return {} if chosen.lower().replace("-", "").endswith("utf8") else {"LC_ALL": "C.UTF-8"}


def _memory() -> Path:
    """Where secrets never reach a disk: the user's runtime folder or /dev/shm, if that is memory and has room; else the usual one."""
    for name in (os.environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm"):  # noqa: S108 (the folder made in it is private)
        place = Path(name)
        if name and os.access(place, os.W_OK | os.X_OK) and _is_tmpfs(place) and shutil.disk_usage(place).free >= MIN_FREE_BYTES:
            return place
    return Path(tempfile.gettempdir())


def _is_tmpfs(place: Path) -> bool:
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return False
    resolved = place.resolve()
    above = [(len(fields[1]), fields[2]) for fields in mounts if resolved.is_relative_to(fields[1])]
    return bool(above) and max(above)[1] in {"tmpfs", "ramfs"}


@contextmanager
def _private(base: Path) -> Iterator[Path]:
    base = base.absolute()
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    _sweep(base)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
    with (folder / HELD).open("w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            _remove(folder)


def _sweep(base: Path) -> None:
    """Remove what a killed burnin of ours left: nobody holds it, and it is older than any play can last. It may hold secrets."""
    for folder in base.glob(f"{PREFIX}*"):
        try:
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or time.time() - found.st_mtime < STALE_AFTER_S:
                continue
            with (folder / HELD).open("r+", encoding="utf-8") as held:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # held by one that lives, gone meanwhile, or none of ours


def _remove(folder: Path) -> None:
    for _attempt in range(3):  # a socket that vanishes while we delete is no fault
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
    raise BrokenError(f"{folder}: could not be removed; it may hold secrets: delete it by hand")
