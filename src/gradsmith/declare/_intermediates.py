"""The derivative of an intermediate the forward kept.

The first derivative never needs it. A second one does: the backward uses the intermediate, and the intermediate
depends on the inputs. Nobody declared how, so the forward itself is differentiated; where that is not possible, this
raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradsmith.declare._escape import EscapeWatch
from gradsmith.declare._forward import Call, Forward
from gradsmith.declare._private import vjp
from gradsmith.errors import GradientError

__all__ = ["intermediates_of", "push_forward"]


def intermediates_of(
    forward: Forward, call: Call, leaves: Sequence[Any], wanted: Sequence[int], given: Sequence[int]
) -> Callable[..., tuple[torch.Tensor, ...]]:
    """The intermediates numbered `given` as a function of the leaves numbered `wanted`."""

    def function(*primals: torch.Tensor) -> tuple[torch.Tensor, ...]:
        inputs = list(leaves)
        for i, primal in zip(wanted, primals, strict=True):
            inputs[i] = primal
        again = Call()
        again.arguments = call.arguments
        why: str | None = None
        cause: Exception | None = None
        with torch.enable_grad(), EscapeWatch() as watch:
            try:
                outputs = forward.differentiable(again, inputs)
            except Exception as error:  # noqa: BLE001  # whatever the author's forward raises
                why, cause = f"cannot be run for it ({error})", error
        if why is None and (escaped := watch.escaped_into([outputs[again.count + i] for i in given])) is not None:
            why = f"calls {escaped}(), which drops their derivative"
        if why is None and watch.random:
            why = "draws random numbers, which are others each time"
        if why is not None:
            raise GradientError(
                f"the gradient of {forward.name} cannot be differentiated here: its backward uses intermediates, and "
                f"the forward that makes them {why}. Make them with differentiable torch operations, "
                f"and pass random numbers in"
            ) from cause
        return tuple([outputs[again.count + i] for i in given])

    return function


def push_forward(
    function: Callable[..., tuple[torch.Tensor, ...]],
    primals: Sequence[torch.Tensor],
    tangents: Sequence[torch.Tensor],
) -> Sequence[torch.Tensor]:
    """The derivative of `function` along `tangents`, by the transpose of its transpose.

    (torch.func.jvp would do, were it allowed inside a forward-mode level.)
    """
    outputs, pull = vjp(function, *primals)
    _, push = vjp(lambda *grads: pull(grads), *[torch.zeros_like(o) for o in outputs])
    return push(tuple(tangents))
