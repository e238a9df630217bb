"""The report as JSON.

Schema 1 is one object:

* `schema`: 1. It grows by new keys; what is there keeps its name and meaning.
* `tool`: `name` and `version`.
* `package`: `target` as it was typed, `name`, `version`, and `root`, the folder that files are relative to.
* `ok`: whether nothing is wrong; `summary`: the same in a sentence; `interrupted`; `seconds`.
* `counts`: functions by verdict: "wrong", "known" (every finding is suppressed), "right", "crashed", "timed out",
  "out of memory", "not exercised".
* `exercised`: `functions`, `of` (those with a gradient of their own), `share`, and `sources`: how many had their inputs
  from where.
* `findings`: `open`, `suppressed`, and `families`: open ones by the beginning of their code.
* `functions`: one object for each: `id`, `name`, `module`, `file`, `line`, `kind` (of the function), `verdict` (as in
  `counts`, but "wrong" where every finding is suppressed), and what a verdict holds: `why`, `source`, `source_where`,
  `guessed`, `call`, `pin`, `tries`, `intent`, `intent_why`, `declaration`, `findings` (each with `suppressed`: "",
  "baseline" or "inline: reason"), `notes`, `matrix` (`transform`, `status`, `detail`) and `seconds`.
* `exempt`: ids of what has no gradient of its own; `pending`: ids that were not reached; `unread`: modules that did not
  import: `module`, `file`, `why`; `remarks`: sentences.
"""

from __future__ import annotations

import importlib.metadata
import json
from typing import Any

from gradsmith.check.report._plain import plain
from gradsmith.reach._verdict import Verdict
from gradsmith.reach.report._places import Places
from gradsmith.reach.report._summary import PackageReport

__all__ = ["SCHEMA", "json_text", "tool_version"]

SCHEMA = 1


def json_text(report: PackageReport) -> str:
    """One JSON object, without a line end behind it."""
    return json.dumps(plain(_data(report)), indent=2)


def tool_version() -> str:
    return importlib.metadata.version("gradsmith")


def _data(report: PackageReport) -> dict[str, Any]:
    package, places = report.package, Places(report.package)
    return {
        "schema": SCHEMA,
        "tool": {"name": "gradsmith", "version": tool_version()},
        "package": {
            "target": package.target,
            "name": package.name,
            "version": package.version,
            "root": str(places.base),
        },
        "ok": report.ok,
        "summary": report.sentence,
        "interrupted": report.interrupted,
        "seconds": round(report.seconds, 3),
        "counts": report.counts,
        "exercised": {
            "functions": len(report.exercised),
            "of": len(report.checkable),
            "share": round(report.share, 4),
            "sources": report.sources,
        },
        "findings": {"open": report.findings, "suppressed": report.suppressed, "families": report.families},
        "functions": [_function(verdict, places) for verdict in report.verdicts],
        "exempt": [found.id for found in package.found if found.exempt],
        "pending": [found.id for found in report.pending],
        "unread": [{"module": u.module, "file": places.file(u.file), "why": u.why} for u in package.unread],
        "remarks": [places.short(remark) for remark in report.remarks],
    }


def _function(verdict: Verdict, places: Places) -> dict[str, Any]:
    found = verdict.found
    data = verdict.to_dict()
    del data["found"]
    for name in ("why", "source_where", "intent_why", "findings", "notes", "matrix"):
        data[name] = _short(data[name], places)
    return {
        "id": found.id,
        "name": found.name,
        "module": found.module,
        "file": places.file(found.file),
        "line": found.line,
        "kind": found.kind,
        "verdict": data.pop("kind"),
        "guessed": verdict.guessed,
        **data,
        "seconds": round(verdict.seconds, 3),
    }


def _short(value: Any, places: Places) -> Any:
    """The same with relative files in every text."""
    if isinstance(value, str):
        return places.short(value)
    if isinstance(value, dict):
        return {key: _short(item, places) for key, item in value.items()}
    return [_short(item, places) for item in value] if isinstance(value, (list, tuple)) else value
