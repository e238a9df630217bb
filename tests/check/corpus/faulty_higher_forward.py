"""GS5: forward mode does not agree with the backward."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import normal


class GeluTangentHalf(Function):
    """Forward mode has half the slope."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return torch.nn.functional.gelu(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def _slope(x):
        return 0.5 * (1 + torch.erf(x * 0.5**0.5)) + x * torch.exp(-0.5 * x * x) * 0.3989422804014327

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * GeluTangentHalf._slope(x)

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 0.5 * tangent * GeluTangentHalf._slope(x)


class LinearTangentForgetsWeight(Function):
    """The tangent of the weight is ignored in forward mode."""

    @staticmethod
    def forward(x, weight):
        return x * torch.exp(weight)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        w = torch.exp(weight)
        return (g * w).sum_to_size(x.shape), (g * x * w).sum_to_size(weight.shape)

    @staticmethod
    def jvp(ctx, x_tangent, weight_tangent):
        _, weight = ctx.saved_tensors
        return x_tangent * torch.exp(weight)


class RoundTangentOfForward(Function):
    """Straight through in reverse mode; in forward mode the tangent is that of rounding, zero."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return torch.round(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g.clone()

    @staticmethod
    def jvp(ctx, tangent):
        return torch.zeros_like(tangent)


CASES = [
    Case("gelu_half_tangent", GeluTangentHalf, lambda: (normal(3, 4),), "GS5", "the jvp is half of what it must be"),
    Case(
        "exp_gain_tangent_dropped",
        LinearTangentForgetsWeight,
        lambda: (normal(3, 4), normal(4)),
        "GS5",
        "the jvp ignores the tangent of the weight",
    ),
    Case(
        "round_tangent_zero",
        RoundTangentOfForward,
        lambda: (normal(3, 4, scale=3.0),),
        "GS5",
        "the jvp is zero where the backward is straight through",
        {"gradient_of": lambda x: x},
    ),
]
