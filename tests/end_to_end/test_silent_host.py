"""A host that swallows packets, or whose sshd says nothing, costs a stage seconds. Real ssh, loopback."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from burnin.adapters.ansible import HostState, PlayRequest, PlayResult, play

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
# Three tries of 4 s and a pause of 1 s, where it was 45 s.
TRIES_S, MOST_S = 12.0, 16.0


@pytest.fixture
def listening() -> Iterator[tuple[socket.socket, ExitStack]]:
    """A port of this machine that listens; what is opened on the stack is closed in the end."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        yield server, stack


def ask(tmp_path: Path, port: int, *names: str) -> tuple[PlayResult, float]:
    """One task on a host behind this port, or on one that is well, with the settings of the project; the result and its seconds."""
    hosts = {
        "silent": {"ansible_host": "127.0.0.1", "ansible_port": port, "ansible_python_interpreter": "/usr/bin/python3"},
        "well": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable},
    }
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps({"gpu_nodes": {"hosts": hosts}}))
    playbook = tmp_path / "ask.yml"
    playbook.write_text("- hosts: gpu_nodes\n  gather_facts: false\n  tasks: [{command: 'true'}]\n")
    begun = time.monotonic()
    result = play(PlayRequest(ROOT, str(playbook), (inventory,), names))
    return result, time.monotonic() - begun


@pytest.mark.parametrize("how", ["no answer at all", "no word from sshd"])
def test_a_silent_host_costs_a_stage_no_more_than_seconds(tmp_path: Path, listening: tuple[socket.socket, ExitStack], how: str) -> None:
    server, stack = listening
    if how == "no answer at all":
        for _ in range(4):  # its queue is full: the system drops what else comes
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
    else:
        server.listen(100)

    port = server.getsockname()[1]

    _, ordinary_s = ask(tmp_path, port, "well")
    result, seconds = ask(tmp_path, port, "silent", "well")

    assert {name: host.state for name, host in result.hosts.items()} == {"silent": HostState.UNREACHABLE, "well": HostState.OK}
    assert "timed out" in result.hosts["silent"].message
    assert TRIES_S - 2 < seconds - ordinary_s < MOST_S
