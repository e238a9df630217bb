"""Rules for a gradient that is not the derivative it should be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from gradsmith.check._diagnosis import diagnose, factor_of
from gradsmith.check._finding import Finding
from gradsmith.check._observation import Observation, Observations
from gradsmith.check.rules._shared import compared_finding, is_waived, joined, maker, redraws
from gradsmith.check.rules.examples.value import EXAMPLES

__all__ = ["RULES", "base_is_wrong"]


def _judged(observations: Observations, *laws: str) -> list[Observation]:
    """Value observations that count: none where the backward is no derivative of anything, or is made of chance."""
    if is_waived(observations, "derivative") or _explained(observations):
        return []
    return [o for o in observations.of(*laws) if o.wrong]


def _explained(observations: Observations) -> bool:
    """Whether another law already says why no derivative can come out."""
    if redraws(observations) or not_linear(observations):
        return True
    repeat = observations.first("repeat")
    return any(
        c["error"] > 1e3 * repeat["epsilon"] * c["scale"] for c in repeat.get("outputs", []) + repeat.get("grads", [])
    )


def not_linear(observations: Observations) -> bool:
    return any(o.wrong for o in observations.of("linearity"))


def base_is_wrong(observations: Observations) -> bool:
    """Whether the gradient is wrong on the very inputs the author gave."""
    return any(o.wrong for o in observations.of("value"))


def _alternatives(o: Observation, start: str) -> list[str]:
    found: list[str] = [a for a in o.data.get("alternatives", []) if a.startswith(start)]
    return found


def _special(o: Observation) -> bool:
    """Whether another rule has the better words for it."""
    missing = all(c.get("missing") for c in o.wrong)
    return missing or bool(o.data.get("alternatives"))


def _names(o: Observation) -> str:
    return joined(c["name"] for c in o.wrong)


def wrong_value(observations: Observations) -> Iterator[Finding]:
    seen = [o for o in _judged(observations, "value") if not _special(o)]
    if not seen:
        return
    first = seen[0]
    what = "the declared derivative" if first.data["reference"] == "declared" else "the derivative of the forward"
    factors = [factor_of(c) for c in first.wrong if not c.get("missing") and "got_shape" not in c]
    factor = factors[0] if factors and factors[0] is not None else None
    message = f"The gradient of {_names(first)} is not {what}."
    if factor and factor != 0 and first.data["reference"] != "declared":
        message = f"Backward is {factor:.4g} times {what}; if that is meant, declare it with gradient_of=."
    yield compared_finding("GS101", message, _MEND[101], seen, diagnosis=diagnose(first))


def output_ignored(observations: Observations) -> Iterator[Finding]:
    seen = [o for o in _judged(observations, "value", "neighbour") if _alternatives(o, "output ignored")]
    if seen:
        outputs = joined("output " + a.split(": ")[1] for a in _alternatives(seen[0], "output ignored"))
        message = f"The incoming gradient of {outputs} has no part in the gradient of {_names(seen[0])}."
        yield compared_finding("GS102", message, _MEND[102], seen, diagnosis=diagnose(seen[0]))


def swapped(observations: Observations) -> Iterator[Finding]:
    seen = [o for o in _judged(observations, "value") if _alternatives(o, "gradient of")]
    if seen:
        message = f"The gradients of {_names(seen[0])} are in each other's place."
        if len(seen[0].wrong) == 1:
            message = f"The gradient of {_names(seen[0])} is that of another input."
        yield compared_finding("GS103", message, _MEND[103], seen, diagnosis=diagnose(seen[0]))


def conjugated(observations: Observations) -> Iterator[Finding]:
    seen = [
        o
        for o in _judged(observations, "value")
        if _alternatives(o, "incoming gradient conjugated") or _alternatives(o, "derivative not conjugated")
    ]
    if seen:
        message = f"The gradient of {_names(seen[0])} follows another convention for complex numbers than PyTorch's."
        yield compared_finding("GS104", message, _MEND[104], seen, diagnosis=diagnose(seen[0]))


_KINDS = {
    105: ("size", "unequal sizes", "empty", "ndim", "fewer dimensions"),
    106: ("values", "index"),
    107: ("options",),
}


def _nan_where_masked(o: Observation) -> bool:
    """Of a row in which everything is masked only a nan or infinity is held against a gradient."""
    return o.data.get("kind") == "all masked" and any(not math.isfinite(c["error"]) for c in o.wrong)


def _nearby(number: int, words: str) -> Callable[[Observations], Iterator[Finding]]:
    def find(observations: Observations) -> Iterator[Finding]:
        if base_is_wrong(observations):
            return
        seen = [
            o
            for o in _judged(observations, "neighbour")
            if (o.data.get("kind") in _KINDS[number] or (number == 106 and _nan_where_masked(o)))
            and not _alternatives(o, "output ignored")
        ]
        if seen:
            message = (
                f"The gradient of {_names(seen[0])} is right on the inputs given and wrong {words}: {seen[0].sample}."
            )
            diagnosis = diagnose(seen[0]).split("; if that is meant")[0]
            yield compared_finding(f"GS{number}", message, _MEND[number], seen, diagnosis=diagnosis)

    return find


_MEND = {
    101: "Derive the gradient again; compare one element by hand. If the gradient is meant to differ, pass "
    "gradient_of=, or waive=('derivative',) where it is the derivative of nothing.",
    102: "Add what each output contributes, or say that one has none: ctx.mark_non_differentiable(output).",
    103: "Return the gradients in the order of the parameters of forward.",
    104: "PyTorch's gradient is the conjugate Wirtinger derivative: grad * derivative.conj() if f is holomorphic.",
    105: "Look for a size, number of dimensions or reduction taken from the wrong tensor or fixed to one case.",
    106: "Look for a branch, a masked region or a duplicate index that forward heeds and backward does not.",
    107: "Look for an option that forward uses and backward does not.",
}


_make = maker(_MEND, EXAMPLES)

RULES = [
    _make(
        101,
        "wrong-value",
        "The gradient is not the derivative it should be.",
        "Training follows the gradient: a wrong factor, sign or term gives a model that learns more slowly, something "
        "else, or nothing, and no error is raised.",
        wrong_value,
    ),
    _make(
        102,
        "output-ignored",
        "The incoming gradient of one of several outputs is ignored.",
        "A loss on that output trains nothing, silently.",
        output_ignored,
    ),
    _make(
        103,
        "swapped-gradients",
        "The gradient of one input is returned for another.",
        "Where the shapes agree PyTorch cannot notice it.",
        swapped,
    ),
    _make(
        104,
        "complex-convention",
        "The gradient of a complex function lacks a conjugate, or has one too many.",
        "Optimisers then step in a direction mirrored at the real axis.",
        conjugated,
    ),
    _make(
        105,
        "wrong-for-shape",
        "The gradient is wrong for other shapes that forward accepts.",
        "Tests use one shape, training meets others: an odd size, a size of one, unequal sizes, one more dimension.",
        _nearby(105, "for another shape"),
    ),
    _make(
        106,
        "wrong-for-values",
        "The gradient is wrong for other values.",
        "A branch that the test inputs never reach is reached in training.",
        _nearby(106, "for other values"),
    ),
    _make(
        107,
        "wrong-for-option",
        "The gradient is wrong for another value of an option.",
        "The option seems to work: forward follows it, only backward does not.",
        _nearby(107, "for another option"),
    ),
]
