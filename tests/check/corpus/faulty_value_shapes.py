"""GS1: right on the author's inputs, wrong for other shapes, values or settings."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import normal


class BiasOverFirstDim(Function):
    """Written for a matrix: with a sequence dimension only the first token reaches the weight."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.tanh(x) * weight

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        t = torch.tanh(x)
        gw = (g * t).reshape(x.shape[0], -1, x.shape[-1])[:, 0].sum(0)
        return g * weight * (1 - t * t), gw


class GatherRows(Function):
    """Assigns instead of adding: rows looked up twice keep only one of their gradients."""

    @staticmethod
    def forward(ctx, table, index):
        ctx.save_for_backward(index)
        ctx.rows = table.shape[0]
        return table[index]

    @staticmethod
    def backward(ctx, g):
        (index,) = ctx.saved_tensors
        grad = g.new_zeros((ctx.rows, *g.shape[index.dim() :]))
        grad = grad.index_put((index,), g)
        return grad, None


class RowMaximum(Function):
    """Scatters with the size of the first dim, and so is right for square inputs."""

    @staticmethod
    def forward(ctx, x):
        value, index = x.max(-1)
        ctx.save_for_backward(index)
        ctx.width = x.shape[0]
        return value

    @staticmethod
    def backward(ctx, g):
        (index,) = ctx.saved_tensors
        hot = torch.nn.functional.one_hot(index % ctx.width, ctx.width).to(g.dtype)
        return hot * g.unsqueeze(-1)


class VectorisedSum(Function):
    """Works in blocks of four and forgets what is left over."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.nn.functional.silu(x) * weight

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        s = torch.sigmoid(x)
        gx = g * weight * (s + x * s * (1 - s))
        full = g.shape[-1] // 4 * 4
        products = g * x * s
        blocks = products[..., :full].sum_to_size(weight[..., :full].shape)
        return gx, torch.cat([blocks, torch.zeros_like(weight[..., full:])], -1)


class IgnoredTargets(Function):
    """Positions with the ignored target get the gradient of class 0 instead of none."""

    @staticmethod
    def forward(ctx, logits, target):
        ctx.save_for_backward(logits, target)
        kept = target != -100
        logp = torch.log_softmax(logits, -1)
        picked = logp.gather(-1, target.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        return -torch.where(kept, picked, 0.0)

    @staticmethod
    def backward(ctx, g):
        logits, target = ctx.saved_tensors
        hot = torch.nn.functional.one_hot(target.clamp(min=0), logits.shape[-1]).to(g.dtype)
        return g.unsqueeze(-1) * (torch.softmax(logits, -1) - hot), None


class LinearAttention(Function):
    """Uses the size of the keys for the values; equal in the author's model."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, q, k, v):
        ctx.save_for_backward(q, k, v)
        return q @ (k.transpose(-1, -2) @ v) / k.shape[-1]

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        q, k, v = ctx.saved_tensors
        size = k.shape[-1]
        state = k.transpose(-1, -2) @ v
        g_state = q.transpose(-1, -2) @ g / size
        gq = g @ state.transpose(-1, -2) / v.shape[-1]
        return gq, v @ g_state.transpose(-1, -2), k @ g_state


class HaarSplit(Function):
    """Averages and differences of neighbours; the odd last sample is passed through forward, dropped backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.length = x.shape[-1]
        even = ctx.length // 2 * 2
        pairs = x[..., :even].reshape(*x.shape[:-1], even // 2, 2)
        low, high = pairs.sum(-1) / 2, (pairs[..., 0] - pairs[..., 1]) / 2
        return torch.cat([low, high, x[..., even:]], -1)

    @staticmethod
    def backward(ctx, g):
        half = ctx.length // 2
        low, high = g[..., :half] / 2, g[..., half : 2 * half] / 2
        pairs = torch.stack([low + high, low - high], -1).flatten(-2)
        rest = torch.zeros_like(g[..., 2 * half :])
        return torch.cat([pairs, rest], -1)


CASES = [
    Case(
        "weight_gradient_first_token",
        BiasOverFirstDim,
        lambda: (normal(3, 4), normal(4)),
        "GS1",
        "right for a matrix; with a sequence dimension only the first token reaches the weight",
    ),
    Case(
        "gather_duplicates",
        GatherRows,
        lambda: (normal(5, 3), torch.tensor([0, 3, 1, 4])),
        "GS1",
        "a row looked up twice keeps one of its two gradients",
    ),
    Case(
        "row_maximum_square",
        RowMaximum,
        lambda: (normal(4, 4),),
        "GS1|GS3",
        "the width is taken from the wrong dimension, which shows on inputs that are not square",
    ),
    Case(
        "weight_gradient_tail",
        VectorisedSum,
        lambda: (normal(3, 8), normal(8)),
        "GS1",
        "columns beyond a multiple of four get no weight gradient",
    ),
    Case(
        "cross_entropy_ignored_target",
        IgnoredTargets,
        lambda: (normal(5, 4), torch.tensor([1, 3, -100, 0, 2])),
        "GS1",
        "positions whose target is ignored still send a gradient",
    ),
    Case(
        "linear_attention_value_size",
        LinearAttention,
        lambda: (normal(2, 5, 4), normal(2, 5, 4, seed=1), normal(2, 5, 4, seed=2)),
        "GS1",
        "the size of the values is used for that of the keys; they are equal by coincidence",
    ),
    Case(
        "haar_odd_length",
        HaarSplit,
        lambda: (normal(2, 8),),
        "GS1",
        "for an odd length the gradient of the last sample is lost",
    ),
]
