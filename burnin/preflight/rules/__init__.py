"""The rules, in the order of their findings. A rule is a module with CODES and judge(case); to add one: write the file, add it here."""

from __future__ import annotations

from burnin.preflight.rules import adapters, driver, links, machine, parts, place, ports, services

RULES = (parts, links, adapters, ports, machine, place, driver, services)
