"""The baseline: a file of the findings a team knows and has not mended yet, so that only new ones count.

It is JSON, sorted, one line for each fact, without line numbers and dates: it changes where findings do, nowhere else::

    {
      "schema": 1,
      "fast": false,
      "findings": {
        "pkg.ops:Clip": {
          "GS201": {
            "count": 1,
            "message": "backward ignores the incoming gradient."
          }
        }
      }
    }
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gradsmith.errors import UsageError
from gradsmith.reach._verdict import Verdict

__all__ = ["Baseline", "Entry", "apply_baseline", "read_baseline", "write_baseline"]

SCHEMA = 1

Asked = Callable[[str], bool]


@dataclass(frozen=True)
class Entry:
    """How often one rule is broken by one function, and what was said of it, for the reader."""

    count: int
    message: str


@dataclass(frozen=True)
class Baseline:
    """The entries: by the id of the function, then by rule; and whether a fast check finds all of them."""

    entries: dict[str, dict[str, Entry]] = field(default_factory=dict)
    fast: bool = False


def read_baseline(path: str | Path, missing_ok: bool = False) -> Baseline:
    """The baseline in a file; an empty one where there is no file and there need not be one.

    Raises:
        UsageError: it cannot be read, or is none.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        if missing_ok:
            return Baseline()
        raise UsageError(f"the baseline {path} does not exist; write it with --update-baseline") from None
    except OSError as error:
        raise UsageError(f"the baseline {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no baseline: it is not JSON ({error}); {_REMEDY}") from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA or isinstance(schema, bool):
        raise UsageError(f"{path} is no baseline of schema {SCHEMA}: its schema is {schema!r}; {_REMEDY}")
    return Baseline(_entries(path, data.get("findings")), data.get("fast") is True)


_REMEDY = "remove it and write it anew with --update-baseline"


def _entries(path: str | Path, findings: Any) -> dict[str, dict[str, Entry]]:
    try:
        return {
            function: {rule: _entry(**entry) for rule, entry in rules.items()} for function, rules in findings.items()
        }
    except (AttributeError, TypeError) as error:
        raise UsageError(f"{path} is no baseline: its findings are not as they are written ({error})") from None


def _entry(*, count: int, message: str) -> Entry:
    if type(count) is not int or count < 1 or not isinstance(message, str):
        raise TypeError(f"count {count!r} or message {message!r}")
    return Entry(count, message)


def write_baseline(
    path: str | Path,
    verdicts: Iterable[Verdict],
    known: Baseline | None = None,
    asked: Asked = lambda rule: True,
    fast: bool = False,
) -> None:
    """Write what is found now, except for what a comment in the source suppresses.

    The entries of `known` are kept for functions that were not exercised, for rules that were not asked for, and, where
    this check is a fast one, if a full one found them. So is the message of an entry that is found again: its numbers
    may be others.

    Raises:
        UsageError: the file cannot be written.
    """
    old = known.entries if known else {}
    all_fast = fast and (known is None or known.fast or not known.entries)
    entries = dict(old)
    for verdict in verdicts:
        if verdict.kind not in ("right", "wrong"):
            continue
        before = old.get(verdict.found.id, {})
        now = {rule: entry for rule, entry in before.items() if not asked(rule) or (fast and not all_fast)}
        for rule, messages in _found(verdict).items():
            message = before[rule].message if rule in before else messages[0]
            now[rule] = Entry(max(len(messages), now[rule].count if rule in now else 0), message)
        entries[verdict.found.id] = now
    _write(Path(path), {function: rules for function, rules in entries.items() if rules}, all_fast)


def _found(verdict: Verdict) -> dict[str, list[str]]:
    """The messages of each rule that is broken."""
    messages: dict[str, list[str]] = {}
    for finding in verdict.findings:
        if not str(finding.get("suppressed", "")).startswith("inline"):
            messages.setdefault(str(finding["rule"]), []).append(str(finding["message"]))
    return messages


def _write(path: Path, entries: dict[str, dict[str, Entry]], fast: bool) -> None:
    """Whole or not at all."""
    findings = {
        function: {rule: vars(entry) for rule, entry in sorted(rules.items())}
        for function, rules in sorted(entries.items())
    }
    text = json.dumps({"schema": SCHEMA, "fast": fast, "findings": findings}, indent=2) + "\n"
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8", newline="\n")
        os.replace(part, path)
    except OSError as error:
        raise UsageError(f"the baseline {path} cannot be written: {error.strerror}") from None


def apply_baseline(
    verdicts: Iterable[Verdict], baseline: Baseline, asked: Asked = lambda rule: True, fast: bool = False
) -> tuple[list[Verdict], list[str]]:
    """The verdicts with each finding suppressed that the baseline holds, and a remark for each entry not found again.

    Findings of one rule beyond the count of its entry stay open. An entry is missed only where its function was
    exercised, `asked` says that its rule was looked for, and a fast check was not the first that could find it.
    """
    told: list[str] = []
    marked: list[Verdict] = []
    for verdict in verdicts:
        entries = baseline.entries.get(verdict.found.id, {})
        met: Counter[str] = Counter()
        findings = []
        for finding in verdict.findings:
            rule = str(finding["rule"])
            if not finding.get("suppressed") and rule in entries and met[rule] < entries[rule].count:
                finding = {**finding, "suppressed": "baseline"}
            met[rule] += 1
            findings.append(finding)
        marked.append(replace(verdict, findings=tuple(findings)))
        if verdict.kind in ("right", "wrong"):
            told += [
                f"baseline: {rule} is not found any more in {verdict.found.id}; --update-baseline removes it"
                for rule, entry in entries.items()
                if met[rule] < entry.count and asked(rule) and (baseline.fast or not fast)
            ]
    return marked, told
