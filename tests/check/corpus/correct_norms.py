"""Normalisations whose backward is right: inputs are saved, statistics are computed again."""

from __future__ import annotations

import torch
from torch import nn
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import normal


class LayerNorm(Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        ctx.save_for_backward(x, weight)
        ctx.eps, ctx.bias_shape = eps, bias.shape
        centred = x - x.mean(-1, keepdim=True)
        return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps) * weight + bias

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        centred = x - x.mean(-1, keepdim=True)
        rstd = torch.rsqrt(centred.square().mean(-1, keepdim=True) + ctx.eps)
        normed = centred * rstd
        gx = gw = gb = None
        if ctx.needs_input_grad[0]:
            gn = (g * weight).sum_to_size(normed.shape)
            gx = rstd * (gn - gn.mean(-1, keepdim=True) - normed * (gn * normed).mean(-1, keepdim=True))
        if ctx.needs_input_grad[1]:
            gw = (g * normed).sum_to_size(weight.shape)
        if ctx.needs_input_grad[2]:
            gb = g.sum_to_size(ctx.bias_shape)
        return gx, gw, gb, None


class RMSNorm(Function):
    @staticmethod
    def forward(ctx, x, weight, eps=1e-6):
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        r = torch.rsqrt(x.square().mean(-1, keepdim=True) + ctx.eps)
        gw = (g * weight).sum_to_size(x.shape)
        gx = r * (gw - x * r * r * (gw * x).mean(-1, keepdim=True))
        return gx, (g * x * r).sum_to_size(weight.shape), None


class GroupNorm(Function):
    """Any number of trailing dims, an optional weight and bias."""

    @staticmethod
    def forward(ctx, x, groups, weight=None, bias=None):
        if x.shape[1] % groups or any(p is not None and p.shape != x.shape[1:2] for p in (weight, bias)):
            raise ValueError("channels, groups, weight and bias do not fit")
        ctx.save_for_backward(x, weight)
        ctx.groups = groups
        y = _normalise_groups(x, groups)[0]
        if weight is not None:
            y = y * _channels(weight, x)
        return y if bias is None else y + _channels(bias, x)

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        normed, rstd = _normalise_groups(x, ctx.groups)
        others = [d for d in range(x.dim()) if d != 1]
        gn = g if weight is None else g * _channels(weight, x)
        shape = (x.shape[0], ctx.groups, x[0].numel() // ctx.groups if x.shape[0] else 0)
        gn, n = gn.reshape(shape), normed.reshape(shape)
        gx = rstd * (gn - gn.mean(-1, keepdim=True) - n * (gn * n).mean(-1, keepdim=True))
        gw = (g * normed).sum(others) if weight is not None and ctx.needs_input_grad[2] else None
        gb = g.sum(others) if any(ctx.needs_input_grad[3:]) else None
        return gx.reshape(x.shape), None, gw, gb


def _normalise_groups(x, groups):
    grouped = x.reshape(x.shape[0], groups, x[0].numel() // groups if x.shape[0] else 0)
    centred = grouped - grouped.mean(-1, keepdim=True)
    rstd = torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5)
    return (centred * rstd).reshape(x.shape), rstd


def _channels(weight, x):
    return weight.reshape(-1, *[1] * (x.dim() - 2))


class UnitLength(Function):
    """x / sqrt(|x|^2 + eps) along one dimension."""

    @staticmethod
    def forward(ctx, x, dim, eps):
        ctx.save_for_backward(x)
        ctx.dim, ctx.eps = dim, eps
        return x * torch.rsqrt(x.square().sum(dim, keepdim=True) + eps)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        r = torch.rsqrt(x.square().sum(ctx.dim, keepdim=True) + ctx.eps)
        return r * (g - x * r * r * (g * x).sum(ctx.dim, keepdim=True)), None, None


class WeightNorm(Function):
    """w = gain * v / ||v|| per row."""

    @staticmethod
    def forward(ctx, v, gain):
        if gain.shape != (v.shape[0],):
            raise ValueError(f"gain must have shape ({v.shape[0]},), got {tuple(gain.shape)}")
        ctx.save_for_backward(v, gain)
        return v * (gain * torch.rsqrt(v.flatten(1).square().sum(1) + 1e-12)).reshape(-1, *[1] * (v.dim() - 1))

    @staticmethod
    def backward(ctx, g):
        v, gain = ctx.saved_tensors
        rows, g = v.flatten(1), g.flatten(1)
        r = torch.rsqrt(rows.square().sum(1, keepdim=True) + 1e-12)
        along = (g * rows).sum(1, keepdim=True) * r
        gv = gain.unsqueeze(1) * r * (g - rows * r * along)
        return gv.reshape(v.shape), along.squeeze(1)


class MomentsAndNorm(Function):
    """Normalised rows together with their mean and variance; all three are differentiable."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        mean, var = x.mean(-1), x.var(-1, unbiased=False)
        return (x - mean.unsqueeze(-1)) * torch.rsqrt(var.unsqueeze(-1) + 1e-5), mean, var

    @staticmethod
    def backward(ctx, g, g_mean, g_var):
        (x,) = ctx.saved_tensors
        centred = x - x.mean(-1, keepdim=True)
        rstd = torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5)
        n = centred * rstd
        gx = rstd * (g - g.mean(-1, keepdim=True) - n * (g * n).mean(-1, keepdim=True))
        return gx + (g_mean.unsqueeze(-1) + 2 * g_var.unsqueeze(-1) * centred) / x.shape[-1]


class FrozenBatchNorm(nn.Module):
    """Batch norm with fixed statistics kept in buffers."""

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("mean", torch.linspace(-1, 1, features))
        self.register_buffer("rstd", torch.full((features,), 0.8))

    def forward(self, x):
        return _FrozenScale.apply(x, self.mean, self.rstd, self.weight, self.bias)


class _FrozenScale(Function):
    @staticmethod
    def forward(ctx, x, mean, rstd, weight, bias):
        ctx.save_for_backward(x, mean, rstd, weight)
        ctx.bias_shape = bias.shape
        return (x - mean) * (rstd * weight) + bias

    @staticmethod
    def backward(ctx, g):
        x, mean, rstd, weight = ctx.saved_tensors
        gx = (g * rstd * weight).sum_to_size(x.shape)
        gw = (g * (x - mean) * rstd).sum_to_size(weight.shape)
        return gx, None, None, gw, g.sum_to_size(ctx.bias_shape)


CASES = [
    Case("right_layer_norm", LayerNorm, lambda: (normal(3, 4), normal(4), normal(4, seed=1), 1e-5)),
    Case("right_rms_norm", RMSNorm, lambda: (normal(2, 3, 8), normal(8))),
    Case("right_group_norm", GroupNorm, lambda: (normal(2, 4, 5), 2, normal(4), normal(4, seed=1))),
    Case("right_group_norm_plain", GroupNorm, lambda: (normal(2, 4, 3, 3), 2)),
    Case("right_unit_length", UnitLength, lambda: (normal(3, 4), 0, 1e-6)),
    Case("right_weight_norm", WeightNorm, lambda: (normal(3, 4), normal(3))),
    Case("right_moments_and_norm", MomentsAndNorm, lambda: (normal(3, 4),)),
    Case("right_frozen_batch_norm", FrozenBatchNorm(4), lambda: (normal(3, 4),)),
]
