"""Test nodes: Debian 12 in containers with systemd as PID 1 and a real sshd. `python tests/lab --help`."""
