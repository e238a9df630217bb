"""The report of one check: what was found, what every transform does, what was tried and what was not."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gradsmith.check._finding import FAMILIES, Finding
from gradsmith.check._observation import Observations
from gradsmith.check.report._matrix import Row, matrix
from gradsmith.check.report._plain import count, plain
from gradsmith.errors import CheckError

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["SCHEMA", "Report", "finding_data"]

SCHEMA = 1


@dataclass(frozen=True, init=False, repr=False)
class Report:
    """What a check says of its subject.

    A report is true where nothing was found, so ``assert check(...)`` means what it says; `raise_if_failed` also says
    why. It holds plain data only: nothing of the subject lives on in it.

    Args:
        observations: All that was seen.
        findings: What the rules made of it, notes among them.
    """

    findings: tuple[Finding, ...]  #: What is wrong.
    notes: tuple[Finding, ...]  #: What is worth knowing and no fault.
    matrix: tuple[Row, ...]  #: What each transform makes of the subject.
    subject: dict[str, Any]  #: What was judged: name, kind, file, line, inputs, arguments, reference, seed, device.
    tried: tuple[dict[str, Any], ...]  #: What was checked, and how often.
    skipped: tuple[dict[str, Any], ...]  #: What was not checked, and why.
    samples: tuple[dict[str, Any], ...]  #: The inputs that were made.
    noise: dict[str, Any]  #: What the checked code printed and warned.
    seconds: float  #: How long it took.
    observations: Observations = field(compare=False)  #: All that was seen.

    def __init__(self, observations: Observations, findings: Iterable[Finding] = ()) -> None:
        found = list(findings)
        values = {
            "findings": tuple(f for f in found if not f.note),
            "notes": tuple(f for f in found if f.note),
            "matrix": tuple(matrix(observations)),
            "subject": observations.first("subject"),
            "tried": _added_up(observations),
            "skipped": _without_doubles(o.data for o in observations.of("skipped")),
            "samples": _without_doubles(o.data for o in observations.of("sample")),
            "noise": observations.first("noise"),
            "seconds": float(observations.first("seconds").get("seconds", 0.0)),
            "observations": observations,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    __hash__ = None  # type: ignore[assignment]  # the data within are dicts

    @property
    def ok(self) -> bool:
        """Whether nothing was found; notes do not count."""
        return not self.findings

    def __bool__(self) -> bool:
        return self.ok

    @property
    def name(self) -> str:
        """The name of what was judged."""
        return str(self.subject.get("name") or "the subject")

    @property
    def pictures(self) -> list[dict[str, Any]]:
        """The numbers behind the pictures of `to_html`."""
        return [o.data for o in self.observations.of("picture")]

    def raise_if_failed(self) -> None:
        """Do nothing where nothing was found.

        Raises:
            CheckError: something is wrong; the message is what the text report says of it.
        """
        if not self.ok:
            from gradsmith.check.report._text import failure_text

            raise CheckError(failure_text(self))

    def __repr__(self) -> str:
        return f"<Report of {self.name}: {count(len(self.findings), 'finding')}>"

    def __str__(self) -> str:
        from gradsmith.check.report._text import render

        return render(self)

    def __rich__(self) -> RenderableType:
        from gradsmith.check.report._text import renderable

        return renderable(self)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data: what `to_json` writes, where the schema is told."""
        return {
            "schema": SCHEMA,
            "ok": self.ok,
            "subject": plain(self.subject),
            "findings": [finding_data(f) for f in self.findings],
            "notes": [finding_data(f) for f in self.notes],
            "matrix": [{"transform": r.transform, "status": r.status, "detail": r.detail} for r in self.matrix],
            "tried": plain(self.tried),
            "skipped": plain(self.skipped),
            "samples": plain(self.samples),
            "noise": plain(self.noise),
            "seconds": plain(self.seconds),
        }

    def to_json(self, indent: int | None = None) -> str:
        """The report as one JSON object.

        JSON has no nan and no infinity: such numbers are the strings "nan", "inf" and "-inf". Schema 1::

            schema    1; another number where a later version changes the meaning of a field
            ok        true where `findings` is empty
            subject   {name, kind, file, line, reference, torch, seed, device,
                       inputs: [{name, shape, dtype, requires_grad}], arguments: {name: text}}
            findings  [{rule, family, message, diagnosis, hint, evidence: [line],
                        sample, condition, where, count}]: what is wrong
            notes     the same: what is worth knowing and no fault
            matrix    [{transform, status, detail}], status one of "right", "refused", "wrong", "not tried"
            tried     [{what, count}]: what was checked, and how often
            skipped   [{what, why}]: what was not
            samples   [{name, inputs: [{name, shape, dtype, layout}], used, why}]: the inputs that were made
            noise     {printed, warnings: [text]}: what the checked code wrote meanwhile
            seconds   how long it took

        Fields may be added within a schema; `subject` and `noise` are {} where nothing was recorded.
        """
        return json.dumps(self.to_dict(), allow_nan=False, indent=indent)

    def to_html(self) -> str:
        """The report as one HTML page that needs nothing else, with pictures where there are any."""
        from gradsmith.check.report._html import document

        return document(self)

    def _repr_html_(self) -> str:
        """What a notebook shows below a cell."""
        from gradsmith.check.report._html import fragment

        return fragment(self)


def finding_data(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "family": FAMILIES.get(finding.rule[:3], ""),
        "message": finding.message,
        "diagnosis": finding.diagnosis,
        "hint": finding.hint,
        "evidence": list(finding.evidence),
        "sample": finding.sample,
        "condition": finding.condition,
        "where": finding.where,
        "count": finding.count,
    }


def _added_up(observations: Observations) -> tuple[dict[str, Any], ...]:
    """What was tried, each once, with the sum of its counts."""
    counts: dict[str, int] = {}
    for observation in observations.of("tried"):
        what = str(observation.data.get("what", ""))
        counts[what] = counts.get(what, 0) + int(observation.data.get("count", 1))
    return tuple({"what": what, "count": times} for what, times in counts.items())


def _without_doubles(records: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    kept: list[dict[str, Any]] = []
    for record in records:
        if record not in kept:
            kept.append(record)
    return tuple(kept)
