"""Plain data -> a Stack, or what is wrong with it. Every problem names its field and says what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from burnin.stack.hardware import known as known_hardware
from burnin.stack.loading import FORM, Unquoted, load_text, unusable
from burnin.stack.model import (
    DISTROS,
    HOLD,
    SOURCES,
    VARIABLE,
    Cuda,
    Dcgm,
    Driver,
    Level,
    Nccl,
    Ofed,
    Override,
    Problem,
    Stack,
    errors,
    ordered,
)  # fmt: skip
from burnin.stack.versions import FORMS

FLAVOURS = ("open", "proprietary")
CONTENTS = ("full", "compute")
DRIVER_SOURCES = ("nvidia", "distribution")
KINDS = ("doca", "mlnx", "none")
PARTS = ("driver", "cuda", "nccl", "ofed", "dcgm", "kernel", "repositories", "skus")
DERIVED = ("fabricmanager", "fabric_manager", "nscq", "nvsdm", "imex", "persistenced", "headers", "nvlsm")
PLACEHOLDERS = re.compile(r"\{([^{}]*)\}")
KNOWN_PLACEHOLDERS = ("distro", "arch", "version", "directory", "release")
SOURCE = "docs/stack.md"
URL = re.compile(r"(https?|file)://[^\s'\"]+")
MOST_SHOWN = 80


def read_text(text: str) -> tuple[Stack | None, list[Problem]]:
    """A stack file's text. The Stack is None as soon as there is an error."""
    document, problems = load_text(text)
    if errors(problems):
        return None, ordered(problems)
    if not isinstance(document, Mapping):
        return None, [unusable("NOT_A_MAPPING", _shown(document), f"the variable {VARIABLE}", f"begin the file with {VARIABLE}:")]
    if VARIABLE not in document:
        near = get_close_matches(VARIABLE, [str(name) for name in document], 1)
        remedy = f"rename {near[0]!r}" if near else f"begin the file with {VARIABLE}:"
        return None, [unusable("NO_STACK", f"the variables {_few(document)}", f"the variable {VARIABLE}", remedy)]
    others = [str(name) for name in document if name != VARIABLE]
    problems += [
        Problem(Level.WARNING, "OTHER_VARIABLE", name[:MOST_SHOWN] or "file", "another variable in the stack file", f"only {VARIABLE}",
                "move it to a file beside this one, so that the stack is one truth", SOURCE)
        for name in others
    ]  # fmt: skip
    stack, found = read_stack(document[VARIABLE])
    return stack, ordered([*problems, *found])


def read_stack(value: object) -> tuple[Stack | None, list[Problem]]:
    """The variable's value, from a file or from Ansible. The Stack is None as soon as there is an error."""
    reader = _Reader()
    stack = reader.stack(value)
    return (None if errors(reader.problems) else stack), ordered(reader.problems)


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"{str(value).lower()} (YAML reads yes, no, on and off as this)"
    if isinstance(value, int | float):
        return f"the number {value!r}"
    if isinstance(value, Mapping):
        return f"a mapping of {_few(value)}" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    return str(value) if isinstance(value, Unquoted) else repr(str(value))[:MOST_SHOWN]


def _few(names: Iterable[object]) -> str:
    listed = [str(name)[:40] for name in names]
    return ", ".join(listed[:6]) + (", ..." if len(listed) > 6 else "")


class _Reader:
    """Reads field by field and collects what is wrong; a value that is wrong reads as None."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def wrong(self, code: str, field: str, found: str, expected: str, remedy: str) -> None:
        self.problems.append(Problem(Level.ERROR, code, field, found, expected, remedy, SOURCE))

    def stack(self, value: object) -> Stack | None:
        parts = self.mapping(value, VARIABLE, PARTS, ("driver",))
        if parts is None:
            return None
        driver = self.driver(parts["driver"]) if "driver" in parts else None
        rest = Stack(
            driver=driver or Driver("0", FLAVOURS[0]),  # read on, so that all that is wrong is said at once
            cuda=self.cuda(parts["cuda"]) if "cuda" in parts else None,
            nccl=self.nccl(parts["nccl"]) if "nccl" in parts else None,
            ofed=self.ofed(parts["ofed"]) if "ofed" in parts else None,
            dcgm=self.dcgm(parts["dcgm"]) if "dcgm" in parts else None,
            kernel=self.kernel(parts.get("kernel", {})),
            repositories=self.repositories(parts.get("repositories", {})),
            skus=self.skus(parts.get("skus", [])),
        )
        return rest if driver else None

    def mapping(self, value: object, field: str, keys: tuple[str, ...], required: tuple[str, ...]) -> Mapping[str, Any] | None:
        """The mapping without its empty keys (those are reported, and so are unknown ones), or None where it is none."""
        if not isinstance(value, Mapping):
            self.wrong("NOT_A_MAPPING", field, _shown(value), f"a mapping with {', '.join(required or keys)}", f"see {FORM}")
            return None
        for key in value:
            if key not in keys:
                self._unknown(field, key, keys)
        for key in [key for key in required if key not in value] + [key for key in keys if key in value and value[key] is None]:
            advice = "add it" if key in required else "fill it in, or leave the key out"
            self.wrong("MISSING_KEY", f"{field}.{key}", "nothing", f"{key} of {field}", f"{advice}; see {FORM}")
        return {str(key): one for key, one in value.items() if one is not None}

    def _unknown(self, field: str, key: object, keys: tuple[str, ...]) -> None:
        name = str(key)[:MOST_SHOWN]
        if name.replace("-", "_") in DERIVED:
            remedy = "remove it: it follows from the driver, the distribution and the hardware"
        else:
            near = get_close_matches(name, keys, 1, cutoff=0.5)
            remedy = f"did you mean {near[0]!r}?" if near else "remove it"
        self.wrong("UNKNOWN_KEY", f"{field}.{name}", f"the key {name!r}", f"one of {', '.join(keys)}", remedy)

    def version_of(self, found: Mapping[str, Any], key: str, field: str, form: str) -> str | None:
        """The version under a key that was already reported if it is not there."""
        return self.version(found[key], f"{field}.{key}", form) if key in found else None

    def version(self, value: object, field: str, form: str) -> str | None:
        example = FORMS[form].example
        if isinstance(value, bool | int | float | Unquoted):
            lost = "YAML drops trailing zeros of numbers, so 12.10 becomes 12.1"
            self.wrong("NOT_TEXT", field, _shown(value), f"a version as text, such as {example!r}", f"put it in quotes: {lost}")
            return None
        if not isinstance(value, str) or not FORMS[form].fits(value):
            self.wrong("MALFORMED_VERSION", field, _shown(value), f"a version such as {example!r}", _malformed(value, form))
            return None
        return value

    def choice(self, value: object, field: str, among: tuple[str, ...]) -> str | None:
        if isinstance(value, str) and value in among:
            return value
        near = get_close_matches(str(value), among, 1, cutoff=0.5)
        remedy = f"did you mean {near[0]!r}?" if near else f"write {' or '.join(among)}"
        self.wrong("NOT_A_CHOICE", field, _shown(value), " or ".join(among), remedy)
        return None

    def driver(self, value: object) -> Driver | None:
        field = f"{VARIABLE}.driver"
        found = self.mapping(value, field, ("version", "flavour", "contents", "source"), ("version", "flavour"))
        if found is None:
            return None
        version = self.version_of(found, "version", field, "driver")
        flavour = self.choice(found["flavour"], f"{field}.flavour", FLAVOURS) if "flavour" in found else None
        contents = self.choice(found.get("contents", "full"), f"{field}.contents", CONTENTS)
        source = self.choice(found.get("source", "nvidia"), f"{field}.source", DRIVER_SOURCES)
        return Driver(version, flavour, contents, source) if version and flavour and contents and source else None

    def cuda(self, value: object) -> Cuda | None:
        field = f"{VARIABLE}.cuda"
        found = self.mapping(value, field, ("toolkits", "default"), ("toolkits", "default"))
        if found is None:
            return None
        default = self.version_of(found, "default", field, "toolkit")
        if "toolkits" not in found:
            return None
        listed = found["toolkits"]
        if not isinstance(listed, list | tuple) or not listed:
            self.wrong(
                "NOT_A_LIST",
                f"{field}.toolkits",
                _shown(listed),
                "a list of versions such as ['12.9.1']",
                "write it as a list, or leave cuda out",
            )
            return None
        toolkits = [self.version(one, f"{field}.toolkits[{place}]", "toolkit") for place, one in enumerate(listed)]
        return Cuda(tuple(one for one in toolkits if one), default) if default and all(toolkits) else None

    def nccl(self, value: object) -> Nccl | None:
        field = f"{VARIABLE}.nccl"
        found = self.mapping(value, field, ("version", "cuda"), ("version", "cuda"))
        if found is None:
            return None
        version = self.version_of(found, "version", field, "nccl")
        cuda = self.version_of(found, "cuda", field, "cuda")
        return Nccl(version, cuda) if version and cuda else None

    def ofed(self, value: object) -> Ofed | None:
        field = f"{VARIABLE}.ofed"
        found = self.mapping(value, field, ("kind", "version"), ("kind",))
        kind = self.choice(found["kind"], f"{field}.kind", KINDS) if found and "kind" in found else None
        if found is None or kind is None:
            return None
        if kind == "none":
            if found.get("version") is not None:
                self.wrong(
                    "UNKNOWN_KEY",
                    f"{field}.version",
                    _shown(found["version"]),
                    "no version with kind none",
                    "remove the version, or name the kind",
                )
            return None
        if "version" not in found:
            self.wrong("MISSING_KEY", f"{field}.version", "nothing", f"version of {field}", f"add it; see {FORM}")
        version = self.version_of(found, "version", field, kind)
        return Ofed(kind, version) if version else None

    def dcgm(self, value: object) -> Dcgm | None:
        field = f"{VARIABLE}.dcgm"
        found = self.mapping(value, field, ("version",), ("version",))
        version = self.version_of(found, "version", field, "dcgm") if found else None
        return Dcgm(version) if version else None

    def kernel(self, value: object) -> dict[str, str]:
        field = f"{VARIABLE}.kernel"
        found = self.mapping(value, field, DISTROS, ())
        read = {}
        for name, version in (found or {}).items():
            if name in DISTROS and version != HOLD and (text := self.version(version, f"{field}.{name}", "kernel")):
                read[name] = text
        return read

    def skus(self, value: object) -> tuple[str, ...]:
        field = f"{VARIABLE}.skus"
        if not isinstance(value, list | tuple):
            self.wrong(
                "NOT_A_LIST", field, _shown(value), "a list of SKUs such as ['H100-SXM5-80GB']", "write it as a list, or leave it out"
            )
            return ()
        for place, name in enumerate(value):
            if not isinstance(name, str) or name not in known_hardware():
                near = get_close_matches(str(name), list(known_hardware()), 1, cutoff=0.4)
                remedy = f"did you mean {near[0]!r}?" if near else f"known are {_few(known_hardware())}"
                self.wrong("UNKNOWN_SKU", f"{field}[{place}]", _shown(name), "a SKU of burnin/data/hardware.yaml", remedy)
        return tuple(str(name) for name in value)

    def repositories(self, value: object) -> dict[str, Override]:
        field = f"{VARIABLE}.repositories"
        found = self.mapping(value, field, SOURCES, ())
        return {name: self.override(entry, f"{field}.{name}") for name, entry in (found or {}).items() if name in SOURCES}

    def override(self, value: object, field: str) -> Override:
        keys = ("url", "key_url", "key_sha256", "key_fingerprint")
        found = self.mapping(value, field, keys, ()) or {}
        for name in ("url", "key_url"):
            self._url(found.get(name, ""), f"{field}.{name}")
        for name, digits in (("key_sha256", 64), ("key_fingerprint", 40)):
            one = found.get(name, "")
            if one != "" and not (isinstance(one, str) and re.fullmatch(rf"[0-9a-fA-F]{{{digits}}}", one)):
                self.wrong(
                    "MALFORMED_KEY",
                    f"{field}.{name}",
                    _shown(one),
                    f"{digits} hexadecimal digits in quotes",
                    "copy it whole from sha256sum or gpg --show-keys",
                )
        return Override(**{name: str(found.get(name, "")) for name in keys})

    def _url(self, value: object, field: str) -> None:
        if value == "":
            return
        if not isinstance(value, str) or not URL.fullmatch(value):
            self.wrong(
                "MALFORMED_URL",
                field,
                _shown(value),
                "a URL that begins with https://, http:// or file:///",
                "correct it, or leave it out for the vendor's",
            )
            return
        for name in PLACEHOLDERS.findall(value):
            if name not in KNOWN_PLACEHOLDERS:
                known = ", ".join(f"{{{one}}}" for one in KNOWN_PLACEHOLDERS)
                self.wrong(
                    "MALFORMED_URL",
                    field,
                    f"the placeholder {{{name[:40]}}}",
                    f"only {known}",
                    "correct the placeholder; a template of Ansible is not read here",
                )


def _malformed(value: object, form: str) -> str:
    text = str(value)
    if "{{" in text:
        return "write the version itself: the file is checked as it stands, before any template is filled in"
    if "+cuda" in text or text.startswith(("v", "=")) or "*" in text or ":" in text:
        return "write the upstream version alone, without epoch, suffix, + or glob"
    if form == "driver" and text.isdigit():
        return "write the whole version: a branch alone is no pin"
    if form == "toolkit" and text.count(".") == 1:
        return "write all three numbers: the third decides which driver it needs"
    return "correct the version"
