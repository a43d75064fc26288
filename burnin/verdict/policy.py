"""The policy: every limit as data with unit, why and source; and what is known of each SKU."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from typing import Any

import yaml

from burnin.errors import PolicyError

SCHEMA = "burnin.policy/1"
FIELDS = ("value", "unit", "why", "source")
SKU_FACTS = ("gpus", "max_operating_c", "power_limit_w")
LARGEST = 1e6


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits in force, and where each came from. `limit` raises KeyError for a name that is no limit (a fault of ours)."""

    name: str
    limits: Mapping[str, Mapping[str, Any]]
    skus: Mapping[str, Mapping[str, Any]]

    def limit(self, name: str) -> float:
        return float(self.limits[name]["value"])

    def count(self, name: str) -> int:
        return int(self.limits[name]["value"])

    def slower_than(self, name: str) -> float:
        """The ratio of rates under which a part is more than that many percent slower: exactly so many is not more (rule 2)."""
        return (1 - self.limit(name) / 100) * (1 - self.limit("perf_boundary_tolerance"))

    def exceeds(self, value: float, name: str) -> bool:
        """More than the limit. Exactly the limit is not more, also where floats make it a hair more."""
        limit = self.limit(name)
        return value > limit + self.limit("perf_boundary_tolerance") * max(1.0, abs(limit))

    def falls_short(self, value: float, name: str) -> bool:
        """Less than the limit. Exactly the limit is not less."""
        limit = self.limit(name)
        return value < limit - self.limit("perf_boundary_tolerance") * max(1.0, abs(limit))

    @property
    def digest(self) -> str:
        """Changes with any limit or SKU."""
        return hashlib.sha256(json.dumps([self.limits, self.skus], sort_keys=True, default=str).encode()).hexdigest()

    def expected_gpus(self, sku: str | None) -> int | None:
        entry = self.skus.get(sku or "", {}).get("gpus")
        return int(entry["value"]) if entry else None

    def max_operating_c(self, sku: str | None) -> float | None:
        entry = self.skus.get(sku or "", {}).get("max_operating_c")
        return float(entry["value"]) if entry else None

    def floor(self, sku: str | None, test: str) -> float | None:
        entry = self.skus.get(sku or "", {}).get("floors", {}).get(test)
        return float(entry["value"]) if entry else None

    def know_sku(self, sku: str | None) -> None:
        """Raise PolicyError for a SKU that is none of ours."""
        if sku is not None and sku not in self.skus:
            near = get_close_matches(sku, sorted(self.skus), 1)
            raise PolicyError(
                f"SKU {sku!r} is unknown" + (f"; did you mean {near[0]!r}?" if near else "") + f" Known: {', '.join(sorted(self.skus))}"
            )


def _load(text: str, where: str) -> dict[str, Any]:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        raise PolicyError(f"{where}: not YAML ({str(problem).splitlines()[0]}); expected a mapping with schema {SCHEMA}") from None
    if not isinstance(document, dict):
        raise PolicyError(f"{where}: holds {type(document).__name__}; expected a mapping with schema {SCHEMA}")
    return document


def _shipped(name: str) -> dict[str, Any]:
    return _load(files("burnin.data").joinpath(name).read_text(encoding="utf-8"), name)


def default_policy() -> Policy:
    """The policy that ships with burnin."""
    return Policy("default", _shipped("policy.yaml")["limits"], _shipped("skus.yaml")["skus"])


def _changed(name: str, entry: Any, limits: Mapping[str, Any], where: str) -> dict[str, Any]:
    if name not in limits:
        near = get_close_matches(str(name), sorted(limits), 1)
        raise PolicyError(f"{where}: limits.{name} is no limit of ours" + (f"; did you mean {near[0]}?" if near else ""))
    if not isinstance(entry, Mapping) or any(not entry.get(field) and entry.get(field) != 0 for field in FIELDS):
        raise PolicyError(f"{where}: limits.{name} must give each of {', '.join(FIELDS)}; a limit without its reason is not taken")
    value, shipped = entry["value"], limits[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LARGEST:
        raise PolicyError(f"{where}: limits.{name}.value is {str(value)[:40]!r}; expected a number, zero or more")
    if str(entry["unit"]) != str(shipped["unit"]):
        raise PolicyError(
            f"{where}: limits.{name}.unit is {str(entry['unit'])[:40]!r}; expected {shipped['unit']!r}, in which the limit is meant"
        )
    if isinstance(shipped["value"], int) and value != int(value):
        raise PolicyError(f"{where}: limits.{name}.value is {value!r}; expected a whole number of {shipped['unit']}")
    if str(shipped["unit"]).startswith("%") and value >= 100:
        raise PolicyError(f"{where}: limits.{name}.value is {value!r}; expected percent, less than 100")
    return dict(entry)


def _known(name: str, entry: Any, where: str) -> dict[str, Any]:
    """A SKU of a site's file, checked: each of its numbers with unit, why and source."""
    if not isinstance(entry, Mapping):
        raise PolicyError(f"{where}: skus.{name} holds {type(entry).__name__}; expected gpus, max_operating_c, power_limit_w, floors")
    floors = entry.get("floors") or {}
    if not isinstance(floors, Mapping):
        raise PolicyError(f"{where}: skus.{name}.floors holds {type(floors).__name__}; expected test: {{value, unit, why, source}}")
    named = {key: fact for key, fact in entry.items() if key != "floors"} | {f"floors.{test}": fact for test, fact in floors.items()}
    for key, fact in named.items():
        if not key.startswith("floors.") and key not in SKU_FACTS:
            raise PolicyError(f"{where}: skus.{name}.{key} is unknown; expected {', '.join(SKU_FACTS)}, floors")
        value = fact.get("value") if isinstance(fact, Mapping) else None
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 0 < value < LARGEST
            or any(not fact.get(one) for one in FIELDS)
        ):
            raise PolicyError(f"{where}: skus.{name}.{key} must give a number as value, and unit, why, source")
    return {**entry, "floors": dict(floors)}


def _section(document: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    found = document.get(name) or {}
    if not isinstance(found, Mapping):
        raise PolicyError(f"{where}: {name} holds {type(found).__name__}; expected a mapping of names")
    return found


def read_policy(text: str | None, where: str = "policy") -> Policy:
    """The shipped policy with a site's changes on top. Raises PolicyError naming file, field and remedy."""
    return default_policy() if text is None else policy_of(_load(text, where), where)


def policy_of(document: Mapping[str, Any], where: str) -> Policy:
    """As read_policy, of a decoded document."""
    base = default_policy()
    if document.get("schema") != SCHEMA:
        raise PolicyError(f"{where}: schema is {document.get('schema')!r}; expected {SCHEMA!r}")
    for key in document:
        if key not in ("schema", "name", "limits", "skus"):
            raise PolicyError(f"{where}: {key!r} is unknown; expected schema, name, limits, skus")
    limits = dict(base.limits)
    for name, entry in _section(document, "limits", where).items():
        limits[str(name)] = _changed(str(name), entry, base.limits, where)
    skus = dict(base.skus)
    for name, entry in _section(document, "skus", where).items():
        skus[str(name)] = _known(str(name), entry, where)
    return Policy(str(document.get("name", "site")), limits, skus)
