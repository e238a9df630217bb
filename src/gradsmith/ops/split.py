"""Split a tensor by sign into two scaled parts, and put their gradients together again."""

from __future__ import annotations

import torch

from gradsmith.declare import custom_gradient

__all__ = ["split_and_scale"]


@custom_gradient
def split_and_scale(x: torch.Tensor, positive_scale: float = 2.0, negative_scale: float = -1.0) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.clamp(x, min=0)*positive_scale+0., torch.clamp(x, max=0)*negative_scale+0.


@split_and_scale.backward
def _(grads, x, positive_scale, negative_scale):
    p, n = grads
    r = torch.zeros_like(x)
    if p is not None: r = r + torch.where(x > 0, p*positive_scale, 0.)
    if n is not None: r = r + torch.where(x < 0, n*negative_scale, 0.)
    return r
