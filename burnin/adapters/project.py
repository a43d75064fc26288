"""Where the playbooks and roles are: beside the package in a clone, inside it in an installed wheel. And what the roles' specs say."""

from __future__ import annotations

from pathlib import Path

import yaml

import burnin
from burnin.errors import BrokenError


def project() -> Path:
    """The folder that holds ansible.cfg, playbooks/ and roles/. Raises BrokenError when the installation lacks it."""
    package = Path(burnin.__file__).resolve().parent
    for candidate in (package.parent, package / "_project"):
        if (candidate / "playbooks").is_dir() and (candidate / "ansible.cfg").is_file():
            return candidate
    raise BrokenError(
        f"{package}: no playbooks beside the package or in it; install burnin from its repository (make .venv) or from its wheel"
    )


def role_variables(root: Path) -> dict[str, dict[str, list[str]]]:
    """role -> the variables that its argument specs name -> the choices of each (none: anything goes)."""
    found: dict[str, dict[str, list[str]]] = {}
    for spec in sorted((root / "roles").glob("*/meta/argument_specs.yml")):
        document = yaml.safe_load(spec.read_text(encoding="utf-8"))
        found[spec.parent.parent.name] = {
            name: [str(choice) for choice in option.get("choices", [])]
            for entry in document["argument_specs"].values()
            for name, option in entry.get("options", {}).items()
        }
    return found
