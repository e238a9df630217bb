"""What the rules over observations have in common: evidence in words, and which of several observations to show."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gradsmith.check._finding import Finding, Rule
from gradsmith.check._observation import Comparison, Failure, Observation, Observations, wrong

__all__ = [
    "any_dimensions",
    "compared_finding",
    "crash_finding",
    "evidence",
    "failed",
    "failure_words",
    "is_waived",
    "joined",
    "maker",
    "number",
    "redraws",
    "rounds",
    "worst",
]


def number(value: Any) -> str:
    """A number as short as it can be read."""
    if isinstance(value, (list, tuple)):
        return f"{number(value[0])}{'+' if not value[1] < 0 else '-'}{number(abs(value[1]))}j"
    return f"{value:.6g}"


def evidence(c: Comparison, what: str = "gradient of ") -> str:
    """One line: which element, what was got, what was expected, their ratio."""
    if "got_shape" in c:
        return f"{what}{c['name']}: got shape {tuple(c['got_shape'])}, expected {tuple(c['shape'])}"
    along = c.get("along", "elements")
    place = f"[{', '.join(map(str, c['at']))}]" if c["at"] and along == "elements" else ""
    words = (
        f" along {along.removesuffix('s') if along.startswith('a ') else 'a random direction'}"
        if along != "elements"
        else ""
    )
    got_at, expected_at = c["got_at"], c["expected_at"]
    got, expected = "None" if c.get("missing") else number(got_at), number(expected_at)
    if got == expected and isinstance(got_at, float) and isinstance(expected_at, float):
        got, expected = f"{got_at:.15g}", f"{expected_at:.15g}"
    line = f"{what}{c['name']}{place}{words}: got {got}, expected {expected}"
    if isinstance(got_at, float) and isinstance(expected_at, float) and expected_at and math.isfinite(got_at):
        line += f", ratio {got_at / expected_at:.4g}"
    total = math.prod(c["shape"])
    if total > 1 and along == "elements":
        line += f" ({c['differ']} of {total} elements differ)"
    return line


def worst(observations: Iterable[Observation]) -> list[Observation]:
    """Those with a comparison that does not agree, the simplest first: in the order they were tried."""
    return [o for o in observations if o.wrong]


def failed(observations: Iterable[Observation]) -> list[Observation]:
    """Those that raised something; to be out of time says nothing of the law that was tried."""
    return [o for o in observations if o.failure is not None and o.failure["type"] != "hang"]


def failure_words(failure: Failure) -> str:
    if failure["type"] == "hang":
        return "it did not come back in time"
    return f"{failure['type']}: {failure['text']}" if failure["text"] else failure["type"]


def compared_finding(
    code: str, message: str, hint: str, seen: Sequence[Observation], *, diagnosis: str = "", what: str = "gradient of "
) -> Finding:
    """A finding whose evidence is the first observation with differing tensors."""
    first = seen[0]
    lines = [evidence(c, what) for c in first.wrong[:4]]
    return Finding(
        code,
        message,
        hint=hint,
        diagnosis=diagnosis,
        evidence=tuple(lines),
        sample=first.sample,
        condition=first.condition,
        count=len(seen),
    )


def crash_finding(code: str, message: str, hint: str, seen: Sequence[Observation], diagnosis: str = "") -> Finding:
    """A finding whose evidence is what was raised, and where."""
    first = seen[0]
    failure = first.failure
    assert failure is not None
    lines = [failure_words(failure)]
    if failure["line"]:
        lines.append(f"at: {failure['line']}")
    return Finding(
        code,
        message,
        hint=hint,
        diagnosis=diagnosis,
        evidence=tuple(lines),
        sample=first.sample,
        condition=first.condition,
        where=failure["where"].split(" in ")[0],
        count=len(seen),
    )


_ANY_DIMENSIONS = re.compile(
    r"(reshape|view)\([^()]*-1|shape\[:?-1\]|size\(-1\)|dim=-1|flatten\(|\.\.\.|\w @ \w|matmul\(|linear\("
)


def any_dimensions(observations: Observations) -> bool:
    """Whether the forward is written for any number of dimensions, so that one more is expected to work."""
    units = observations.first("source").get("units", [])
    text = "".join(u["text"] for u in units if u["role"] in ("forward", "function"))
    return _ANY_DIMENSIONS.search(text) is not None


def rounds(observations: Observations) -> bool:
    """Whether backward computes in less precision than its inputs have: linear, and right, but for small rounding."""
    seen = [c for o in observations.of("linearity") for c in o.comparisons if wrong(c)]
    values = [c for o in observations.of("value") for c in o.comparisons]
    dtype = observations.first("subject").get("dtype", "float64")
    least = {"float64": 1e-9, "float32": 1e-4}.get(dtype, 1.0)
    small = [c["error"] < 0.05 * c["scale"] for c in [*seen, *values] if "got_shape" not in c]
    return bool(seen) and all(small) and any(c["error"] > least * c["scale"] for c in seen)


def redraws(observations: Observations) -> bool:
    """Whether forward and backward both draw random numbers and the gradient is wrong: the mask is another one."""
    drawn = observations.first("random numbers")
    return bool(drawn.get("forward") and drawn.get("backward") and worst(observations.of("value")))


def joined(names: Iterable[str]) -> str:
    found = list(dict.fromkeys(names))
    return found[0] if len(found) == 1 else ", ".join(found[:-1]) + " and " + found[-1] if found else ""


def is_waived(observations: Observations, law: str) -> bool:
    return law in observations.first("waived").get("names", [])


def agrees(comparisons: Iterable[Comparison]) -> bool:
    return not any(wrong(c) for c in comparisons)


def maker(mend: Mapping[int, str], examples: Mapping[int, tuple[str, str]]) -> Callable[..., Rule]:
    """Makes the rules of a family from their number, name, words and function."""

    def make(number: int, name: str, summary: str, why: str, find: Callable[[Observations], Iterator[Finding]]) -> Rule:
        bad, good = examples[number]
        return Rule(f"GS{number}", name, summary, why, mend[number], bad, good, find)

    return make
