"""A node to tune: the HGX tree of tests/lab/fake_root.py with CPUs, memory, PAM and GRUB, and programs that do what the real ones would with its files."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import ansible.module_utils

from lab import fake_root

ROOT = Path(__file__).resolve().parents[1]
ansible.module_utils.__path__.append(str(ROOT / "plugins/module_utils"))
from ansible.module_utils.burnin_tuning import core, host, model  # noqa: E402

MENU = (ROOT / "tests/data/grub/two-kernels.cfg").read_text(encoding="utf-8")
OWN_WORDS = "ro  quiet"
PARAMS = {
    "acs_redirect": "auto", "iommu": "auto", "kernel_parameters": "auto", "max_read_request": 4096, "relaxed_ordering": True,
    "cpu_governor": "performance", "cpu_idle_latency_us": 0, "numa_balancing": "disable", "memlock": "unlimited", "open_files": 1048576,
    "huge_pages_per_numa_node": 0, "huge_page_kib": 2048, "transparent_huge_pages": "leave", "time_sync": True, "persistence": True,
    "gpu_cards": ["10de:0300", "10de:0302"], "nic_cards": ["15b3:02"], "require": [],
}  # fmt: skip


class Node:
    """Built below `root`. `units`: unit -> its ActiveState and UnitFileState; `hooks`: program -> what it does instead; `ran`: all that was run."""

    def __init__(self, root: Path, *faults: tuple[str, int], kind: str = "hgx-h100", processor: str = "GenuineIntel") -> None:
        self.root = fake_root.build(root, kind, "580.126.09", faults)
        self.ran: list[list[str]] = []
        self.units = {"chrony.service": ["active", "enabled"], "burnin-node-tuning.service": ["inactive", "disabled"]}
        self.hooks: dict[str, Callable[[Sequence[str]], tuple[int, str]]] = {}
        self.persistence = "Enabled"
        self.systemd_limits = {"MEMLOCK": "8388608", "NOFILE": "524288"}
        for cpu in range(4):
            self.put(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor", "powersave\n")
            self.put(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_available_governors", "performance powersave\n")
            for number, (name, latency) in enumerate((("POLL", 0), ("C1", 1), ("C1E", 2), ("C6", 290))):
                for file, text in (("name", name), ("latency", latency), ("disable", 0)):
                    self.put(f"/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{number}/{file}", f"{text}\n")
        for node, cpus in ((0, "0-1"), (1, "2-3"), (2, "")):
            self.put(f"/sys/devices/system/node/node{node}/cpulist", cpus + "\n")
            self.put(f"/sys/devices/system/node/node{node}/meminfo", f"Node {node} MemTotal:       8388608 kB\n")
            self.put(f"/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages", "0\n")
        self.put("/proc/sys/kernel/numa_balancing", "1\n")
        self.put("/proc/sys/fs/nr_open", "1048576\n")
        self.put("/proc/cpuinfo", f"processor\t: 0\nvendor_id\t: {processor}\n")
        self.put("/etc/pam.d/sshd", "session    required     pam_limits.so\n")
        self.put("/etc/security/limits.conf", "# nothing\n")
        self.put("/etc/default/grub", 'GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX=""\n')
        self.put("/boot/grub/grub.cfg", MENU)
        self.boot("quiet")

    def put(self, path: str, text: str) -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def text(self, path: str) -> str:
        return (self.root / path.lstrip("/")).read_text()

    def there(self, path: str) -> bool:
        return (self.root / path.lstrip("/")).exists()

    def boot(self, words: str | None = None) -> None:
        """As the kernel would come up with what the menu says (or `words`): its line, and how the IOMMU treats every card."""
        line = words or " ".join(re.search(r"^\s*linux\s+\S+ (.*)$", self.text("/boot/grub/grub.cfg"), re.MULTILINE)[1].split())  # type: ignore[index]
        self.put("/proc/cmdline", line + "\n")
        for place in (self.root / "sys/kernel/iommu_groups").glob("*/type"):
            place.write_text(("identity" if {"iommu=pt", "iommu.passthrough=1"} & set(line.split()) else "DMA-FQ") + "\n")

    def files(self) -> dict[str, bytes]:
        """Every file with its bytes; two looks that agree saw no change."""
        return {str(path): path.read_bytes() for path in sorted(self.root.rglob("*")) if path.is_file() and not path.is_symlink()}

    def run(self, argv: Sequence[str], timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        assert timeout_s > 0
        self.ran.append(list(argv))
        does = self.hooks.get(argv[0]) or {"update-grub": self._update_grub, "systemctl": self._systemctl, "nvidia-smi": self._smi}.get(
            argv[0]
        )
        code, said = does(argv) if does else (127, "")
        return subprocess.CompletedProcess(list(argv), code, said, said if code else "")

    def _update_grub(self, _argv: Sequence[str]) -> tuple[int, str]:
        """The files are read as the shell reads them, and every entry gets both variables."""
        variables = {"GRUB_CMDLINE_LINUX": "", "GRUB_CMDLINE_LINUX_DEFAULT": ""}
        for path in [self.root / "etc/default/grub", *sorted((self.root / "etc/default/grub.d").glob("*.cfg"))]:
            for line in path.read_text().splitlines():
                name, sign, value = line.partition("=")
                if sign and name in variables:
                    told = "".join(shlex.split(value, comments=True))
                    variables[name] = told.replace("$GRUB_CMDLINE_LINUX", variables["GRUB_CMDLINE_LINUX"])
        words = " ".join(["ro", variables["GRUB_CMDLINE_LINUX"], variables["GRUB_CMDLINE_LINUX_DEFAULT"]])
        self.put("/boot/grub/grub.cfg", re.sub(r"(?m)^(\s*linux\s+\S+ root=\S+) .*$", rf"\g<1> {words}", MENU))
        return 0, ""

    def _systemctl(self, argv: Sequence[str]) -> tuple[int, str]:
        verb, names = argv[1], [one for one in argv[2:] if not one.startswith("--")]
        if verb == "daemon-reexec":
            for path in sorted((self.root / "etc/systemd/system.conf.d").glob("*.conf")):
                self.systemd_limits |= dict(re.findall(r"^DefaultLimit(\w+)=(\S+)$", path.read_text(), re.MULTILINE))
        elif verb == "show" and argv[2].startswith("--property=DefaultLimit"):
            word = argv[2].removeprefix("--property=DefaultLimit")
            return 0, f"DefaultLimit{word}={self.systemd_limits[word]}\n"
        elif verb == "show":
            blocks = []
            for name in names:
                active, enabled = self.units.get(name, ["inactive", ""])
                known = "loaded" if name in self.units else "not-found"
                blocks.append(f"Id={name}\nLoadState={known}\nActiveState={active}\nUnitFileState={enabled}\n")
            return 0, "\n".join(blocks)
        elif verb in ("start", "restart"):
            self.units[names[0]][0] = "active"
        elif verb == "enable":
            self.units[names[0]][1] = "enabled"
        return 0, ""

    def _smi(self, _argv: Sequence[str]) -> tuple[int, str]:
        return 0, "".join(f"00000000:{place:02X}:00.0, {self.persistence}\n" for place in range(8))

    def host(self) -> host.Host:
        return host.Host(self.root, self.run, True)

    def tune(self, check: bool = False, **params: object) -> core.Done:
        return core.settle(self.host(), model.wish({**PARAMS, **params}), check)
