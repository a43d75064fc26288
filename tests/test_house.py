"""The house rules. Each is run on the repository, and on a few planted files that break it: a rule that cannot turn red holds nothing."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from house import ansible, documents, python
from house.tree import Tree

ROOT = Path(__file__).resolve().parents[1]


Check = Callable[[Tree], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Rule:
    """`subject` is the folder or file the rule is about. Absent, the rule has nothing to say (and its id says so); empty is an error."""

    check: Check
    subject: str

    @property
    def name(self) -> str:
        return self.check.__name__.replace("_", " ")


RULES = (
    Rule(python.only_adapters_and_node_touch_the_world, "burnin"),
    Rule(python.pure_packages_do_no_input_or_output, "burnin/verdict"),
    Rule(python.pure_packages_do_no_input_or_output, "burnin/report"),
    Rule(python.pure_packages_do_no_input_or_output, "burnin/stack"),
    Rule(python.pure_packages_do_no_input_or_output, "burnin/preflight"),
    Rule(python.pure_packages_do_no_input_or_output, "burnin/readers"),
    Rule(python.node_package_runs_on_python_3_9, "burnin/node"),
    Rule(python.node_package_needs_no_other_package, "burnin/node"),
    Rule(python.no_shell_eval_or_broad_except, "burnin"),
    Rule(python.modules_and_functions_stay_short, "burnin"),
    Rule(ansible.no_failure_is_ignored, "roles"),
    Rule(ansible.roles_have_their_files, "roles"),
    Rule(ansible.defaults_and_specs_agree, "roles"),
    Rule(ansible.every_default_is_explained, "roles"),
    Rule(ansible.role_tasks_name_their_file, "roles"),
    Rule(ansible.role_tasks_have_no_tags, "roles"),
    Rule(ansible.role_variables_carry_its_name, "roles"),
    Rule(ansible.playbooks_hold_no_logic, "playbooks"),
    Rule(documents.every_finding_code_has_a_runbook, "burnin/verdict"),
    Rule(documents.readme_names_each_folder, "README.md"),
    Rule(documents.repository_is_small_and_self_contained, "README.md"),
    Rule(documents.each_limit_is_explained, "burnin/data"),
    Rule(documents.each_requirement_says_why, "requirements.in"),
    Rule(documents.locks_are_hashed_and_agree, "requirements.txt"),
    Rule(documents.locks_hold_what_is_asked_for, "requirements.in"),
)


def sentence(rule: Rule) -> str:
    where = rule.subject if (ROOT / rule.subject).exists() else f"nothing to hold: {rule.subject} does not exist yet"
    return f"{rule.name} ({where})"


@pytest.mark.parametrize("rule", RULES, ids=sentence)
def test_the_repository_keeps_the_rule(rule: Rule) -> None:
    tree = Tree(ROOT)
    exists = (ROOT / rule.subject).exists()
    held = [path for path in tree.paths if path == rule.subject or path.startswith(f"{rule.subject}/")]

    broken = list(rule.check(tree)) if exists else []

    assert held or not exists, f"{rule.subject} exists and holds no file: the rule would hold nothing"
    assert not broken, "\n" + "\n".join(broken)


@dataclass(frozen=True, slots=True)
class Case:
    """Planted files; for a breach also where the message must point (`file:line`) and what it must name."""

    name: str
    rule: Check
    files: dict[str, str]
    at: str = ""
    says: str = ""


def written(file: str) -> list[Case]:
    modules = {"python": python, "ansible": ansible, "documents": documents}
    cases = yaml.safe_load((ROOT / "tests/data/house" / file).read_text(encoding="utf-8"))
    found = []
    for case in cases:
        module, _, rule = case["rule"].partition(".")
        found.append(Case(case["case"], getattr(modules[module], rule), case["files"], case.get("at", ""), case.get("says", "")))
    return found


# Too long to write out, or a breach in whatever file it is written down in.
WORK, HOME = "/" + "work/main", "/" + "root/.cache"
SHORT, OWN = python.modules_and_functions_stay_short, documents.repository_is_small_and_self_contained
RED = [
    *written("red.yaml"),
    Case("a module of 401 lines", SHORT, {"burnin/a.py": "x = 1\n" * 401}, "burnin/a.py:401", "401 lines"),
    Case("a function of 61 lines", SHORT, {"burnin/a.py": "\ndef f():\n" + "    x = 1\n" * 60}, "burnin/a.py:2", "61 lines"),
    Case("a path of one machine", OWN, {"a.md": f"x\nsee {WORK}\n"}, "a.md:2", "path"),
    Case("a home folder", OWN, {"a.sh": f"x={HOME}\n"}, "a.sh:1", "path"),
    Case("a large file", OWN, {"a.bin": "x" * 500_001}, "a.bin:1", "500001"),
    Case("an LFS pointer", OWN, {"a.bin": documents.LFS_POINTER.decode() + "v1\n"}, "a.bin:1", "lfs"),
]
GREEN = [
    *written("green.yaml"),
    Case("a module of 400 lines", SHORT, {"burnin/a.py": "x = 1\n" * 400}),
    Case("a function of 60 lines", SHORT, {"burnin/a.py": "def f():\n" + "    x = 1\n" * 59}),
    Case("a file of the largest size", OWN, {"a.bin": "x" * 500_000}),
    Case("a folder of a good name", OWN, {"a.md": f"see docs{WORK}\n"}),
]


def plant(root: Path, files: dict[str, str]) -> Tree:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content, encoding="utf-8")
    return Tree(root)


@pytest.mark.parametrize("case", RED, ids=lambda case: case.name)
def test_the_rule_turns_red_on(case: Case, tmp_path: Path) -> None:
    broken = list(case.rule(plant(tmp_path, case.files)))

    assert [message for message in broken if message.startswith(f"{case.at}: ") and case.says in message], broken


@pytest.mark.parametrize("case", GREEN, ids=lambda case: case.name)
def test_the_rule_stays_green_on(case: Case, tmp_path: Path) -> None:
    assert list(case.rule(plant(tmp_path, case.files))) == []


def test_every_rule_was_seen_red() -> None:
    assert {rule.check.__name__ for rule in RULES} - {case.rule.__name__ for case in RED} == set()


def python_3_9() -> str | None:
    """A Python 3.9 that runs: on PATH (where a shim may lead nowhere) or among a person's pyenv versions."""
    candidates = [shutil.which("python3.9"), *map(str, Path.home().glob(".pyenv/versions/3.9*/bin/python3.9"))]
    return next((one for one in candidates if one and runs(one)), None)


def runs(interpreter: str) -> bool:
    return subprocess.run([interpreter, "-c", ""], check=False, capture_output=True, timeout=60).returncode == 0


IMPORT_ALL = """
import importlib, pkgutil, sys
sys.path.insert(0, sys.argv[1])
import burnin.node
names = [found.name for found in pkgutil.walk_packages(burnin.node.__path__, 'burnin.node.')]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


@pytest.mark.skipif(not (ROOT / "burnin/node").exists(), reason="burnin/node does not exist yet")
def test_each_module_of_the_node_package_imports_on_python_3_9() -> None:
    interpreter = python_3_9()
    if interpreter is None:
        pytest.skip("no Python 3.9 here: the grammar alone was checked")

    done = subprocess.run([interpreter, "-I", "-c", IMPORT_ALL, str(ROOT)], check=False, capture_output=True, text=True, timeout=60)

    assert done.stderr == ""
    assert int(done.stdout) > 1
