"""A tree of files, as the rules see it: the repository, or a few planted files in a test."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml


class Tree:
    """The files under `root`: in a git checkout those that git tracks or would track, elsewhere all of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths = sorted(_in_git(root) if (root / ".git").exists() else _on_disk(root))

    def files(self, pattern: str) -> list[str]:
        """The paths that match `pattern` in whole; a rule's pattern is a regular expression, as a glob cannot say 'but not'."""
        return [path for path in self.paths if re.fullmatch(pattern, path)]

    def folders(self, under: str) -> list[str]:
        """The names of the folders in the folder `under` that hold a file."""
        return sorted({match[1] for path in self.paths if (match := re.match(re.escape(under) + r"/([^/]+)/", path))})

    def has(self, path: str) -> bool:
        return path in self.paths

    def text(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def python(self, pattern: str) -> Iterator[tuple[str, ast.Module]]:
        for path in self.files(pattern):
            yield path, _parsed(self.root / path)

    def yaml(self, path: str) -> Any:
        """The first document of a YAML file, mappings carrying their line (see `line_of`)."""
        return yaml.load(self.text(path), Loader=_Loader)


class Mapping(dict[Any, Any]):
    """A YAML mapping that knows its line, and the lines of its keys."""

    line = 0
    key_lines: dict[Any, int]


def line_of(node: object, key: object = None) -> int:
    """The line of a mapping of `Tree.yaml`, or of one of its keys; 1 for what has none."""
    if not isinstance(node, Mapping):
        return 1
    return node.key_lines.get(key, node.line)


class _Loader(yaml.SafeLoader):
    pass


def _mapping(loader: _Loader, node: yaml.MappingNode) -> Iterator[Mapping]:
    found = Mapping()
    found.line = node.start_mark.line + 1
    yield found
    found.update(loader.construct_mapping(node, deep=True))
    found.key_lines = {key.value: key.start_mark.line + 1 for key, _ in node.value if isinstance(key, yaml.ScalarNode)}


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
_Loader.add_multi_constructor("!", lambda loader, suffix, node: f"!{suffix}")


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _in_git(root: Path) -> list[str]:
    argv = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(argv, check=True, capture_output=True, timeout=60).stdout.decode().split("\0")
    return list({path for path in listed if path and (root / path).is_file()})


def _on_disk(root: Path) -> list[str]:
    return [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
