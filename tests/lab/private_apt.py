"""The machine's own apt and dpkg on a root of their own: nothing installed at first, no chroot, the machine itself untouched.

dpkg runs maintainer scripts on this machine and tells them in DPKG_ROOT where the files are (--force-script-chrootless); the stubs' scripts
keep to it. A node's services do not start here: that needs a node (nodes.py). Needs root, apt and dpkg.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

FOLDERS = (
    "etc/apt/sources.list.d", "etc/apt/preferences.d", "etc/apt/apt.conf.d", "etc/apt/trusted.gpg.d", "etc/alternatives", "var/lib/dpkg/info",
    "var/lib/dpkg/updates", "var/lib/dpkg/alternatives", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/log/apt",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Apt:
    """A root with packages in it."""

    root: Path

    def run(self, *argv: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """Any program of apt or dpkg: `run("apt-get", "update")`. stderr is in stdout, as a person sees it."""
        own = {
            "APT_CONFIG": str(self.root / "apt.conf"),
            "DPKG_ADMINDIR": str(self.root / "var/lib/dpkg"),
            "DEBIAN_FRONTEND": "noninteractive",
        }
        environment = {**os.environ, **own, "LC_ALL": "C.UTF-8"}
        return subprocess.run(
            argv, env=environment, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout_s
        )

    def do(self, *argv: str) -> str:
        """As `run`; AssertionError with the output where it does not end well."""
        done = self.run(*argv)
        assert done.returncode == 0, f"{' '.join(argv)} exited {done.returncode}:\n{done.stdout}"
        return done.stdout

    def install(self, *wanted: str) -> str:
        return self.do("apt-get", "install", "-y", "--no-install-recommends", *wanted)

    def source(self, name: str, text: str) -> None:
        """A deb822 source, and the lists read anew."""
        (self.root / f"etc/apt/sources.list.d/{name}.sources").write_text(text)
        self.do("apt-get", "update")

    def installed(self) -> dict[str, str]:
        """Package -> version."""
        shown = self.do("dpkg-query", "--show", "--showformat=${db:Status-Status} ${Package} ${Version}\\n")
        rows = [row.split(" ") for row in shown.splitlines()]
        return {row[1]: row[2] for row in rows if row[0] == "installed"}

    def held(self) -> set[str]:
        return set(self.do("apt-mark", "showhold").split())


def private_apt(root: Path) -> Apt:
    """Make one under `root`, an empty folder."""
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    (root / "apt.conf").write_text(
        f'Dir "{root}"; Dir::State::status "{root}/var/lib/dpkg/status"; Dir::Log "{root}/var/log/apt";\n'
        'Dir::Bin::methods "/usr/lib/apt/methods"; Dir::Bin::dpkg "/usr/bin/dpkg"; APT::Sandbox::User "root"; APT::Architecture "amd64";\n'
        f'DPkg::Options {{ "--root={root}"; "--force-script-chrootless"; "--force-unsafe-io"; }}; Acquire::Languages "none";\n'
    )
    return Apt(root)
