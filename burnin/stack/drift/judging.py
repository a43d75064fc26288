"""One node against its stack: all rules, what was not seen, and what the site accepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from typing import Any

from burnin.outcome import Outcome, overall
from burnin.stack.drift.accepting import Accepted, accepted_of
from burnin.stack.drift.case import Case, case_of, mapping
from burnin.stack.drift.codes import CODES
from burnin.stack.drift.finding import Finding, listed
from burnin.stack.drift.rules import RULES

SCHEMA = "burnin.host/1"
ACCEPT = "burnin_drift_accept"
# What a document must hold to be judged whole; what is not of its kind was not read.
READ = {"packages": list, "sources": dict, "dkms": list, "cuda_toolkits": list}
READ_BY_APT = {"pins": dict, "blacklist": list, "audit": list}


def judge(
    want: Mapping[str, Any], host: Mapping[str, Any], accepted: Iterable[Accepted] = (), today: date | None = None
) -> tuple[Finding, ...]:
    """What differs, worst first. `want`: Resolution.as_dict of that node; `host`: its document. Nothing read is DRIFT_UNREAD, no pass."""
    case = case_of(want, host)
    whole = host.get("schema") == SCHEMA and bool(case.software)
    found = [*_unread(case), *(finding for rule in RULES if whole for finding in rule(case))]
    return ordered(_accept(finding, tuple(accepted), today) for finding in found)


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Worst first, then in the order of the table of codes, then by group."""
    order = list(CODES)
    return tuple(sorted(findings, key=lambda one: (-one.outcome.badness, order.index(one.code), one.group, one.found)))


def verdict(findings: Iterable[Finding]) -> Outcome:
    """The node's: the worst that nobody accepted; a node without any is PASS, for its rules had something to look at."""
    left = [finding.outcome for finding in findings if finding.accepted is None]
    return overall(left) if left else Outcome.PASS


def refusal(findings: Iterable[Finding]) -> str:
    """What stops a burn-in, as a message: each finding, its remedy, and the exact words to go on regardless. "" when nothing does."""
    stopping = [finding for finding in findings if finding.counts]
    if not stopping:
        return ""
    codes = ",".join(dict.fromkeys(finding.code for finding in stopping))
    told = " ".join(f"[{number}] {finding.sentence}" for number, finding in enumerate(stopping, start=1))
    return f"The node is not as its stack file says: {told} docs/runbooks/CODE.md says more; to go on regardless, -e {ACCEPT}={codes}"


def check_plain(want: Mapping[str, Any], host: Mapping[str, Any], accept: object, today: date) -> dict[str, Any]:
    """For roles: {"ok", "findings", "text"}. Raises StackError for an `accept` that cannot be read."""
    findings = judge(want, host, accepted_of(accept), today)
    text = refusal(findings)
    return {"ok": not text, "findings": [finding.as_dict() for finding in findings], "text": text}


def _unread(case: Case) -> Iterator[Finding]:
    if case.host.get("schema") != SCHEMA:
        yield Finding("DRIFT_UNREAD", "node", f"a document of schema {case.host.get('schema')!r}", SCHEMA)
        return
    if not case.software:
        yield Finding("DRIFT_UNREAD", "node", f"no software in a document of level {case.host.get('level')!r}", "level ready")
        return
    gone = [name for name, kind in READ.items() if not isinstance(case.software.get(name), kind)]
    gone += [name for name, kind in READ_BY_APT.items() if case.apt and not isinstance(case.software.get(name), kind)]
    gone += ["services"] if case.want["services"] and not isinstance(case.software.get("services"), dict) else []
    gone += ["the running kernel"] if case.running is None else []
    gone += ["the installed kernels"] if case.kernels("installed") is None else []
    if case.software.get("manager") not in (case.want["manager"], None):
        gone.append(f"packages of {case.want['manager']} (the node has {case.software['manager']})")
    if gone:
        errors = case.host.get("errors")
        rows = [mapping(row) for row in errors] if isinstance(errors, list) else []
        told = [f"{row.get('path')}: {row.get('why')}" for row in rows]
        why = f" ({listed(told, 3)})" if told else ""
        yield Finding("DRIFT_UNREAD", "node", f"not read: {listed(gone)}{why}", "all of it", tuple(gone))


def _accept(finding: Finding, accepted: tuple[Accepted, ...], today: date | None) -> Finding:
    for one in accepted:
        if one.code == finding.code and (one.until is None or today is None or today <= one.until):
            return replace(finding, accepted=one.told)
    return finding
