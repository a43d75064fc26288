"""What a resolution is asked for, and the few things every group makes of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from burnin.stack.compat import Compat, Names
from burnin.stack.distros import Distro
from burnin.stack.hardware import Hardware
from burnin.stack.model import Stack
from burnin.stack.resolution import Package, Pin

PREFERENCES = "/etc/apt/preferences.d"
PRIORITY = 1000


@dataclass(frozen=True, slots=True)
class Ask:
    """`kernel` is what runs on the node now (uname -r) and `release` its OS release (9.6); None where nobody looked."""

    stack: Stack
    distro: Distro
    arch: str
    hardware: Hardware
    compat: Compat
    kernel: str | None
    release: str | None

    @property
    def apt(self) -> bool:
        return self.distro.manager == "apt"

    @property
    def cuda_major(self) -> str:
        """The CUDA major that the driver implements; 12 for a branch older than all we know."""
        return (self.compat.cuda_of(self.stack.driver.branch) or "12").partition(".")[0]

    def names(self, part: str) -> list[Names]:
        """The entries of a part that serve this distribution, branch and hardware."""
        driver, traits = self.stack.driver, self.hardware.traits | {self.arch}
        return [
            one
            for one in self.compat.names[part]
            if one.serves(self.distro.families, driver.branch)
            and one.contents in ("", driver.contents)
            and one.flavour in ("", driver.flavour)
            and one.source == driver.source
            and traits.issuperset(one.needs)
        ]

    def package(self, name: str, version: str, why: str, *, epoch: str = "", release: str = "*") -> Package:
        """`version` upstream; `release` the packaging's own part. apt takes any version whose text matches, so an epoch is written out."""
        if not version:
            return Package(name, "", name, why)
        full = (f"{epoch}:" if epoch else "") + version + (f"-{release}" if release else "")
        return Package(name, full, f"{name}={full}" if self.apt else f"{name}-{full}", why)

    def pin(self, name: str, *stanzas: tuple[str, str, int]) -> tuple[Pin, ...]:
        """One preferences file of (packages, pin, priority); none for dnf."""
        if not self.apt:
            return ()
        content = "\n".join(f"Package: {packages}\nPin: {pin}\nPin-Priority: {priority}\n" for packages, pin, priority in stanzas)
        return (Pin(f"burnin-{name}", f"{PREFERENCES}/burnin-{name}", content),)

    def locks(self, packages: Iterable[Package], *more: str) -> tuple[str, ...]:
        """Lines for dnf versionlock: what is asked for, and what it drags in; none for apt."""
        return () if self.apt else tuple(dict.fromkeys([*(one.spec for one in packages if one.version), *more]))
