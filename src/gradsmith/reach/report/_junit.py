"""The report as JUnit XML, for the test view of a CI server.

A suite of the package, a case of each function: a failure holds its open findings, an error what ended the check before
its time, and what could not be exercised is skipped.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

from gradsmith.check.report._plain import clean, count
from gradsmith.reach._found import Found
from gradsmith.reach._verdict import Verdict
from gradsmith.reach.report._function_text import verdict_text
from gradsmith.reach.report._places import Places
from gradsmith.reach.report._summary import BROKEN, PackageReport, standing, title

__all__ = ["junit_xml"]


def junit_xml(report: PackageReport) -> str:
    """A whole XML document."""
    places = Places(report.package)
    skipped = report.counts["not exercised"] + len(report.pending)
    numbers = {
        "tests": str(len(report.verdicts) + len(report.pending)),
        "failures": str(report.counts["wrong"]),
        "errors": str(sum(report.counts[kind] for kind in BROKEN)),
        "skipped": str(skipped),
        "time": f"{report.seconds:.3f}",
    }
    root = ET.Element("testsuites", {"name": "gradsmith", **numbers})
    suite = ET.SubElement(root, "testsuite", {"name": title(report.package), **numbers})
    for verdict in report.verdicts:
        _told(_case(suite, verdict.found, places, verdict.seconds), verdict, places)
    for found in report.pending:
        ET.SubElement(_case(suite, found, places, 0.0), "skipped", message="the run was interrupted before it")
    if report.remarks:
        ET.SubElement(suite, "system-out").text = clean(places.short("\n".join(report.remarks)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(suite: ET.Element, found: Found, places: Places, seconds: float) -> ET.Element:
    about = {"classname": clean(found.module), "name": clean(found.name), "time": f"{seconds:.3f}"}
    if found.file:
        about["file"] = clean(places.file(found.file))
        about["line"] = str(max(found.line, 1))
    return ET.SubElement(suite, "testcase", about)


def _told(case: ET.Element, verdict: Verdict, places: Places) -> None:
    told = {"verdict": standing(verdict), "inputs": verdict.source, "call": verdict.call, "intent": verdict.intent}
    properties = ET.SubElement(case, "properties")
    for name, text in told.items():
        if text:
            ET.SubElement(properties, "property", name=f"gradsmith.{name}", value=clean(text))
    if verdict.kind == "not exercised":
        ET.SubElement(case, "skipped", message=clean(places.short(verdict.why)) or "no reason is known")
    elif verdict.kind in BROKEN:
        message = clean(places.short(verdict.why)) or verdict.kind
        ET.SubElement(case, "error", type=verdict.kind, message=message).text = verdict_text(verdict, places)
    elif verdict.open:
        codes = " ".join(dict.fromkeys(clean(f["rule"]) for f in verdict.open))
        message = f"{count(len(verdict.open), 'finding')} ({codes}): {clean(places.short(verdict.open[0]['message']))}"
        ET.SubElement(case, "failure", type=codes, message=message).text = verdict_text(verdict, places)
    known = [f for f in verdict.findings if f.get("suppressed")]
    if known:
        ET.SubElement(case, "system-out").text = "\n".join(
            f"left out, {clean(f['suppressed'])}: {clean(f['rule'])} {clean(f['message'])}" for f in known
        )
