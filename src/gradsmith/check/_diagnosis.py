"""What a wrong gradient looks like: a factor, a sign, a transposition, a sum that is missing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradsmith.check._observation import Comparison, Observation, wrong

__all__ = ["diagnose", "factor_of"]


def factor_of(c: Comparison) -> float | None:
    """The number all of the gradient is off by, if there is one."""
    pairs = _pairs(c)
    ratios = [g / e for g, e in pairs if abs(e) > 1e-6 * max(c["scale"], 1e-300)]
    if not ratios or any(not math.isfinite(r) for r in ratios):
        return None
    small = [g for g, e in pairs if abs(e) <= 1e-6 * max(c["scale"], 1e-300)]
    middle = sorted(ratios)[len(ratios) // 2]
    spread = 1e-3 * max(abs(middle), 1e-9)
    if any(abs(r - middle) > spread for r in ratios) or any(abs(g) > 1e-3 * c["scale"] for g in small):
        return None
    return middle


def diagnose(observation: Observation) -> str:
    """One sentence, or nothing where the numbers show no pattern."""
    bad = observation.wrong
    for words in observation.data.get("alternatives", []):
        return _alternative(words)
    said = [s for c in bad if (s := _one(c, observation.comparisons, observation.data.get("incoming", [])))]
    right = [c["name"] for c in observation.comparisons if not wrong(c)]
    if said:
        return said[0]
    if right and len(bad) == 1:
        return f"only the gradient of {bad[0]['name']} is off; that of {' and '.join(right)} is right"
    return ""


def _alternative(words: str) -> str:
    if words.startswith("output ignored"):
        return f"it is what one gets when the incoming gradient of output {words.split(': ')[1]} is ignored"
    if words.startswith("derivative not conjugated"):
        return "it is what one gets without the conj() on the derivative"
    if words.startswith("incoming gradient replaced"):
        return f"it is what one gets with the {words}"
    if words.startswith("incoming gradient conjugated"):
        return "it is what one gets with the incoming gradient conjugated; a conj() is missing or one too many"
    return f"it is the {words}: two gradients are swapped"


def _one(c: Comparison, others: Sequence[Comparison], incoming: Sequence[dict[str, Any]]) -> str:
    name = c["name"]
    if c.get("missing"):
        return f"backward returns None for {name}, whose gradient is not zero"
    if "got_shape" in c:
        return ""
    if c["got"] and all(g == 0 or g == [0.0, 0.0] for g in c["got"]):
        return f"the gradient of {name} is zero everywhere"
    if any(isinstance(g, list) for g in c["got"]):
        return ""
    if not c["scale"] and c["got"]:
        first = c["got"][0]
        if all(g == first for g in c["got"]):
            return f"the derivative is 0 everywhere; the gradient is {first:.4g}"
        return (
            "the derivative of the forward is 0 almost everywhere; if a straight-through or surrogate gradient is "
            "meant, declare it with gradient_of="
        )
    factor = factor_of(c)
    if factor is not None:
        return _factor(name, factor, c, incoming)
    return _pattern(c)


def _factor(name: str, factor: float, c: Comparison, incoming: Sequence[dict[str, Any]]) -> str:
    words = f"the gradient of {name} is {_nice(factor)} times the derivative"
    if abs(factor + 1) < 1e-3:
        return f"{words}: a wrong sign; if a reversal is meant, declare it with gradient_of="
    sizes = {n for g in incoming for n in [*g["shape"], math.prod(g["shape"])] if n > 1} | {
        n for n in [*c["shape"], math.prod(c["shape"])] if n > 1
    }
    for n in sorted(sizes):
        if abs(factor * n - 1) < 1e-3:
            return f"{words}: a mean over {n} elements where a sum is right (or a division by {n} too many)"
        if abs(factor / n - 1) < 1e-3:
            return f"{words}: a division by {n} is missing (a sum where a mean is right)"
    return f"{words}; if that is meant, declare it with gradient_of="


def _nice(value: float) -> str:
    for denominator in range(2, 13):
        numerator = value * denominator
        if abs(numerator - round(numerator)) < 1e-4 and abs(value - round(value)) > 1e-4 and round(numerator):
            return f"{value:.4g} ({round(numerator)}/{denominator})"
    return f"{value:.4g}"


def _pattern(c: Comparison) -> str:
    """Transposed, reversed, off by a constant, right in part."""
    got, expected, shape, name = c["got"], c["expected"], c["shape"], c["name"]
    if c["places"] is not None or c.get("along", "elements") != "elements" or not got:
        return ""
    if len(shape) == 2 and shape[0] == shape[1] and _close(got, _transposed(expected, shape[0]), c["scale"]):
        return f"the gradient of {name} is the transpose of the derivative"
    if _close(got, [abs(e) for e in expected], c["scale"]):
        return f"the gradient of {name} is the absolute value of the derivative"
    if _close(got, expected[::-1], c["scale"]):
        return f"the gradient of {name} is the derivative in reverse order"
    if len(got) > 1:
        offsets = [g - e for g, e in zip(got, expected, strict=True)]
        if max(offsets) - min(offsets) < 1e-5 * c["scale"] and abs(offsets[0]) > 1e-4 * c["scale"]:
            return f"the gradient of {name} is off by the constant {offsets[0]:.4g} everywhere"
        if max(got) - min(got) < 1e-9 * max(map(abs, got)):
            return f"the gradient of {name} is the same number everywhere, the derivative is not"
    total = len(got)
    if 0 < c["differ"] < total:
        zero = sum(g == 0 for g, e in zip(got, expected, strict=True) if abs(g - e) > c["tolerance"])
        if zero == c["differ"]:
            return f"{c['differ']} of the {total} elements of the gradient of {name} are 0 where the derivative is not"
        return f"{total - c['differ']} of the {total} elements of the gradient of {name} are right, the others are not"
    return ""


def _transposed(values: list[float], n: int) -> list[float]:
    return [values[j * n + i] for i in range(n) for j in range(n)]


def _close(a: list[float], b: list[float], scale: float) -> bool:
    return all(abs(x - y) <= 1e-5 * scale for x, y in zip(a, b, strict=True))


def _pairs(c: Comparison) -> list[tuple[float, float]]:
    return [
        (g, e)
        for g, e in zip(c["got"], c["expected"], strict=True)
        if not isinstance(g, list) and not isinstance(e, list)
    ]
