"""What of an inventory is a secret: by its name, or because it is vaulted. Real ansible-vault, no play."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from burnin.adapters import secrets
from burnin.adapters.inventory import list_hosts
from burnin.adapters.ledger import Scrubber
from burnin.adapters.secrets import secrets_of

ROOT = Path(__file__).resolve().parents[3]


def found(variables: dict[str, object], *ansible_args: str) -> set[str]:
    return set(secrets_of(ROOT, {"n1": variables}, ansible_args))


@pytest.mark.parametrize(
    "name",
    [
        "ansible_password", "ansible_become_password", "ansible_become_pass", "ansible_ssh_pass", "ansible_sudo_pass", "bmc_password", "BMC_PASSWD",
        "ssh_key_passphrase", "vendor_token", "webhook_secret", "api_key", "wandb-apikey", "burnin_site_token", "snmp_community", "passwords",
    ],
)  # fmt: skip
def test_a_secret_is_known_by_its_name(name: str) -> None:
    assert found({name: "S3C-canary"}) == {"S3C-canary"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ansible_ssh_private_key_file", "/srv/keys/id"), ("signing_key", "~/keys/site"), ("repo_key", "https://mirror/key.asc"),
        ("host_key", "AAAAC3Nza"), ("site_public_key", "AAAAC3Nza"), ("authorized_keys", "ssh-ed25519 AAAA me"), ("repo_key", "cuda.gpg"),
        ("burnin_sku", "H100-SXM5-80GB"), ("keyboard", "german"), ("compass", "north"), ("vault_password_file", "/run/x"),
        ("bmc_password", "abc"), ("bmc_password", True), ("bmc_password", None), ("bmc_password", ""),
    ],
)  # fmt: skip
def test_what_is_no_secret_stays_readable(name: str, value: object) -> None:
    assert found({name: value}) == set()


def test_secrets_are_found_however_deep_and_numbers_too() -> None:
    deep = {"bmc": {"user": "admin", "password": "DEEP-1"}, "logins": [{"token": ["DEEP-2"]}], "secrets": {"a": {"b": 345678}}}

    assert found(deep) == {"DEEP-1", "DEEP-2", "345678"}


def test_a_lookup_of_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITE_PW", "ENV-canary")

    assert "ENV-canary" in found({"ansible_become_password": "{{ lookup('ansible.builtin.env', 'SITE_PW') | default('x', true) }}"})


def test_password_files_are_read_and_scripts_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "become").write_text("FILE-canary-1\n")
    (tmp_path / "connection").write_text("FILE-canary-2")
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran; echo SCRIPT\n")
    script.chmod(0o755)
    monkeypatch.setenv("ANSIBLE_BECOME_PASSWORD_FILE", str(tmp_path / "become"))

    assert found({}, f"--connection-password-file={tmp_path}/connection") == {"FILE-canary-1", "FILE-canary-2"}
    assert found({}, "--become-password-file", str(script)) == {"FILE-canary-1"}
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """An inventory with a value and a whole file in a vault, and a value whose vault nobody can open."""
    vault = [str(Path(sys.executable).parent / "ansible-vault")]
    for name, word in (("pw", "opens-it"), ("lost", "lost-word")):
        (tmp_path / name).write_text(word)

    def inline(value: str, name: str) -> dict[str, str]:
        argv = [*vault, "encrypt_string", "--vault-password-file", str(tmp_path / name), value]
        text = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.partition("\n")[2]
        return {"__vault": "\n".join(line.strip() for line in text.splitlines())}

    lines = ["gpu_nodes:", "  vars:"]
    for variable, value in (("a_lost", inline("LOST", "lost")), ("any_name", inline("VAULT-canary-1", "pw"))):
        lines += [f"    {variable}: !vault |", *(f"      {line}" for line in value["__vault"].splitlines())]
    (tmp_path / "hosts.yml").write_text("\n".join([*lines, "  hosts: {n1: , n2: }"]) + "\n")
    (tmp_path / "host_vars").mkdir()
    whole = tmp_path / "host_vars" / "n1.yml"
    whole.write_text("bmc_password: VAULT-canary-2\n")
    subprocess.run([*vault, "encrypt", "--vault-password-file", str(tmp_path / "pw"), str(whole)], capture_output=True, check=True)
    return tmp_path


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_what_is_vaulted_is_a_secret_whatever_its_name(site: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    given = ["--vault-password-file", str(site / "pw")] if how == "argument" else []
    if how == "environment":
        monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(site / "pw"))

    hosts = list_hosts(ROOT, [site / "hosts.yml"], ansible_args=given).hosts

    assert secrets_of(ROOT, hosts, given) == {"VAULT-canary-1", "VAULT-canary-2"}


def test_a_thousand_hosts_cost_little_and_a_shared_vault_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    monkeypatch.setattr(secrets, "_decrypted", lambda _project, texts, _arguments: opened.append(len(texts)) or ["VAULT"])
    shared = {f"variable_{number}": {"deep": list(range(20))} for number in range(40)} | {"any": {"__ansible_vault": "x"}}
    hosts = {f"n{number}": {**shared, "bmc_password": f"PW-{number:06}"} for number in range(1000)}

    begun = time.process_time()
    known = secrets_of(ROOT, hosts)
    assert time.process_time() - begun < 3

    assert opened == [1]
    assert len(known) == 1001
    scrub = Scrubber({*known, *(hashlib.sha256(f"{number}".encode()).hexdigest() for number in range(1000))})
    told = {"state": "running", "stage": "compute, start 1, window", "why": "0123456789abcdef " * 12 + "PW-000999"}
    begun = time.process_time()
    for _ in range(1000):
        scrubbed = scrub.data(told)
    assert time.process_time() - begun < 0.5, "a look at a thousand nodes is scrubbed in no time"
    assert "PW-000999" not in json.dumps(scrubbed)


def test_of_secrets_that_hold_one_another_the_longest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"a" * length for length in range(4, 40)} | {f"{head}bcd" for head in "abcdefghijklmnop"}

    assert Scrubber(words).text("x " + "a" * 39 + " abcd pbcd " + "a" * 3) == "x *** *** *** aaa"
