"""Which findings hold whatever a gradient is meant to be; the others are notes.

A fault under any intent: a gradient that depends on which inputs need one, on layout, on being called twice; a write
to what belongs to others; a crash in backward after a clean forward; a second derivative that is silently wrong; lost
precision; a value that is wrong for one input and right for the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from gradsmith.check._diagnosis import diagnose, factor_of
from gradsmith.check._finding import Finding
from gradsmith.check._observation import Comparison, Observation, Observations, wrong
from gradsmith.reach._intent import Intent, is_flat, is_near, is_symmetric_part, not_linear

__all__ = ["sorted_by_intent"]

# What an author may well mean, or what no result depends on: told, and no fault.
_NOTES = (
    "GS203",  # not linear: a class of its own
    "GS303",  # None is how an author says that an input has no gradient
    "GS306",
    "GS307",  # the parameters of a module among the arguments, which adjoint methods also pass one by one
    "GS309",
    "GS311",
    "GS401",
    "GS402",
    "GS404",
    "GS405",
    "GS502",  # once_differentiable says that there is no second derivative, as far as PyTorch lets it
    "GS504",
    "GS604",  # PyTorch drops every custom backward there
    "GS803",
    "GS804",
    "GS9",  # read in the source, not seen to do harm: what does harm has a finding by value beside it
)
_DIFFERENTIABLE = ("", "derivative")  # whose second derivative is that of the forward
_REPEATED = ("GS2", "GS406", "GS407", "GS5", "GS7", "GS801", "GS802", "GS807")


def sorted_by_intent(
    findings: Iterable[Finding], intent: Intent, observations: Observations, *, guessed: bool = False
) -> tuple[list[Finding], list[Finding]]:
    """What is wrong under any intent, and what is only worth knowing.

    Where the inputs are a guess, less is a fault: they may be illegal.
    """
    kept: list[Finding] = []
    noted: list[Finding] = []
    found = list(findings)
    overwritten = any(f.rule == "GS207" for f in found)
    for finding in found:
        note = finding.note or (intent.kind != "declared" and _may_be_meant(finding, intent, observations, guessed))
        note = note or (guessed and _of_guess(finding, observations))
        note = note or (overwritten and finding.rule in ("GS801", "GS802", "GS807"))  # the same gradient, used again
        (noted if note else kept).append(replace(finding, note=note))
    return kept, noted


def _may_be_meant(finding: Finding, intent: Intent, observations: Observations, guessed: bool) -> bool:
    if finding.rule.startswith(_NOTES):
        return True
    if finding.rule.startswith(_REPEATED) and observations.first("random numbers").get("backward"):
        return True  # a backward that draws gives another gradient each time
    if finding.rule == "GS205":  # who calls it may lay the gradient out as its view wants it
        return any("view size is not compatible" in line for line in finding.evidence)
    if finding.rule == "GS308":
        return guessed or intent.kind not in (*_DIFFERENTIABLE, "random") or not _summed_to_wrong(observations)
    if finding.rule == "GS201":
        return _only_some_ignore(observations)
    if finding.rule in ("GS101", "GS104"):
        return not _right_beside_wrong(observations, intent)
    if finding.rule in ("GS501", "GS503"):
        return intent.kind not in _DIFFERENTIABLE or _only_beside(observations) or _not_silent(observations)
    if finding.rule == "GS703":  # to raise is to refuse
        return not any(o.wrong for o in observations.of("transform") if o.data["transform"] == "autocast")
    if finding.rule in ("GS206", "GS208"):
        return _in_place(observations)
    if finding.rule == "GS313":
        return intent.kind not in _DIFFERENTIABLE
    if finding.rule == "GS304":
        shared = ("projection or convention", "random", "loss scaler")  # what each gets may depend on who else does
        return intent.kind in shared and not any(o.failure for o in observations.of("subset"))
    if finding.rule == "GS312":  # a neighbour may be illegal, and an error is honest; but float64 is the same numbers
        return not any(o.failure for o in observations.of("precision"))
    if finding.rule == "GS105":  # a size may be a contract: pairs, quaternions, the length of a filter
        return True
    if finding.rule in ("GS106", "GS107"):
        return intent.kind != "derivative" or _flat_or_near(finding, observations) or _given_along(observations)
    if finding.rule == "GS808":  # slow on a neighbour is no hang
        return "failure" not in observations.first("call")
    if finding.rule in ("GS701", "GS702"):  # where zero means something, or precision, only the derivative tells
        return intent.kind not in _DIFFERENTIABLE and (finding.rule == "GS702" or "zeros" in finding.sample)
    if finding.rule == "GS103":
        return _handed_on(observations)
    if finding.rule in ("GS102", "GS202"):
        return intent.kind in ("random", "loss scaler", "surrogate", "straight-through")
    return False


def _summed_to_wrong(observations: Observations) -> bool:
    """Whether the engine sums a gradient of another shape to one that is wrong; most are meant to be summed."""
    rows = [r for o in observations.of("returned") for r in o.data["rows"] if r["returned"] is not None and r["needs"]]
    other = {r["name"] for r in rows if r["returned"]["shape"] != r["input"]["shape"]}
    bad = [c for o in observations.of("value") for c in o.wrong if not c.get("missing") and not is_near(c)]
    return any(c["name"] in other and not is_flat(c) and not is_symmetric_part(c) for c in bad)


def _not_silent(observations: Observations) -> bool:
    """Whether a second derivative is wrong only in that it is not finite, as at the kink of a root: that is seen."""
    bad = [c for o in observations.of("second order") for c in o.wrong]
    return bool(bad) and all(not c.get("missing") and not math.isfinite(c["error"]) for c in bad)


def _handed_on(observations: Observations) -> bool:
    """Whether the incoming gradient goes as it is to another input than the one that is returned: a rerouting."""
    value = next((o for o in observations.of("value") if o.wrong), None)
    if value is None:
        return False
    passed = value.data.get("passed", [])
    return all(c.get("missing") or (c["name"] in passed and not c["scale"]) for c in value.wrong)


def _only_beside(observations: Observations) -> bool:
    """Whether the gradient does not change with the inputs, and only what it owes the incoming gradient is missing."""
    rows = [c for o in observations.of("second order") for c in o.comparisons]
    by_input = [c for c in rows if not c["name"].startswith("the incoming gradient")]
    return bool(by_input) and not any(wrong(c) for c in by_input)


def _in_place(observations: Observations) -> bool:
    """Whether an input is written to by an operation in place, which returns it."""
    written = [w for o in observations.of("mutation") for w in o.data["written"] if w["what"] == "input"]
    return bool(written) and all(w.get("returned") for w in written)


def _of_guess(finding: Finding, observations: Observations) -> bool:
    if finding.rule == "GS101":  # a function of square matrices may well be one of symmetric ones
        bad = [c for o in observations.of("value") for c in o.wrong]
        return any(
            is_symmetric_part(c) and "transpose" not in diagnose(o) for o in observations.of("value") for c in bad
        )
    return False


def _only_some_ignore(observations: Observations) -> bool:
    """Loss scalers hand a constant to one input and the incoming gradient to another."""
    rows = [c for o in observations.of("incoming ignored") for c in o.comparisons if c["scale"] > 0]
    ignoring = [c for c in rows if c["error"] <= 1e-12 * c["scale"]]
    return len(ignoring) < len(rows)


def _right_beside_wrong(observations: Observations, intent: Intent) -> bool:
    """Whether the gradient of one input is the derivative, and that of another is not, nor stands for a flat one."""
    if intent.kind != "projection or convention" or not_linear(observations):
        return False
    value = next((o for o in observations.of("value") if o.wrong), None)
    if value is None:
        return False
    right = [c for c in value.comparisons if not wrong(c) and c["scale"]]
    return bool(right) and all(_is_mistake(c, value) for c in value.wrong if not c.get("missing"))


def _is_mistake(c: Comparison, value: Observation) -> bool:
    """Whether a gradient is what a mistake makes of the derivative: a factor, a sign, a transposition.

    A natural gradient, or that of a constrained input, differs in no such way.
    """
    if is_flat(c):
        return False
    words = diagnose(replace(value, data={**value.data, "comparisons": [c]}))
    return bool(words) and "elements of the gradient" not in words


def _given_along(observations: Observations) -> bool:
    """Whether a tensor goes in that the output does not depend on: the gradient itself may be handed in that way."""
    floats = [i for i in observations.first("subject").get("inputs", []) if "float" in i["dtype"]]
    value = observations.of("value")[:1]
    moving = {c["name"] for o in value for c in o.comparisons if c["scale"]}
    return any(i["name"] not in moving for i in floats)


def _flat_or_near(finding: Finding, observations: Observations) -> bool:
    """Whether the gradient goes on where the forward stands still, is an approximation there, or is scaled."""
    seen = [o for o in observations.of("neighbour") if o.sample == finding.sample and o.wrong]
    bad = [c for o in seen for c in o.wrong]
    if finding.rule == "GS107" and all(factor_of(c) is not None for c in bad):
        return True  # the option is the factor, and was 1 at first
    return bool(bad) and all(is_flat(c) or is_near(c) for c in bad)
