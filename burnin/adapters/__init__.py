"""The few modules that touch the world: Ansible, processes, clock, files."""
