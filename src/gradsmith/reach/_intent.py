"""What a gradient is meant to be, told from how it behaves, and which findings hold whatever is meant.

On code that declares nothing most gradients that differ from the derivative differ on purpose: straight-through
quantisers, surrogates, scalers. What they have in common is read off the observations; what is left is a fault under
any intent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gradsmith.check._diagnosis import factor_of
from gradsmith.check._finding import Finding
from gradsmith.check._observation import Comparison, Observation, Observations, wrong

__all__ = ["Intent", "intent_of", "sorted_by_intent"]


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
    if scaler := _not_linear(observations):
        return scaler
    bad = [c for c in value.wrong if not c.get("missing")]
    if not value.wrong:
        return _saturating(observations) or _DERIVATIVE
    if not bad:
        return Intent(
            "derivative",
            f"the gradient is the derivative, but for {_names(value.wrong)}, for which None is returned",
        )
    if flat := [c for c in bad if _flat(c)]:
        return _surrogate(value, flat, bad)
    if all(_near(c) for c in bad):
        return Intent("derivative", f"the gradient is the derivative, but for small differences in {_names(bad)}")
    if all(_near(c) or _symmetric_part(c) for c in bad):
        why = f"the gradient of {_names(bad)} is the derivative where its input is a symmetric matrix"
        return Intent("projection or convention", why, 'waive=("derivative",)')
    if _random(observations):
        return Intent("random", "forward or backward draws random numbers", 'waive=("derivative",)')
    if factor := _common_factor(bad):
        right = [c for c in value.comparisons if not wrong(c) and c["scale"]]
        if not right:
            words = f"the gradient is {factor:.4g} times the derivative of the forward"
            return Intent("multiple of the derivative", words, _multiple(value, bad, factor, numbers or {}))
    return Intent(
        "projection or convention",
        f"the gradient of {_names(bad)} is neither the derivative nor a multiple of it",
        'waive=("derivative",)',
    )


def _names(comparisons: Iterable[Comparison]) -> str:
    return " and ".join(dict.fromkeys(c["name"] for c in comparisons))


def _flat(c: Comparison) -> bool:
    """Whether the forward does not change with the input wherever the gradient differs from its derivative."""
    if "got_shape" in c:
        return False
    if not c["scale"]:
        return True
    differing = [abs(e) for g, e in _numbers(c) if abs(g - e) > 1e-3 * c["scale"]]
    return bool(differing) and max(differing) <= 1e-6 * c["scale"]


def _near(c: Comparison) -> bool:
    """Whether it differs by so little that it is an approximation of the derivative, not another thing."""
    return "got_shape" not in c and bool(c["error"] <= 1e-2 * c["scale"])


def _symmetric_part(c: Comparison) -> bool:
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
    for name, number in numbers.items():
        if abs(factor) not in (0, 1) and abs(abs(factor) - abs(number)) < 1e-6 * abs(factor):
            sign = "" if factor * number > 0 else "-"
            return f"gradient_of=lambda {x}, {name}: {sign}{name} * {x}"
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
    if seen and all(_flat(c) for o in seen for c in o.wrong):
        words = "the gradient is the derivative where there is one, and not zero where the forward does not change"
        return Intent("surrogate", f"{words} ({seen[0].sample})", 'waive=("derivative",)')
    return None


def _not_linear(observations: Observations) -> Intent | None:
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


# --- findings ----------------------------------------------------------------------------------------

# What an author may well mean, or what no result depends on: told, and no fault.
_NOTES = (
    "GS203",  # not linear: a class of its own
    "GS303",  # None is how an author says that an input has no gradient
    "GS306",
    "GS307",  # the parameters of a module among the arguments, which adjoint methods also pass one by one
    "GS308",
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
_DIFFERENTIABLE = ("derivative", "multiple of the derivative")  # whose second derivative is that of the forward
_REPEATED = ("GS204", "GS206", "GS406", "GS407", "GS503", "GS801", "GS802", "GS807")


def sorted_by_intent(
    findings: Iterable[Finding], intent: Intent, observations: Observations, *, guessed: bool = False
) -> tuple[list[Finding], list[Finding]]:
    """What is wrong under any intent, and what is only worth knowing.

    Where the inputs are a guess, what shows on sizes that need not go together says nothing.
    """
    kept: list[Finding] = []
    noted: list[Finding] = []
    for finding in findings:
        note = finding.note or (intent.kind != "declared" and _may_be_meant(finding, intent, observations))
        note = note or (guessed and _of_guess(finding, observations))
        (noted if note else kept).append(replace(finding, note=note))
    return kept, noted


def _may_be_meant(finding: Finding, intent: Intent, observations: Observations) -> bool:
    if finding.rule.startswith(_NOTES):
        return True
    if finding.rule == "GS201":
        return _only_some_ignore(observations)
    if finding.rule in ("GS101", "GS104"):
        return not _right_beside_wrong(observations, intent)
    if finding.rule in ("GS501", "GS503"):
        return intent.kind not in ("", *_DIFFERENTIABLE) or _only_beside(observations) or _not_silent(observations)
    if finding.rule == "GS703":  # to raise is to refuse
        return not any(o.wrong for o in observations.of("transform") if o.data["transform"] == "autocast")
    if finding.rule == "GS208":
        return _named_in_place(observations)
    if finding.rule == "GS304":
        return intent.kind not in ("", *_DIFFERENTIABLE) and not any(o.failure for o in observations.of("subset"))
    if finding.rule in _REPEATED and observations.first("random numbers").get("backward"):
        return True  # a backward that draws gives another gradient each time
    if finding.rule in ("GS105", "GS106", "GS107"):
        return intent.kind != "derivative" or _flat_nearby(finding, observations)
    if finding.rule in ("GS102", "GS103", "GS202"):
        return intent.kind in ("random", "loss scaler")
    return False


def _not_silent(observations: Observations) -> bool:
    """Whether a second derivative is wrong only in that it is not finite, as at the kink of a root: that is seen."""
    bad = [c for o in observations.of("second order") for c in o.wrong]
    return bool(bad) and all(not c.get("missing") and not math.isfinite(c["error"]) for c in bad)


def _only_beside(observations: Observations) -> bool:
    """Whether the gradient does not change with the inputs, and only what it owes the incoming gradient is missing."""
    rows = [c for o in observations.of("second order") for c in o.comparisons]
    by_input = [c for c in rows if not c["name"].startswith("the incoming gradient")]
    return bool(by_input) and not any(wrong(c) for c in by_input)


def _named_in_place(observations: Observations) -> bool:
    """A function whose name says that it writes to its input says so."""
    name = str(observations.first("subject").get("name", ""))
    return "inplace" in name.lower().replace("_", "") or name.endswith("_")


def _of_guess(finding: Finding, observations: Observations) -> bool:
    if finding.rule == "GS808":  # nor does time, on inputs of any size
        return True
    if finding.rule == "GS101":  # a function of square matrices may well be one of symmetric ones
        bad = [c for o in observations.of("value") for c in o.wrong]
        return any(len(c["shape"]) > 1 and c["shape"][-1] == c["shape"][-2] for c in bad)
    if finding.rule not in ("GS105", "GS312"):
        return False
    seen = [o for o in observations.of("neighbour") if o.sample == finding.sample]
    return any(o.data.get("kind") in ("size", "unequal sizes", "ndim", "fewer dimensions") for o in seen)


def _only_some_ignore(observations: Observations) -> bool:
    """Loss scalers hand a constant to one input and the incoming gradient to another."""
    rows = [c for o in observations.of("incoming ignored") for c in o.comparisons if c["scale"] > 0]
    ignoring = [c for c in rows if c["error"] <= 1e-12 * c["scale"]]
    return len(ignoring) < len(rows)


def _right_beside_wrong(observations: Observations, intent: Intent) -> bool:
    """Whether the gradient of one input is the derivative, and that of another is not, nor stands for a flat one."""
    if intent.kind != "projection or convention" or _not_linear(observations):
        return False
    value = next((o for o in observations.of("value") if o.wrong), None)
    if value is None:
        return False
    right = [c for c in value.comparisons if not wrong(c) and c["scale"]]
    return bool(right) and not any(_flat(c) for c in value.wrong)


def _flat_nearby(finding: Finding, observations: Observations) -> bool:
    seen = [o for o in observations.of("neighbour") if o.sample == finding.sample and o.wrong]
    return bool(seen) and all(_flat(c) for o in seen for c in o.wrong)
