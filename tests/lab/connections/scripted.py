"""Connection: commands run on this machine, and fail to connect while the file `gone` lies in the host's variable scripted_root.

The fake host of field report B04: a boot id file that a script changes, and a time in which nothing answers.
"""

from __future__ import annotations

from pathlib import Path

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection.local import Connection as LocalConnection

DOCUMENTATION = """
name: scripted
short_description: A host that goes away and comes back by a script
description:
  - As local, but it is not the controller, and it is gone while a file says so.
options:
  pipelining:
    default: false
    type: boolean
  scripted_root:
    description: Where the host's system folders are.
    vars:
      - name: scripted_root
"""


class Connection(LocalConnection):
    """Ansible's entry."""

    transport = "scripted"

    def exec_command(self, cmd, in_data=None, sudoable=True):
        """As local, while it is there."""
        if (Path(self.get_option("scripted_root")) / "gone").exists():
            raise AnsibleConnectionFailure("Failed to connect to the host via ssh: connect to host n1 port 22: No route to host")
        return super().exec_command(cmd, in_data, sudoable)

    def reset(self) -> None:
        """There is nothing kept open."""
