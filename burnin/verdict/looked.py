"""What the preflight of a node found, as the controller kept it beside the identity: its findings are the node's, under their own codes."""

from __future__ import annotations

from collections.abc import Iterator

from burnin.outcome import Outcome
from burnin.preflight.codes import CODES, SHARED
from burnin.stack.drift.codes import CODES as DRIFT_CODES
from burnin.verdict.case import Case, Found, Where
from burnin.verdict.model import Finding
from burnin.verdict.reading import Problems, document, mapping, text

# PASS is not said here, and no preflight condemns a part.
SAID = (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.REVIEW)
MOST, LONGEST = 60, 600


def findings(content: str | None) -> tuple[Finding, ...]:
    """The findings in a preflight.json; none where there is none, or where it was written before there were any."""
    if content is None:
        return ()
    listed = mapping(document(content, "preflight.json", Problems()).get("preflight")).get("findings")
    found = []
    for entry in listed[:MOST] if isinstance(listed, list) else []:
        told = mapping(entry)
        code, outcome = text(told.get("code")), next((one for one in SAID if told.get("outcome") == one.value), None)
        if outcome is not None and (code in CODES or code in SHARED or code in DRIFT_CODES):
            why, action = text(told.get("why"), LONGEST), text(told.get("action"), LONGEST)
            found.append(Finding(code=code, outcome=outcome, why=why or "No reason is given.", action=action))
    return tuple(found)


def judge(case: Case) -> Iterator[Found]:
    """One finding a code, as it was judged then: what was let through is a REVIEW with its reason."""
    for node in case.evidence.nodes:
        yield from ((Where("node", node.node), what) for what in node.preflight)
