"""Scale and reverse the gradient: identity forward, multiplied backward."""

from __future__ import annotations

import sys
from typing import Any

import torch

from gradsmith.declare import custom_gradient, direct_apply, functorch_is_active, meant_as
from gradsmith.ops._checks import check_differentiable, check_number

__all__ = ["reverse_gradient", "scale_gradient"]


@meant_as(lambda x, scale: x * scale)
def scale_gradient(x: torch.Tensor, scale: float) -> torch.Tensor:
    """The identity, whose gradient is multiplied by `scale`.

    A factor below 1 lets one task of several pull less at what they share; 0 stops the gradient; a negative factor
    turns it around (see `reverse_gradient`).

    Forward, the output is an alias of `x`: same bits, same memory, nothing computed or copied. Writing to it in place
    writes to `x` too, which should then not be used any more. Nothing is saved for backward. Backward is one pass,
    `scale * grad`; with scale 1 it is no pass at all, and with scale 0 it is exact zeros, whatever the incoming
    gradient holds.

    An optimiser that normalises, such as Adam, cancels a constant factor that *every* gradient of a parameter has.

    Args:
        x: tensor of any shape, floating-point or complex.
        scale: a finite number, without unit: what the gradient is multiplied by.

    Returns:
        Tensor of the shape, dtype and device of `x`.

    Raises:
        TypeError: `x` is no floating-point or complex tensor; `scale` is no number.
        ValueError: `scale` is nan or infinite.

    Example:
        >>> import torch, gradsmith as gs
        >>> x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
        >>> y = gs.scale_gradient(x, 0.5)
        >>> y
        tensor([1., 2., 3., 4.], grad_fn=<scale_gradientBackward>)
        >>> y.sum().backward()
        >>> x.grad
        tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """
    # Called a million times: eager calls outside torch.func take one node made by hand. Everything else, torch.compile
    # by the substitution at the end of this file, takes the declaration.
    if (
        not functorch_is_active()
        and type(x) in _TENSORS
        and x.requires_grad
        and type(scale) in _NUMBERS
        and -_LARGEST <= scale <= _LARGEST
    ):
        return _apply(x, scale)  # type: ignore[no-any-return]
    return _declared(x, scale)


@meant_as(lambda x, strength=1.0: x * -strength)
def reverse_gradient(x: torch.Tensor, strength: float = 1.0) -> torch.Tensor:
    """The identity, whose gradient is multiplied by `-strength`: a gradient reversal layer.

    Between a feature extractor and a domain classifier it trains the classifier to tell the domains apart and the
    extractor to make that impossible. Ganin et al., "Domain-adversarial training of neural networks" (2016).

    It is `scale_gradient(x, -strength)`; everything said there holds.

    Args:
        x: tensor of any shape, floating-point or complex.
        strength: a finite number, without unit. The paper's lambda: often raised from 0 to 1 during training.

    Returns:
        Tensor of the shape, dtype and device of `x`.

    Raises:
        TypeError: `x` is no floating-point or complex tensor; `strength` is no number.
        ValueError: `strength` is nan or infinite.

    Example:
        >>> import torch, gradsmith as gs
        >>> x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
        >>> gs.reverse_gradient(x).sum().backward()
        >>> x.grad
        tensor([-1., -1., -1., -1.])
    """
    check_number("reverse_gradient", "strength", strength)
    return scale_gradient(x, -strength)


@custom_gradient(gradient_of=lambda x, scale: x * scale)
def _declared(x: torch.Tensor, scale: float) -> torch.Tensor:
    check_differentiable("scale_gradient", "x", x)
    check_number("scale_gradient", "scale", scale)
    return x


@_declared.backward
def _scaled(grad: torch.Tensor, scale: float) -> torch.Tensor:
    if scale == 1:
        return grad
    if scale == 0:
        return torch.zeros_like(grad)  # 0 * inf would be nan
    return grad * scale


class _Node(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: float) -> torch.Tensor:
        ctx.scale = scale
        return x.detach()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _scaled(grad, ctx.scale), None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, _: None) -> torch.Tensor:
        return _scaled(tangent, ctx.scale)


_apply = direct_apply(type("scale_gradient", (_Node,), {}))
_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
_NUMBERS = frozenset({float, int})
_LARGEST = sys.float_info.max


@torch.compiler.substitute_in_graph(scale_gradient)
def _in_graph(x: torch.Tensor, scale: float) -> torch.Tensor:
    return _declared(x, scale)
