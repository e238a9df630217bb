"""The support matrix: what each transform makes of the subject."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gradsmith.check._observation import Comparison, Failure, Observation, Observations, wrong
from gradsmith.check.report._plain import clean, element, number

__all__ = ["TRANSFORMS", "Row", "Status", "matrix"]

Status = Literal["right", "refused", "wrong", "not tried"]

TRANSFORMS = (
    "backward",
    "double backward",
    "forward mode",
    "vmap",
    "vmap of backward",
    "func.grad",
    "vmap of func.grad",
    "func.hessian",
    "compile",
    "compile(func.grad)",
    "checkpoint",
    "autocast",
)
_LAWS = {"value": "backward", "second order": "double backward"}  # laws that are about a transform by themselves
_MOST_WORDS = 160  # characters of a detail; the error itself may be a page
_WORST_FIRST: tuple[Status, ...] = ("wrong", "refused", "right", "not tried")


@dataclass(frozen=True)
class Row:
    """One transform.

    Args:
        transform: Its name.
        status: "right": the same values as without it. "refused": an error, which is honest. "wrong": other
            values. "not tried": nothing is known.
        detail: What shows it, or why it was not tried; may be empty.
    """

    transform: str
    status: Status
    detail: str = ""


def matrix(observations: Observations) -> list[Row]:
    """One row for each transform; of several observations of one, the worst counts."""
    seen: dict[str, list[Row]] = {name: [] for name in TRANSFORMS}
    for observation in observations.of("transform", *_LAWS):
        row = _row(observation)
        seen.setdefault(row.transform, []).append(row)
    skipped = {str(o.data.get("what")): clean(o.data.get("why", "")) for o in observations.of("skipped")}
    return [
        min(rows, key=lambda row: _WORST_FIRST.index(row.status), default=_untried(name, skipped))
        for name, rows in seen.items()
    ]


def _untried(name: str, skipped: dict[str, str]) -> Row:
    library = "torch.compile" if name.startswith("compile") else name
    return Row(name, "not tried", skipped.get(name) or skipped.get(library, ""))


def _row(observation: Observation) -> Row:
    name = _LAWS.get(observation.law) or str(observation.data.get("transform", "unnamed"))
    if observation.wrong:
        return Row(name, "wrong", _difference(observation.wrong) + _circumstances(observation))
    failure, status = observation.failure, observation.data.get("status")
    told = _words(failure) + _circumstances(observation) if failure else ""
    if status in _WORST_FIRST:
        return Row(name, status, clean(observation.data.get("why", "")) or told)
    if failure:
        return Row(name, "wrong" if name == "backward" else "refused", told)
    if not observation.comparisons:
        return Row(name, "not tried", "nothing could be compared")
    return Row(name, "right", "with graph breaks" if observation.data.get("fullgraph") is False else "")


def _words(failure: Failure) -> str:
    """The first line of an error, and of a long line as many sentences as there is room for."""
    line = clean(f"{failure.get('type', 'an error')}: {failure.get('text', '')}").strip().splitlines()[0]
    if len(line) <= _MOST_WORDS:
        return line
    whole, stop, _ = line[:_MOST_WORDS].rpartition(". ")
    return whole + "." if stop else line[: _MOST_WORDS - 4] + " ..."


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
