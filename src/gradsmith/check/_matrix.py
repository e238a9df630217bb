"""The support matrix: what each transform makes of the subject."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gradsmith.check._observation import Comparison, Failure, Observation, Observations, wrong
from gradsmith.check._plain import clean, element, number

__all__ = ["TRANSFORMS", "Row", "Status", "is_refusal", "matrix"]

Status = Literal["right", "refused", "wrong", "not tried"]

TRANSFORMS = (
    "backward",
    "double backward",
    "forward mode",
    "vmap",
    "vmap of backward",
    "func.grad",
    "func.jacrev",
    "func.hessian",
    "compile",
    "compile(func.grad)",
    "checkpoint",
    "autocast",
)
# What torch and gradsmith say, on purpose, of a function that does not take part in a transform.
_REFUSALS = (
    "autograd.Function with functorch transforms",
    "once_differentiable",
    "does not support it because it has not been implemented",
    "must implement the jvp",
    "Trying to use forward AD with",
    "does not have vmap support",
    "has no vmap support",
    "generate_vmap_rule",
    "vmap: It looks like you're",
    "vmap: We do not",
    "Batching rule not implemented",
    "derivative for",  # "... is not implemented"
    "not differentiable",
    "Unsupported",
)
_REFUSING_TYPES = ("NotImplementedError", "DeclarationError", "GradientError", "Unsupported")
_WORST_FIRST: tuple[Status, ...] = ("wrong", "refused", "right", "not tried")


@dataclass(frozen=True)
class Row:
    """One transform.

    Args:
        transform: Its name.
        status: "right": the same values as without it. "refused": a clear error, which is honest. "wrong": other
            values, or a crash. "not tried": nothing is known.
        detail: What shows it, or why it was not tried; may be empty.
    """

    transform: str
    status: Status
    detail: str = ""


def matrix(observations: Observations) -> list[Row]:
    """One row for each transform; of several observations of one, the worst counts."""
    seen: dict[str, list[Row]] = {name: [] for name in TRANSFORMS}
    for observation in observations.of("transform"):
        row = _row(observation)
        seen.setdefault(row.transform, []).append(row)
    why = {str(o.data.get("what")): clean(o.data.get("why", "")) for o in observations.of("skipped")}
    return [
        min(rows, key=lambda row: _WORST_FIRST.index(row.status), default=Row(name, "not tried", why.get(name, "")))
        for name, rows in seen.items()
    ]


def is_refusal(failure: Failure) -> bool:
    """Whether an error says clearly that the function does not take part, rather than being a crash."""
    text = str(failure.get("text", ""))
    kind = str(failure.get("type", "")).rpartition(".")[2]
    return kind in _REFUSING_TYPES or any(phrase in text for phrase in _REFUSALS)


def _row(observation: Observation) -> Row:
    name = str(observation.data.get("transform", "unnamed"))
    if observation.wrong:
        return Row(name, "wrong", _difference(observation.wrong) + _circumstances(observation))
    status = observation.data.get("status")
    if status in _WORST_FIRST:
        return Row(name, status, clean(observation.data.get("why", "")))
    if failure := observation.failure:
        words = f"{failure.get('type', 'an error')}: {failure.get('text', '')}"
        told = clean(words).strip().splitlines()[0] + _circumstances(observation)
        return Row(name, "refused" if is_refusal(failure) else "wrong", told)
    if not observation.comparisons:
        return Row(name, "not tried", "nothing could be compared")
    return Row(name, "right")


def _difference(comparisons: list[Comparison]) -> str:
    worst = max(comparisons, key=_excess)
    got, expected = number(worst.get("got_at")), number(worst.get("expected_at"))
    return f"{element(worst)}: got {got}, expected {expected}"


def _excess(comparison: Comparison) -> float:
    """How far beyond its tolerance a comparison is; what is not a number is furthest."""
    assert wrong(comparison)
    error, tolerance = comparison["error"], comparison["tolerance"]
    if not error < float("inf") or not tolerance > 0:
        return float("inf")
    return float(error / tolerance)


def _circumstances(observation: Observation) -> str:
    """Where it was seen, unless that is the plain case."""
    words = [observation.sample if observation.sample != "as given" else ""]
    words += [
        observation.condition if observation.condition not in ("eager", observation.data.get("transform")) else ""
    ]
    told = ", ".join(clean(word) for word in words if word)
    return f" ({told})" if told else ""
