"""GS1: the maths of the backward is wrong."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import integers, normal, uniform


class LayerNormWithoutMeanTerm(Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        mean = x.mean(-1, keepdim=True)
        rstd = torch.rsqrt(x.var(-1, unbiased=False, keepdim=True) + eps)
        return (x - mean) * rstd * weight + bias

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        centred = x - x.mean(-1, keepdim=True)
        rstd = torch.rsqrt(centred.square().mean(-1, keepdim=True) + ctx.eps)
        normed = centred * rstd
        gn = g * weight
        gx = rstd * (gn - normed * (gn * normed).mean(-1, keepdim=True))
        return gx, (g * normed).sum_to_size(weight.shape), g.sum_to_size(weight.shape), None


class RMSNormSum(Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        r = torch.rsqrt(x.square().mean(-1, keepdim=True) + ctx.eps)
        gw = g * weight
        gx = r * gw - x * r.pow(3) * (gw * x).sum(-1, keepdim=True)
        return gx, (g * x * r).sum_to_size(weight.shape), None


class SwiGLUHalf(Function):
    """Swaps what belongs to the gate and what belongs to the value."""

    @staticmethod
    def forward(ctx, gate, up):
        if gate.shape != up.shape:
            raise ValueError(f"gate {tuple(gate.shape)} and up {tuple(up.shape)} differ")
        ctx.save_for_backward(gate, up)
        return gate * torch.sigmoid(gate) * up

    @staticmethod
    def backward(ctx, g):
        gate, up = ctx.saved_tensors
        s = torch.sigmoid(gate)
        d_up = g * gate * s
        d_gate = g * up * s * (1 + gate * (1 - s))
        return d_up, d_gate


class GeGLUWrongConstant(Function):
    """tanh approximation of gelu: 0.044715 instead of 3 * 0.044715 in the inner derivative."""

    @staticmethod
    def forward(ctx, a, b):
        if a.shape != b.shape:
            raise ValueError("both halves must have one shape")
        ctx.save_for_backward(a, b)
        inner = 0.7978845608028654 * (a + 0.044715 * a.pow(3))
        return 0.5 * a * (1 + torch.tanh(inner)) * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        t = torch.tanh(0.7978845608028654 * (a + 0.044715 * a.pow(3)))
        gelu = 0.5 * a * (1 + t)
        slope = 0.5 * (1 + t) + 0.5 * a * (1 - t * t) * 0.7978845608028654 * (1 + 0.044715 * a * a)
        return g * b * slope, g * gelu


class ScaleShift(Function):
    """The bias takes the mean over the batch instead of the sum."""

    @staticmethod
    def forward(ctx, x, gamma, beta):
        ctx.save_for_backward(x, gamma)
        return x * gamma + beta

    @staticmethod
    def backward(ctx, g):
        x, gamma = ctx.saved_tensors
        return g * gamma, (g * x).sum(0), g.mean(0)


class CrossEntropySmoothing(Function):
    """With label smoothing the backward still subtracts a one-hot target."""

    @staticmethod
    def forward(ctx, logits, target, smoothing):
        ctx.save_for_backward(logits, target)
        logp = torch.log_softmax(logits, -1)
        nll = -logp.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        return (1 - smoothing) * nll - smoothing * logp.mean(-1)

    @staticmethod
    def backward(ctx, g):
        logits, target = ctx.saved_tensors
        p = torch.softmax(logits, -1)
        hot = torch.nn.functional.one_hot(target, logits.shape[-1]).to(p.dtype)
        return g.unsqueeze(-1) * (p - hot), None, None


class FocalLossNoModulator(Function):
    """Forgets the derivative of the modulating factor (1 - p) ** gamma."""

    @staticmethod
    def forward(ctx, logits, target, gamma):
        ctx.save_for_backward(logits, target)
        ctx.gamma = gamma
        ce = torch.nn.functional.softplus(logits) - logits * target
        p_t = torch.exp(-ce)
        return (1 - p_t) ** gamma * ce

    @staticmethod
    def backward(ctx, g):
        logits, target = ctx.saved_tensors
        ce = torch.nn.functional.softplus(logits) - logits * target
        p_t = torch.exp(-ce)
        return g * (1 - p_t) ** ctx.gamma * (torch.sigmoid(logits) - target), None, None


class LogSumExpStats(Function):
    """Returns the softmax and its log-normaliser; the gradient of the second is never used."""

    @staticmethod
    def forward(ctx, x):
        lse = torch.logsumexp(x, -1, keepdim=True)
        p = torch.exp(x - lse)
        ctx.save_for_backward(p)
        return p, lse.squeeze(-1)

    @staticmethod
    def backward(ctx, g, g_lse):
        (p,) = ctx.saved_tensors
        return p * (g - (g * p).sum(-1, keepdim=True))


def group_norm(x, weight):
    """A plain callable around a Function, as a library exports it."""
    return _GroupNormOverChannels.apply(x, weight, 2)


class _GroupNormOverChannels(Function):
    """Normalises per group, but reduces the gradient over the whole sample."""

    @staticmethod
    def forward(ctx, x, weight, groups):
        ctx.save_for_backward(x, weight)
        ctx.groups = groups
        grouped = x.reshape(x.shape[0], groups, -1)
        rstd = torch.rsqrt(grouped.var(-1, unbiased=False, keepdim=True) + 1e-5)
        normed = ((grouped - grouped.mean(-1, keepdim=True)) * rstd).reshape(x.shape)
        return normed * weight[:, None]

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        grouped = x.reshape(x.shape[0], ctx.groups, -1)
        centred = grouped - grouped.mean(-1, keepdim=True)
        rstd = torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5)
        normed = (centred * rstd).reshape(x.shape)
        gn = g * weight[:, None]
        inner = gn - gn.mean((1, 2), keepdim=True) - normed * (gn * normed).mean((1, 2), keepdim=True)
        gx = inner.reshape(grouped.shape) * rstd
        return gx.reshape(x.shape), (g * normed).sum((0, 2)), None


CASES = [
    Case(
        "layer_norm_without_mean_term",
        LayerNormWithoutMeanTerm,
        lambda: (normal(3, 4), normal(4), normal(4, seed=1), 1e-5),
        "GS1",
        "the gradient of x lacks the term of the mean",
    ),
    Case(
        "rms_norm_sum_for_mean",
        RMSNormSum,
        lambda: (normal(2, 3, 8), normal(8), 1e-6),
        "GS1",
        "the correction is a sum over the row where it must be a mean",
    ),
    Case(
        "swiglu_swapped",
        SwiGLUHalf,
        lambda: (normal(3, 4), normal(3, 4, seed=1)),
        "GS1",
        "the gradients of gate and up are swapped",
    ),
    Case(
        "geglu_constant",
        GeGLUWrongConstant,
        lambda: (normal(3, 4), normal(3, 4, seed=1)),
        "GS1",
        "the inner derivative of the tanh approximation lacks a factor 3",
    ),
    Case(
        "affine_bias_mean",
        ScaleShift,
        lambda: (normal(3, 4), normal(4), normal(4, seed=1)),
        "GS1",
        "the gradient of beta is the mean over the batch, not the sum",
    ),
    Case(
        "cross_entropy_smoothing_ignored",
        CrossEntropySmoothing,
        lambda: (normal(4, 5), integers(4, high=5), 0.1),
        "GS1",
        "label smoothing is in the forward but not in the backward",
    ),
    Case(
        "focal_loss_modulator",
        FocalLossNoModulator,
        lambda: (normal(3, 4), uniform(3, 4, grad=False).round(), 2.0),
        "GS1",
        "the derivative of the modulating factor is missing",
    ),
    Case(
        "softmax_lse_gradient_ignored",
        LogSumExpStats,
        lambda: (normal(3, 4),),
        "GS1",
        "the gradient of the second output, the log-normaliser, is ignored",
    ),
    Case(
        "group_norm_reduction",
        group_norm,
        lambda: (normal(2, 4, 5), normal(4)),
        "GS1",
        "the gradient is reduced over all channels, not per group",
    ),
]
