"""Rules for roles and playbooks."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

from house.tree import Tree, line_of

PLAYBOOK_KEYS = {
    "name", "hosts", "gather_facts", "become", "connection", "strategy", "serial", "order", "any_errors_fatal", "max_fail_percentage",
    "vars", "tags", "roles", "tasks", "import_playbook",
}  # fmt: skip
ROLE_IMPORTS = {"ansible.builtin.import_role", "ansible.builtin.include_role"}
ASSERT = "ansible.builtin.assert"
# `File | Do the thing`
TASK_NAME = re.compile(r"(?P<file>[A-Z][A-Za-z0-9 _-]*) \| [A-Z].*")
IGNORED_FAILURE = re.compile(
    r"""^\s*(?:-\s+)?(?:(?:ignore_errors|ignore_unreachable)\s*:|failed_when\s*:\s*["'\[ -]*(?:false|no|off|never)\b)""", re.IGNORECASE
)


def no_failure_is_ignored(tree: Tree) -> Iterator[str]:
    for path in tree.files(r"(roles|playbooks|inventory|tests|plugins)/(?!(?:.*/)?data/).*\.ya?ml"):
        for number, line in enumerate(tree.text(path).splitlines(), start=1):
            if IGNORED_FAILURE.search(line):
                yield f"{path}:{number}: {line.strip()}; register the result, show it, then fail"


def roles_have_their_files(tree: Tree) -> Iterator[str]:
    for role in tree.folders("roles"):
        for needed in ("README.md", "meta/argument_specs.yml", "defaults/main.yml", "tasks/main.yml"):
            if not tree.has(f"roles/{role}/{needed}"):
                yield f"roles/{role}/{needed}:1: is missing; every role has one"


def defaults_and_specs_agree(tree: Tree) -> Iterator[str]:
    for role in tree.folders("roles"):
        specs_path, defaults_path = f"roles/{role}/meta/argument_specs.yml", f"roles/{role}/defaults/main.yml"
        if not (tree.has(specs_path) and tree.has(defaults_path)):
            continue  # roles_have_their_files says so
        defaults = tree.yaml(defaults_path) or {}
        options = _options(tree.yaml(specs_path))
        for name in defaults:
            if name not in options:
                yield f"{defaults_path}:{line_of(defaults, name)}: {name} is not in meta/argument_specs.yml: a user could not know of it"
        for name, (spec, line) in options.items():
            yield from (f"{specs_path}:{line}: {name} {wrong}" for wrong in _disagreement(name, spec, defaults))


def _options(specs: Any) -> dict[str, tuple[dict[str, Any], int]]:
    found: dict[str, tuple[dict[str, Any], int]] = {}
    for entry in ((specs or {}).get("argument_specs") or {}).values():
        options = entry.get("options") or {}
        found |= {name: (spec or {}, line_of(options, name)) for name, spec in options.items()}
    return found


def _disagreement(name: str, spec: dict[str, Any], defaults: dict[str, Any]) -> Iterator[str]:
    if spec.get("required") and (name in defaults or "default" in spec):
        yield "is required and has a default; it is one or the other"
    elif "default" in spec and name not in defaults:
        yield "has a default here but none in defaults/main.yml, which is the one that counts"
    elif name in defaults and "default" not in spec:
        yield "has a default in defaults/main.yml that is not told here"
    elif name in defaults and _canonical(spec["default"]) != _canonical(defaults[name]):
        yield f"has the default {spec['default']!r} here and {defaults[name]!r} in defaults/main.yml"
    elif name not in defaults and not spec.get("required"):
        yield "has no default and is not required; an optional input has a default"


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def every_default_is_explained(tree: Tree) -> Iterator[str]:
    for role in tree.folders("roles"):
        for path in tree.files(rf"roles/{role}/defaults/main\.yml"):
            defaults, lines = tree.yaml(path) or {}, tree.text(path).splitlines()
            for name in defaults:
                number = line_of(defaults, name)
                # One comment may stand over a few that belong together; a blank line ends them.
                above = list(itertools.takewhile(str.strip, reversed(lines[: number - 1])))
                if "#" not in lines[number - 1] and not any(line.startswith("#") for line in above):
                    yield f"{path}:{number}: {name} has no comment; say what it is for"


def role_tasks_name_their_file(tree: Tree) -> Iterator[str]:
    for path, _, task in _role_tasks(tree, "tasks"):
        name = task.get("name")
        if not name:
            yield f"{path}:{line_of(task)}: a task without a name"
            continue
        found = TASK_NAME.fullmatch(name)
        stem = path.rpartition("/")[2].partition(".")[0]
        if not found or found["file"].lower().replace(" ", "_") != stem.lower():
            wanted = f"{stem.replace('_', ' ').capitalize()} | Do the thing"
            yield f"{path}:{line_of(task, 'name')}: {name!r} is not `{wanted}`: a log line must grep back to its file"
        elif re.search(r"[A-Za-z]", re.sub(r"\{\{.*?\}\}", "", "{{".join(["", *name.split("{{")[1:]]))):
            yield f"{path}:{line_of(task, 'name')}: {name!r} has words after a variable; variables come last"


def role_tasks_have_no_tags(tree: Tree) -> Iterator[str]:
    for path, _, task in _role_tasks(tree, "tasks|handlers"):
        if "tags" in task:
            yield f"{path}:{line_of(task, 'tags')}: tags inside a role; a tag stands on the role's import in the playbook"


def role_variables_carry_its_name(tree: Tree) -> Iterator[str]:
    for role in tree.folders("roles"):
        for path in tree.files(rf"roles/{role}/(defaults|vars)/.*\.ya?ml"):
            public = "/defaults/" in path
            for name in tree.yaml(path) or {}:
                if not name.startswith(f"{role}_" if public else (f"__{role}_", f"{role}_")):
                    yield f"{path}:{line_of(tree.yaml(path), name)}: {name} must begin with {'' if public else '__'}{role}_"
    for path, role, task in _role_tasks(tree, "tasks|handlers"):
        for name, key in _set_by(task):
            if not name.startswith(f"__{role}_"):
                yield f"{path}:{line_of(task, key)}: {name} ({key}) must begin with __{role}_: what a role sets is its own"


def _set_by(task: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if isinstance(task.get("register"), str):
        yield task["register"], "register"
    for key in ("ansible.builtin.set_fact", "set_fact"):
        yield from ((name, key) for name in task.get(key) or {} if name != "cacheable")
    if not ROLE_IMPORTS & set(task):  # there, vars are the other role's inputs
        yield from ((name, "vars") for name in task.get("vars") or {} if not name.startswith("ansible_"))
    loop_variable = (task.get("loop_control") or {}).get("loop_var")
    if loop_variable:
        yield loop_variable, "loop_control"


def _role_tasks(tree: Tree, folders: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path in tree.files(rf"roles/[^/]+/({folders})/.*\.ya?ml"):
        yield from ((path, path.split("/")[1], task) for task in _flat(tree.yaml(path)))


def _flat(tasks: Any) -> Iterator[dict[str, Any]]:
    for task in tasks or []:
        yield task
        for key in ("block", "rescue", "always"):
            yield from _flat(task.get(key))


def playbooks_hold_no_logic(tree: Tree) -> Iterator[str]:
    for path in tree.files(r"playbooks/[^/]+\.ya?ml"):
        plays = tree.yaml(path) or []
        for number, play in enumerate(plays):
            for key in sorted(set(play) - PLAYBOOK_KEYS - {"ansible.builtin.import_playbook"}):
                yield f"{path}:{line_of(play, key)}: {key} in a play; a playbook lists roles, the logic is theirs"
            opening = number == 0 and play.get("hosts") == "localhost"
            for task in play.get("tasks") or []:
                yield from (f"{path}:{line_of(task)}: {wrong}" for wrong in _wrong_task(task, opening=opening))
        if not plays or not _opens_well(tree, plays[0]):
            yield f"{path}:1: must open on localhost with an assert that its group is not empty: a play on no hosts exits 0"


def _wrong_task(task: dict[str, Any], *, opening: bool) -> Iterator[str]:
    module = set(task) & (ROLE_IMPORTS | ({ASSERT} if opening else set()))
    if not module:
        allowed = "the opening assert or the import of a role" if opening else "the import of a role"
        yield f"{task.get('name', 'a task')!r} is a task in a playbook; only {allowed} may stand here"
    for key in sorted({"when", "register", "until", "failed_when", "changed_when", "block"} & set(task)):
        yield f"{key} on {task.get('name', 'a task')!r}; a playbook lists roles, the logic is theirs"


def _opens_well(tree: Tree, play: dict[str, Any]) -> bool:
    if {"import_playbook", "ansible.builtin.import_playbook"} & set(play):
        return True  # that one opens with it
    return play.get("hosts") == "localhost" and any(ASSERT in task or _imports_an_assert(tree, task) for task in play.get("tasks") or [])


def _imports_an_assert(tree: Tree, task: dict[str, Any]) -> bool:
    role: dict[str, Any] = next((task[key] for key in sorted(ROLE_IMPORTS & set(task))), {})
    path = f"roles/{role.get('name')}/tasks/{role.get('tasks_from', 'main')}".removesuffix(".yml") + ".yml"
    return tree.has(path) and any(ASSERT in inner for inner in _flat(tree.yaml(path)))
