"""burnin_group without a package manager: what is judged in a plan, which keys are told apart, what counts as the wanted version."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
from pathlib import Path
from typing import Any

import ansible.module_utils
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
ansible.module_utils.__path__.append(str(ROOT / "plugins/module_utils"))
from ansible.module_utils.burnin_group import apt, apt_sources, core, keys, model, node  # noqa: E402

DRIVER = model.Group(
    "driver",
    "580.126.09",
    packages=(("nvidia-open", "580.126.09-*", "nvidia-open=580.126.09-*"),),
    hold=("^(lib)?nvidia-",),
    same_version=("^libnvidia-",),
    absent=("^cuda-drivers$",),
)


class Manager:
    """A node of which judge() looks at nothing but the root."""

    root = Path("/nowhere")


def there(**packages: str) -> dict[str, model.Installed]:
    return {name.replace("_", "-"): model.Installed(name.replace("_", "-"), version, held=True) for name, version in packages.items()}


def judged(plan: model.Plan, installed: dict[str, model.Installed] | None = None, **allowed: Any) -> str:
    """The code of the refusal; "" where there is none."""
    try:
        core.judge(core.Wanted(DRIVER, **allowed), plan, installed or {}, Manager())
    except model.Refusal as refusal:
        assert refusal.message
        return refusal.code
    return ""


@pytest.mark.parametrize(
    ("plan", "allowed", "code"),
    [
        pytest.param(model.Plan(install={"nvidia-open": "580.126.09-1"}), {}, "", id="what was asked for"),
        pytest.param(model.Plan(remove={"vim": "9"}), {}, "UNASKED_REMOVAL", id="a removal"),
        pytest.param(model.Plan(remove={"nvidia-open": "570"}), {}, "UNASKED_REMOVAL", id="a removal of the group's own"),
        pytest.param(model.Plan(remove={"vim": "9"}), {"allow_remove": ["^vim$"]}, "", id="a removal by name"),
        pytest.param(model.Plan(remove={"vim-tiny": "9"}), {"allow_remove": ["^vim$"]}, "UNASKED_REMOVAL", id="a removal of another name"),
        pytest.param(model.Plan(remove={"cuda-drivers": "570"}), {}, "", id="a removal of what the group replaces"),
        pytest.param(
            model.Plan(remove={"cuda-keyring": "1.1-1"}), {"repositories": [{"supersedes_packages": ["^cuda-keyring$"]}]}, "", id="the vendor's keyring"
        ),
        pytest.param(model.Plan(change={"dkms": ("3.1", "3.0")}, downgrade=["dkms"]), {}, "UNASKED_DOWNGRADE", id="a downgrade"),
        pytest.param(model.Plan(change={"dkms": ("3.1", "3.0")}, downgrade=["dkms"]), {"allow_downgrade": True}, "", id="one that was allowed"),
        pytest.param(
            model.Plan(change={"libnvidia-ml1": ("590.48.01-1", "580.126.09-1")}, downgrade=["libnvidia-ml1"]), {}, "", id="a downgrade by the group's own pin"
        ),
        pytest.param(model.Plan(install={"linux-image-6.1.0-41-amd64": "1"}), {}, "KERNEL_WOULD_MOVE", id="Debian's kernel"),
        pytest.param(model.Plan(install={"linux-modules-6.8.0-90-generic": "1"}), {}, "KERNEL_WOULD_MOVE", id="Ubuntu's modules"),
        pytest.param(model.Plan(change={"linux-generic": ("1", "2")}), {}, "KERNEL_WOULD_MOVE", id="Ubuntu's meta package"),
        pytest.param(model.Plan(change={"linux-image-amd64": ("1", "2")}), {}, "KERNEL_WOULD_MOVE", id="Debian's meta package"),
        pytest.param(model.Plan(install={"kernel-core": "1"}), {}, "KERNEL_WOULD_MOVE", id="EL's kernel"),
        pytest.param(model.Plan(install={"kernel-rt-core": "1"}), {}, "KERNEL_WOULD_MOVE", id="EL's real-time kernel"),
        pytest.param(model.Plan(install={"kernel-64k": "1"}), {}, "KERNEL_WOULD_MOVE", id="EL's kernel with large pages"),
        pytest.param(model.Plan(install={"kernel-uki-virt": "1"}), {}, "KERNEL_WOULD_MOVE", id="EL's kernel in one image"),
        pytest.param(model.Plan(install={"kernel-headers": "1", "kernel-tools": "1", "kernel-rt-devel": "1"}), {}, "", id="EL's headers and tools"),
        pytest.param(model.Plan(install={"linux-image-6.1.0-41-amd64": "1"}), {"allow_kernel": True}, "", id="a kernel that was allowed"),
        pytest.param(model.Plan(install={"linux-headers-6.1.0-41-amd64": "1", "linux-libc-dev": "1", "kernel-devel": "1"}), {}, "", id="headers are no kernel"),
        pytest.param(model.Plan(change={"openmpi": ("4", "5")}), {}, "HELD_BY_OTHERS", id="what somebody else holds"),
        pytest.param(model.Plan(remove={"openmpi": "4"}), {"allow_remove": ["^openmpi$"]}, "", id="what somebody holds and was named"),
        pytest.param(model.Plan(change={"nvidia-settings": ("570", "580")}), {}, "", id="what the group itself holds"),
    ],
)  # fmt: skip
def test_nothing_happens_that_nobody_asked_for(plan: model.Plan, allowed: dict[str, Any], code: str) -> None:
    assert judged(plan, there(openmpi="4", nvidia_settings="570"), **allowed) == code


def test_an_exact_kernel_package_of_the_group_is_asked_for() -> None:
    kernel = model.Group("kernel", packages=(("linux-image-6.1.0-40-amd64", "", "linux-image-6.1.0-40-amd64"),))
    wanted = core.Wanted(kernel)

    core.judge(wanted, model.Plan(install={"linux-image-6.1.0-40-amd64": "1"}), {}, Manager())
    with pytest.raises(model.Refusal, match=r"6\.1\.0-41"):
        core.judge(wanted, model.Plan(install={"linux-image-6.1.0-41-amd64": "1"}), {}, Manager())


@pytest.mark.parametrize(
    ("version", "wanted", "fitting"),
    [
        ("580.126.09-1", "580.126.09-*", True),
        ("580.126.09-0ubuntu1", "580.126.09-*", True),
        ("580.126.10-1", "580.126.09-*", False),
        ("580.126.091-1", "580.126.09-*", False),
        ("1:4.5.2-1", "1:4.5.2-*", True),
        ("4.5.2-1", "1:4.5.2-*", False),
        ("2.28.3-1+cuda12.9", "2.28.3-1+cuda12.9", True),
        ("2.28.3-1+cuda13.0", "2.28.3-1+cuda12.9", False),
        ("anything", "", True),
    ],
)
def test_a_version_fits_its_spec(version: str, wanted: str, fitting: bool) -> None:
    assert model.fits(version, wanted) is fitting


@pytest.mark.parametrize(
    ("version", "wanted", "same"),
    [
        ("580.126.09-1", "580.126.09", True),
        ("580.126.09-0ubuntu1", "580.126.09", True),
        ("3:580.126.09-1.el9", "580.126.09", True),
        ("1:4.5.2-1", "4.5.2", True),
        ("580.150.02-1", "580.126.09", False),
        ("580.126.090-1", "580.126.09", False),
        ("2.28.3-1+cuda12.9", "2.28.3-1+cuda12.9", True),
        ("2.28.3-1+cuda13.0", "2.28.3-1+cuda12.9", False),
    ],
)
def test_a_package_is_of_an_upstream_version(version: str, wanted: str, same: bool) -> None:
    assert model.of_version(version, wanted) is same


def test_everything_that_is_not_as_wanted_is_named() -> None:
    installed = {
        **there(nvidia_open="580.126.09-1", libnvidia_ml1="580.150.02-1", cuda_drivers="570", vim="9"),
        "nvidia-smi": model.Installed("nvidia-smi", "1", held=False, whole=False),
    }

    assert model.unmet(DRIVER, installed) == [
        "cuda-drivers must not be there",
        "libnvidia-ml1 is 580.150.02-1, not of 580.126.09",
        "nvidia-smi is not wholly installed",
    ]
    assert model.unmet(DRIVER, {}) == ["nvidia-open is not installed"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes, str]:
    """A real key of gpg: armored, binary, its fingerprint as gpg says it."""
    home = tmp_path_factory.mktemp("gpg", numbered=True)
    home.chmod(0o700)

    def gpg(*argv: str) -> bytes:
        command = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "", *argv]
        try:
            return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout
        except FileNotFoundError:
            pytest.skip("gpg is not here")

    gpg("--quick-generate-key", "burnin test <test@example.invalid>", "ed25519", "sign", "never")
    told = gpg("--with-colons", "--list-keys").decode().splitlines()
    fingerprint = next(line.split(":")[9] for line in told if line.startswith("fpr:"))
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False, timeout=60)
    return gpg("--armor", "--export"), gpg("--export"), fingerprint


def test_a_fingerprint_is_what_gpg_says_armored_or_not(made: tuple[bytes, bytes, str]) -> None:
    armored, binary, fingerprint = made

    assert keys.fingerprints(armored) == [fingerprint]
    assert keys.fingerprints(binary) == [fingerprint]
    assert keys.fingerprints(armored.replace(b"\n", b"\r\n")) == [fingerprint]
    assert keys.fingerprints(armored + armored) == [fingerprint, fingerprint]


@pytest.mark.parametrize(
    "content",
    [b"", b"<html>sign in</html>", b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n!!!!\n-----END PGP PUBLIC KEY BLOCK-----\n", b"\x99\xff\xff", b"\x99", bytes(range(256))],
)  # fmt: skip
def test_what_is_no_key_has_no_fingerprint(content: bytes) -> None:
    assert keys.fingerprints(content) == []


def test_a_key_that_was_cut_off_is_none(made: tuple[bytes, bytes, str]) -> None:
    assert keys.fingerprints(made[1][:-10]) == []
    assert (
        keys.fingerprints(
            b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n" + base64.b64encode(made[1][:-10]) + b"\n-----END PGP PUBLIC KEY BLOCK-----\n"
        )
        == []
    )


def test_a_key_is_taken_only_when_sum_and_fingerprint_are_those_expected(made: tuple[bytes, bytes, str], tmp_path: Path) -> None:
    armored, _binary, fingerprint = made
    (tmp_path / "key.asc").write_bytes(armored)
    right = {
        "name": "burnin-x", "source": "x", "key_url": f"file://{tmp_path}/key.asc", "key_fingerprint": fingerprint, "key_sha256": hashlib.sha256(armored).hexdigest(),
    }  # fmt: skip

    assert keys.key_of(right, tmp_path / "none") == armored
    for name in ("key_fingerprint", "key_sha256"):
        with pytest.raises(model.Refusal, match=r"expected 0000.*burnin_stack\.repositories\.x") as refused:
            keys.key_of({**right, name: "0" * len(right[name])}, tmp_path / "none")
        assert refused.value.code == "KEY_WRONG"
    # One that is there and right is not fetched again; one that is there and wrong is.
    assert keys.key_of({**right, "key_url": "file:///nowhere"}, tmp_path / "key.asc") == armored
    (tmp_path / "bad.asc").write_bytes(armored[:-5])
    assert keys.key_of(right, tmp_path / "bad.asc") == armored


def test_sources_are_read_in_both_forms_and_what_is_off_is_not(tmp_path: Path) -> None:
    (tmp_path / "a.list").write_text(
        "# deb http://off/ x y\ndeb [arch=amd64 signed-by=/k] http://one/ ./\ndeb-src http://two/ a b # http://three/\n"
    )
    (tmp_path / "b.sources").write_text(
        "Types: deb\nURIs: http://four/\n http://five/\nSuites: ./\n\n# x\nTypes: deb\nURIs: http://six/\nEnabled: no\n\nTypes: deb\nuris: http://seven/\n"
    )

    assert apt_sources.uris(tmp_path / "a.list") == ["http://one/", "http://two/"]
    assert apt_sources.uris(tmp_path / "b.sources") == ["http://four/", "http://five/", "http://seven/"]
    assert apt_sources.uris(tmp_path / "none.list") == []


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "etc/x.conf"
    node.replace(path, b"one", 0o640)
    path.with_name("link").hardlink_to(path)
    node.replace(path, b"two", 0o600)

    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.with_name("link").read_bytes() == b"one", "what shares the old file keeps it"
    assert sorted(one.name for one in path.parent.iterdir()) == ["link", "x.conf"]


def test_a_group_of_another_form_is_refused_by_name() -> None:
    for wrong in ({}, {"name": "x", "packages": [{"name": "a"}]}, {"name": "x", "packages": 3}):
        with pytest.raises(model.Refusal) as refused:
            model.group_of(wrong)
        assert refused.value.code == "BAD_GROUP"


def test_no_task_that_changes_packages_is_cut_off_by_the_time_limit_of_a_look() -> None:
    """Found with a real driver: ansible.cfg's five minutes ended while dkms was building, and dpkg was left half-configured."""
    found = []
    for path in sorted((ROOT / "roles").glob("*/tasks/*.yml")):
        for task in yaml.safe_load(path.read_text(encoding="utf-8")) or []:
            if {"burnin_group", "burnin_dkms", "burnin_boot"} & set(task):
                found.append((f"{path.parent.parent.name}/{path.name}", task.get("timeout", 0) >= 3600))

    assert len(found) >= 9
    assert [name for name, patient in found if not patient] == []


# As chkconfig's alternatives writes it (EL), and as dpkg's does; both begin with the mode, the link, and end in paths and priorities.
EL_ALTERNATIVE = "{mode}\n/usr/local/cuda\n\n/usr/local/cuda-12.9\n129\n/usr/local/cuda-13.0\n130\n"


@pytest.mark.parametrize("place", ["var/lib/alternatives", "var/lib/dpkg/alternatives"])
def test_an_alternative_is_right_only_when_it_was_chosen(tmp_path: Path, place: str) -> None:
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / "etc/alternatives").mkdir(parents=True)
    (tmp_path / "etc/alternatives/cuda").symlink_to("/usr/local/cuda-12.9")
    told = tmp_path / place / "cuda"

    told.write_text(EL_ALTERNATIVE.format(mode="manual"))
    assert node.settle_alternative(tmp_path, "cuda", "/usr/local/cuda-12.9", check=True) is False
    assert node.settle_alternative(tmp_path, "cuda", "/usr/local/cuda-13.0", check=True) is True
    told.write_text(EL_ALTERNATIVE.format(mode="auto"))
    assert node.settle_alternative(tmp_path, "cuda", "/usr/local/cuda-12.9", check=True) is True, "a newer toolkit would take it away"
    with pytest.raises(model.Refusal, match=r"none of the alternatives of cuda \(/usr/local/cuda-12\.9, /usr/local/cuda-13\.0\)"):
        node.settle_alternative(tmp_path, "cuda", "/usr/local/cuda-11.8", check=False)


def test_an_apt_that_is_still_at_work_is_named_whatever_it_warned_of() -> None:
    done = node.run_to_its_end(["/bin/sh", "-c", "echo 'W: a foreign source is old'; exec sleep 1"], 0.3)

    assert re.fullmatch(r"/bin/sh still works after 0 s as process \d+; it is left to end", apt._why(done))
