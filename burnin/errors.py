"""What can go wrong, as one tree.

BurninError                 12  we broke, unless a branch says otherwise
├── UsageError               2  bad input: names the thing, what was found, what was expected, what to do
│   ├── InventoryError          the inventory, or a variable in it
│   ├── PlanError               the plan of a burn-in
│   ├── PolicyError             the policy file
│   ├── TableError              a --table file or its --columns
│   ├── StackError              the stack file, or a distro or SKU it cannot be resolved for
│   └── RunFolderError          a run that is not there or is no run
├── Unfinished              11  stopped by a person, or out of time
└── BrokenError             12  a fault of our own: a handler that raised, Ansible that would not start

A bad GPU is a verdict, never an exception; an exception never becomes a pass or a fail.
"""

from __future__ import annotations


class BurninError(Exception):
    """Anything burnin raises on purpose. `exit_code` is the process's exit code (the contract in README)."""

    exit_code = 12


class UsageError(BurninError):
    """Bad input; nothing was touched."""

    exit_code = 2


class InventoryError(UsageError):
    """An inventory that cannot be used."""


class PlanError(UsageError):
    """A plan that cannot be run."""


class PolicyError(UsageError):
    """A policy file that cannot be used."""


class TableError(UsageError):
    """A table of measurements that cannot be read."""


class StackError(UsageError):
    """A stack that cannot be used, or cannot be resolved for what was asked."""


class RunFolderError(UsageError):
    """A run folder that is not there, or is no run."""


class Unfinished(BurninError):
    """A person stopped it, or its time was up."""

    exit_code = 11


class BrokenError(BurninError):
    """A fault of our own."""
