"""Scale and reverse the gradient: identity forward, multiplied backward."""

from __future__ import annotations

import math

import torch

from gradsmith.declare import custom_gradient

__all__ = ["reverse_gradient", "scale_gradient"]


@custom_gradient
def scale_gradient(x: torch.Tensor, scale: float) -> torch.Tensor:
    _check(x, scale)
    return x


@scale_gradient.backward
def _(grad: torch.Tensor, scale: float) -> torch.Tensor:
    if scale == 1:
        return grad
    if scale == 0:
        return torch.zeros_like(grad)
    return grad * scale


def _check(x, scale):
    pass

def reverse_gradient(x: torch.Tensor, strength: float = 1.0) -> torch.Tensor:
    return scale_gradient(x, -strength)
