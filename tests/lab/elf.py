"""The smallest ELF files that the tools on a node believe: a kernel module that modinfo reads, a shared library that ldconfig takes."""

from __future__ import annotations

import struct
from collections.abc import Mapping

HEADER, SECTION, SEGMENT = 64, 64, 56
X86_64 = 62
RELOCATABLE, SHARED = 1, 3
PROGBITS, STRTAB = 1, 3
LOAD, DYNAMIC = 1, 2
DT_NULL, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_SONAME = 0, 5, 6, 10, 11, 14
PAGE = 0x1000


def _header(kind: int, *, segments: int = 0, sections_at: int = 0, sections: int = 0) -> bytes:
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    program = HEADER if segments else 0
    names = sections - 1 if sections else 0
    fields = (kind, X86_64, 1, 0, program, sections_at, 0, HEADER, SEGMENT, segments, SECTION, sections, names)
    return ident + struct.pack("<HHIQQQIHHHHHH", *fields)


def _section(name: int, kind: int, offset: int, size: int) -> bytes:
    return struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, offset, size, 0, 0, 1, 0)


def kernel_module(told: Mapping[str, str]) -> bytes:
    """A `.ko` that `modinfo` shows `told` of (version, license, ...); no kernel would load it."""
    information = b"".join(f"{key}={value}".encode() + b"\0" for key, value in told.items())
    names = b"\0.modinfo\0.shstrtab\0"
    tables_at = (HEADER + len(information) + len(names) + 7) // 8 * 8
    body = (information + names).ljust(tables_at - HEADER, b"\0")
    sections = bytes(SECTION) + _section(1, PROGBITS, HEADER, len(information))
    sections += _section(10, STRTAB, HEADER + len(information), len(names))
    return _header(RELOCATABLE, sections_at=tables_at, sections=3) + body + sections


def library(soname: str) -> bytes:
    """A shared library of this soname with nothing in it."""
    strings = b"\0" + soname.encode() + b"\0"
    symbols_at = HEADER + 2 * SEGMENT
    dynamic_at = symbols_at + 24
    strings_at = dynamic_at + 6 * 16
    entries = (
        (DT_SONAME, 1), (DT_STRTAB, strings_at), (DT_SYMTAB, symbols_at), (DT_STRSZ, len(strings)), (DT_SYMENT, 24), (DT_NULL, 0),
    )  # fmt: skip
    size = strings_at + len(strings)
    segments = struct.pack("<IIQQQQQQ", LOAD, 4, 0, 0, 0, size, size, PAGE)
    segments += struct.pack("<IIQQQQQQ", DYNAMIC, 4, dynamic_at, dynamic_at, dynamic_at, 6 * 16, 6 * 16, 8)
    dynamic = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    return _header(SHARED, segments=2) + segments + bytes(24) + dynamic + strings
