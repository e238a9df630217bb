"""A gradient declared as that of something else: the rule behind `gradient_of` and `straight_through`.

The surrogate runs in the open, under autograd, and hands its output over as a carrier. One node then puts the
forward's value in its place and passes the gradient through. So the gradient is the surrogate's own, saved by it,
to any order and in forward mode, and nothing is saved here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradsmith.declare._forward import Call, Forward
from gradsmith.declare._functions import Tensors, eager_form, full_form
from gradsmith.declare._private import any_autocast_enabled
from gradsmith.declare._tree import flatten
from gradsmith.errors import GradientError

__all__ = ["Surrogate"]


class Surrogate:
    """A forward and the callable whose gradient it takes."""

    has_carriers = True

    def __init__(self, forward: Forward, surrogate: Callable[..., Any]) -> None:
        self.forward = forward
        self.surrogate = surrogate
        self._call_surrogate = forward.signature.subset_caller(surrogate, f"the surrogate of {forward.name}")
        self.eager = eager_form(self, forward.name)
        self.full = full_form(self)

    def carriers(self, values: Sequence[Any]) -> list[torch.Tensor]:
        """The tensors of the surrogate's output."""
        result = self._call_surrogate(values)
        if isinstance(result, torch.Tensor):
            return [result]
        carriers: list[torch.Tensor] = []
        flatten(result, carriers)
        return carriers

    def plain(self, call: Call, leaves: Tensors) -> tuple[torch.Tensor, ...]:
        return self.forward(call, leaves)

    def compute(self, call: Call, inputs: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        carriers, leaves = inputs[: call.carriers], inputs[call.carriers :]
        outputs = self.forward(call, leaves)
        name = self.forward.name
        if not carriers:
            raise GradientError(
                f"the surrogate of {name} returns no tensor. With straight_through, the first argument of {name} must "
                f"be the tensor that the gradient goes to"
            )
        if len(carriers) != len(outputs):
            raise GradientError(
                f"the surrogate of {name} returns {len(carriers)} tensors where {name} returns {len(outputs)}; "
                f"it must return one for each, of the same shape"
            )
        for i, (carrier, output) in enumerate(zip(carriers, outputs, strict=True)):
            if carrier.shape != output.shape:
                wrong = f"shape {list(carrier.shape)} where {name} has shape {list(output.shape)}"
            elif carrier.dtype != output.dtype and _differentiable(output) and not any_autocast_enabled():
                wrong = f"dtype {carrier.dtype} where {name} has dtype {output.dtype}"
            else:
                continue
            raise GradientError(
                f"the surrogate of {name} returns {wrong} (output {i}); its output must be built like that of {name}"
            )
        return outputs

    def save(self, call: Call, inputs: Tensors, outputs: Tensors) -> tuple[int, list[int]]:
        return len(inputs) - call.carriers, []

    def pull(self, saved: int, tensors: Tensors, grads: Tensors, needs: Sequence[bool]) -> list[Any]:
        return [*grads, *[None] * saved]

    def push(self, saved: int, inputs: Tensors, outputs: Tensors, tangents: Tensors) -> list[Any]:
        return [t if _differentiable(o) else None for t, o in zip(tangents, outputs, strict=False)]


def _differentiable(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
