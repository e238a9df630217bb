"""GS1: right for the settings of the paper, wrong for others."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import normal


class LeakyClamp(Function):
    """The slope outside the range is forgotten on the upper side only."""

    @staticmethod
    def forward(ctx, x, limit, slope):
        ctx.save_for_backward(x)
        ctx.limit, ctx.slope = limit, slope
        inside = x.clamp(-limit, limit)
        return inside + slope * (x - inside)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return torch.where(x < -ctx.limit, ctx.slope * g, g), None, None


class SmoothL1(Function):
    """The quadratic part divides by beta, the backward does not; beta is 1 in the paper."""

    @staticmethod
    def forward(ctx, prediction, target, beta):
        if prediction.shape != target.shape:
            raise ValueError("prediction and target must have one shape")
        ctx.save_for_backward(prediction, target)
        d = (prediction - target).abs()
        ctx.beta = beta
        return torch.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta)

    @staticmethod
    def backward(ctx, g):
        prediction, target = ctx.saved_tensors
        d = prediction - target
        slope = torch.where(d.abs() < ctx.beta, d / ctx.beta, d.sign().clamp(-ctx.beta, ctx.beta))
        return g * slope, None, None


class OuterNorm(Function):
    """x / ||x|| along `dim`; the backward takes the last dim whatever was asked for."""

    @staticmethod
    def forward(ctx, x, dim=-1):
        ctx.save_for_backward(x)
        return x / (x.square().sum(dim, keepdim=True) + 1e-12).sqrt()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        n = (x.square().sum(-1, keepdim=True) + 1e-12).sqrt()
        y = x / n
        return (g - y * (g * y).sum(-1, keepdim=True)) / n, None


class GroupedQueryAttention(Function):
    """Several query heads share one key head; the gradients of the group are averaged, not summed."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, q, k):
        ctx.save_for_backward(q, k)
        repeat = q.shape[0] // k.shape[0]
        return q @ k.repeat_interleave(repeat, 0).transpose(-1, -2)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        q, k = ctx.saved_tensors
        repeat = q.shape[0] // k.shape[0]
        gk = (g.transpose(-1, -2) @ q).reshape(k.shape[0], repeat, *k.shape[1:]).mean(1)
        return g @ k.repeat_interleave(repeat, 0), gk


class MaskedMean(Function):
    """Divides by the length of the sequence in the backward, by the number of kept positions in the forward."""

    @staticmethod
    def forward(ctx, x, mask):
        ctx.save_for_backward(mask)
        count = mask.sum(-1, keepdim=True).clamp(min=1)
        return (x * mask.unsqueeze(-1)).sum(-2) / count

    @staticmethod
    def backward(ctx, g):
        (mask,) = ctx.saved_tensors
        return g.unsqueeze(-2) * mask.unsqueeze(-1) / mask.shape[-1], None


class CausalConv(Function):
    """A depthwise convolution over time; right for a kernel of two taps only."""

    @staticmethod
    def forward(ctx, x, kernel):
        ctx.save_for_backward(x, kernel)
        out = torch.zeros_like(x)
        for lag in range(min(kernel.shape[0], x.shape[0])):
            out[lag:] += kernel[lag] * x[: x.shape[0] - lag]
        return out

    @staticmethod
    def backward(ctx, g):
        x, kernel = ctx.saved_tensors
        steps = x.shape[0]
        gx, gk = torch.zeros_like(x), []
        for lag in range(kernel.shape[0]):
            shift = min(lag, 1)
            gx[: steps - shift] += kernel[lag] * g[shift:]
            gk.append((g[lag:] * x[: max(steps - lag, 0)]).sum(0))
        return gx, torch.stack(gk)


CASES = [
    Case(
        "leaky_clamp_one_side",
        LeakyClamp,
        lambda: (normal(3, 4, scale=0.3), 2.0, 0.1),
        "GS1",
        "above the limit the slope of the inside is used; no sample is that large",
    ),
    Case(
        "smooth_l1_beta",
        SmoothL1,
        lambda: (normal(3, 4), normal(3, 4, seed=1, grad=False), 0.5),
        "GS1",
        "the linear part has slope beta instead of 1",
    ),
    Case(
        "normalise_wrong_dim",
        OuterNorm,
        lambda: (normal(3, 3), 0),
        "GS1",
        "the backward normalises along the last dim, the forward along dim 0",
    ),
    Case(
        "grouped_heads_averaged",
        GroupedQueryAttention,
        lambda: (normal(4, 3, 5), normal(2, 3, 5)),
        "GS1",
        "the gradients of the query heads in a group are averaged, not summed",
    ),
    Case(
        "masked_mean_length",
        MaskedMean,
        lambda: (normal(2, 4, 3), torch.tensor([[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]])),
        "GS1",
        "the gradient is divided by the length instead of the number of kept positions",
    ),
    Case(
        "causal_conv_two_taps",
        CausalConv,
        lambda: (normal(6, 2), normal(3, 2)),
        "GS1",
        "lags beyond one are treated as one",
    ),
]
