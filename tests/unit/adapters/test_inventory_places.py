"""Where in an inventory's files a variable is set, for a message that names the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from burnin.adapters.inventory import places_of

NAME = "nvme_raid0_erase"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for name, text in {
        "hosts.yml": "gpu_nodes:\n  hosts:\n    n1:\n      nvme_raid0_erase: {n1: [S1]}\n",
        "hosts.ini": "[gpu_nodes]\nn1 nvme_raid0_erase=x\n",
        "group_vars/all/disks.yml": "---\n# nvme_raid0_erase: a remark\nnvme_raid0_erases: 1\n'nvme_raid0_erase': {}\n",
        "host_vars/n1.yml": "x: nvme_raid0_erase\nnvme_raid0_erase:\n  n1: [S1]\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "host_vars" / "n2.yml").write_bytes(b"\xff\xfe\x00")
    return tmp_path


def told(site: Path, *inventory: Path | str) -> list[str]:
    return [place.removeprefix(f"{site}/") for place in places_of(inventory, NAME)]


def test_a_folder_is_looked_through(site: Path) -> None:
    assert told(site, site) == ["group_vars/all/disks.yml:4", "host_vars/n1.yml:2", "hosts.ini:2", "hosts.yml:4"]


def test_a_file_is_looked_at_with_the_variables_beside_it(site: Path) -> None:
    assert told(site, site / "hosts.yml") == ["group_vars/all/disks.yml:4", "host_vars/n1.yml:2", "hosts.yml:4"]


def test_a_list_of_hosts_has_no_files(site: Path) -> None:
    assert told(site, "n1,n2") == []


def test_a_file_that_no_inventory_has_is_not_read_to_its_end(site: Path) -> None:
    with (site / "dump.sql").open("w") as file:
        file.write(f"{NAME}: x\n")
        file.truncate(5 * 2**20)

    assert "dump.sql:1" not in told(site, site)
