"""Indexing, pooling and reductions whose backward is right."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import integers, normal


class Embedding(Function):
    """Rows of a table by an index of any shape; the padding row gets no gradient."""

    @staticmethod
    def forward(ctx, table, index, padding):
        if index.min() < 0 or index.max() >= table.shape[0]:
            raise IndexError("index out of range")
        ctx.save_for_backward(index)
        ctx.rows, ctx.padding = table.shape[0], padding
        return table[index]

    @staticmethod
    def backward(ctx, g):
        (index,) = ctx.saved_tensors
        g = torch.where((index == ctx.padding).unsqueeze(-1), 0.0, g)
        flat = g.reshape(index.numel(), g.shape[-1])
        return torch.zeros_like(flat[:1]).repeat(ctx.rows, 1).index_add(0, index.reshape(-1), flat), None, None


def embedding_reference(table, index, padding):
    """What the padded embedding means: the padding row is a constant."""
    held = torch.where(torch.arange(table.shape[0]).unsqueeze(-1) == padding, table.detach(), table)
    return held[index]


class SegmentSum(Function):
    @staticmethod
    def forward(ctx, x, segment, count):
        ctx.save_for_backward(segment)
        return x.new_zeros(count, *x.shape[1:]).index_add(0, segment, x)

    @staticmethod
    def backward(ctx, g):
        (segment,) = ctx.saved_tensors
        return g.index_select(0, segment), None, None


class ScatterMean(Function):
    @staticmethod
    def forward(ctx, x, index, size):
        if index.shape != x.shape[:1]:
            raise ValueError("one index per row")
        count = torch.bincount(index, minlength=size).clamp(min=1)
        ctx.save_for_backward(index)
        ctx.size = size
        return x.new_zeros(size, x.shape[1]).index_add(0, index, x) / count.unsqueeze(-1).to(x.dtype)

    @staticmethod
    def backward(ctx, g):
        (index,) = ctx.saved_tensors
        count = torch.bincount(index, minlength=ctx.size).clamp(min=1)
        return (g / count.unsqueeze(-1).to(g.dtype))[index], None, None


class GatherLast(Function):
    @staticmethod
    def forward(ctx, x, index):
        if index.numel() and index.max() >= x.shape[-1]:
            raise IndexError("index out of range")
        ctx.save_for_backward(index)
        ctx.width = x.shape[-1]
        return torch.take_along_dim(x, index, -1)

    @staticmethod
    def backward(ctx, g):
        (index,) = ctx.saved_tensors
        zeros = g.new_zeros(*g.shape[:-1], ctx.width)
        return zeros.scatter_add(-1, index, g), None


class TopValues(Function):
    """The k largest per row; the indices are marked as not differentiable."""

    @staticmethod
    def forward(ctx, x, k):
        value, index = x.topk(k, -1)
        ctx.save_for_backward(index)
        ctx.mark_non_differentiable(index)
        ctx.width = x.shape[-1]
        return value, index

    @staticmethod
    def backward(ctx, g, _):
        (index,) = ctx.saved_tensors
        zeros = g.new_zeros(*g.shape[:-1], ctx.width)
        return zeros.scatter_add(-1, index, g), None


class HaarSplit(Function):
    """Averages and differences of neighbours; an odd last sample is passed on."""

    @staticmethod
    def forward(ctx, x):
        even = x.shape[-1] // 2 * 2
        low, high = (x[..., 0:even:2] + x[..., 1:even:2]) / 2, (x[..., 0:even:2] - x[..., 1:even:2]) / 2
        return torch.cat([low, high, x[..., even:]], -1)

    @staticmethod
    def backward(ctx, g):
        half = g.shape[-1] // 2
        low, high = g[..., :half] / 2, g[..., half : 2 * half] / 2
        return torch.cat([torch.stack([low + high, low - high], -1).flatten(-2), g[..., 2 * half :]], -1)


class MaskedMean(Function):
    @staticmethod
    def forward(ctx, x, mask):
        if mask.shape != x.shape[:-1]:
            raise ValueError("mask must have one entry per position")
        ctx.save_for_backward(mask)
        return (x * mask.unsqueeze(-1)).sum(-2) / mask.sum(-1, keepdim=True).clamp(min=1)

    @staticmethod
    def backward(ctx, g):
        (mask,) = ctx.saved_tensors
        share = g / mask.sum(-1, keepdim=True).clamp(min=1)
        return share.unsqueeze(-2) * mask.unsqueeze(-1), None


class AveragePool(Function):
    """Windows of `size` without overlap over the last dim; what is left over is dropped."""

    @staticmethod
    def forward(ctx, x, size):
        ctx.length, ctx.size = x.shape[-1], size
        whole = x.shape[-1] // size
        return x[..., : whole * size].reshape(*x.shape[:-1], whole, size).mean(-1)

    @staticmethod
    def backward(ctx, g):
        spread = g.repeat_interleave(ctx.size, -1) / ctx.size
        return torch.nn.functional.pad(spread, (0, ctx.length - spread.shape[-1])), None


CASES = [
    Case(
        "right_embedding",
        Embedding,
        lambda: (normal(6, 3), torch.tensor([[1, 0, 5], [1, 4, 1]]), 0),
        options={"gradient_of": embedding_reference},
    ),
    Case("right_segment_sum", SegmentSum, lambda: (normal(5, 3), torch.tensor([0, 2, 2, 1, 0]), 4)),
    Case("right_scatter_mean", ScatterMean, lambda: (normal(6, 3), torch.tensor([0, 0, 1, 2, 2, 2]), 4)),
    Case("right_gather_last", GatherLast, lambda: (normal(3, 5), integers(3, 2, high=5))),
    Case("right_top_values", TopValues, lambda: (normal(3, 5), 2)),
    Case("right_haar_split", HaarSplit, lambda: (normal(2, 7),)),
    Case(
        "right_masked_mean",
        MaskedMean,
        lambda: (normal(2, 4, 3), torch.tensor([[1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]])),
    ),
    Case("right_average_pool", AveragePool, lambda: (normal(2, 7), 3)),
]
