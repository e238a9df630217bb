"""GS3: what the backward returns, when it runs, and what it is attached to."""

from __future__ import annotations

import torch
from torch import nn
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import normal


class AffineForgotBias(Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return x * weight + bias

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return (g * weight).sum_to_size(x.shape), (g * x).sum_to_size(weight.shape), None


class TooManyGradients(Function):
    """A learned shift was taken out of the forward and left in the backward."""

    @staticmethod
    def forward(ctx, x, eps):
        ctx.save_for_backward(x)
        ctx.eps = eps
        return torch.log(x.square() + eps)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (2 * g * x / (x.square() + ctx.eps), None, g.sum())


class TopValues(Function):
    """Two outputs, one parameter in the backward."""

    @staticmethod
    def forward(ctx, x):
        value, index = x.max(-1)
        ctx.save_for_backward(index)
        ctx.width = x.shape[-1]
        return value, index

    @staticmethod
    def backward(ctx, g):
        (index,) = ctx.saved_tensors
        return nn.functional.one_hot(index, ctx.width).to(g.dtype) * g.unsqueeze(-1)


class FrozenInput(Function):
    """Crashes as soon as the input is frozen and only the weight is trained."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight if x.requires_grad else None)
        return x @ weight.t()

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, g.t() @ x


class WrongNeedsIndex(Function):
    """Asks about the weight when it decides about the bias."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight, bias)
        return torch.sigmoid(x) * weight + bias

    @staticmethod
    def backward(ctx, g):
        x, weight, bias = ctx.saved_tensors
        s = torch.sigmoid(x)
        gx = gw = gb = None
        if ctx.needs_input_grad[0]:
            gx = (g * weight * s * (1 - s)).sum_to_size(x.shape)
        if ctx.needs_input_grad[1]:
            gw = (g * s).sum_to_size(weight.shape)
            gb = g.sum_to_size(bias.shape)
        return gx, gw, gb


class MeanAndDeviation(Function):
    """Undefined gradients are not materialised, and None is not thought of."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x.mean(-1), x.var(-1, unbiased=False)

    @staticmethod
    def backward(ctx, g_mean, g_var):
        (x,) = ctx.saved_tensors
        n = x.shape[-1]
        centred = x - x.mean(-1, keepdim=True)
        return g_mean.unsqueeze(-1) / n + 2 * g_var.unsqueeze(-1) * centred / n


class SplitDropsOther(Function):
    """When one output is unused the gradient of the other is dropped too."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return torch.sin(x), torch.cos(x)

    @staticmethod
    def backward(ctx, g_sin, g_cos):
        (x,) = ctx.saved_tensors
        if g_sin is None or g_cos is None:
            return None
        return g_sin * torch.cos(x) - g_cos * torch.sin(x)


class UnreducedBias(Function):
    """Returns a gradient of the shape of the output for a bias; the engine adds it up without a word."""

    @staticmethod
    def forward(ctx, x, bias):
        ctx.save_for_backward(x, bias)
        return torch.nn.functional.softplus(x + bias)

    @staticmethod
    def backward(ctx, g):
        x, bias = ctx.saved_tensors
        gx = g * torch.sigmoid(x + bias)
        return gx.sum_to_size(x.shape), gx


class DoubleGradient(Function):
    """Accumulates in float64 and returns that for a float32 input."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.expm1(x) * weight

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        g = g.double()
        return (g * weight * torch.exp(x)).sum_to_size(x.shape), (g * torch.expm1(x)).sum_to_size(weight.shape)


class MatrixOnly(Function):
    """Forward works for batches of matrices, the backward only for one."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g @ b.t(), a.t() @ g


class EmptyBatchCrash(Function):
    """Scales by the largest incoming gradient and back: dies for an empty batch."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.atan(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        top = g.abs().max().clamp(min=1e-30)
        return g / top / (1 + x * x) * top


class OptionalBias(Function):
    """Without the optional bias the backward fails."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight, bias)
        return x @ weight.t() if bias is None else x @ weight.t() + bias

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, weight, bias = ctx.saved_tensors
        return g @ weight, g.t() @ x, g.sum(0).reshape(bias.shape)


CASES = [
    Case(
        "affine_bias_none",
        AffineForgotBias,
        lambda: (normal(3, 4), normal(4), normal(4, seed=1)),
        "GS3",
        "None is returned for the bias, which is differentiable",
    ),
    Case("log_arity", TooManyGradients, lambda: (normal(3, 4), 1e-3), "GS3", "one gradient too many is returned"),
    Case(
        "top_value_arity", TopValues, lambda: (normal(3, 4),), "GS3", "the backward takes one gradient for two outputs"
    ),
    Case(
        "linear_frozen_input",
        FrozenInput,
        lambda: (normal(3, 4), normal(2, 4)),
        "GS3",
        "crashes when only the weight requires grad",
    ),
    Case(
        "affine_needs_wrong_index",
        WrongNeedsIndex,
        lambda: (normal(3, 4), normal(4), normal(4, seed=1)),
        "GS3",
        "with a frozen weight the bias gets None",
    ),
    Case("moments_none_crash", MeanAndDeviation, lambda: (normal(3, 4),), "GS3", "crashes when one output is unused"),
    Case(
        "sin_cos_drops_other",
        SplitDropsOther,
        lambda: (normal(3, 4),),
        "GS3",
        "when one output is unused the gradient of the other is lost",
    ),
    Case(
        "softplus_unreduced_bias",
        UnreducedBias,
        lambda: (normal(3, 4), normal(4)),
        "GS3",
        "the gradient of the bias is not reduced over the batch; the engine repairs it silently",
    ),
    Case(
        "expm1_double_gradient",
        DoubleGradient,
        lambda: (normal(3, 4), normal(4)),
        "GS3",
        "a float64 gradient is returned for a float32 input; the engine casts it silently",
    ),
    Case(
        "matmul_matrix_only",
        MatrixOnly,
        lambda: (normal(3, 4), normal(4, 2)),
        "GS3",
        "for batched matrices the forward works and the backward crashes",
    ),
    Case(
        "atan_empty_batch", EmptyBatchCrash, lambda: (normal(3, 4),), "GS3", "the backward crashes for an empty batch"
    ),
    Case(
        "linear_optional_bias",
        OptionalBias,
        lambda: (normal(3, 4), normal(2, 4), None),
        "GS3",
        "crashes where the optional bias is None",
    ),
]
