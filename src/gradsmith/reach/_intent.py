"""What a gradient is meant to be, told from how it behaves.

On code that declares nothing most gradients that differ from the derivative differ on purpose: straight-through
quantisers, surrogates, scalers. What they have in common is read off the observations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gradsmith.check._diagnosis import factor_of
from gradsmith.check._observation import Comparison, Observation, Observations, wrong

__all__ = ["Intent", "intent_of", "is_flat", "is_near", "is_symmetric_part", "not_linear"]


@dataclass(frozen=True)
class Intent:
    """The class of a gradient.

    Args:
        kind: One of the words of `Verdict.intent`.
        why: What shows it.
        options: What to pass to `gs.cases` or `gs.check` to declare it: "gradient_of=lambda x: x"; may be empty.
    """

    kind: str
    why: str
    options: str = ""


_DERIVATIVE = Intent("derivative", "the gradient is the derivative of the forward")
_UNKNOWN = Intent("", "there was no derivative to compare with")
_DECLARED = Intent("declared", "the gradient is declared, and judged as declared")


def intent_of(observations: Observations, *, declared: bool, numbers: Mapping[str, float] | None = None) -> Intent:
    """The class of a gradient, from what was seen of it on the inputs given; `numbers` are arguments by name."""
    if declared:
        return _DECLARED
    value = next((o for o in observations.of("value") if o.comparisons), None)
    if value is None:
        return _UNKNOWN
    if scaler := not_linear(observations):
        return scaler
    bad = [c for c in value.wrong if not c.get("missing")]
    if not value.wrong:
        return _saturating(observations) or _DERIVATIVE
    if not bad:
        return Intent(
            "derivative",
            f"the gradient is the derivative, but for {_names(value.wrong)}, for which None is returned",
        )
    if flat := [c for c in bad if is_flat(c)]:
        return _surrogate(value, flat, bad)
    if all(is_near(c) for c in bad):
        return Intent("derivative", f"the gradient is the derivative, but for small differences in {_names(bad)}")
    symmetric = [i["name"] for i in observations.first("subject").get("inputs", []) if i.get("symmetric")]
    if all(is_near(c) or (c["name"] in symmetric and is_symmetric_part(c)) for c in bad):
        return Intent("derivative", f"the gradient of {_names(bad)} is the derivative where it is a symmetric matrix")
    if _random(observations):
        return Intent("random", "forward or backward draws random numbers", 'waive=("derivative",)')
    if factor := _common_factor(bad):
        right = [c for c in value.comparisons if not wrong(c) and c["scale"]]
        if not right:
            words = f"the gradient is {factor:.4g} times the derivative of the forward"
            return Intent("multiple of the derivative", words, _multiple(value, bad, factor, numbers or {}))
        why = (
            f"the gradient of {_names(bad)} is {factor:.4g} times the derivative, and that of {_names(right)} is right"
        )
        return Intent("projection or convention", why, 'waive=("derivative",)')
    return Intent(
        "projection or convention",
        f"the gradient of {_names(bad)} is neither the derivative nor a multiple of it",
        'waive=("derivative",)',
    )


def _names(comparisons: Iterable[Comparison]) -> str:
    return " and ".join(dict.fromkeys(c["name"] for c in comparisons))


def is_flat(c: Comparison) -> bool:
    """Whether the forward does not change with the input wherever the gradient differs from its derivative."""
    if "got_shape" in c:
        return False
    if not c["scale"]:
        return True
    differing = [abs(e) for g, e in _numbers(c) if abs(g - e) > 1e-3 * c["scale"]]
    return bool(differing) and max(differing) <= 1e-6 * c["scale"]


def is_near(c: Comparison) -> bool:
    """Whether it differs by so little that it is an approximation of the derivative, not another thing."""
    return "got_shape" not in c and bool(c["error"] <= 1e-2 * c["scale"])


def is_symmetric_part(c: Comparison) -> bool:
    """Whether the symmetric parts of the matrices agree: what the function is of a symmetric matrix has no other."""
    shape = c["shape"]
    if "got_shape" in c or len(shape) < 2 or shape[-1] != shape[-2] or c["places"] is not None:
        return False
    n, pairs = shape[-1], _numbers(c)
    if len(pairs) != math.prod(shape):
        return False
    differences = [g - e for g, e in pairs]
    return all(
        abs(differences[k] + differences[k - k % (n * n) + (k % n) * n + (k // n) % n]) <= 1e-3 * c["scale"]
        for k in range(len(differences))
    )


def _numbers(c: Comparison) -> list[tuple[float, float]]:
    pairs = zip(c["got"], c["expected"], strict=True)
    return [(g, e) for g, e in pairs if not isinstance(g, list) and not isinstance(e, list)]


def _multiple(value: Observation, bad: list[Comparison], factor: float, numbers: Mapping[str, float]) -> str:
    """The identity is what gradients are scaled at; other forwards are not written down so easily."""
    if len(bad) != 1 or bad[0]["name"] not in value.data.get("identity", []):
        return 'waive=("derivative",)'
    x = _word(bad[0])
    same = [n for n, number in numbers.items() if abs(abs(factor) - abs(number)) < 1e-6 * abs(factor)]
    if len(same) == 1:
        sign = "" if factor * numbers[same[0]] > 0 else "-"
        return f"gradient_of=lambda {x}, {same[0]}: {sign}{same[0]} * {x}"
    return f"gradient_of=lambda {x}, *_: {factor:.6g} * {x}"


def _word(c: Comparison) -> str:
    return c["name"] if c["name"].isidentifier() else "x"


def _surrogate(value: Observation, flat: list[Comparison], bad: list[Comparison]) -> Intent:
    """What is not flat beside it, such as the step of a quantiser, has the gradient of the same composition."""
    passed = value.data.get("passed", [])
    why = f"the forward does not change with {_names(flat)}, almost everywhere"
    if all(c["name"] in passed for c in bad):
        why = f"{why}, and the incoming gradient is passed on as it is"
        return Intent("straight-through", why, f"gradient_of=lambda {_word(bad[0])}, *_: {_word(bad[0])}")
    return Intent("surrogate", f"{why}, and the gradient is not zero", 'waive=("derivative",)')


def _saturating(observations: Observations) -> Intent | None:
    """A gradient that is the derivative on the inputs given, and goes on where the forward stands still."""
    seen = [o for o in observations.of("neighbour") if o.data.get("kind") in ("values", "index") and o.wrong]
    if seen and all(is_flat(c) for o in seen for c in o.wrong):
        words = "the gradient is the derivative where there is one, and not zero where the forward does not change"
        return Intent("surrogate", f"{words} ({seen[0].sample})", 'waive=("derivative",)')
    return None


def not_linear(observations: Observations) -> Intent | None:
    seen = [o for o in observations.of("linearity") if o.wrong]
    if not seen:
        return None
    if any(o.condition == "zero" for o in seen):
        names = _names(next(o for o in seen if o.condition == "zero").wrong)
        why = f"the gradient of {names} is not zero for a zero incoming gradient: something is added to it"
        return Intent("loss scaler", why, 'waive=("linearity", "derivative")')
    why = f"the gradient of {_names(seen[0].wrong)} is not linear in the incoming gradient: it is clipped or normalised"
    return Intent("projection or convention", why, 'waive=("linearity", "derivative")')


def _random(observations: Observations) -> bool:
    drawn = observations.first("random numbers")
    return bool(observations.first("repeat").get("random") or drawn.get("forward") or drawn.get("backward"))


def _common_factor(bad: Iterable[Comparison]) -> float | None:
    factors = [factor_of(c) if "got_shape" not in c else None for c in bad]
    first = factors[0] if factors else None
    if not first or any(f is None or abs(f - first) > 1e-3 * abs(first) for f in factors):
        return None
    return first
