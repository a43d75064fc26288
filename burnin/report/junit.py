"""junit.xml: for CI systems. A suite per node, one for the fleet with its racks, disks and links; a test case per part.

RMA and FAIL are failures; RETEST and INCONCLUSIVE are errors, for nothing was shown; REVIEW passes and says so in system-out.
Of a simulated rack the whole is named so, and each suite has the property `simulated`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from burnin.outcome import Outcome
from burnin.report.document import Document, Part, read
from burnin.report.text import xml_text

FILE_NAME = "junit.xml"
NAME_CHARACTERS = 200

_TAG = {Outcome.RMA: "failure", Outcome.FAIL: "failure", Outcome.RETEST: "error", Outcome.INCONCLUSIVE: "error"}


def render(document: Mapping[str, Any]) -> str:
    """The file's text. RunFolderError: the document is of another schema."""
    judged = read(document)
    title = f"burnin {judged.run_id or ''}".strip() + (" (simulated)" if judged.simulated else "")
    root = Element("testsuites", name=_name(title))
    totals = [_suite(root, name, parts, simulated=judged.simulated) for name, parts in _suites(judged)]
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(total[key] for total in totals)))
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _suites(document: Document) -> list[tuple[str, list[Part]]]:
    by_node: dict[str | None, list[Part]] = {}
    for part in (*document.nodes, *document.gpus):
        by_node.setdefault(part.node, []).append(part)
    wide = [document.fleet, *document.racks, *document.disks, *document.links]
    nodes = sorted(by_node.items(), key=lambda item: (item[0] is None, item[0] or ""))
    return [("fleet", wide), *((name if name is not None else "node not known", parts) for name, parts in nodes)]


def _suite(root: Element, name: str, parts: list[Part], *, simulated: bool) -> dict[str, int]:
    suite = SubElement(root, "testsuite", name=_name(name))
    if simulated:
        SubElement(SubElement(suite, "properties"), "property", name="simulated", value="yes")
    totals = {
        "tests": len(parts),
        "failures": sum(1 for part in parts if _TAG.get(part.verdict) == "failure"),
        "errors": sum(1 for part in parts if _TAG.get(part.verdict) == "error"),
    }
    for key, count in totals.items():
        suite.set(key, str(count))
    for part in parts:
        _case(suite, name, part)
    return totals


def _case(suite: Element, suite_name: str, part: Part) -> None:
    case = SubElement(suite, "testcase", classname=_name(f"burnin.{suite_name}"), name=_name(_title(part)))
    said = "\n".join(f"{f.outcome.value} {f.code}: {f.why} {f.action}".rstrip() for f in part.bad_findings)
    tag = _TAG.get(part.verdict)
    if tag is not None:
        worst = part.bad_findings[0].code if part.bad_findings else "no finding"
        inner = SubElement(case, tag, type=_name(worst), message=xml_text(f"{part.verdict.value}: {_why(part)}"))
        inner.text = xml_text(said)
    elif said:
        SubElement(case, "system-out").text = xml_text(said)


def _title(part: Part) -> str:
    if part.kind == "gpu":
        slot = "?" if part.slot is None else part.slot
        uuid = part.gpu or ("did not show up" if part.is_missing else "")
        return f"GPU slot {slot} serial {part.serial or 'not known'} {uuid}".rstrip()
    return " ".join(word for word in (part.kind, {"node": part.node, "rack": part.rack}.get(part.kind) or part.name, part.serial) if word)


def _why(part: Part) -> str:
    """The sentence of the worst finding; INCONCLUSIVE is named as what it is."""
    worst = part.bad_findings[0] if part.bad_findings else None
    sentence = worst.why if worst and worst.why else worst.code if worst else "no finding says why"
    return f"nothing was shown: {sentence}" if part.verdict is Outcome.INCONCLUSIVE else sentence


def _name(text: str) -> str:
    return xml_text(" ".join(text[:NAME_CHARACTERS].split()))
