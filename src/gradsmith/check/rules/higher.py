"""Rules for derivatives of the gradient and for forward mode."""

from __future__ import annotations

from collections.abc import Iterator

from gradsmith.check._finding import Finding
from gradsmith.check._observation import Observation, Observations
from gradsmith.check.rules._shared import compared_finding, joined, maker, rounds, worst
from gradsmith.check.rules.examples.higher import EXAMPLES

__all__ = ["RULES"]


def _positions(observations: Observations) -> list[Observation]:
    return [o for o in observations.of("second order") if o.failure is None]


def _refused(observations: Observations) -> list[Observation]:
    return [o for o in observations.of("second order") if o.failure is not None]


def _half_refused(observations: Observations) -> bool:
    """`torch.autograd.grad` does not reach the error of once_differentiable, as nothing asked for lies behind it."""
    units = observations.first("source").get("units", [])
    marked = any(u["role"] == "backward" and "once_differentiable" in u["text"] for u in units)
    return marked or bool(_refused(observations))


def silent(observations: Observations) -> Iterator[Finding]:
    seen = [o for o in _positions(observations) if o.wrong and o.data["silent"]]
    if seen and not _half_refused(observations) and all(o.data["silent"] for o in _positions(observations) if o.wrong):
        message = "The second derivative is silently zero: the gradient has no graph of its own."
        yield compared_finding("GS501", message, _MEND[501], seen, what="second derivative by ")


def silent_in_one(observations: Observations) -> Iterator[Finding]:
    seen = [o for o in reversed(worst(_positions(observations))) if o.data["silent"]]
    if seen and _half_refused(observations):
        message = (
            f"The second derivative is refused in one case and silently zero in another: when {seen[0].condition}."
        )
        diagnosis = "once_differentiable raises only where the incoming gradient requires grad"
        yield compared_finding("GS502", message, _MEND[502], seen, diagnosis=diagnosis, what="second derivative by ")


def wrong(observations: Observations) -> Iterator[Finding]:
    seen = [o for o in worst(_positions(observations)) if not o.data["silent"]]
    if seen and not rounds(observations):
        lost = all(c.get("missing") or c["got_at"] == 0 for c in seen[0].wrong)
        diagnosis = (
            "a tensor that depends on the input was saved without its history: its part is missing" if lost else ""
        )
        names = joined(c["name"] for c in seen[0].wrong)
        message = f"The second derivative with respect to {names} is silently wrong when {seen[0].condition}."
        yield compared_finding("GS503", message, _MEND[503], seen, diagnosis=diagnosis, what="second derivative by ")


def forward_mode(observations: Observations) -> Iterator[Finding]:
    if any(o.wrong for o in observations.of("linearity")):
        return  # a backward that is not linear has no transpose
    seen = worst(o for o in observations.of("transform") if o.data["transform"] == "forward mode")
    if seen:
        message = f"Forward mode and backward disagree about {joined(c['name'] for c in seen[0].wrong)}."
        found = compared_finding("GS504", message, _MEND[504], seen, what="tangent of ")
        # PyTorch 2.13 gives a custom operator a silent zero tangent, whatever its author does
        torchs = observations.first("subject").get("kind") == "custom_op"
        yield Finding(**{**vars(found), "note": torchs})


_MEND = {
    501: "Compute the gradient with torch operations on saved inputs and outputs; where that cannot be, raise: put the "
    "backward in a second Function whose own backward raises and that takes the saved tensors and the incoming "
    "gradient as inputs. gradsmith.custom_gradient does it.",
    502: "Replace once_differentiable by a refusal that holds in every position: a second Function around the backward "
    "that takes the saved tensors and the incoming gradient as inputs and raises in its own backward. "
    "gradsmith.custom_gradient does it.",
    503: "Compute the gradient from inputs and outputs, or recompute the intermediates in backward; one that was "
    "saved has no history.",
    504: "jvp must be the transpose of backward: <g, jvp(t)> = <backward(g), t>.",
}

_make = maker(_MEND, EXAMPLES)

RULES = [
    _make(
        501,
        "double-backward-silent",
        "The gradient cannot be differentiated, and says nothing.",
        "A gradient penalty, a Hessian or a meta-gradient is silently zero.",
        silent,
    ),
    _make(
        502,
        "double-backward-half-refused",
        "The second derivative raises in one position and is silently zero in another.",
        "once_differentiable raises only if the incoming gradient itself requires grad. A gradient penalty on the last "
        "operation before the loss does not, and is silently zero.",
        silent_in_one,
    ),
    _make(
        503,
        "double-backward-wrong",
        "The second derivative is silently wrong.",
        "Gradient penalties and second-order optimisers follow it.",
        wrong,
    ),
    _make(
        504,
        "forward-mode",
        "Forward mode is not the transpose of backward.",
        "jvp, jacfwd and Hessian-vector products give something else than training does.",
        forward_mode,
    ),
]
