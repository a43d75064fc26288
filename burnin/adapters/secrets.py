"""The secrets of an inventory: what a node may echo back and nobody shall read in a message, a ledger or a report.

Known by the variable's name, or because the value is vaulted. Not known: what a lookup other than env fetches while a play runs, and what a
password script prints; neither is ever run or asked for here.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from burnin.adapters.ansible_env import Workplace, environment, program, workplace
from burnin.adapters.processes import end

# Shorter ones would scrub words.
LEAST_CHARACTERS = 4
NAMED = re.compile(r"(?:^|[_-])(?:password|passwd|passphrase|pass|pw|pin|token|secret|credential|api_?key|key|community)s?$", re.IGNORECASE)
OPEN_NAME = re.compile(r"public|pub_?key|host_key|_file$", re.IGNORECASE)
# Of a *_key: where a key lies, what kind it is, or one that everybody may have.
PATH_OR_PUBLIC = re.compile(
    r"(?:[~/]|\.{1,2}/|ssh-|ecdsa-|sk-|https?:|-----BEGIN (?:PUBLIC KEY|CERTIFICATE|PGP PUBLIC)|.*\.(?:pem|pub|key|asc|gpg)$)"
)
ENV_LOOKUP = re.compile(r"""(?:lookup|query|q)\(\s*['"](?:ansible\.builtin\.)?env['"]\s*,\s*((?:['"]\w+['"]\s*,?\s*)+)""")
VAULTED = "__ansible_vault"
VAULT_OPTIONS = ("--vault-id", "--vault-password-file", "--vault-pass-file")
PASSWORD_OPTIONS = {
    "--become-password-file": "ANSIBLE_BECOME_PASSWORD_FILE", "--become-pass-file": "ANSIBLE_BECOME_PASSWORD_FILE",
    "--connection-password-file": "ANSIBLE_CONNECTION_PASSWORD_FILE", "--conn-pass-file": "ANSIBLE_CONNECTION_PASSWORD_FILE",
}  # fmt: skip
TIMEOUT_S = 120.0
LARGEST_FILE_BYTES = 4096


def secrets_of(project: Path, hosts: Mapping[str, Mapping[str, object]], ansible_args: Sequence[str] = ()) -> frozenset[str]:
    """Every secret in the variables of these hosts and in the password files that Ansible is given. Vaulted values are decrypted once each."""
    found: set[str] = set()
    vaulted: set[str] = set()
    for text, hidden in _unique(hosts):
        (vaulted if hidden else found).add(text)
    found |= set(_decrypted(project, sorted(vaulted), vault_arguments(ansible_args))) if vaulted else set()
    found |= {value for text in found for value in _from_environment(text)} | set(_from_files(ansible_args))
    return frozenset(line for text in found for line in (text, text.strip()) if len(line) >= LEAST_CHARACTERS)


def vault_arguments(ansible_args: Sequence[str]) -> list[str]:
    """Of further arguments of ansible-playbook, those that say how vaults are opened; its other programs take them too."""
    return [word for option, value in _options(ansible_args, VAULT_OPTIONS) for word in (option, value)]


def _options(ansible_args: Sequence[str], wanted: Sequence[str]) -> Iterator[tuple[str, str]]:
    for number, word in enumerate(ansible_args):
        option, equals, value = word.partition("=")
        if option in wanted and (equals or number + 1 < len(ansible_args)):
            yield option, value if equals else ansible_args[number + 1]


def _unique(hosts: Mapping[str, Mapping[str, object]]) -> Iterator[tuple[str, bool]]:
    """Each secret text, and whether it is vaulted. A thousand hosts share most values: each is looked at once."""
    seen: set[tuple[str, str]] = set()
    for variables in hosts.values():
        for name, value in variables.items():
            key = (name, value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str))
            if key not in seen:
                seen.add(key)
                yield from _within(name, value, named=False)


def _within(name: str, value: object, *, named: bool) -> Iterator[tuple[str, bool]]:
    """The secrets in one variable, however deep. `named`: what stands above it says that it is one."""
    named = named or bool(NAMED.search(name) and not OPEN_NAME.search(name))
    if isinstance(value, Mapping):
        if isinstance(value.get(VAULTED), str):
            yield value[VAULTED], True
            return
        for inner, item in value.items():
            yield from _within(str(inner), item, named=named)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _within("", item, named=named)
    elif named and not isinstance(value, bool) and value is not None and not _is_open(name, str(value)):
        yield str(value), False


def _is_open(name: str, value: str) -> bool:
    return name.lower().rstrip("s").endswith("key") and PATH_OR_PUBLIC.match(value) is not None


def _from_environment(text: str) -> Iterator[str]:
    """What `lookup('env', ...)` in this text will give."""
    for names in ENV_LOOKUP.findall(text):
        yield from (os.environ.get(name, "") for name in re.findall(r"\w+", names))


def _from_files(ansible_args: Sequence[str]) -> Iterator[str]:
    """The passwords in plain files; a script is not run for this."""
    named = [value for _, value in _options(ansible_args, tuple(PASSWORD_OPTIONS))]
    for name in [*named, *(os.environ.get(variable, "") for variable in set(PASSWORD_OPTIONS.values()))]:
        path = Path(name).expanduser()
        try:
            if name and path.is_file() and not os.access(path, os.X_OK) and path.stat().st_size <= LARGEST_FILE_BYTES:
                yield path.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            continue  # Ansible will say so


def _decrypted(project: Path, texts: Sequence[str], arguments: list[str]) -> Iterator[str]:
    """The vaulted texts in the clear; one that cannot be opened is left out, for Ansible cannot open it either."""
    with workplace(None) as place:
        files = [place.write(f"v/{number}", text) for number, text in enumerate(texts)]
        if not _decrypt(project, place, files, arguments):
            for file in files:  # the first that could not be opened ended it for all behind it
                _decrypt(project, place, [file], arguments)
        for file, text in zip(files, texts, strict=True):
            clear = file.read_text(encoding="utf-8", errors="replace")
            if clear != text and not clear.startswith("$ANSIBLE_VAULT"):
                yield clear


def _decrypt(project: Path, place: Workplace, files: Sequence[Path], arguments: list[str]) -> bool:
    argv = [str(program("ansible-vault")), "decrypt", *arguments, *map(str, files)]
    try:
        done = subprocess.run(
            argv,
            env=environment(place, project.absolute(), {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    finally:
        end(mark=place.mark)
    return done.returncode == 0
