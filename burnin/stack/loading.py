"""A stack file's text as plain data, with what YAML would do to it behind one's back kept visible."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import yaml

from burnin.stack.model import Level, Problem

MOST_CHARACTERS = 200_000
FORM = "the form of inventory/example/group_vars/all/stack.yml"


@dataclass(frozen=True, slots=True)
class Unquoted:
    """A scalar that YAML reads as a number or a date: the text as written, and what it became (12.10 is the number 12.1)."""

    text: str
    kind: str

    def __str__(self) -> str:
        return f"{self.text[:60]} without quotes, which YAML reads as a {self.kind}"


class _Loader(yaml.SafeLoader):
    """Keeps numbers and dates as written, and remembers keys given twice."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.twice: list[tuple[str, int]] = []


def _unquoted(kind: str) -> Any:
    def construct(loader: _Loader, node: yaml.ScalarNode) -> Unquoted:
        return Unquoted(str(loader.construct_scalar(node)), kind)

    return construct


def _mapping(loader: _Loader, node: yaml.MappingNode) -> Any:
    found: dict[Hashable, Any] = {}
    yield found
    seen: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            if key.value in seen:
                loader.twice.append((key.value, key.start_mark.line + 1))
            seen.add(key.value)
    found.update(loader.construct_mapping(node, deep=True))


for _tag, _kind in (("float", "number"), ("int", "number"), ("timestamp", "date")):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _unquoted(_kind))
_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def unusable(code: str, found: str, expected: str, remedy: str, field: str = "file") -> Problem:
    """An error of the file as a whole."""
    return Problem(Level.ERROR, code, field, found, expected, remedy, "docs/stack.md")


def load_text(text: str) -> tuple[Any, list[Problem]]:
    """The file as plain data (None when it is no YAML), and what is wrong with it as YAML."""
    if len(text) > MOST_CHARACTERS:
        return None, [unusable("TOO_LARGE", f"{len(text)} characters", f"at most {MOST_CHARACTERS}", "give the stack file, not another")]
    try:
        loader = _Loader(text)
        document = loader.get_single_data()
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        why = str(getattr(problem, "problem", None) or str(problem).partition("\n")[0])
        return None, [unusable("NOT_YAML", f"no YAML{where} ({why[:120]})", FORM, "correct that line")]
    except (RecursionError, ValueError, TypeError) as problem:
        return None, [unusable("NOT_YAML", f"YAML that cannot be read ({type(problem).__name__})", FORM, "write it plainly")]
    return document, [
        unusable("KEY_TWICE", f"{key[:60]!r} a second time at line {line}", "each key once", "remove one: YAML keeps only the last", "file")
        for key, line in loader.twice
    ]
