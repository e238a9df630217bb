"""One function judged: its inputs found, the check run on them, and what came of it told apart by intent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gradsmith.check import check
from gradsmith.check._finding import Finding
from gradsmith.check._observation import Failure
from gradsmith.check._subject import Subject
from gradsmith.check.report._report import Report, finding_data
from gradsmith.errors import UsageError
from gradsmith.reach._faults import sorted_by_intent
from gradsmith.reach._found import Found, Package
from gradsmith.reach._intent import Intent, intent_of
from gradsmith.reach._limits import memory_limit, wants_memory
from gradsmith.reach._options import Options
from gradsmith.reach._sources import Sources, Tried
from gradsmith.reach._verdict import GUESSES, Kind, Verdict
from gradsmith.reach.inputs._call import Call
from gradsmith.reach.inputs._replay import fit
from gradsmith.reach.inputs.search import describe, pin

__all__ = ["judge"]

Told = Callable[[dict[str, str]], None]
_MOST_CALLS = 3  # of one source that are checked
_ENOUGH = 15.0  # seconds for a fast check on inputs that are a guess
_HANGS = "it did not come back within"  # as the search says of a call
_TO_FIND = 0.4  # share of the time the search for inputs may take


@dataclass(frozen=True)
class Judged:
    """One call and what the check said of it."""

    call: Call
    report: Report
    intent: Intent
    findings: list[Finding]
    notes: list[Finding]


def judge(package: Package, found: Found, options: Options, told: Told) -> Verdict:
    """What comes of one function. `told` hears each call before it is made, for the case that it never comes back."""
    started = time.monotonic()
    blank = Verdict(found, "not exercised")
    with memory_limit(options.memory):
        sources = Sources.of(package, options)
        groups = sources.groups(found, options.timeout * _TO_FIND, lambda call: told(_named(found, call)))
        verdict = _verdict(blank, groups, options, started, told)
    return replace(verdict, seconds=time.monotonic() - started)


def _verdict(blank: Verdict, groups: Iterable[Tried], options: Options, started: float, told: Told) -> Verdict:
    """The best source of inputs that leads to a check decides; what went wrong before is told where none does."""
    reasons: list[str] = []
    tries = 0
    for group in groups:
        tries += group.tries
        judged: list[Judged] = []
        for call in group.calls[:_MOST_CALLS]:
            told(_named(blank.found, call))
            left = options.timeout - (time.monotonic() - started)
            result = _judged(blank.found, group.subject, call, options, left / (1 if judged else 1.5))
            if isinstance(result, str):
                reasons.append(result)
            else:
                judged.append(result)
        if judged:
            findings, notes = _merged(judged)
            if findings and group.second is not None:
                findings, notes = _confirmed(findings, notes, blank.found, group, options, started)
            return replace(_described(blank, judged[0], findings, notes), tries=tries)
        reasons += [group.why] if group.why else []
    why = next(iter(reasons), "no call of it was found")
    kind: Kind = "timed out" if _HANGS in why else "out of memory" if wants_memory(why) else "not exercised"
    return replace(blank, kind=kind, why=why, tries=tries)


def _described(blank: Verdict, first: Judged, findings: list[Finding], notes: list[Finding]) -> Verdict:
    named = _named(blank.found, first.call)
    return replace(
        blank,
        kind="wrong" if findings else "right",
        why=next((f"not all was tried: {s['why']}" for s in first.report.skipped if s["what"] == "what remained"), ""),
        source=first.call.source,
        source_where=first.call.where,
        call=named["call"],
        pin=named["pin"],
        intent=first.intent.kind,
        intent_why=first.intent.why,
        declaration=_declaration(blank.found, first),
        findings=tuple({**finding_data(f), "suppressed": ""} for f in findings),
        notes=tuple(finding_data(f) for f in notes),
        matrix=tuple(first.report.to_dict()["matrix"]),
    )


def _named(found: Found, call: Call) -> dict[str, str]:
    return {"call": describe(found.name, call), "pin": _pinned(found, call), "source": call.source}


def _pinned(found: Found, call: Call, options: str = "") -> str:
    """The call to paste, with what is declared of it; one that holds objects is made by the lines that lead to it."""
    written = pin(found.id, call)
    if "..." in written:
        if not options:
            return ""
        written = (
            f'@gs.cases("{found.id}")\ndef _():\n    ...  # the lines that call it: while they run, it is recorded'
        )
    head = f'@gs.cases("{found.id}"'
    return written.replace(f"{head})", f"{head}, {options})", 1) if options else written


def _judged(found: Found, subject: Any, call: Call, options: Options, seconds: float) -> Judged | str:
    """The check of one call; or why it could not be run."""
    result = _checked(found, *fit(subject, call), options, seconds)
    if call.source == "recorded" and _fails(result):  # what else it holds may be of less precision
        result = _checked(found, *fit(subject, call, precise=False), options, seconds)
    return result


def _fails(result: Judged | str) -> bool:
    return isinstance(result, str) or "failure" in result.report.observations.first("call")


def _checked(found: Found, subject: Any, call: Call, options: Options, seconds: float) -> Judged | str:
    waived = (*options.waive.get(found.id, ()), *call.waive)
    try:
        report = check(
            subject,
            call.args,
            kwargs=call.kwargs or None,
            gradient_of=call.gradient_of,
            waive=waived,
            select=options.select,
            ignore=options.ignore,
            fast=options.fast,
            seed=options.seed,
            timeout=max(min(seconds, _ENOUGH) if options.fast and call.source in GUESSES else seconds, 1.0),
        )
    except UsageError as error:
        return str(error)
    first = report.observations.first("call")
    failure: Failure | None = first.get("failure")
    if failure is not None and failure["stage"] == "forward":
        return f"forward raises {failure['type']}: {failure['text']}"
    if failure is not None and failure["line"].startswith("raise "):
        return f"its backward refuses it: {failure['type']}: {failure['text']}"
    if report.observations.of("unattached"):
        return "nothing it returns has a gradient on these inputs"
    declared = call.gradient_of is not None or report.subject.get("reference") == "the declared derivative"
    intent = intent_of(report.observations, declared=declared, numbers=_numbers(subject, call))
    guessed = call.source in GUESSES
    told = (*report.findings, *report.notes)
    findings, notes = sorted_by_intent(told, intent, report.observations, guessed=guessed)
    if guessed and any(callable(a) for a in call.args):  # what it should return is not known
        findings, notes = _apart(findings, notes, lambda f: not f.rule.startswith(("GS1", "GS2", "GS5")))
    if _shares_objects(call):  # an object that two threads share need not be made for it
        findings, notes = _apart(findings, notes, lambda f: f.condition != "two threads at once")
    return Judged(call, report, intent, findings, notes)


def _numbers(subject: Any, call: Call) -> dict[str, float]:
    """The arguments that are numbers, by the names of their parameters."""
    named = {**dict(zip(Subject(subject).parameter_names, call.args, strict=False)), **call.kwargs}
    return {name: value for name, value in named.items() if type(value) in (int, float)}


def _shares_objects(call: Call) -> bool:
    plain = (torch.Tensor, bool, int, float, complex, str, type(None), torch.dtype, torch.device, tuple, list, dict)
    return any(not isinstance(a, plain) and not callable(a) for a in (*call.args, *call.kwargs.values()))


def _apart(
    findings: list[Finding], notes: list[Finding], keep: Callable[[Finding], bool]
) -> tuple[list[Finding], list[Finding]]:
    """The findings to keep; the others are notes."""
    return [f for f in findings if keep(f)], [*notes, *(replace(f, note=True) for f in findings if not keep(f))]


def _merged(judged: Sequence[Judged]) -> tuple[list[Finding], list[Finding]]:
    """Of several calls, each rule once, as the first call showed it."""
    findings: dict[str, Finding] = {}
    notes: dict[str, Finding] = {}
    for one in judged:
        for f in one.findings:
            findings.setdefault(f.rule, f)
        for f in one.notes:
            notes.setdefault(f.rule, f)
    return list(findings.values()), [f for f in notes.values() if f.rule not in findings]


def _confirmed(
    findings: list[Finding], notes: list[Finding], found: Found, tried: Tried, options: Options, started: float
) -> tuple[list[Finding], list[Finding]]:
    """Of what a guess shows, what another guess shows too; the rest may come of inputs that mean nothing."""
    assert tried.second is not None
    left = options.timeout - (time.monotonic() - started)
    again = _judged(found, tried.subject, tried.second, replace(options, fast=True), left) if left > 2 else ""
    if isinstance(again, str):
        return findings, notes
    seen = {f.rule for f in again.findings}
    kept = [f for f in findings if f.rule in seen]
    doubt = "seen under one guess of the inputs, and not under another"
    doubtful = [replace(f, note=True, diagnosis=doubt) for f in findings if f.rule not in seen]
    return kept, [*notes, *doubtful]


def _declaration(found: Found, judged: Judged) -> str:
    """The call with the intent on top, to paste."""
    if not judged.intent.options or judged.intent.kind == "declared":
        return ""
    return _pinned(found, judged.call, judged.intent.options)
