"""Drift of one node: nothing on a clean one, and of each planted drift exactly its code, with the words a person needs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from burnin.errors import StackError
from burnin.outcome import Outcome
from burnin.stack.bridge import resolve_plain
from burnin.stack.drift.accepting import Accepted, accepted_of
from burnin.stack.drift.codes import CODES
from burnin.stack.drift.finding import Finding
from burnin.stack.drift.judging import check_plain, judge, refusal, verdict
from unit.stack.drifting import KERNEL, NEWER, STACK, Node, resolution

OTHER = "580.150.02"
Change = Callable[[Node], object]


def found(node: Node) -> list[Finding]:
    return list(judge(node.want, node.host))


def codes(node: Node) -> list[str]:
    return [finding.code for finding in found(node)]


CLEAN = {
    "debian12": Node,
    "ubuntu2404": lambda: Node(resolution("ubuntu2404")),
    "rhel9": lambda: Node(resolution("rhel9", kernel="5.14.0-503.el9.x86_64"), kernel="5.14.0-503.el9.x86_64"),
    "a pinned kernel that runs": lambda: Node(_pinned(KERNEL)),
    "proprietary, OFED built first": lambda: Node(resolution(driver={"version": "580.126.09", "flavour": "proprietary"})),
    "no OFED of ours": lambda: Node(resolution(ofed={"kind": "none"})),
    "the driver alone": lambda: Node(_only_driver()),
}


def _pinned(release: str) -> dict[str, Any]:

    return resolve_plain({**STACK, "kernel": {"debian12": release}}, "debian12", "x86_64", "H100-SXM5-80GB", KERNEL)


def _only_driver() -> dict[str, Any]:

    return resolve_plain({"driver": {"version": "580.126.09", "flavour": "open"}}, "debian12", "x86_64", "H100-SXM5-80GB", KERNEL)


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_node_has_no_drift(name: str) -> None:
    node = CLEAN[name]()

    assert [finding.sentence for finding in found(node)] == []
    assert verdict(judge(node.want, node.host)) is Outcome.PASS


def _module(version: str) -> Change:
    return lambda node: node.host["modules"].update(nvidia={"version": version})


def _kernel(**told: Any) -> Change:
    return lambda node: node.host["kernel"].update(told)


def _soft(**told: Any) -> Change:
    return lambda node: node.software.update(told)


def _service(unit: str, **told: str) -> Change:
    return lambda node: node.software["services"][unit].update(told)


def _dkms(module: str, **told: Any) -> Change:
    return lambda node: next(one for one in node.software["dkms"] if one["module"] == module).update(told)


def _library(name: str, version: str) -> Change:
    return lambda node: node.software["libraries"].update({name: version})


def _unpinned(node: Node) -> None:
    del node.software["pins"]["/etc/apt/preferences.d/burnin-nvidia-driver"]


# change, the one code, words that must be in the finding
PLANTED: dict[str, tuple[Change, str, str]] = {
    "a hold taken off": (lambda node: node["libnvidia-ml1"].update(held=False), "HOLD_MISSING", "libnvidia-ml1"),
    "a library upgraded alone": (
        lambda node: (node.move("libnvidia-ml1", f"{OTHER}-1"), _library("libnvidia-ml", OTHER)(node), _module(OTHER)(node), node.host.update(modules={})),
        "DRIVER_NOT_LOADED MIXED_VERSIONS", "libnvidia-ml1 580.150.02-1"),
    "a library upgraded alone, old module still loaded": (
        lambda node: (node.move("libnvidia-ml1", f"{OTHER}-1"), _library("libnvidia-ml", OTHER)(node)), "DRIVER_REBOOT_NEEDED MIXED_VERSIONS", OTHER),
    "libcuda upgraded alone": (
        lambda node: (node.move("libcuda1", f"{OTHER}-1"), _library("libcuda", OTHER)(node)), "MIXED_VERSIONS", "libcuda1 580.150.02-1"),
    "a fabric manager of another version": (
        lambda node: node.move("nvidia-fabricmanager", "580.95.05-1"), "FABRIC_MANAGER_VERSION", "nvidia-fabricmanager 580.95.05-1"),
    "a fabric manager that is stopped": (
        _service("nvidia-fabricmanager.service", active="failed"), "FABRIC_MANAGER_DOWN", "failed"),
    "a service that will not start again": (_service("nvidia-dcgm.service", enabled="disabled"), "SERVICE_DOWN", "nvidia-dcgm.service runs, and is disabled"),
    "a service without a unit": (lambda node: node.software["services"].pop("nvidia-dcgm.service"), "SERVICE_DOWN", "has no unit"),
    "headers removed": (_kernel(headers=[]), "HEADERS_MISSING", KERNEL),
    "headers of another kernel only": (_kernel(headers=[NEWER]), "HEADERS_MISSING", NEWER),
    "a newer kernel installed": (_kernel(installed=[KERNEL, NEWER]), "KERNEL_NEWER_INSTALLED", NEWER),
    "DKMS built for another kernel only": (_dkms("nvidia", kernel=NEWER), "DKMS_NOT_BUILT", f"nvidia/580.126.09 is built for {NEWER} only, not for {KERNEL}"),
    "DKMS built and not installed": (_dkms("mlnx-ofed-kernel", state="built"), "DKMS_NOT_BUILT", "built for no kernel"),
    "an older driver's modules installed, the pinned one's not built": (
        lambda node: (
            node.software["dkms"].append(dict(node.software["dkms"][0], version="580.95.05")), node.software["dkms"][0].update(kernel=None, state="added")),
        "DKMS_NOT_BUILT", "nvidia/580.126.09 is built for no kernel"),
    "CUDA's default moved": (_soft(alternatives={"cuda": "/usr/local/cuda-13.0"}), "CUDA_DEFAULT", "/usr/local/cuda leads to /usr/local/cuda-13.0"),
    "no default toolkit": (_soft(alternatives={"cuda": None}), "CUDA_DEFAULT", "no /usr/local/cuda"),
    "a toolkit's folder removed": (_soft(cuda_toolkits=["12.9"]), "TOOLKIT_MISSING", "/usr/local/cuda-13.0"),
    "NCCL's headers of another CUDA": (
        lambda node: node.move("libnccl-dev", "2.28.9-1+cuda13.0"), "NCCL_PAIR", "libnccl-dev 2.28.9-1+cuda13.0, libnccl2 2.28.9-1+cuda12.9"),
    "both of NCCL for another CUDA": (
        lambda node: (node.move("libnccl-dev", "2.28.9-1+cuda13.0"), node.move("libnccl2", "2.28.9-1+cuda13.0")), "PACKAGE_VERSION", "cuda13.0"),
    "a pin file removed": (_unpinned, "PIN_MISSING", "/etc/apt/preferences.d/burnin-nvidia-driver"),
    "a pin file changed": (
        lambda node: node.software["pins"].update({"/etc/apt/preferences.d/burnin-nccl": "0" * 64}), "PIN_CHANGED", "burnin-nccl"),
    "no blacklist": (_soft(blacklist=[]), "BLACKLIST_MISSING", "29 of 29"),
    "a part of the blacklist": (lambda node: node.software["blacklist"].remove("^libnccl"), "BLACKLIST_MISSING", "^libnccl"),
    "an older module loaded": (_module("580.95.05"), "DRIVER_REBOOT_NEEDED", "module 580.95.05, library libnvidia-ml 580.126.09"),
    "no module loaded": (lambda node: node.host["modules"].pop("nvidia"), "DRIVER_NOT_LOADED", "no nvidia module"),
    "nouveau": (lambda node: node.host.update(modules={"nouveau": {"version": None}}), "NOUVEAU_LOADED", "nouveau"),
    "mlx5_core of before": (
        lambda node: node.host["modules"].update(mlx5_core={"version": "24.10-3.2.5"}), "OFED_REBOOT_NEEDED", "24.10-3.2.5 is loaded, 25.10-1.7.1 on disk"),
    "a reboot owed": (_soft(reboot_required=["nvidia_driver: 580.126.09 installed"]), "REBOOT_PENDING", "nvidia_driver"),
    "a toolkit's package removed": (
        lambda node: (node.drop("cuda-toolkit-13-0"), node.software.update(cuda_toolkits=["12.9"])), "PACKAGE_MISSING", "cuda-toolkit-13-0"),
    "a toolkit of another release": (lambda node: node.move("cuda-toolkit-12-9", "12.9.0-1"), "PACKAGE_VERSION", "cuda-toolkit-12-9 12.9.0-1"),
    "DCGM without its epoch's version": (lambda node: node.move("datacenter-gpu-manager-4-core", "1:4.6.0-1"), "PACKAGE_VERSION", "1:4.6.0-1"),
    "the 3.x DCGM": (lambda node: node.add("datacenter-gpu-manager", "1:4.4.1-1"), "PACKAGE_UNWANTED", "datacenter-gpu-manager 1:4.4.1-1"),
    "the meta package of a driver": (lambda node: node.add("cuda-drivers", "580.126.09-1"), "PACKAGE_UNWANTED", "cuda-drivers"),
    "half-way packages": (_soft(audit=["libc6 half-configured"]), "DPKG_BROKEN", "libc6 half-configured"),
    "a .run installer's library": (_library("libnvidia-ml", OTHER), "DRIVER_REBOOT_NEEDED LIBRARY_NOT_PACKAGE", "libnvidia-ml 580.150.02 (libnvidia-ml1 580.126.09-1)"),
    "a library of no package": (lambda node: node.drop("libcuda1"), "LIBRARY_NOT_PACKAGE", "libcuda 580.126.09 (of no package)"),
    "another NCCL over the package's": (_library("libnccl", "2.27.7"), "LIBRARY_NOT_PACKAGE", "libnccl 2.27.7 (libnccl2 2.28.9-1+cuda12.9)"),
    "another OFED by its own word": (_soft(ofed_info="OFED-internal-25.1-1.7.1:"), "OFED_VERSION", "OFED-internal-25.1-1.7.1"),
    "a longer OFED number": (_soft(ofed_info="OFED-internal-25.101-1.7.1:"), "OFED_VERSION", "25.101"),
    "our source removed": (lambda node: node.software["sources"].pop("/etc/apt/sources.list.d/burnin-cuda.sources"), "SOURCE_MISSING", "burnin-cuda.sources"),
    "our source led elsewhere": (
        lambda node: node.software["sources"].update({"/etc/apt/sources.list.d/burnin-cuda.sources": "URIs: http://elsewhere/"}), "SOURCE_MISSING", "another place"),
    "the vendor's own source beside ours": (
        lambda node: node.software["sources"].update({"/etc/apt/sources.list.d/cuda-debian12-x86_64.list": "deb x"}), "SOURCE_CONFLICT", "cuda-debian12-x86_64.list"),
    "a second source of one place": (
        lambda node: node.software["sources"].update({"/etc/apt/sources.list": f"deb {node.want['repositories'][1]['url']} /"}),
        "SOURCE_CONFLICT", "/etc/apt/sources.list"),
    "the vendor's pin of 600": (
        lambda node: node.software["pins"].update({"/etc/apt/preferences.d/cuda-repository-pin-600": "0" * 64}), "SOURCE_CONFLICT", "pin-600"),
    "unattended upgrades from the vendor": (
        lambda node: (node.add("unattended-upgrades", "2.9.1"), node.software["unattended_origins"].append("origin=NVIDIA,label=NVIDIA CUDA")),
        "UNATTENDED_ORIGIN", "origin=NVIDIA"),
    "packages that were not read": (_soft(packages=None), "DRIFT_UNREAD", "packages"),
    "pins that were not read": (_soft(pins=None), "DRIFT_UNREAD", "pins"),
    "services that were not read": (_soft(services=None), "DRIFT_UNREAD", "services"),
    "a kernel that was not read": (_kernel(running=None), "DRIFT_UNREAD", "running kernel"),
    "no installed kernels read": (_kernel(installed=None), "DRIFT_UNREAD", "installed kernels"),
    "another package manager": (_soft(manager="dnf"), "DRIFT_UNREAD", "the node has dnf"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_drift_is_exactly_its_code(name: str) -> None:
    change, code, words = PLANTED[name]
    node = Node()
    change(node)

    seen = found(node)

    assert " ".join(finding.code for finding in seen) == code
    assert words in " ".join(f"{finding.found} {finding.items}" for finding in seen), [finding.sentence for finding in seen]


# Which code of the table no change above leads to, and where its test is.
ELSEWHERE = {
    "DRIVER_NOT_PINNED", "KERNEL_NOT_PINNED", "DRIVER_BUILT_BEFORE_OFED", "LOCK_MISSING", "DRIFT_UNREACHABLE",
    "KERNEL_MINORITY", "PACKAGE_MINORITY", "MODULE_MINORITY", "FIRMWARE_MINORITY",
}  # fmt: skip


def test_each_code_is_planted_somewhere() -> None:
    planted = {code for _, codes, _ in PLANTED.values() for code in codes.split()}

    assert planted | ELSEWHERE == set(CODES)
    assert not planted & ELSEWHERE


def test_three_of_four_packages_without_a_hold_are_named() -> None:
    """B02: libnvidia-common, libnvidia-compute, nvidia-utils and nvidia-driver, where only the last is held."""
    node = Node(resolution("ubuntu2404"))
    loose = ("libnvidia-common-580", "libnvidia-compute-580", "nvidia-utils-580")
    for name in loose:
        node.add(name, "580.126.09-0ubuntu1", held=False)
    node.add("nvidia-driver-580-open", "580.126.09-0ubuntu1")

    (finding,) = [one for one in found(node) if one.code == "HOLD_MISSING"]

    assert finding.items == loose
    assert finding.found == "libnvidia-common-580, libnvidia-compute-580, nvidia-utils-580 not held"


def test_module_and_library_that_differ_are_a_reboot_and_never_hardware() -> None:
    """B02: the module file says 580.95.05, the library 580.105.08."""
    node = Node(resolution(driver={"version": "580.105.08", "flavour": "open"}))
    _module("580.95.05")(node)
    node.software["packages"] = [one | {"version": one["version"].replace("580.126.09", "580.105.08")} for one in node.software["packages"]]

    (finding,) = found(node)

    assert (finding.code, finding.outcome) == ("DRIVER_REBOOT_NEEDED", Outcome.FAIL)
    assert "No GPU is at fault" in finding.why_said
    assert "reboot" in finding.action_said
    assert "provision first" not in finding.found


def test_a_library_that_is_not_the_pinned_one_is_provisioned_before_the_reboot() -> None:
    node = Node()
    _library("libnvidia-ml", OTHER)(node)

    assert "provision first" in found(node)[0].found


def test_a_whole_other_driver_is_no_mixture() -> None:
    node = Node()
    for one in node.software["packages"]:
        one["version"] = one["version"].replace("580.126.09", OTHER)
    node.software["libraries"] = dict.fromkeys(node.software["libraries"], OTHER) | {"libnccl": "2.28.9"}
    node.software["dkms"][0]["version"] = OTHER
    _module(OTHER)(node)

    seen = found(node)

    assert [one.code for one in seen] == ["DRIVER_NOT_PINNED", "PACKAGE_VERSION"]
    assert len(seen[1].items) == 8


def test_newest_kernel_against_uname_decides_and_no_marker_file() -> None:
    """B05: kernels 5.14.0-362 and -503 installed, 362 runs, no marker anywhere."""
    running, newest = "5.14.0-362.el9.x86_64", "5.14.0-503.el9.x86_64"
    node = Node(resolution("rhel9", kernel=running), kernel=running)
    _kernel(installed=[running, newest])(node)
    _soft(dkms=[{"module": "nvidia", "version": "580.126.09", "kernel": newest, "state": "installed", "built_s": 1}])(node)

    seen = {one.code: one.found for one in found(node)}

    assert seen["KERNEL_NEWER_INSTALLED"] == f"{newest} is installed, {running} runs"
    assert seen["DKMS_NOT_BUILT"] == f"nvidia/580.126.09 is built for {newest} only, not for {running}"


@pytest.mark.parametrize(("installed", "words"), [([KERNEL, NEWER], "a reboot is missing"), ([KERNEL], "not installed")])
def test_a_pinned_kernel_that_does_not_run(installed: list[str], words: str) -> None:
    node = Node(_pinned(NEWER))
    _kernel(installed=installed, headers=[KERNEL, NEWER])(node)
    node.software["dkms"] += [one | {"kernel": NEWER} for one in node.software["dkms"]]

    (finding,) = found(node)

    assert finding.code == "KERNEL_NOT_PINNED"
    assert words in finding.expected


def test_modules_must_be_built_for_the_pinned_kernel_before_it_boots() -> None:
    node = Node(_pinned(NEWER))
    _kernel(installed=[KERNEL, NEWER], headers=[KERNEL, NEWER])(node)

    assert codes(node) == ["KERNEL_NOT_PINNED", "DKMS_NOT_BUILT", "DKMS_NOT_BUILT"]


def test_of_several_newer_kernels_the_newest_is_told() -> None:
    node = Node()
    _kernel(installed=["6.1.0-100-amd64", NEWER, KERNEL])(node)

    (finding,) = found(node)

    assert finding.found == f"6.1.0-100-amd64 is installed, {KERNEL} runs"
    assert finding.items == (NEWER, "6.1.0-100-amd64")


def test_headers_are_asked_for_where_a_package_builds_also_before_dkms_knows_it() -> None:
    node = Node()
    node.software["dkms"] = []
    _kernel(headers=[])(node)
    assert codes(node) == ["HEADERS_MISSING"]

    node.software["packages"] = [one for one in node.software["packages"] if "dkms" not in one["name"]]
    assert "HEADERS_MISSING" not in codes(node), "nothing is built here"


def test_an_older_kernel_left_beside_is_no_drift() -> None:
    node = Node()
    _kernel(installed=["6.1.0-9-amd64", KERNEL])(node)

    assert codes(node) == []


def test_peermem_wants_ofed_built_first() -> None:
    node = Node(resolution(driver={"version": "580.126.09", "flavour": "proprietary"}))
    _dkms("nvidia", built_s=500)(node)

    assert codes(node) == ["DRIVER_BUILT_BEFORE_OFED"]
    _dkms("nvidia", built_s=600)(node)
    assert codes(node) == [], "in the same second"
    _dkms("nvidia", built_s=500)(node)
    node.software["dkms"].append(dict(node.software["dkms"][1], kernel=NEWER, built_s=900))
    _dkms("mlnx-ofed-kernel", built_s=400)(node)
    assert codes(node) == [], "what is built for another kernel is another module"
    open_modules = Node()
    _dkms("nvidia", built_s=500)(open_modules)
    assert codes(open_modules) == [], "dma-buf needs no peermem"


def test_dnf_has_locks_in_place_of_holds() -> None:
    kernel = "5.14.0-503.el9.x86_64"
    node = Node(resolution("rhel9", kernel=kernel), kernel=kernel)
    node.software["locks"].remove("nvidia-open-3:580.126.09-*")

    (finding,) = found(node)

    assert (finding.code, finding.items) == ("LOCK_MISSING", ("nvidia-open-3:580.126.09-*",))
    _soft(locks=None)(node)
    assert {one.code for one in found(node)} == {"LOCK_MISSING"}


def test_what_a_locked_package_drags_in_is_locked_too() -> None:
    kernel = "5.14.0-503.el9.x86_64"
    node = Node(resolution("rhel9", kernel=kernel), kernel=kernel)
    node.add("libnvidia-new", "3:580.126.09-1.el9")

    (finding,) = found(node)
    assert (finding.code, finding.items) == ("LOCK_MISSING", ("libnvidia-new 3:580.126.09-1.el9",))

    node.software["locks"].append("libnvidia-new-3:580.126.09-1.el9.*")
    assert codes(node) == []
    node.move("libnvidia-new", "3:580.150.02-1.el9")
    assert codes(node) == ["MIXED_VERSIONS"], "another version than the locked one is told once"


def test_kernels_that_are_kept_out_on_el() -> None:
    node = Node(resolution("rhel9", kernel=None), kernel="5.14.0-503.el9.x86_64")
    assert codes(node) == []

    node.software["locks"].remove("!kernel-core")

    assert [(one.code, one.items) for one in found(node)] == [("LOCK_MISSING", ("!kernel-core",))]


def test_a_precompiled_module_for_another_kernel() -> None:
    node = Node()
    node.software["dkms"] = [one for one in node.software["dkms"] if one["module"] != "nvidia"]
    assert codes(node) == []

    node.software["module_files"][0]["kernel"] = NEWER

    assert codes(node) == ["DKMS_NOT_BUILT"]
    node.software["packages"] = [
        one for one in node.software["packages"] if not one["name"].startswith(("nvidia-", "libnvidia-", "libcuda"))
    ]
    node.software["libraries"] = {"libnccl": "2.28.9"}
    assert "DKMS_NOT_BUILT" not in codes(node), "without the driver's packages there is nothing to build"


def test_modules_that_were_not_read_are_not_missing() -> None:
    node = Node()
    node.software["dkms"] = [one for one in node.software["dkms"] if one["module"] != "nvidia"]
    node.software["module_files"] = None

    assert "DKMS_NOT_BUILT" not in codes(node)


def test_a_container_is_asked_for_no_kernel_and_no_module() -> None:
    """No GPU on its bus and its host's kernel: nothing is loaded or built for it; packages and services are its own."""
    node = Node()
    node.host.update(gpus=[], modules={})
    _kernel(running="6.18.44-host", installed=[KERNEL, NEWER], headers=[])(node)
    assert codes(node) == []

    node["libnvidia-ml1"]["held"] = False

    assert codes(node) == ["HOLD_MISSING"]


def test_a_node_without_nvswitch_needs_no_fabric_manager() -> None:
    node = Node()
    node.host["nvswitches"] = 0
    for name in ("nvidia-fabricmanager", "libnvidia-nscq"):
        node.drop(name)
    del node.software["services"]["nvidia-fabricmanager.service"]
    node.software["libraries"]["libnvidia-nscq"] = None

    assert codes(node) == []


@pytest.mark.parametrize(
    ("origin", "taken"),
    [
        ("${distro_id}:${distro_codename}-security", False),
        ("origin=Debian,codename=${distro_codename},label=Debian-Security", False),
        ("origin=*", True),
        ("*:*", True),
        ("NVIDIA:stable", True),
        ("label=DOCA-HOST", True),
    ],
)
def test_origins_of_unattended_upgrades(origin: str, taken: bool) -> None:
    node = Node()
    node.software["unattended_origins"] = [origin]
    assert codes(node) == [], "without the program nothing is taken"

    node.add("unattended-upgrades", "2.9.1", held=False)

    assert codes(node) == (["UNATTENDED_ORIGIN"] if taken else [])


@pytest.mark.parametrize(
    ("path", "text", "conflicts"),
    [
        ("/etc/apt/sources.list", "deb http://deb.debian.org/debian bookworm main\ndeb {url} /\n", True),
        ("/etc/apt/sources.list", "deb http://deb.debian.org/debian bookworm main\n# deb {url} /\n", False),
        ("/etc/apt/sources.list.d/nvidia.list.save", "deb {url} /\n", False),
        ("/etc/apt/sources.list.d/cuda-debian12.list", "", True),
    ],
    ids=["among others", "commented out", "not read by apt", "the vendor's, by its name"],
)
def test_what_is_a_second_source(path: str, text: str, conflicts: bool) -> None:
    node = Node()
    node.software["sources"][path] = text.format(url=node.want["repositories"][1]["url"])

    assert codes(node) == (["SOURCE_CONFLICT"] if conflicts else [])


def test_password_in_a_mirrors_url_is_not_compared() -> None:
    url = "https://me:S3C-1@mirror.example/cuda"
    node = Node(resolution(repositories={"cuda": {"url": url, "key_sha256": "0" * 64}}))
    node.software["sources"]["/etc/apt/sources.list.d/burnin-cuda.sources"] = "URIs: https://***@mirror.example/cuda/\n"

    assert codes(node) == []
    node.software["sources"].clear()
    assert "S3C-1" not in " ".join(one.sentence for one in found(node))


@pytest.mark.parametrize(
    "host", [{}, {"schema": "burnin.host/2"}, {"schema": "burnin.host/1"}, {"schema": "burnin.host/1", "software": None}]
)
def test_nothing_read_is_no_pass(host: dict[str, Any]) -> None:
    findings = judge(resolution(), host)

    assert "DRIFT_UNREAD" in [one.code for one in findings]
    assert verdict(findings) is Outcome.INCONCLUSIVE
    assert not check_plain(resolution(), host, None, date(2026, 12, 1))["ok"]


def test_a_document_of_another_schema_is_not_believed() -> None:
    node = Node()
    node["libnvidia-ml1"]["held"] = False
    node.host["schema"] = "burnin.host/2"

    assert codes(node) == ["DRIFT_UNREAD"]


def test_the_reason_for_what_was_not_read_is_told() -> None:
    node = Node()
    _soft(packages=None)(node)
    node.host["errors"] = [{"path": "/var/lib/dpkg/status", "why": "Input/output error"}]

    assert "/var/lib/dpkg/status: Input/output error" in found(node)[0].found


@pytest.mark.parametrize("wrong", [7, "x", [1, None], {"a": 1}, None], ids=repr)
def test_a_document_of_wrong_shapes_breaks_nothing(wrong: object) -> None:
    for key in Node().software:
        node = Node()
        node.software[key] = wrong
        found(node)
    for key in Node().host:
        if key != "schema":
            node = Node()
            node.host[key] = wrong
            found(node)


def test_the_worst_and_what_runs_comes_first() -> None:
    node = Node()
    _unpinned(node)
    node["libnvidia-ml1"]["held"] = False
    _module("580.95.05")(node)
    node.add("unattended-upgrades", "2.9")
    node.software["unattended_origins"] = ["origin=*"]

    assert codes(node) == ["DRIVER_REBOOT_NEEDED", "HOLD_MISSING", "PIN_MISSING", "UNATTENDED_ORIGIN"]


def test_a_refusal_says_what_to_do_and_how_to_go_on() -> None:
    node = Node()
    _unpinned(node)
    node["libnvidia-ml1"]["held"] = False

    told = refusal(judge(node.want, node.host))

    assert "[1] HOLD_MISSING (driver): libnvidia-ml1 not held; expected each held." in told
    assert "burnin provision" in told
    assert told.endswith("-e burnin_drift_accept=HOLD_MISSING,PIN_MISSING")


def test_review_alone_refuses_nobody() -> None:
    node = Node()
    node.add("unattended-upgrades", "2.9")
    node.software["unattended_origins"] = ["origin=*"]

    made = check_plain(node.want, node.host, None, date(2026, 12, 1))

    assert (made["ok"], made["text"], [one["outcome"] for one in made["findings"]]) == (True, "", ["REVIEW"])


def test_what_is_accepted_stops_nothing_and_is_still_told() -> None:
    node = Node()
    _unpinned(node)
    given = [{"code": "PIN_MISSING", "why": "mirror moves on Friday", "who": "kim", "until": "2026-12-04"}]

    before = check_plain(node.want, node.host, given, date(2026, 12, 4))
    after = check_plain(node.want, node.host, given, date(2026, 12, 5))

    assert before["ok"]
    assert before["findings"][0]["accepted"] == "mirror moves on Friday, by kim, until 2026-12-04"
    assert not after["ok"], "its day has passed"
    node["libnvidia-ml1"]["held"] = False
    assert not check_plain(node.want, node.host, given, date(2026, 12, 4))["ok"], "another code is not accepted"


def test_an_acceptance_without_a_day_has_no_end() -> None:
    node = Node()
    node["libnvidia-ml1"]["held"] = False

    assert check_plain(node.want, node.host, "HOLD_MISSING", date(2026, 12, 4))["ok"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, ()),
        ("", ()),
        ("HOLD_MISSING, PIN_MISSING", (Accepted("HOLD_MISSING"), Accepted("PIN_MISSING"))),
        (["HOLD_MISSING"], (Accepted("HOLD_MISSING"),)),
        ([{"code": "HOLD_MISSING", "until": date(2026, 12, 4)}], (Accepted("HOLD_MISSING", until=date(2026, 12, 4)),)),
    ],
)
def test_ways_to_accept(given: object, expected: tuple[Accepted, ...]) -> None:
    assert accepted_of(given) == expected


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("HOLD_MISING", "did you mean HOLD_MISSING"),
        ("all", "no code of a drift"),
        (7, "found int"),
        ([{"code": "HOLD_MISSING", "until": "Friday"}], "expected a day"),
        ([{"code": "HOLD_MISSING", "untill": "2026-12-04"}], "'untill' is none of"),
        ([7], "no code"),
    ],
    ids=str,
)
def test_ways_to_accept_that_are_wrong(given: object, words: str) -> None:
    with pytest.raises(StackError, match="burnin_drift_accept") as wrong:
        accepted_of(given)

    assert words in str(wrong.value)
