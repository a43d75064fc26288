"""Rules for what is neither Python nor a role: runbooks, README, data files, locks, what may be in the repository at all."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from house.tree import Mapping, Tree, line_of

HEADINGS = ("What you see", "What it means", "What to do", "When to send it back")
LARGEST_BYTES = 500_000
# Written in two parts, or this file would break its own rule. A path must begin there: docs/work/ is somebody's good name.
WORKPLACE_PATHS = re.compile(rb"(?<![\w.])/(?:work/|root/\.)")
LFS_POINTER = b"version https://git-lfs" + b".github.com/spec/"
LIMIT_KEYS = ("unit", "why", "source")
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;\\]+)(?: ; (?P<marker>[^\\]+?))? \\$")


def every_finding_code_has_a_runbook(tree: Tree) -> Iterator[str]:
    codes = _codes(tree)
    if not codes:
        yield "burnin/verdict/codes.py:1: no CODES with literal keys; the runbooks cannot be compared with anything"
    for code, line in codes.items():
        path = f"docs/runbooks/{code}.md"
        if not tree.has(path):
            yield f"{path}:1: is missing; {line} has the code {code}"
            continue
        yield from (f"{path}:{number}: {wrong}" for number, wrong in _runbook(tree.text(path), code))
    for path in tree.files(r"docs/runbooks/(?!README\.md)[^/]+"):
        if path.rpartition("/")[2].removesuffix(".md") not in codes:
            yield f"{path}:1: no finding has this code; rename or remove it"


def _codes(tree: Tree) -> dict[str, str]:
    """Code -> the file and line that has it, of each table CODES."""
    found: dict[str, str] = {}
    for path, module in tree.python(r"burnin/(.*/)?codes\.py"):
        for node in ast.walk(module):
            if not isinstance(node, ast.Assign | ast.AnnAssign):
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "CODES" for target in targets):
                keys = getattr(node.value, "keys", None) or getattr(node.value, "elts", [])
                found |= {str(key.value): f"{path}:{key.lineno}" for key in keys if isinstance(key, ast.Constant)}
    return found


def _runbook(text: str, code: str) -> Iterator[tuple[int, str]]:
    lines = text.splitlines()
    headings = [(number, line.lstrip("#").strip()) for number, line in enumerate(lines, start=1) if line.startswith("#")]
    if not headings or code not in headings[0][1]:
        yield 1, f"must begin with a heading that names {code}"
    found = [(number, heading) for number, heading in headings if heading in HEADINGS]
    if tuple(heading for _, heading in found) != HEADINGS:
        yield 1, f"must have the headings {' / '.join(HEADINGS)}, each once and in this order"
    for number, heading in found:
        following = next((line for line in lines[number:] if line.strip()), "#")
        if following.startswith("#"):
            yield number, f"nothing stands under {heading!r}"


def readme_names_each_folder(tree: Tree) -> Iterator[str]:
    text = tree.text("README.md") if tree.has("README.md") else ""
    for folder in sorted({path.partition("/")[0] for path in tree.paths if "/" in path and not path.startswith(".")}):
        if not re.search(rf"(?<![\w/]){re.escape(folder)}/", text):
            yield f"README.md:1: does not say what {folder}/ is"


def repository_is_small_and_self_contained(tree: Tree) -> Iterator[str]:
    for path in tree.paths:
        content = (tree.root / path).read_bytes()
        if len(content) > LARGEST_BYTES:
            yield f"{path}:1: {len(content)} bytes; {LARGEST_BYTES} is the most"
        if content.startswith(LFS_POINTER) or (path.endswith(".gitattributes") and b"filter=lfs" in content):
            yield f"{path}:1: git-lfs; a clone must need nothing but git"
        for found in WORKPLACE_PATHS.finditer(content):
            line = content.count(b"\n", 0, found.start()) + 1
            yield f"{path}:{line}: names {found[0].decode()}, a path of one machine"


def each_limit_is_explained(tree: Tree) -> Iterator[str]:
    for path in tree.files(r"burnin/data/.*\.ya?ml"):
        for limit in _limits(tree.yaml(path)):
            for key in LIMIT_KEYS:
                if not str(limit.get(key) or "").strip():
                    yield f"{path}:{line_of(limit)}: a limit of {limit['value']!r} without {key}"
            for key in [key for key, value in limit.items() if value is None]:
                yield f"{path}:{line_of(limit)}: {key!r} is a key without a value: a comma inside {{...}} wants quotes around the text"


def _limits(node: Any) -> Iterator[Mapping]:
    if isinstance(node, Mapping) and "value" in node:
        yield node
    elif isinstance(node, dict | list):
        for inner in node.values() if isinstance(node, dict) else node:
            yield from _limits(inner)


def each_requirement_says_why(tree: Tree) -> Iterator[str]:
    for path in tree.files(r"requirements[^/]*\.in"):
        lines = tree.text(path).splitlines()
        for number, line in enumerate(lines, start=1):
            if line.strip() and not line.startswith("#") and not (number > 1 and lines[number - 2].startswith("#")):
                yield f"{path}:{number}: {line} has no comment above it that says why it is needed"


def locks_are_hashed_and_agree(tree: Tree) -> Iterator[str]:
    pins = {path: _pins(tree.text(path)) for path in ("requirements.txt", "requirements-dev.txt") if tree.has(path)}
    for path, found in pins.items():
        if not found:
            yield f"{path}:1: no pin at all"
        for number, line in enumerate(tree.text(path).splitlines(), start=1):
            if "://" in line or line.startswith("-"):
                yield f"{path}:{number}: {line}; a lock names no place, the machine's own settings do"
            elif line and not line.startswith((" ", "#")) and not PIN.match(line):
                yield f"{path}:{number}: {line}; each line is name==version with hashes under it"
            elif PIN.match(line) and "--hash=sha256:" not in tree.text(path).splitlines()[number]:
                yield f"{path}:{number}: {line} has no hash"
    for pin, number in pins.get("requirements.txt", {}).items():
        if pin not in pins.get("requirements-dev.txt", {}):
            yield f"requirements.txt:{number}: {'=='.join(pin[:2])} is not in requirements-dev.txt; run `make lock`"


def _pins(text: str) -> dict[tuple[str, str], int]:
    found = ((PIN.match(line), number) for number, line in enumerate(text.splitlines(), start=1))
    return {(match["name"], match["version"]): number for match, number in found if match}


def locks_hold_what_is_asked_for(tree: Tree) -> Iterator[str]:
    for path in tree.files(r"requirements[^/]*\.in"):
        lock = path.removesuffix(".in") + ".txt"
        held = {name.lower().replace("_", "-") for name, _ in _pins(tree.text(lock))} if tree.has(lock) else set()
        for number, line in enumerate(tree.text(path).splitlines(), start=1):
            asked = re.match(r"[A-Za-z0-9._-]+", line)
            if asked and not line.startswith("-") and asked[0].lower().replace("_", "-") not in held:
                yield f"{path}:{number}: {asked[0]} is not in {lock}; run `make lock`"
