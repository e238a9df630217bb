"""Rules for torch.func, torch.compile and torch.library: another value than eager autograd gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gradsmith.check._finding import Finding
from gradsmith.check._observation import Observation, Observations
from gradsmith.check.rules._shared import compared_finding, joined, maker, worst
from gradsmith.check.rules.examples.transforms import EXAMPLES
from gradsmith.check.rules.value import base_is_wrong

__all__ = ["RULES"]

COMPILED_GRADIENT = "compile(func.grad)"


def _seen(observations: Observations, *names: str) -> list[Observation]:
    return [o for o in observations.of("transform") if o.data["transform"] in names]


def _transform(number: int, words: str, *names: str) -> Callable[[Observations], Iterator[Finding]]:
    def find(observations: Observations) -> Iterator[Finding]:
        seen = worst(_seen(observations, *names))
        if seen:
            where = seen[0].data["transform"]
            dims = seen[0].data.get("dims")
            extra = f" (batched over {'dim ' + dims if dims.lstrip('-').isdigit() else dims})" if dims else ""
            message = f"{joined(c['name'] for c in seen[0].wrong)} is another under {where}{extra} than {words}."
            yield compared_finding(f"GS{number}", message, _MEND[number], seen, what="")

    return find


def compiled_gradient(observations: Observations) -> Iterator[Finding]:
    """A fault where torch.func works in eager mode; else a note, as the author never claimed torch.func."""
    seen = worst(_seen(observations, COMPILED_GRADIENT))
    if seen and not base_is_wrong(observations):  # the derivative of the forward is then the better one
        message = "torch.compile of torch.func.grad drops the custom backward and takes the derivative of the forward."
        found = compared_finding("GS604", message, _MEND[604], seen)
        claimed = seen[0].data.get("functional", False)
        yield Finding(**{**vars(found), "note": not claimed})


def registration(observations: Observations) -> Iterator[Finding]:
    seen = [o for o in observations.of("registration") if o.data["status"] != "SUCCESS"]
    if seen:
        message = f"torch.library.opcheck finds: {joined(o.data['test'] for o in seen)}."
        lines = tuple(o.data["text"] for o in seen)
        yield Finding("GS607", message, hint=_MEND[607], evidence=lines, count=len(seen))


_MEND = {
    601: "Write the vmap rule so that vmap(f) is a loop over f for every in_dims, or use generate_vmap_rule = True.",
    602: "Take everything backward needs from inputs and output in setup_context.",
    603: "Keep Python side effects and state out of forward and backward.",
    604: "Declare the gradient with gradsmith (gradient_of, custom_gradient), which survives; or do not compile it.",
    605: "Backward must work on batched gradients: torch operations only, no branch on values.",
    606: "Take everything backward needs from inputs and output in setup_context.",
    607: "Make schema, fake implementation and autograd registration agree with what the operator does.",
}

_make = maker(_MEND, EXAMPLES)

RULES = [
    _make(
        601,
        "vmap",
        "vmap gives something else than a loop.",
        "Per-sample gradients and ensembles are then wrong, silently.",
        _transform(601, "in a loop", "vmap", "vmap of func.grad"),
    ),
    _make(
        602,
        "func-grad",
        "torch.func.grad gives another gradient than autograd.",
        "Two ways to ask for the same gradient must agree.",
        _transform(602, "by autograd", "func.grad", "func.jacrev"),
    ),
    _make(
        603,
        "compile",
        "The compiled function or its gradient is another than in eager mode.",
        "torch.compile is switched on in the end, when nobody compares gradients any more.",
        _transform(603, "in eager mode", "compile"),
    ),
    _make(
        604,
        "compile-drops-backward",
        "torch.compile of torch.func.grad drops the custom backward.",
        "PyTorch 2.13 then differentiates the forward itself: a straight-through estimator becomes zero, a reversal is "
        "not reversed. Nothing is said.",
        compiled_gradient,
    ),
    _make(
        605,
        "batched-backward",
        "Backward of several incoming gradients at once is another than one by one.",
        "torch.autograd.functional.jacobian(vectorize=True) and is_grads_batched=True do this.",
        _transform(605, "one by one", "vmap of backward"),
    ),
    _make(
        606,
        "func-hessian",
        "The second derivative by torch.func is another than by autograd.",
        "Two ways to ask for the same Hessian must agree.",
        _transform(606, "by autograd", "func.hessian"),
    ),
    _make(
        607,
        "registration",
        "A custom operator is not what it is registered as.",
        "torch.compile and torch.export trust the schema and the fake implementation.",
        registration,
    ),
]
