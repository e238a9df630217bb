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
from gradsmith.declare._private import any_autocast_enabled, version_of
from gradsmith.declare._tree import LEAF, Structure, described, flatten, skeleton
from gradsmith.errors import DeclarationError, GradientError

__all__ = ["Surrogate", "first_argument"]


def first_argument(x: Any, *others: Any, **options: Any) -> Any:
    """The surrogate of a straight-through estimator."""
    return x


class Surrogate:
    """A forward and the callable whose gradient it takes."""

    has_carriers = True

    def __init__(self, forward: Forward, surrogate: Callable[..., Any]) -> None:
        self.forward = forward
        self.surrogate = surrogate
        self._call_surrogate = forward.signature.subset_caller(surrogate, f"the surrogate of {forward.name}")
        self.eager = eager_form(self, forward.name)
        self.full = full_form(self)

    def carriers(self, values: Sequence[Any]) -> tuple[list[torch.Tensor], Structure]:
        """The tensors of the surrogate's output, and how it is built from them."""
        if self.surrogate is first_argument or torch.compiler.is_dynamo_compiling():
            result = self._call_surrogate(values)  # (while torch.compile traces, versions cannot be read)
        else:
            result = self._unwritten(values)
        if isinstance(result, torch.Tensor):
            return [result], LEAF
        carriers: list[torch.Tensor] = []
        return carriers, flatten(result, carriers)

    def _unwritten(self, values: Sequence[Any]) -> Any:
        """The surrogate's result, and an error if it wrote to what it was given."""
        before = [version_of(value) for value in values]
        result = self._call_surrogate(values)
        for name, value, version in zip(self.forward.signature.names, values, before, strict=True):
            if version_of(value) != version:
                raise DeclarationError(
                    f"the surrogate of {self.forward.name} modified {name!r} in place; compute a new tensor instead"
                )
        return result

    def plain(self, call: Call, leaves: Tensors) -> tuple[torch.Tensor, ...]:
        return self.forward(call, leaves)

    def compute(self, call: Call, inputs: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        carriers, leaves = inputs[: call.carriers], inputs[call.carriers :]
        outputs = self.forward(call, leaves)
        if call.carrier is call.output is LEAF and _alike(carriers[0], outputs[0]):
            return outputs
        name = self.forward.name
        if skeleton(call.carrier) != skeleton(call.output):
            hint = f"With straight_through, the first argument of {name} must be the tensor that the gradient goes to"
            raise GradientError(
                f"the surrogate of {name} returns {described(call.carrier)} where {name} returns "
                f"{described(call.output)}; it must be built alike" + ("" if carriers else f". {hint}")
            )
        for i, (carrier, output) in enumerate(zip(carriers, outputs, strict=True)):
            if carrier.shape != output.shape:
                wrong = f"shape {list(carrier.shape)} where {name} has shape {list(output.shape)}"
            elif carrier.dtype != output.dtype and _must_match(call, output):
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


def _must_match(call: Call, output: torch.Tensor) -> bool:
    """Whether another dtype is wrong: not under autocast, and not for indices that come beside other outputs."""
    if _differentiable(output):
        return not any_autocast_enabled()
    return call.output is LEAF


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype


def _differentiable(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
