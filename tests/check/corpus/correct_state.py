"""Randomness, in-place updates, extra arguments and registered operators, done right."""

from __future__ import annotations

import torch
from torch import nn
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import normal


class Dropout(Function):
    """Draws a mask once and saves it."""

    @staticmethod
    def forward(ctx, x, p):
        mask = (torch.rand_like(x) >= p) / (1 - p)
        ctx.save_for_backward(mask.to(x.dtype))
        return x * mask.to(x.dtype)

    @staticmethod
    def backward(ctx, g):
        (mask,) = ctx.saved_tensors
        return g * mask, None


class SeededDropout(Function):
    """Keeps a seed instead of the mask, with a generator of its own: the global one is not touched."""

    @staticmethod
    def forward(ctx, x, p, seed):
        ctx.p, ctx.seed = p, seed
        return x * _mask(x, p, seed)

    @staticmethod
    def backward(ctx, g):
        return g * _mask(g, ctx.p, ctx.seed), None, None


def _mask(like, p, seed):
    draw = torch.rand(like.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return ((draw >= p) / (1 - p)).to(like.dtype)


class AddInPlace(Function):
    """Writes into its first argument, and says so."""

    @staticmethod
    def forward(ctx, total, update):
        if total.shape != update.shape:
            raise ValueError("total and update must have one shape")
        total.add_(update)
        ctx.mark_dirty(total)
        return total

    @staticmethod
    def backward(ctx, g):
        return g, g


def add_in_place(total, update):
    """Calls it on a copy, so that leaves may be passed."""
    return AddInPlace.apply(total.clone(), update)


class Bucket(nn.Module):
    """A learned gain per channel, any number of leading dims."""

    def __init__(self, channels):
        super().__init__()
        self.gain = nn.Parameter(torch.linspace(0.5, 1.5, channels))

    def forward(self, x):
        return _Gain.apply(x, self.gain)


class _Gain(Function):
    @staticmethod
    def forward(ctx, x, gain):
        ctx.save_for_backward(x, gain)
        return torch.tanh(x) * gain

    @staticmethod
    def backward(ctx, g):
        x, gain = ctx.saved_tensors
        t = torch.tanh(x)
        return (g * gain * (1 - t * t)).sum_to_size(x.shape), (g * t).sum_to_size(gain.shape)


def scale_shift(x, *, scale=None, shift=None, power=1.0):
    """A plain function with keyword-only arguments around a Function."""
    return _ScaleShift.apply(x, scale, shift, power)


class _ScaleShift(Function):
    @staticmethod
    def forward(ctx, x, scale, shift, power):
        ctx.save_for_backward(x, scale)
        ctx.power = power
        ctx.shift_shape = None if shift is None else shift.shape
        y = torch.sigmoid(power * x)
        y = y if scale is None else y * scale
        return y if shift is None else y + shift

    @staticmethod
    def backward(ctx, g):
        x, scale = ctx.saved_tensors
        s = torch.sigmoid(ctx.power * x)
        gx = g * ctx.power * s * (1 - s)
        gx = gx if scale is None else gx * scale
        g_scale = (g * s).sum_to_size(scale.shape) if ctx.needs_input_grad[1] else None
        g_shift = g.sum_to_size(ctx.shift_shape) if ctx.needs_input_grad[2] else None
        return gx.sum_to_size(x.shape), g_scale, g_shift, None


@torch.library.custom_op("gradsmith_corpus::swish", mutates_args=())
def swish_op(x: torch.Tensor, beta: float) -> torch.Tensor:
    return x * torch.sigmoid(beta * x)


@swish_op.register_fake
def _(x, beta):
    return torch.empty_like(x)


def _swish_setup(ctx, inputs, output):
    x, beta = inputs
    ctx.save_for_backward(x)
    ctx.beta = beta


def _swish_backward(ctx, g):
    (x,) = ctx.saved_tensors
    s = torch.sigmoid(ctx.beta * x)
    return g * (s + ctx.beta * x * s * (1 - s)), None


swish_op.register_autograd(_swish_backward, setup_context=_swish_setup)


@torch.library.custom_op("gradsmith_corpus::weighted_norm", mutates_args=())
def weighted_norm_op(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


@weighted_norm_op.register_fake
def _(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def _norm_setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _norm_backward(ctx, g):
    x, weight = ctx.saved_tensors
    r = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    gw = (g * weight).sum_to_size(x.shape)
    return r * (gw - x * r * r * (gw * x).mean(-1, keepdim=True)), (g * x * r).sum_to_size(weight.shape)


weighted_norm_op.register_autograd(_norm_backward, setup_context=_norm_setup)


class SplitHeads(Function):
    """Several outputs cut from one projection."""

    @staticmethod
    def forward(ctx, x, parts):
        if x.shape[-1] % parts:
            raise ValueError("the channels cannot be split evenly")
        return tuple(part.clone() for part in x.chunk(parts, -1))

    @staticmethod
    def backward(ctx, *grads):
        return torch.cat(grads, -1), None


CASES = [
    Case("right_dropout", Dropout, lambda: (normal(3, 4), 0.5)),
    Case("right_seeded_dropout", SeededDropout, lambda: (normal(3, 4), 0.5, 17)),
    Case("right_add_in_place", add_in_place, lambda: (normal(3, 4), normal(3, 4, seed=1))),
    Case("right_module_gain", Bucket(4), lambda: (normal(3, 4),)),
    Case("right_scale_shift", scale_shift, lambda: (normal(3, 4),), options={"kwargs": {"power": 2.0}}),
    Case(
        "right_scale_shift_function",
        _ScaleShift,
        lambda: (normal(3, 4), normal(4), normal(4, seed=1), 0.5),
    ),
    Case("right_swish_op", swish_op, lambda: (normal(3, 4), 1.5)),
    Case("right_weighted_norm_op", weighted_norm_op, lambda: (normal(3, 4), normal(4))),
    Case("right_split_heads", SplitHeads, lambda: (normal(2, 6), 3)),
]
