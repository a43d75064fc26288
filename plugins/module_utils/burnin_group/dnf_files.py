"""The texts that dnf keeps its truth in: versionlock's list, repositories, module streams, and what rpm says of itself. Pure."""

from __future__ import annotations

import configparser
import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

BEGIN, END = "# burnin: group {}: begin. burnin owns this block, and no line outside of it.", "# burnin: group {}: end"
MARK = re.compile(r"# burnin: group (\S+): (begin\b.*|end)")
EXCLUDE = re.compile(r"# exclude (\S+): (.+)")
QUERY = "%{NAME}\\t%{ARCH}\\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\\n"
# Several versions of these are there side by side: they are installed, never upgraded (dnf's installonlypkgs).
SIDE_BY_SIDE = re.compile(r"^(kernel|kernel-(core|modules|modules-core|modules-extra|devel|rt|rt-.*|64k.*|uki-virt|debug.*)|gpg-pubkey)$")


@dataclass(frozen=True)
class Installed:
    """One package of the rpm database. `evr`: epoch:version-release, the epoch always told."""

    name: str
    arch: str
    evr: str

    @property
    def lock(self) -> str:
        """As `dnf versionlock add` writes it."""
        return f"{self.name}-{self.evr}.*"

    def fits(self, spec: str) -> bool:
        """Whether a spec of dnf (name, name-version-release, epoch before the version, .arch behind, globs) means this package."""
        epoch, _colon, rest = self.evr.partition(":")
        told = [self.name]
        for versioned in (rest, rest.rpartition("-")[0]):
            told += [f"{self.name}-{versioned}", f"{self.name}-{epoch}:{versioned}"]
        return any(fnmatch.fnmatchcase(one, spec) or fnmatch.fnmatchcase(f"{one}.{self.arch}", spec) for one in told)


def wanted(name: str, version: str) -> Installed:
    """As the package would be installed, whatever its release."""
    epoch, colon, rest = version.rpartition(":")
    told = rest.replace("*", "0") or "0"
    return Installed(name, "noarch", f"{epoch if colon else '0'}:{told if '-' in told else told + '-0'}")


def installed(output: str) -> list[Installed]:
    """What `rpm -qa` says with QUERY, without keys. Raises ValueError for a line of another form."""
    rows = [line.split("\t") for line in output.splitlines() if line]
    if wrong := [row for row in rows if len(row) != 3]:
        raise ValueError(f"rpm said {wrong[0]!r}, not name, architecture and version")
    return sorted((Installed(*row) for row in rows if row[0] != "gpg-pubkey"), key=lambda one: (one.name, one.arch, one.evr))


def twice(packages: Iterable[Installed]) -> dict[str, list[str]]:
    """Packages of which two versions are there that cannot both be: an upgrade was cut off."""
    found: dict[str, list[str]] = {}
    for one in packages:
        if not SIDE_BY_SIDE.match(one.name):
            found.setdefault(f"{one.name}.{one.arch}", []).append(one.evr)
    return {name: versions for name, versions in found.items() if len(versions) > 1}


def newer(one: str, other: str) -> bool:
    """Whether an epoch:version-release is newer than another, as rpm compares them (rpmvercmp)."""
    return order(one) > order(other)


def order(evr: str) -> list[list[tuple[int, int, str]]]:
    """A key that sorts as rpm does."""
    return [_parts(part) for part in _split(evr)]


def _split(evr: str) -> list[str]:
    epoch, colon, rest = evr.partition(":")
    version, _dash, release = (rest if colon else evr).rpartition("-")
    return [epoch if colon else "0", version, release]


def _parts(version: str) -> list[tuple[int, int, str]]:
    """For Python's order: ~ before the end, the end before ^, ^ before letters, letters before numbers."""
    kinds = {"~": -2, "^": 0}
    found = [
        (kinds.get(part, 2 if part.isdigit() else 1), int(part) if part.isdigit() else 0, "" if part.isdigit() else part)
        for part in re.findall(r"[0-9]+|[A-Za-z]+|~|\^", version)
    ]
    return [*found, (-1, 0, "")]


def blocks(text: str) -> dict[str, list[str]]:
    """Group -> the lines of its block."""
    found: dict[str, list[str]] = {}
    inside = ""
    for line in text.splitlines():
        if marked := MARK.match(line):
            inside = "" if marked[2] == "end" else marked[1]
            found.setdefault(marked[1], [])
        elif inside:
            found[inside].append(line)
    return found


def with_block(text: str, group: str, lines: Sequence[str]) -> str:
    """The list with the group's block as told, at its place; without any lines, without a block. All other bytes stay."""
    begin, end = re.escape(BEGIN.format(group)), re.escape(END.format(group))
    whole = re.compile(rf"^{begin}\n(?:(?!# burnin: group ).*\n)*{end}(?:\n|\Z)", re.MULTILINE)
    stray = re.compile(rf"^(?:{begin}|{end})(?:\n|\Z)", re.MULTILINE)  # somebody took out the other end: what follows is not ours
    block = "".join(f"{line}\n" for line in [BEGIN.format(group), *lines, END.format(group)]) if lines else ""
    found = whole.search(text)
    before, after = (text[: found.start()], text[found.end() :]) if found else (text, "")
    before, after = (stray.sub("", whole.sub("", part)) for part in (before, after))
    if block and before and not before.endswith("\n"):
        before += "\n"
    return before + block + after


def without(text: str, names: Iterable[str]) -> str:
    """The list with the exact locks of these packages taken out of our blocks: another group moves them now."""
    gone = set(names)
    for group, lines in blocks(text).items():
        kept = [line for line in lines if not (line.endswith(".*") and name_of(line) in gone)]
        if kept != lines:
            text = with_block(text, group, kept)
    return text


def name_of(line: str) -> str:
    """The package's name in an exact lock (name-epoch:version-release.*)."""
    return line.rpartition("-")[0].rpartition("-")[0]


def recorded(text: str) -> dict[str, list[str]]:
    """Repository -> patterns that our blocks keep off it: a group's excludes count for every later transaction, also of other groups."""
    found: dict[str, list[str]] = {}
    for lines in blocks(text).values():
        for told in filter(None, map(EXCLUDE.fullmatch, lines)):
            found[told[1]] = list(dict.fromkeys([*found.get(told[1], []), *told[2].split()]))
    return found


def block(locks: Iterable[str], excludes: Mapping[str, Iterable[str]]) -> list[str]:
    """A group's lines. `main` is every repository; what is kept off one repository versionlock cannot say, so that is a comment of ours."""
    notes = [f"# exclude {name}: {' '.join(patterns)}" for name, patterns in excludes.items() if name != "main"]
    return [*notes, *locks, *(f"!{pattern}" for pattern in excludes.get("main", ()))]


def rules(text: str) -> list[str]:
    """The lines that count."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def unlocked(packages: Iterable[Installed], text: str) -> list[Installed]:
    """Packages that no line of the list locks at their version."""
    lines = [(re.split(r"[*?\[]", line)[0], line) for line in rules(text) if not line.startswith("!")]
    return [
        one
        for one in packages
        if not any((one.name.startswith(begin) or begin.startswith(one.name)) and one.fits(line) for begin, line in lines)
    ]


def loosening(text: str, wanted: Iterable[Installed]) -> list[str]:
    """Lines outside of our blocks that let another version of one of these through: versionlock allows what any line of a name allows."""
    own = {line for lines in blocks(text).values() for line in lines}
    there = [line for line in rules(text) if line not in own and not line.startswith("!")]
    return [line for line in there if any(_loosens(line, one) for one in wanted)]


def _loosens(line: str, wanted: Installed) -> bool:
    about = [name for name in _names(line) if fnmatch.fnmatchcase(wanted.name, name)]
    return bool(about) and (line in about or not wanted.fits(line))


def _names(line: str) -> list[str]:
    """What may be the name in a line: all of it, or what stands before a version, or before a version and a release."""
    found, rest = [line], line
    for _ in range(2):
        rest, _dash, version = rest.rpartition("-")
        if re.match(r"[0-9*?\[]", line[len(rest) + 1 :]) and version:
            found.append(rest)
    return found


def repository(name: str, label: str, options: Mapping[str, str], excludes: Iterable[str]) -> str:
    """A `.repo` file. `options` from the resolution; `excludes` for excludepkgs, beside those that it has."""
    told = dict(options)
    patterns = list(dict.fromkeys([*told.get("excludepkgs", "").replace(",", " ").split(), *excludes]))
    if patterns:
        told["excludepkgs"] = " ".join(patterns)
    for key, value in {"name": label, **told}.items():
        if "\n" in f"{key}{value}":
            raise ValueError(f"{key} of repository {name} has a line break")
    lines = [f"{key}={value}" for key, value in {"name": label, **told}.items()]
    return "\n".join(["# Written by burnin, which owns this file.", f"[{name}]", *lines, ""])


def sources(text: str) -> Iterator[tuple[str, list[str]]]:
    """Repository -> the URLs that a `.repo` file gives it, enabled ones only. A file that is none gives nothing: dnf itself says so."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return
    for section in parser.sections():
        options = parser[section]
        if options.get("enabled", "1").strip().lower() not in ("0", "no", "false", "off"):
            yield section, re.split(r"[\s,]+", options.get("baseurl", "").strip())


def stream(text: str, module: str) -> str:
    """The enabled stream of a file in modules.d; "" where none is."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
        return parser[module].get("stream", "") if parser[module].get("state") == "enabled" else ""
    except (configparser.Error, KeyError):
        return ""


def setting(text: str, name: str, default: str) -> str:
    """One word of `[main]`; the default where the file does not say."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
        return parser.get("main", name, fallback=default).strip()
    except configparser.Error:
        return default


def true(word: str) -> bool:
    """As dnf reads a boolean."""
    return word.strip().lower() in ("1", "yes", "true", "on")
