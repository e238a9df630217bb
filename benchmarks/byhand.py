"""What people write by hand: the functions gradsmith is compared with, each in its usual form."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function

__all__ = [
    "CtxRound",
    "CtxScale",
    "CtxSquare",
    "Empty",
    "SetupScale",
    "SetupScaleJvp",
    "detach_form",
    "hook_form",
]

Tensor = torch.Tensor


class CtxScale(Function):
    """Gradient scaling in ctx style, the form nearly every project carries."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad * ctx.scale, None


class SetupScale(Function):
    """The same in setup_context style, which torch.func asks for."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, scale: float) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.scale = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad * ctx.scale, None


class SetupScaleJvp(SetupScale):
    """The same again with forward mode. Its output is a copy: PyTorch wants the tangent of a view to be a view."""

    @staticmethod
    def forward(x: Tensor, scale: float) -> Tensor:
        return x.clone()

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        return tangent * ctx.scale


def detach_form(x: Tensor, scale: float) -> Tensor:
    """Plain operations: the value of x, the gradient of scale * x."""
    d = x.detach()
    return d + (x - d) * scale


def hook_form(x: Tensor, scale: float) -> Tensor:
    """A hook on an alias."""
    y = x.view_as(x)
    if y.requires_grad:
        y.register_hook(lambda grad: grad * scale)
    return y


class CtxSquare(Function):
    """A function that saves its input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class CtxRound(Function):
    """Straight-through rounding."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.round(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class Empty(Function):
    """An alias and nothing else: what `Function.apply` itself costs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad
