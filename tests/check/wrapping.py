"""Any operation of torch as an `autograd.Function` whose derivatives are all those of torch.

Backward recomputes the operation on the saved inputs and lets torch differentiate it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["Op", "wrapped"]

Op = Callable[..., Any]


def wrapped(op: Op, style: str) -> type[torch.autograd.Function]:
    """The operation as an `autograd.Function`, in style "ctx" or "setup" (setup_context and vmap)."""
    return {"ctx": _ctx_style, "setup": _setup_style}[style](op)


def _ctx_style(op: Op) -> type[torch.autograd.Function]:
    class Wrapped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *args):
            outputs = _plain(op(*args))
            _remember(ctx, args, outputs)
            return outputs

        @staticmethod
        def backward(ctx, *grads):
            args, needed = _recall(ctx)
            create_graph = torch.is_grad_enabled()
            with torch.enable_grad():
                # Aliases, since one saved input may have been computed from another one.
                inputs = [args[i].view_as(args[i]) for i in needed]
                outputs = _differentiable(op(*_replaced(args, needed, inputs)))
                result = torch.autograd.grad(
                    outputs,
                    inputs,
                    [grads[i] for i in ctx.differentiable],
                    create_graph=create_graph,
                    allow_unused=True,
                    materialize_grads=True,
                )
            return tuple(_replaced([None] * len(args), needed, result))

    return Wrapped


def _setup_style(op: Op) -> type[torch.autograd.Function]:
    class Wrapped(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*args):
            return _plain(op(*args))

        @staticmethod
        def setup_context(ctx, inputs, output):
            _remember(ctx, inputs, output)

        @staticmethod
        def backward(ctx, *grads):
            args, needed = _recall(ctx)

            def of_needed(*inputs):
                return tuple(_differentiable(op(*_replaced(args, needed, inputs))))

            _, pull_back = torch.func.vjp(of_needed, *[args[i] for i in needed])
            result = pull_back(tuple(grads[i] for i in ctx.differentiable))
            return tuple(_replaced([None] * len(args), needed, result))

    return Wrapped


def _plain(output: Any) -> Any:
    """torch's named tuples as plain ones."""
    return output if isinstance(output, Tensor) else tuple(output)


def _remember(ctx: Any, args: Sequence[Any], output: Any) -> None:
    outputs = [output] if isinstance(output, Tensor) else output
    ctx.save_for_backward(*[a for a in args if isinstance(a, Tensor)])
    ctx.others = {i: a for i, a in enumerate(args) if not isinstance(a, Tensor)}
    ctx.differentiable = [i for i, o in enumerate(outputs) if _is_continuous(o)]
    if len(ctx.differentiable) < len(outputs):  # torch.compile refuses a call that marks nothing
        ctx.mark_non_differentiable(*[o for o in outputs if not _is_continuous(o)])


def _recall(ctx: Any) -> tuple[list[Any], list[int]]:
    """The arguments of forward, and the positions of those whose gradient is wanted."""
    needs = ctx.needs_input_grad
    tensors = list(ctx.saved_tensors)
    args = [ctx.others[i] if i in ctx.others else tensors.pop(0) for i in range(len(needs))]
    return args, [i for i, need in enumerate(needs) if need]


def _replaced(values: Sequence[Any], positions: Sequence[int], new: Sequence[Any]) -> list[Any]:
    values = list(values)
    for position, value in zip(positions, new, strict=True):
        values[position] = value
    return values


def _differentiable(output: Any) -> list[Tensor]:
    return [o for o in ([output] if isinstance(output, Tensor) else output) if _is_continuous(o)]


def _is_continuous(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
