"""Limits of logins and daemons, the clock, persistence mode: what systemd, PAM and nvidia-smi say afterwards is what counts."""

from __future__ import annotations

from pathlib import Path

import ansible.module_utils
import pytest

from fake_tuning import Node

ROOT = Path(__file__).resolve().parents[3]
ansible.module_utils.__path__.append(str(ROOT / "plugins/module_utils"))
from ansible.module_utils.burnin_tuning import files, limits, model  # noqa: E402


def test_logins_and_daemons_get_the_same(tmp_path: Path) -> None:
    node = Node(tmp_path)

    node.tune()

    assert node.text(files.LIMITS).splitlines()[1:] == [
        "* soft memlock unlimited", "* hard memlock unlimited", "root soft memlock unlimited", "root hard memlock unlimited",
        "* soft nofile 1048576", "* hard nofile 1048576", "root soft nofile 1048576", "root hard nofile 1048576",
    ]  # fmt: skip
    for path in files.MANAGERS:
        assert node.text(path).splitlines()[1:] == ["[Manager]", "DefaultLimitMEMLOCK=infinity", "DefaultLimitNOFILE=1048576"]
    assert ["systemctl", "daemon-reexec"] in node.ran


def test_systemd_that_would_not_take_it_is_a_failure(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.put("/etc/systemd/system.conf.d/zzz-site.conf", "[Manager]\nDefaultLimitMEMLOCK=65536\n")

    done = node.tune().settings

    assert (done["memlock"].state, done["open_files"].state) == ("failed", "changed")
    assert "systemd gives daemons 65536, expected unlimited" in done["memlock"].detail


def test_a_later_file_of_somebody_that_takes_it_back_is_a_failure(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.put("/etc/security/limits.d/zzz-site.conf", "root - memlock 64\n")

    done = node.tune().settings["memlock"]

    assert done.state == "failed"
    assert "PAM gives logins * hard unlimited, * soft unlimited, root hard 64, root soft 64, expected unlimited" in done.detail


def test_systemd_that_forgot_is_told_again_without_a_file_being_touched(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.tune()
    node.systemd_limits["MEMLOCK"] = "65536"

    done = node.tune()

    assert (done.settings["memlock"].state, done.settings["memlock"].drift, done.files) == ("changed", True, ())
    assert done.settings["memlock"].before == "logins unlimited, daemons 65536"
    assert done.changed
    assert node.systemd_limits["MEMLOCK"] == "infinity"


def test_limits_that_nobody_reads_are_said(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.put("/etc/pam.d/sshd", "# session required pam_limits.so\n")

    assert "no service of PAM loads pam_limits" in node.tune().settings["memlock"].detail


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("* - nofile 5", {"* soft": "5", "* hard": "5"}, id="both at once"),
        pytest.param("* hard nofile 5\n* hard nofile 6 # later", {"* hard": "6"}, id="the later line"),
        pytest.param("@wheel hard nofile 5\nalice - nofile 6", {}, id="somebody's own"),
        pytest.param("* hard memlock 5", {}, id="another limit"),
        pytest.param("# * hard nofile 5\n* hard nofile", {}, id="a comment, half a line"),
        pytest.param("* hard nofile -1", {"* hard": "unlimited"}, id="no limit by number"),
    ],
)
def test_pams_files_are_read_as_pam_does(text: str, value: dict[str, str]) -> None:
    assert limits.effective([("/etc/security/limits.conf", text)], "nofile") == value


@pytest.mark.parametrize(
    ("units", "state", "words"),
    [
        pytest.param({"chrony.service": ["active", "enabled"]}, "ok", "", id="it runs"),
        pytest.param({"chrony.service": ["active", "disabled"]}, "changed", "", id="it runs and would not after a boot"),
        pytest.param({"systemd-timesyncd.service": ["inactive", "disabled"]}, "changed", "", id="installed and off"),
        pytest.param({}, "unsupported", "no program that keeps the clock is installed (chrony,", id="none"),
        pytest.param(
            {"chrony.service": ["active", "enabled"], "systemd-timesyncd.service": ["active", "enabled"]}, "failed", "both set the clock", id="two"
        ),
    ],
)  # fmt: skip
def test_one_program_keeps_the_clock(tmp_path: Path, units: dict[str, list[str]], state: str, words: str) -> None:
    node = Node(tmp_path)
    del node.units["chrony.service"]
    node.units |= {name: list(value) for name, value in units.items()}

    done = node.tune().settings["time_sync"]

    assert (done.state, done.changed) == (state, state == "changed")
    assert words in done.detail
    if state == "changed":
        assert node.units[next(iter(units))] == ["active", "enabled"]
    assert {"install", "unmask"} & {word for argv in node.ran for word in argv} == set()


def test_a_clock_that_does_not_start_is_a_failure(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.units["chrony.service"] = ["inactive", "disabled"]
    real = node._systemctl
    node.hooks["systemctl"] = lambda argv: (1, "") if argv[1] == "start" else real(argv)

    done = node.tune().settings["time_sync"]

    assert (done.state, done.detail) == ("failed", "chrony.service does not start; journalctl -u chrony.service says why")


@pytest.mark.parametrize(
    ("mode", "flagged", "state"),
    [
        pytest.param("Enabled", False, "ok", id="on"),
        pytest.param("Disabled", False, "failed", id="off"),
        pytest.param("Disabled", True, "pending_reboot", id="off before the reboot that the driver asked for"),
    ],
)
def test_persistence_is_read_and_never_set(tmp_path: Path, mode: str, flagged: bool, state: str) -> None:
    node = Node(tmp_path)
    node.persistence = mode
    if flagged:
        node.put("/run/burnin/reboot-required.d/driver", "driver 570 to 580\n")

    done = node.tune().settings["persistence"]

    assert (done.state, done.changed) == (state, False)
    assert [argv for argv in node.ran if argv[0] == "nvidia-smi" and argv[1] != "--query-gpu=pci.bus_id,persistence_mode"] == []


@pytest.mark.parametrize("answer", [(127, ""), (9, "couldn't communicate with the NVIDIA driver"), (0, "")], ids=str)
def test_a_driver_that_does_not_answer_is_not_on(tmp_path: Path, answer: tuple[int, str]) -> None:
    node = Node(tmp_path)
    node.hooks["nvidia-smi"] = lambda _argv: answer

    assert node.tune().settings["persistence"].state == ("failed" if answer == (0, "") else "unsupported")


def test_a_unit_that_does_not_run_fails_what_it_would_set(tmp_path: Path) -> None:
    node = Node(tmp_path, ("acs_redirects", 0))
    real = node._systemctl
    node.hooks["systemctl"] = lambda argv: (1, "status=226/NAMESPACE") if argv[1] == "restart" else real(argv)

    done = node.tune()

    assert done.settings["acs_redirect"].state == "failed"
    assert done.settings["memlock"].state == "changed"
    assert "burnin-node-tuning.service does not run: status=226/NAMESPACE" in model.failures(done.settings, ())[0]


def test_a_unit_that_failed_at_boot_is_noted(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.tune()
    node.units["burnin-node-tuning.service"][0] = "failed"

    done = node.tune()

    assert (done.changed, done.notes) == (
        False,
        ("burnin-node-tuning.service failed at boot; journalctl -u burnin-node-tuning.service says why",),
    )


def test_what_is_told_is_bounded_and_acts_on_no_terminal() -> None:
    told = model.Setting("x", before="\x1b[2J" + "a" * 2000).plain("memlock")

    assert len(told["before"]) == 600
    assert "\x1b" not in told["before"]
    assert (told["why"], told["source"]) == model.REASONS["memlock"]
