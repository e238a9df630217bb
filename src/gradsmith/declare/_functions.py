"""The two `autograd.Function` forms of a rule. What they compute is the rule's; here is only PyTorch's protocol.

The ctx-style form is the cheap one. The `setup_context` form costs several times as much per call, and is what
torch.func and forward mode need. Both save only through `save_for_backward`, so that saved-tensor hooks,
checkpointing and version counters see everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch.autograd import Function

from gradsmith.declare._forward import Call
from gradsmith.declare._private import (
    direct_apply,
    not_compiled,
    primal,
    real_constants_allowed,
    tangents_recorded,
    without_python_apply,
)

__all__ = ["Differentiable", "Tensors", "eager_form", "full_form"]

Tensors = Sequence[Any]


class Differentiable(Protocol):
    """A rule on leaves. `inputs` are the carriers and leaves of a call, `outputs` its tensors."""

    def compute(self, call: Call, inputs: Tensors) -> tuple[torch.Tensor, ...]:
        """The outputs."""

    def save(self, call: Call, inputs: Tensors, outputs: Tensors) -> tuple[Any, list[int]]:
        """What the backward needs: a plain object, and which of `[*inputs, *outputs]` to save as tensors."""

    def pull(self, saved: Any, tensors: Tensors, grads: Tensors, needs: Sequence[bool]) -> list[Any]:
        """The gradient of every input (None where there is none), given those of the outputs."""

    def push(self, saved: Any, inputs: Tensors, outputs: Tensors, tangents: Tensors) -> list[Any]:
        """The tangent of every output (None where there is none), given those of the inputs."""


def eager_form(rule: Differentiable, name: str) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Apply a rule in ctx style: `(call, *inputs) -> outputs`."""

    class Eager(Function):
        @staticmethod
        def forward(ctx: Any, call: Call, *inputs: Any) -> tuple[torch.Tensor, ...]:
            outputs = rule.compute(call, inputs)
            ctx.saved, numbers = rule.save(call, inputs, outputs)
            if numbers:
                count = len(inputs)
                ctx.save_for_backward(*[inputs[n] if n < count else outputs[n - count] for n in numbers])
            ctx.set_materialize_grads(False)
            return outputs

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return None, *rule.pull(ctx.saved, ctx.saved_tensors, grads, ctx.needs_input_grad[1:])

    # A subclass of the right name: it is what users read in `output.grad_fn`.
    return direct_apply(type(name, (Eager,), {}))


def full_form(rule: Differentiable) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Apply a rule with everything torch.func and forward mode ask for: `(call, *inputs) -> outputs`."""

    @not_compiled
    def apply(call: Call, *inputs: Any) -> tuple[torch.Tensor, ...]:
        outputs: tuple[torch.Tensor, ...] = _apply_full(rule, call, *inputs)
        return outputs

    return apply


class Full(Function):
    """A rule, which is its first argument, in `setup_context` style."""

    @staticmethod
    def forward(rule: Differentiable, call: Call, *inputs: Any) -> tuple[torch.Tensor, ...]:
        return rule.compute(call, inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.rule, call, *leaves = inputs
        ctx.saved, numbers = ctx.rule.save(call, leaves, output)
        flat = [*leaves, *output]
        ctx.save_for_backward(*[flat[n] for n in numbers])
        ctx.set_materialize_grads(False)
        # Forward mode runs at once and needs everything; what is saved for it does not outlive the call.
        ctx.others = [_TENSOR if isinstance(v, torch.Tensor) else v for v in leaves]
        ctx.save_for_forward(*[v for v in flat if isinstance(v, torch.Tensor)])

    @staticmethod
    @not_compiled
    def backward(ctx: Any, *grads: Any) -> Any:
        with real_constants_allowed():
            return None, None, *ctx.rule.pull(ctx.saved, ctx.saved_tensors, grads, ctx.needs_input_grad[2:])

    @staticmethod
    @not_compiled
    def jvp(ctx: Any, _rule: None, _call: None, *tangents: Any) -> Any:
        # While it runs a jvp, PyTorch records no tangents; those of an outer level would silently be lost.
        with real_constants_allowed(), tangents_recorded(True):
            tensors = iter([primal(t) for t in ctx.saved_tensors])
            inputs = [next(tensors) if v is _TENSOR else v for v in ctx.others]
            return tuple(ctx.rule.push(ctx.saved, inputs, list(tensors), tangents))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], rule: Differentiable, call: Call, *inputs: Any) -> Any:
        batched = _Batched(rule, in_dims[2:], info.batch_size, info.randomness)
        outputs = _apply_full(batched, call, *inputs)
        return outputs, (0,) * len(outputs)


_TENSOR = object()  # stands where a tensor was, which is saved as one
_apply_full = without_python_apply(Full)


class _Batched:
    """A rule over a batch: each of its steps is the step of one element, under vmap.

    (torch's `generate_vmap_rule` would do nearly the same, but it takes what is saved for forward mode for what is
    saved for backward.)
    """

    def __init__(self, rule: Differentiable, in_dims: Sequence[int | None], size: int, randomness: str) -> None:
        self.rule = rule
        self.in_dims = in_dims
        self.size = size
        self.randomness = randomness

    def compute(self, call: Call, inputs: Tensors) -> tuple[torch.Tensor, ...]:
        outputs = self._vmap(lambda *row: self.rule.compute(call, row), inputs, self.in_dims)
        return tuple(outputs)

    def save(self, call: Call, inputs: Tensors, outputs: Tensors) -> tuple[Any, list[int]]:
        dims = [*self.in_dims, *[0] * len(outputs)]
        row = [_element(v, d) for v, d in zip([*inputs, *outputs], dims, strict=True)]
        saved, numbers = self.rule.save(call, row[: len(inputs)], row[len(inputs) :])
        return (saved, [dims[n] for n in numbers]), numbers

    def pull(self, saved: Any, tensors: Tensors, grads: Tensors, needs: Sequence[bool]) -> list[Any]:
        of_one, saved_dims = saved
        count = len(tensors)

        def one(*row: Any) -> list[Any]:
            return self.rule.pull(of_one, row[:count], row[count:], needs)

        dims = [*saved_dims, *[None if g is None else 0 for g in grads]]
        gradients = self._vmap(one, [*tensors, *grads], dims)
        return [
            None if g is None else g.sum(0) if dim is None else g.movedim(0, dim)
            for g, dim in zip(gradients, self.in_dims, strict=True)
        ]

    def push(self, saved: Any, inputs: Tensors, outputs: Tensors, tangents: Tensors) -> list[Any]:
        n, m = len(inputs), len(outputs)

        def one(*row: Any) -> list[Any]:
            return self.rule.push(saved[0], row[:n], row[n : n + m], row[n + m :])

        tangent_dims = [None if t is None else dim for t, dim in zip(tangents, self.in_dims, strict=True)]
        return self._vmap(one, [*inputs, *outputs, *tangents], [*self.in_dims, *[0] * m, *tangent_dims])

    def _vmap(self, function: Callable[..., Sequence[Any]], values: Tensors, dims: Sequence[int | None]) -> list[Any]:
        """vmap of a function that takes other things than tensors too and may return None in places."""
        batched = [i for i, dim in enumerate(dims) if dim is not None]
        present: list[bool] = []

        def on_batches(*rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
            arguments = list(values)
            for i, row in zip(batched, rows, strict=True):
                arguments[i] = row
            results = function(*arguments)
            present[:] = [r is not None for r in results]
            return tuple([r for r in results if r is not None])

        if not batched:  # vmap wants a batch: every element is the same
            results = [r if r is None else r.expand(self.size, *r.shape) for r in function(*values)]
            return results
        rows = torch.func.vmap(on_batches, tuple([dims[i] for i in batched]), randomness=self.randomness)(
            *[values[i] for i in batched]
        )
        given = iter(rows)
        return [next(given) if there else None for there in present]


def _element(value: Any, dim: int | None) -> Any:
    """Something of the shape one element of the batch has."""
    if dim is None or not isinstance(value, torch.Tensor):
        return value
    if value.size(dim):
        return value.select(dim, 0)
    return value.new_empty([n for i, n in enumerate(value.shape) if i != dim % value.dim()])
