"""node_tuning over a fake HGX H100: what is set, read back and refused, and that the preflight's findings about it are gone."""

from __future__ import annotations

import importlib.util
import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import ansible.module_utils
import pytest
import yaml

from burnin.node.host import pci
from burnin.node.host.document import host as identity
from burnin.node.host.reading import Reader
from burnin.preflight import bridge
from fake_tuning import PARAMS, Node

ROOT = Path(__file__).resolve().parents[3]
ansible.module_utils.__path__.append(str(ROOT / "plugins/module_utils"))
from ansible.module_utils.burnin_group.model import Refusal  # noqa: E402
from ansible.module_utils.burnin_tuning import core, files, host, kernel, live, model  # noqa: E402

NIC, GPU_PORT, ELSEWHERE = "0000:1a:00.0", "0000:17:01.0", "0000:7d:01.0"


def states(done: core.Done) -> dict[str, str]:
    return {name: one.state for name, one in done.settings.items()}


def findings(node: Node) -> set[str]:
    """What the preflight says of the paths between cards."""
    found = identity("bare", str(node.root))
    judged = bridge.examine({"host": found, "backend_problem": None}, bridge.asked("bare", sku="H100-SXM5-80GB"), (None, None), None)
    return {one["code"] for one in judged["findings"]} & {"ACS_REDIRECTS", "IOMMU_TRANSLATES", "FACTS_UNKNOWN"}


def word(node: Node, address: str, offset: int) -> int:
    config = (node.root / "sys/bus/pci/devices" / address / "config").read_bytes()
    return int(struct.unpack_from("<H", config, offset)[0])


def refused(node: Node, **params: object) -> Refusal:
    """The refusal; and not one byte of the node is another than before."""
    before = node.files()
    with pytest.raises(Refusal) as caught:
        node.tune(**params)  # type: ignore[arg-type]
    assert node.files() == before
    return caught.value


def test_everything_is_set_read_back_and_left_alone_the_second_time(tmp_path: Path) -> None:
    node = Node(tmp_path, ("acs_redirects", 2), ("iommu_translates", 0))
    asked = {"cpu_idle_latency_us": 20, "huge_pages_per_numa_node": 16}

    first, after = node.tune(**asked), node.files()
    second = node.tune(**asked)

    assert states(first) == {
        "acs_redirect": "changed", "iommu": "pending_reboot", "kernel_parameters": "unsupported", "max_read_request": "changed",
        "relaxed_ordering": "ok", "cpu_governor": "changed", "cpu_idle_latency_us": "changed", "numa_balancing": "changed",
        "huge_pages": "changed", "memlock": "changed", "open_files": "changed", "time_sync": "ok", "persistence": "ok",
    }  # fmt: skip
    assert (first.changed, second.changed, second.files) == (True, False, ())
    assert node.files() == after
    assert {state for name, state in states(second).items() if name not in ("iommu", "kernel_parameters")} == {"ok"}
    assert states(second)["iommu"] == "pending_reboot", "it waits as long as nobody reboots"


def test_check_mode_tells_the_same_and_writes_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path, ("acs_redirects", 2))
    before = node.files()

    told, units = node.tune(check=True, open_files=65536), [argv for argv in node.ran if argv[0] == "systemctl" and argv[1] != "show"]
    clean = node.files() == before
    real = node.tune(open_files=65536)

    assert clean
    assert units == []
    assert (states(told), told.files, told.reboot) == (states(real), real.files, real.reboot)
    assert {name: one.after for name, one in told.settings.items()} == {name: one.after for name, one in real.settings.items()}


def test_the_preflights_findings_are_gone_after_tuning_and_a_boot(tmp_path: Path) -> None:
    node = Node(tmp_path, ("acs_redirects", 0), ("acs_redirects", 5), ("iommu_translates", 0))
    assert findings(node) == {"ACS_REDIRECTS", "IOMMU_TRANSLATES"}

    node.tune()
    assert findings(node) == {"IOMMU_TRANSLATES"}
    node.boot()

    assert findings(node) == set()
    assert states(node.tune())["iommu"] == "ok"


def test_the_boot_script_does_after_a_boot_what_the_module_did(tmp_path: Path) -> None:
    node = Node(tmp_path, ("acs_redirects", 0), ("acs_redirects", 5))
    node.tune(cpu_idle_latency_us=20, huge_pages_per_numa_node=16)
    node.boot("iommu=pt")
    tuned = {path: content for path, content in node.files().items() if path.startswith(f"{tmp_path}/sys/")}
    fresh = Node(tmp_path, ("acs_redirects", 0), ("acs_redirects", 5))
    fresh.boot("iommu=pt")
    assert findings(fresh) == {"ACS_REDIRECTS"}

    script = "import runpy,sys; sys.exit(runpy.run_path(sys.argv[1])['main'](root=sys.argv[2]))"
    done = subprocess.run([sys.executable, "-I", "-c", script, str(tmp_path / "usr/local/lib/burnin/node-tuning"), str(tmp_path)],
                          capture_output=True, text=True, check=False, timeout=60)  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    assert {path: content for path, content in fresh.files().items() if path.startswith(f"{tmp_path}/sys/")} == tuned
    assert "acs_redirect: changed (ReqRedir+ CmpltRedir+ on" in done.stdout
    assert findings(fresh) == set()


def test_the_installed_script_is_this_code_and_nobody_else_may_write_it(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.tune()

    script = tmp_path / "usr/local/lib/burnin/node-tuning"
    assert script.read_text() == (ROOT / "plugins/module_utils/burnin_tuning/live.py").read_text()
    assert script.stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "etc/burnin/node-tuning.json").stat().st_mode & 0o7777 == 0o644
    unit = node.text("/etc/systemd/system/burnin-node-tuning.service")
    for line in (
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "CapabilityBoundingSet=CAP_SYS_ADMIN",
        "ConditionVirtualization=!container",
    ):
        assert line in unit
    assert ["systemctl", "restart", "--", "burnin-node-tuning.service"] in node.ran, "what will run at boot has run once"


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        pytest.param(lambda path: path.chmod(0o666), "others than root could write it", id="writable by all"),
        pytest.param(lambda path: path.write_text("{"), "Expecting property name", id="cut off"),
        pytest.param(lambda path: path.write_text(path.read_text().replace("burnin.node_tuning/1", "other/2")), "its schema", id="another schema"),
        pytest.param(lambda path: path.write_text(path.read_text().replace('"10de:0302"', '"10de:*"')), "vendor:class", id="a wrong card"),
        pytest.param(lambda path: path.write_text(path.read_text().replace('"acs_redirect"', '"rm"')), "settings are of", id="an unknown setting"),
        pytest.param(Path.unlink, "No such file", id="gone"),
    ],
)  # fmt: skip
def test_the_boot_script_sets_nothing_from_a_file_that_it_cannot_trust(
    tmp_path: Path, spoil: Callable[[Path], object], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Node(tmp_path).tune()
    Node(tmp_path, ("acs_redirects", 0))
    spoil(tmp_path / "etc/burnin/node-tuning.json")
    config = (tmp_path / "sys/bus/pci/devices" / GPU_PORT / "config").read_bytes()

    code = live.main(root=str(tmp_path))

    assert code == 2
    assert why in capsys.readouterr().err
    assert (tmp_path / "sys/bus/pci/devices" / GPU_PORT / "config").read_bytes() == config


# --- ACS --------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("faults", [(), (0,), (0, 5), tuple(range(8))], ids=str)
def test_our_reading_of_acs_is_the_preflights(tmp_path: Path, faults: tuple[int, ...]) -> None:
    node = Node(tmp_path, *(("acs_redirects", place) for place in faults))
    reader = Reader(str(tmp_path))
    found = pci.devices(reader)
    cards = [*live.cards(str(tmp_path), ["10de:0302", "10de:0300"]), *live.cards(str(tmp_path), ["15b3:02"], rdma=True)]

    theirs = {port["address"]: port["redirect"] for port in pci.acs(reader, found, cards)}
    wish = model.wish(PARAMS)
    look = live.acs_redirect(str(tmp_path), "clear", live.Wanted({}, wish.gpus, wish.nics))

    assert {spot.name: spot.has != "no redirect" for spot in look.spots} == theirs
    assert sum(theirs.values()) == len(faults)
    assert identity("bare", str(node.root))["acs"] == pci.acs(reader, found, cards), "the same ports as the preflight looks at"


def test_only_the_two_redirect_bits_of_ports_above_cards_are_cleared(tmp_path: Path) -> None:
    node = Node(tmp_path, ("acs_redirects", 0))
    other = tmp_path / "sys/bus/pci/devices" / ELSEWHERE / "config"
    config = bytearray(other.read_bytes())
    struct.pack_into("<I", config, 0x100, 0x0001 | 1 << 16 | 0x170 << 20)
    struct.pack_into("<IHH", config, 0x170, 0x000D | 1 << 16, 0x001D, 0x001D)
    other.write_bytes(config)
    assert word(node, GPU_PORT, 0x176) == 0x1D

    node.tune()

    assert word(node, GPU_PORT, 0x176) == 0x11
    assert other.read_bytes() == bytes(config), "a port above no GPU and no adapter is nobody's business"


def test_a_port_that_would_not_be_read_is_left_out_and_named(tmp_path: Path) -> None:
    node = Node(tmp_path, ("acs_redirects", 0), ("acs_redirects", 1))
    (tmp_path / "sys/bus/pci/devices" / GPU_PORT / "config").write_bytes(b"\xff" * 4096)

    done = node.tune().settings["acs_redirect"]

    assert (done.state, done.detail) == ("changed", f"left out: {GPU_PORT}: its extended configuration space would not be read")


def test_without_root_nothing_is_read_and_that_is_said(tmp_path: Path) -> None:
    node = Node(tmp_path)
    for config in (tmp_path / "sys/devices").rglob("config"):
        config.write_bytes(config.read_bytes()[:64])

    done = node.tune().settings

    assert done["acs_redirect"].state == "unsupported"
    assert done["acs_redirect"].detail == "no port above a GPU or an adapter has ACS that could be read"
    assert done["max_read_request"].state == "unsupported"


def test_acs_that_keeps_virtual_machines_apart_stays(tmp_path: Path) -> None:
    node = Node(tmp_path, ("acs_redirects", 0))
    driver = tmp_path / "sys/bus/pci/devices" / NIC / "driver"
    driver.unlink()
    driver.symlink_to("/sys/bus/pci/drivers/vfio-pci")

    done = node.tune().settings["acs_redirect"]

    assert (done.state, word(node, GPU_PORT, 0x176)) == ("unsupported", 0x1D)
    assert f"{NIC} is handed to a virtual machine" in done.detail


def test_a_locked_down_kernel_is_said_and_not_fought(tmp_path: Path) -> None:
    node = Node(tmp_path, ("acs_redirects", 0))
    node.put("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")

    done = node.tune()

    assert (states(done)["acs_redirect"], states(done)["relaxed_ordering"]) == ("unsupported", "ok")
    assert "locked down (integrity" in done.settings["acs_redirect"].detail


def test_a_bit_that_does_not_stay_is_a_failure_with_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path, ("acs_redirects", 0))
    monkeypatch.setattr(live, "register", lambda *_args: lambda: None)

    done = node.tune()

    assert states(done)["acs_redirect"] == "failed"
    assert done.settings["acs_redirect"].detail == f"still ReqRedir+ CmpltRedir+ of {GPU_PORT}, expected no redirect"
    assert model.failures(done.settings, ())[0].startswith("acs_redirect: still ReqRedir+")
    assert "acs_redirect" in json.loads(node.text(files.STATE))["settings"], "the next boot tries again"


# --- adapters ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [128, 1024, 4096])
def test_the_read_request_is_set_and_the_rest_of_both_registers_stays(tmp_path: Path, size: int) -> None:
    node = Node(tmp_path)
    assert (word(node, NIC, 0x48), word(node, NIC, 0x4A)) == (0x2810, 0x0009)

    node.tune(max_read_request=size)

    assert word(node, NIC, 0x48) == 0x0810 | {128: 0, 1024: 3, 4096: 5}[size] << 12
    assert word(node, NIC, 0x4A) == 0x0009, "the status register clears what is written to it"
    assert word(node, "0000:19:00.0", 0x48) == 0x2810, "a GPU's is the driver's"


def test_relaxed_ordering_is_turned_on_but_not_behind_a_flawed_root_port(tmp_path: Path) -> None:
    node = Node(tmp_path)
    for address in (NIC, "0000:3c:00.0"):
        config = tmp_path / "sys/bus/pci/devices" / address / "config"
        content = bytearray(config.read_bytes())
        struct.pack_into("<H", content, 0x48, 0x2800)
        config.write_bytes(content)
    node.put("/sys/devices/pci0000:37/0000:37:01.0/device", "0x2f04\n")

    done = node.tune().settings["relaxed_ordering"]

    assert (word(node, NIC, 0x48) & 0x10, word(node, "0000:3c:00.0", 0x48) & 0x10) == (0x10, 0)
    assert "0000:3c:00.0: its root port is one for which the kernel turns relaxed ordering off" in done.detail


def test_the_bridges_to_nvswitches_are_nobodys_adapters(tmp_path: Path) -> None:
    Node(tmp_path, kind="hgx-b200")
    bridges = [path.parent.name for path in (tmp_path / "sys/devices").rglob("vpd") if b"SW_MNG" in path.read_bytes()]
    assert bridges

    node = Node(tmp_path, kind="hgx-b200")
    node.tune()

    assert {word(node, address, 0x48) for address in bridges} == {0x2810}
    assert len([1 for card in live.cards(str(tmp_path), ["15b3:02"]) if word(node, card, 0x48) == 0x5810]) >= 8


# --- CPUs, memory -----------------------------------------------------------------------------------------------------------------------


def test_deep_idle_states_are_closed_and_the_others_left(tmp_path: Path) -> None:
    node = Node(tmp_path)

    done = node.tune(cpu_idle_latency_us=20).settings["cpu_idle_latency_us"]

    assert done.state == "changed"
    assert [node.text(f"/sys/devices/system/cpu/cpu3/cpuidle/state{number}/disable").strip() for number in range(4)] == ["0", "0", "0", "1"]


@pytest.mark.parametrize(
    ("spoil", "name", "words"),
    [
        pytest.param("cpufreq", "cpu_governor", "does not steer the CPUs' frequency", id="a virtual machine without frequencies"),
        pytest.param("cpuidle", "cpu_idle_latency_us", "no idle states", id="no idle states"),
    ],
)
def test_what_the_machine_has_not_is_unsupported_with_the_words(tmp_path: Path, spoil: str, name: str, words: str) -> None:
    node = Node(tmp_path)
    for cpu in range(4):
        subprocess.run(["rm", "-r", f"{tmp_path}/sys/devices/system/cpu/cpu{cpu}/{spoil}"], check=True)

    done = node.tune(cpu_idle_latency_us=20).settings[name]

    assert done.state == "unsupported"
    assert words in done.detail
    assert name not in json.loads(node.text(files.STATE))["settings"]


def test_a_governor_that_the_kernel_has_not_is_named(tmp_path: Path) -> None:
    done = Node(tmp_path).tune(cpu_governor="schedutil").settings["cpu_governor"]

    assert (done.state, done.detail) == ("unsupported", "cpu0 has no governor schedutil")


def test_huge_pages_go_to_nodes_with_cpus_only(tmp_path: Path) -> None:
    node = Node(tmp_path)

    node.tune(huge_pages_per_numa_node=16)

    told = [node.text(f"/sys/devices/system/node/node{number}/hugepages/hugepages-2048kB/nr_hugepages").strip() for number in range(3)]
    assert told == ["16", "16", "0"], "node2 is a GPU's memory"


@pytest.mark.parametrize(("pages", "fits"), [pytest.param(3072, True, id="three quarters"), pytest.param(3073, False, id="one page more")])
def test_huge_pages_leave_a_quarter_of_the_memory(tmp_path: Path, pages: int, fits: bool) -> None:
    node = Node(tmp_path)

    if fits:
        assert states(node.tune(huge_pages_per_numa_node=pages))["huge_pages"] == "changed"
    else:
        refusal = refused(node, huge_pages_per_numa_node=pages)
        assert refusal.code == "TUNING_INPUT"
        assert "on node0, which has 8192 MiB" in refusal.message


def test_transparent_huge_pages_are_read_as_the_kernel_tells_them(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")

    assert states(node.tune(transparent_huge_pages="madvise"))["transparent_huge_pages"] == "ok"
    assert node.tune(check=True, transparent_huge_pages="never").settings["transparent_huge_pages"].before == "madvise"


# --- drift, switching off, what is not ours ---------------------------------------------------------------------------------------------


def test_what_somebody_changed_since_is_put_back_and_told_as_drift(tmp_path: Path) -> None:
    node = Node(tmp_path)
    first = node.tune()
    node.put("/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave\n")
    node.put(files.LIMITS, f"# {files.MARK}\n* hard memlock 64\n")

    second = node.tune()

    assert [name for name, one in first.settings.items() if one.drift] == []
    assert {name: one.drift for name, one in second.settings.items() if one.changed} == {
        "cpu_governor": True, "memlock": True, "open_files": True,
    }  # fmt: skip
    assert second.settings["cpu_governor"].before == "powersave on cpu3; performance on 3"
    assert node.text("/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor") == "performance"
    assert second.files == (files.LIMITS,)


def test_a_setting_that_is_asked_for_anew_is_no_drift(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.tune(open_files=0, cpu_governor="")

    done = node.tune()

    assert [name for name, one in done.settings.items() if one.drift] == []
    assert [name for name, one in done.settings.items() if one.changed] == ["cpu_governor", "open_files"]


def test_what_is_switched_off_leaves_no_file(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.tune()
    assert [path for path in (*files.OWNED, kernel.DROP_IN, files.WANTED_BY) if not node.there(path) and path != files.WANTED_BY] == []
    off = {
        "acs_redirect": "leave", "iommu": "leave", "kernel_parameters": "leave", "max_read_request": 0, "relaxed_ordering": False,
        "cpu_governor": "", "numa_balancing": "leave", "memlock": "leave", "open_files": 0, "time_sync": False, "persistence": False,
    }  # fmt: skip

    done = node.tune(**off)
    again = node.tune(**off)

    assert done.settings == {}
    assert [path for path in (*files.OWNED, kernel.DROP_IN) if node.there(path)] == []
    assert not (tmp_path / files.WANTED_BY[1:]).is_symlink()
    assert "iommu" not in node.text("/boot/grub/grub.cfg")
    assert "the kernel is no longer told intel_iommu=on iommu=pt" in done.notes[0]
    assert again.changed is False


@pytest.mark.parametrize("path", [*files.OWNED, kernel.DROP_IN])
def test_somebody_elses_file_in_our_place_is_refused_by_name(tmp_path: Path, path: str) -> None:
    node = Node(tmp_path)
    node.put(path, "theirs\n")

    refusal = refused(node)

    assert (refusal.code, path in refusal.message) == ("FILE_NOT_OURS", True)


def test_a_folder_in_our_place_is_refused(tmp_path: Path) -> None:
    node = Node(tmp_path)
    (tmp_path / files.SYSCTL[1:]).mkdir(parents=True)

    assert refused(node).code == "NOT_A_FILE"


# --- where it applies -------------------------------------------------------------------------------------------------------------------


def test_auto_leaves_a_node_without_adapters_alone_and_clear_does_not(tmp_path: Path) -> None:
    node = Node(tmp_path, ("acs_redirects", 0))
    nobody = {"nic_cards": ["ffff:02"]}
    for name in (tmp_path / "sys/class/infiniband").iterdir():
        name.unlink()

    assert states(node.tune(check=True, **nobody))["acs_redirect"] == "unsupported"
    assert states(node.tune(check=True, **nobody))["iommu"] == "unsupported"
    assert states(node.tune(check=True, acs_redirect="clear", iommu="passthrough", **nobody))["acs_redirect"] == "changed"


@pytest.mark.parametrize("mark", host.CONTAINER)
def test_in_a_container_only_its_own_limits_are_set(tmp_path: Path, mark: str) -> None:
    node = Node(tmp_path, ("acs_redirects", 0))
    node.put(mark, "podman\n")

    done = node.tune()

    assert {name for name, state in states(done).items() if state != "unsupported"} == {"memlock", "open_files", "persistence"}
    assert done.settings["numa_balancing"].detail.startswith("this is a container")
    assert not node.there(files.SYSCTL)
    assert not node.there(files.UNIT)
    assert node.text("/proc/sys/kernel/numa_balancing") == "1\n"


@pytest.mark.parametrize(
    ("capabilities", "state"),
    [
        pytest.param("000001fffeffffff", "unsupported", id="without CAP_SYS_RESOURCE"),
        pytest.param("000001ffffffffff", "changed", id="with all"),
    ],
)
def test_limits_that_would_shut_logins_out_are_not_written(tmp_path: Path, capabilities: str, state: str) -> None:
    node = Node(tmp_path)
    node.put("/proc/1/status", f"Name:\tsystemd\nCapBnd:\t{capabilities}\n")

    done = node.tune()

    assert (states(done)["memlock"], states(done)["open_files"], node.there(files.LIMITS)) == (state, state, state == "changed")


def test_more_open_files_than_the_kernel_gives_is_refused(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.put("/proc/sys/fs/nr_open", "65536\n")

    assert "more than fs.nr_open here (65536)" in refused(node, open_files=65537).message
    assert states(node.tune(open_files=65536))["open_files"] == "changed"


def test_a_required_setting_that_is_not_to_be_had_stops_before_the_first_write(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.put("/run/systemd/container", "podman\n")

    refusal = refused(node, require=["cpu_governor"])

    assert refusal.code == "SETTING_UNSUPPORTED"
    assert "cpu_governor is required and not to be had here: this is a container" in refusal.message


BAD = [
    pytest.param({"max_read_request": 3000}, "max_read_request is 3000", id="no power of two"),
    pytest.param({"max_read_request": 8192}, "max_read_request is 8192", id="more than PCI Express knows"),
    pytest.param({"cpu_governor": "per formance\n"}, "cpu_governor", id="a governor with a space"),
    pytest.param({"cpu_idle_latency_us": -1}, "cpu_idle_latency_us is -1", id="a negative latency"),
    pytest.param({"open_files": 1023}, "open_files is 1023", id="too few files"),
    pytest.param({"gpu_cards": ["10de:*"]}, "gpu_cards is '10de:*'", id="a card with a glob"),
    pytest.param({"nic_cards": ["15B3:02"]}, "nic_cards is '15B3:02'", id="a card in capitals"),
    pytest.param({"require": ["acs"]}, "require is 'acs'", id="an unknown setting required"),
    pytest.param({"require": ["huge_pages"]}, "require is huge_pages", id="required and not asked for"),
]


@pytest.mark.parametrize(("params", "words"), BAD)
def test_bad_input_is_refused_naming_the_variable(tmp_path: Path, params: dict[str, object], words: str) -> None:
    refusal = refused(Node(tmp_path), **params)

    assert (refusal.code, refusal.message.startswith("node_tuning_" + words)) == ("TUNING_INPUT", True), refusal.message


def test_every_option_is_in_the_role_the_spec_and_the_module_with_one_default() -> None:
    path = ROOT / "plugins/modules/node_tuning.py"
    spec = importlib.util.spec_from_file_location("node_tuning_module", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    defaults = yaml.safe_load((ROOT / "roles/node_tuning/defaults/main.yml").read_text())
    task = yaml.safe_load((ROOT / "roles/node_tuning/tasks/tune.yml").read_text())[0]["node_tuning"]
    assert {name: one["default"] for name, one in module.ARGUMENTS.items() if name != "root"} == PARAMS
    assert defaults == {f"node_tuning_{name}": value for name, value in PARAMS.items()}
    assert task == {name: f"{{{{ node_tuning_{name} }}}}" for name in PARAMS}
    assert set(model.REASONS) == set(model.SETTINGS)
    for why, source in model.REASONS.values():
        assert why
        assert source
