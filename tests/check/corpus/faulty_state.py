"""GS8: what is carried from one call to another, randomness, and global settings."""

from __future__ import annotations

import torch
from torch import nn
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import normal


class MaskInClass(Function):
    """The mask of the last call is kept on the class: a second call in between overwrites it."""

    mask = None

    @staticmethod
    def forward(ctx, x, slope):
        ctx.slope = slope
        MaskInClass.mask = x > 0
        return torch.where(MaskInClass.mask, x, slope * x)

    @staticmethod
    def backward(ctx, g):
        return torch.where(MaskInClass.mask, g, ctx.slope * g), None


class QuantileGate(nn.Module):
    """Keeps the input of the last call on the module, for its backward."""

    def forward(self, x):
        self.last = x.detach()
        return _ModuleGate.apply(x, self)


class _ModuleGate(Function):
    @staticmethod
    def forward(ctx, x, module):
        ctx.module = module
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, g):
        x = ctx.module.last
        s = torch.sigmoid(x)
        return g * (s + x * s * (1 - s)), None


class PopsBuffers(Function):
    """Consumes what it saved: a second backward over a retained graph fails."""

    @staticmethod
    def forward(ctx, x, angle):
        ctx.save_for_backward(angle)
        ctx.order = ["cos", "sin"]
        return torch.cat([x * angle.cos(), x * angle.sin()], -1)

    @staticmethod
    def backward(ctx, g):
        (angle,) = ctx.saved_tensors
        first, second = g.chunk(2, -1)
        gx = second * getattr(angle, ctx.order.pop())() + first * getattr(angle, ctx.order.pop())()
        return gx, None


class CountsBackward(Function):
    """Halves the gradient at every further backward through the same node."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.decay = 1.0
        return torch.sin(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        out = ctx.decay * g * torch.cos(x)
        ctx.decay *= 0.5
        return out


class RedrawnDropout(Function):
    """Draws a new mask in the backward."""

    @staticmethod
    def forward(ctx, x, p):
        ctx.p = p
        return x * (torch.rand_like(x) >= p) / (1 - p)

    @staticmethod
    def backward(ctx, g):
        return g * (torch.rand_like(g) >= ctx.p) / (1 - ctx.p), None


class StochasticRoundingBackward(Function):
    """Adds noise to the gradient: no two backward passes agree."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.atan(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (g + 1e-2 * torch.randn_like(g)) / (1 + x * x)


_positions: dict = {}


class CachedByShape(Function):
    """Caches the softmax weights by shape; another input of that shape gets those of the first."""

    @staticmethod
    def forward(ctx, x):
        if x.shape not in _positions:
            _positions[x.shape] = torch.softmax(x.detach().double(), -1)
        ctx.save_for_backward(x)
        return torch.logsumexp(x, -1)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g.unsqueeze(-1) * _positions[x.shape].to(g.dtype)


CASES = [
    Case(
        "leaky_mask_in_class",
        MaskInClass,
        lambda: (normal(3, 4), 0.1),
        "GS8",
        "the mask of the latest call is used by the backward of every call",
    ),
    Case(
        "gate_input_on_module",
        QuantileGate(),
        lambda: (normal(3, 4),),
        "GS8",
        "the backward reads the input of the module's latest call",
    ),
    Case(
        "rotation_pops_state",
        PopsBuffers,
        lambda: (normal(3, 4), normal(4, grad=False)),
        "GS8",
        "the second backward over a retained graph fails",
    ),
    Case(
        "sine_decays_per_backward",
        CountsBackward,
        lambda: (normal(3, 4),),
        "GS8",
        "every backward through the same node gives half the gradient of the one before",
    ),
    Case("dropout_redrawn", RedrawnDropout, lambda: (normal(3, 4), 0.5), "GS8|GS1", "the backward draws a new mask"),
    Case(
        "atan_noisy_gradient", StochasticRoundingBackward, lambda: (normal(3, 4),), "GS8|GS1", "the gradient is noisy"
    ),
    Case(
        "logsumexp_cached_by_shape",
        CachedByShape,
        lambda: (normal(3, 4),),
        "GS8|GS1",
        "the gradient of the first input of a shape is used for all",
    ),
]
