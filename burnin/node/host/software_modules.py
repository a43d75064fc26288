"""Kernel modules as they lie on the disk, the libraries and toolkits beside them: what the next boot or the next process would get."""

from __future__ import annotations

import os
import re
import struct
from typing import Any, BinaryIO, Dict, List, Optional, Tuple

from burnin.node.host.reading import Reader

DKMS = "/var/lib/dkms"
# Where a module of ours may lie in /lib/modules/KERNEL: built by DKMS, by a kmod package, or precompiled by the distribution.
PLACES = {
    "nvidia": ("updates/dkms", "updates", "extra", "extra/nvidia*", "extra/drivers/video/nvidia", "weak-updates", "weak-updates/nvidia*",
               "kernel/drivers/video", "kernel/nvidia-*"),
    "mlx5_core": ("updates/dkms", "updates", "extra", "weak-updates", "updates/drivers/net/ethernet/mellanox/mlx5/core",
                  "extra/mlnx-ofa_kernel/drivers/net/ethernet/mellanox/mlx5/core",
                  "weak-updates/mlnx-ofa_kernel/drivers/net/ethernet/mellanox/mlx5/core"),
}  # fmt: skip
SUFFIXES = (".ko", ".ko.xz", ".ko.zst", ".ko.gz")
MOST_KERNELS, MOST_SECTIONS, MODINFO_BYTES = 20, 200_000, 1024 * 1024
LIBRARIES = {
    "libnvidia-ml": "libnvidia-ml.so.1",
    "libcuda": "libcuda.so.1",
    "libnccl": "libnccl.so.2",
    "libnvidia-nscq": "libnvidia-nscq.so.2",
}
FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")
TOOLKIT = re.compile(r"/usr/local/cuda-([0-9]+\.[0-9]+)")


def dkms(reader: Reader) -> List[Dict[str, Any]]:
    """Each module in DKMS's tree, per kernel: state added (kernel None), built or installed, and when it was built (seconds since 1970)."""
    found = []
    for source in reader.glob(DKMS + "/*/*/source"):
        module, version = source.split("/")[4:6]
        built = [path.split("/")[6:8] for path in reader.glob("%s/%s/%s/*/*/module" % (DKMS, module, version))]
        for kernel, arch in built:
            link = reader.readlink("%s/%s/kernel-%s-%s" % (DKMS, module, kernel, arch)) or ""
            state = "installed" if link.split("/")[0] == version else "built"
            folder = "%s/%s/%s/%s/%s/module" % (DKMS, module, version, kernel, arch)
            found.append({"module": module, "version": version, "kernel": kernel, "state": state, "built_s": _changed_s(reader, folder)})
        if not built:
            found.append({"module": module, "version": version, "kernel": None, "state": "added", "built_s": None})
    return found


def _changed_s(reader: Reader, path: str) -> Optional[int]:
    try:
        return int(os.stat(reader.at(path) or "").st_mtime)  # noqa: PTH116  one kind of error to catch on every Python
    except OSError:
        return None


def module_files(reader: Reader) -> List[Dict[str, Any]]:
    """The module that each kernel would load, with the version inside it; None = it does not say, or is packed and modinfo is not here."""
    found = []
    for folder in reader.glob("/lib/modules/*")[:MOST_KERNELS]:
        for name in PLACES:
            path = _file(reader, folder, name)
            if path is not None:
                found.append({"module": name, "kernel": folder.rpartition("/")[2], "version": _version(reader, path)})
    return found


def _file(reader: Reader, folder: str, name: str) -> Optional[str]:
    for place in PLACES[name]:
        for where in reader.glob("%s/%s" % (folder, place)):
            for suffix in SUFFIXES:
                path = "%s/%s%s" % (where, name, suffix)
                if reader.exists(path):
                    return path
    return None


def _version(reader: Reader, path: str) -> Optional[str]:
    said = reader.run(["modinfo", "-F", "version", path])
    if said is not None:
        return said.strip()[:100] or None
    return _modinfo_version(reader, path) if path.endswith(".ko") else None


def _modinfo_version(reader: Reader, path: str) -> Optional[str]:
    """`version=` in the section .modinfo of a 64-bit little-endian ELF file, as modinfo would find it."""
    try:
        with open(reader.at(path) or "", "rb") as file:  # noqa: PTH123  only sections of it are read: it has a hundred MB
            start, size = _section(file, b".modinfo")
            file.seek(start)
            words = file.read(min(size, MODINFO_BYTES)).split(b"\0")
    except (OSError, ValueError, struct.error) as problem:
        reader.fail(path, "no readable module: %s" % problem)
        return None
    found = [word[len(b"version=") :] for word in words if word.startswith(b"version=")]
    return found[0].decode("utf-8", errors="replace")[:100] if found else None


def _section(file: BinaryIO, wanted: bytes) -> Tuple[int, int]:
    """Offset and size. Raises ValueError where there is none."""
    head = file.read(64)
    if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit ELF file")
    table, each, count, names = (*struct.unpack_from("<Q", head, 40), *struct.unpack_from("<HHH", head, 58))
    if each != 64 or not names < count <= MOST_SECTIONS:
        raise ValueError("no section table")
    file.seek(table)
    rows = file.read(each * count)
    entries = [struct.unpack_from("<IIQQQQ", rows, number * each) for number in range(count)]
    file.seek(entries[names][4])
    text = file.read(min(entries[names][5], MODINFO_BYTES))
    for entry in entries:
        if text[entry[0] :].split(b"\0", 1)[0] == wanted:
            return entry[4], entry[5]
    raise ValueError("no section .modinfo")


def libraries(reader: Reader) -> Dict[str, Optional[str]]:
    """Each userspace library that must fit a module or a package -> the version in the name of the file that its link leads to."""
    found: Dict[str, Optional[str]] = dict.fromkeys(LIBRARIES)
    for name, soname in LIBRARIES.items():
        for folder in FOLDERS:
            whole = (reader.realpath("%s/%s" % (folder, soname)) or "").rpartition("/")[2]
            version = re.match(r".*?\.so\.([0-9]+\.[0-9.]+)$", whole)
            if version and found[name] is None:
                found[name] = version.group(1)
    return found


def toolkits(reader: Reader) -> List[str]:
    """The CUDA toolkits (X.Y) in /usr/local; a folder that a removed toolkit left behind is none."""
    folders = {path: TOOLKIT.fullmatch(path) for path in reader.glob("/usr/local/cuda-*")}
    full = [match.group(1) for path, match in folders.items() if match and _is_toolkit(reader, path)]
    return sorted(full, key=lambda version: [int(part) for part in version.split(".")])


def _is_toolkit(reader: Reader, path: str) -> bool:
    return reader.exists(path + "/bin/nvcc") or reader.exists(path + "/version.json")


def default_toolkit(reader: Reader) -> Optional[str]:
    """The folder that /usr/local/cuda leads to, or would if it were there."""
    link = "/usr/local/cuda"
    return reader.realpath(link) or reader.readlink("/etc/alternatives/cuda") or reader.readlink(link)
