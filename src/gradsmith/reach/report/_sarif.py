"""The report as SARIF 2.1.0, so that a code-scanning view shows each finding on its line."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gradsmith.check._finding import Rule
from gradsmith.check.report._plain import clean, plain
from gradsmith.check.rules import RULES
from gradsmith.reach._found import Found
from gradsmith.reach._verdict import Verdict
from gradsmith.reach.report._json import tool_version
from gradsmith.reach.report._places import Places
from gradsmith.reach.report._summary import PackageReport

__all__ = ["sarif_text"]

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"
_FINGERPRINT = "functionAndRule/v1"


def sarif_text(report: PackageReport) -> str:
    """A log with one run: a result for each finding, with its rule; suppressed ones and notes are marked as such."""
    places = Places(report.package)
    run = {
        "tool": {
            "driver": {
                "name": "gradsmith",
                "semanticVersion": tool_version(),
                "rules": [_rule(rule) for rule in RULES],
            }
        },
        "automationDetails": {"id": f"gradsmith/{clean(report.package.name or report.package.target)}/"},
        "invocations": [
            {
                "executionSuccessful": not report.interrupted,
                "toolExecutionNotifications": list(_notifications(report, places)),
            }
        ],
        "originalUriBaseIds": {_ROOT: {"uri": f"{places.base.as_uri()}/"}},
        "columnKind": "unicodeCodePoints",
        "results": [result for verdict in report.verdicts for result in _results(verdict, places)],
    }
    return json.dumps(plain({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}), indent=2)


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule.mend},
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": [rule.family]},
    }


_PLACE = {rule.code: place for place, rule in enumerate(RULES)}


def _results(verdict: Verdict, places: Places) -> Iterator[dict[str, Any]]:
    met: Counter[str] = Counter()
    for level, listed in (("error", verdict.findings), ("note", verdict.notes)):
        for data in listed:
            code = str(data["rule"])
            met[code] += 1
            result: dict[str, Any] = {
                "ruleId": code,
                "level": level,
                "message": {"text": _message(verdict, data, places)},
                "locations": [_location(verdict.found, str(data.get("where", "")), places)],
                "partialFingerprints": {_FINGERPRINT: _fingerprint(verdict.found.id, code, met[code])},
                "properties": {
                    "inputs": verdict.source,
                    "guessed": verdict.guessed,
                    "call": verdict.call,
                    "intent": verdict.intent,
                },
            }
            if code in _PLACE:
                result["ruleIndex"] = _PLACE[code]
            if why := str(data.get("suppressed") or ""):
                result["suppressions"] = [_suppression(why)]
            yield result


def _message(verdict: Verdict, data: dict[str, Any], places: Places) -> str:
    lines = [f"{verdict.found.name}: {data['message']}", data.get("diagnosis", "")]
    if verdict.call:
        how = "Seen under guessed inputs" if verdict.guessed else "Seen with"
        lines.append(f"{how}: {verdict.call}")
    lines.append(data.get("hint", ""))
    return clean(places.short("\n".join(filter(None, lines))))


def _fingerprint(function: str, code: str, nth: int) -> str:
    """The same as long as the function has its name, whatever line it moves to."""
    return hashlib.sha256(f"{function}\n{code}\n{nth}".encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _suppression(why: str) -> dict[str, str]:
    kind, _, reason = why.partition(": ")
    if kind == "inline":
        return {"kind": "inSource", "justification": clean(reason)} if reason else {"kind": "inSource"}
    return {"kind": "external", "justification": "It stands in the baseline."}


def _location(found: Found, where: str, places: Places) -> dict[str, Any]:
    """Where the finding is, or else the function; also by its name, which stays when lines move."""
    file, line = places.split(where) if where else (places.file(found.file), found.line)
    kind = "type" if found.kind in ("Function", "Module") else "function"
    location: dict[str, Any] = {
        "logicalLocations": [{"name": clean(found.name), "fullyQualifiedName": clean(found.id), "kind": kind}]
    }
    if file:
        location["physicalLocation"] = {"artifactLocation": _artifact(file), "region": {"startLine": max(line, 1)}}
    return location


def _artifact(file: str) -> dict[str, str]:
    if Path(file).is_absolute():
        return {"uri": Path(file).as_uri()}
    return {"uri": quote(file.encode("utf-8", "surrogatepass")), "uriBaseId": _ROOT}


def _notifications(report: PackageReport, places: Places) -> Iterator[dict[str, Any]]:
    """What could not be checked, and why."""
    for verdict in report.verdicts:
        if verdict.kind not in ("right", "wrong"):
            words = f"{verdict.found.id}: {verdict.kind}" + (f": {verdict.why}" if verdict.why else "")
            level = "note" if verdict.kind == "not exercised" else "error"
            yield _notification(words, level, places, [_location(verdict.found, "", places)])
    for unread in report.package.unread:
        yield _notification(f"{unread.module} did not import: {unread.why}", "warning", places, [])
    for found in report.pending:
        yield _notification(f"{found.id}: the run was interrupted before it", "warning", places, [])
    for remark in report.remarks:
        yield _notification(remark, "note", places, [])


def _notification(words: str, level: str, places: Places, locations: list[dict[str, Any]]) -> dict[str, Any]:
    told: dict[str, Any] = {"level": level, "message": {"text": clean(places.short(words))}}
    return {**told, "locations": locations} if locations else told
