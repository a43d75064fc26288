"""Has dkms build and install a module, and says why it would not: the end of the compiler's log, not only an exit code."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

LOG_LINES = 15
TIMEOUT_S = 1800  # the driver's open modules take two minutes on two cores


class Trouble(Exception):
    """The message says what was found, what was expected and what to do."""


def available() -> bool:
    """Whether there is a dkms to ask."""
    return shutil.which("dkms") is not None


def headers(kernel: str, root: Path = Path("/")) -> bool:
    """Whether something can be built for this kernel."""
    return (root / "lib/modules" / kernel / "build").exists()


def sources(module: str, version: str, root: Path = Path("/")) -> bool:
    """Whether there is something to build."""
    return (root / "usr/src" / f"{module}-{version}" / "dkms.conf").exists()


def build(module: str, version: str, kernel: str, *, again: bool) -> None:
    """Build and install. `again`: although it is built already. Raises Trouble."""
    which = ["-m", module, "-v", version, "-k", kernel]
    for verb in (["build", "--force"], ["install", "--force"]) if again else (["install"],):
        _run(["dkms", *verb, *which], module, version, kernel)


def _run(argv: list[str], module: str, version: str, kernel: str) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise Trouble(f"{' '.join(argv)}: {problem}") from problem
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-600:]
        raise Trouble(f"{module} {version} does not build for kernel {kernel} (exit {done.returncode}): {said}{_log(module, version)}")


def _log(module: str, version: str) -> str:
    path = Path("/var/lib/dkms") / module / version / "build/make.log"
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(["", f"The end of {path}:", *lines[-LOG_LINES:]])
