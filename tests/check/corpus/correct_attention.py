"""Matrix products, attention and position embeddings whose backward is right, under autocast too."""

from __future__ import annotations

import torch
from torch import nn
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import normal


class Linear(Function):
    """Any number of leading dims, an optional bias, no gradient that is not asked for."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight, bias=None):
        if bias is not None and bias.shape != weight.shape[:1]:
            raise ValueError(f"bias must have shape {tuple(weight.shape[:1])}, got {tuple(bias.shape)}")
        ctx.save_for_backward(x, weight)
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        gx = gw = gb = None
        if ctx.needs_input_grad[0]:
            gx = g @ weight
        if ctx.needs_input_grad[1]:
            rows, columns = x.reshape(x.shape[:-1].numel(), x.shape[-1]), g.reshape(x.shape[:-1].numel(), g.shape[-1])
            gw = columns.t() @ rows
        if len(ctx.needs_input_grad) > 2 and ctx.needs_input_grad[2]:
            gb = g.sum_to_size(weight.shape[:1])
        return gx, gw, gb


class Attention(Function):
    """Scaled dot product with an optional mask; the probabilities are computed again."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, q, k, v, mask=None):
        if not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
            raise ValueError("q, k and v must agree in batch and heads")
        if mask is not None and mask.shape != (*q.shape[:-1], k.shape[-2]):
            raise ValueError("mask must have one entry per query and key")
        ctx.save_for_backward(q, k, v, mask)
        return _probabilities(q, k, mask) @ v

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        q, k, v, mask = ctx.saved_tensors
        p = _probabilities(q, k, mask)
        gp = g @ v.transpose(-1, -2)
        gs = p * (gp - (gp * p).sum(-1, keepdim=True)) * q.shape[-1] ** -0.5
        return gs @ k, gs.transpose(-1, -2) @ q, p.transpose(-1, -2) @ g, None


def _probabilities(q, k, mask):
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e4)
    return torch.softmax(scores, -1)


class CausalAttentionWithLse(Function):
    """Output and log-normaliser, both differentiable; undefined gradients are not materialised."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, q, k, v):
        if not (q.shape == k.shape and k.shape[:-1] == v.shape[:-1]):
            raise ValueError("q, k and v do not fit")
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, k, v)
        scores = _causal(q, k)
        return torch.softmax(scores, -1) @ v, torch.logsumexp(scores, -1)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g, g_lse):
        q, k, v = ctx.saved_tensors
        p = torch.softmax(_causal(q, k), -1)
        gs = torch.zeros_like(p)
        gv = None
        if g is not None:
            gp = g @ v.transpose(-1, -2)
            gs = gs + p * (gp - (gp * p).sum(-1, keepdim=True))
            gv = p.transpose(-1, -2) @ g
        if g_lse is not None:
            gs = gs + p * g_lse.unsqueeze(-1)
        gs = (gs * q.shape[-1] ** -0.5).to(q.dtype)
        return gs @ k, gs.transpose(-1, -2) @ q, gv


def _causal(q, k):
    steps = q.shape[-2]
    later = torch.ones(steps, steps, dtype=torch.bool, device=q.device).triu(1)
    return (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(later, -1e4)


class Rotary(Function):
    """Rotates pairs of channels; the transpose rotates back. The angles are fixed."""

    @staticmethod
    def forward(ctx, x, angle):
        if x.shape[-1] != 2 * angle.shape[-1]:
            raise ValueError("x must have two channels per angle")
        ctx.save_for_backward(angle)
        ctx.shape = x.shape
        return _rotate(x, angle.cos(), angle.sin())

    @staticmethod
    def backward(ctx, g):
        (angle,) = ctx.saved_tensors
        return _rotate(g, angle.cos(), -angle.sin()).sum_to_size(ctx.shape), None


def _rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class LowRank(nn.Module):
    """x W + scale * x A B, the adapter of a frozen weight."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 20).reshape(4, 5), requires_grad=False)
        self.down = nn.Parameter(torch.linspace(0.1, 0.8, 8).reshape(4, 2))
        self.up = nn.Parameter(torch.linspace(-0.5, 0.4, 10).reshape(2, 5))

    def forward(self, x):
        return _LowRank.apply(x, self.weight, self.down, self.up, 0.5)


class _LowRank(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight, down, up, scale):
        ctx.save_for_backward(x, weight, down, up)
        ctx.scale = scale
        return x @ weight + scale * (x @ down @ up)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, weight, down, up = ctx.saved_tensors
        count = x.shape[:-1].numel()
        rows, flat = x.reshape(count, x.shape[-1]), g.reshape(count, g.shape[-1])
        small = ctx.scale * g @ up.t()
        gx = g @ weight.t() + small @ down.t() if ctx.needs_input_grad[0] else None
        gw = rows.t() @ flat if ctx.needs_input_grad[1] else None
        gd = rows.t() @ small.reshape(count, down.shape[1])
        return gx, gw, gd, ctx.scale * (rows @ down).t() @ flat, None


class Bilinear(Function):
    """einsum over three inputs."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight, y):
        if x.shape[0] != y.shape[0] or weight.shape[1:] != (x.shape[1], y.shape[1]):
            raise ValueError("x, weight and y do not fit")
        ctx.save_for_backward(x, weight, y)
        return torch.einsum("bi,oij,bj->bo", x, weight, y)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, weight, y = ctx.saved_tensors
        return (
            torch.einsum("bo,oij,bj->bi", g, weight, y),
            torch.einsum("bo,bi,bj->oij", g, x, y),
            torch.einsum("bo,bi,oij->bj", g, x, weight),
        )


CASES = [
    Case("right_linear", Linear, lambda: (normal(3, 4), normal(2, 4), normal(2))),
    Case("right_linear_no_bias", Linear, lambda: (normal(2, 3, 4), normal(5, 4))),
    Case("right_attention", Attention, lambda: (normal(2, 4, 8), normal(2, 4, 8, seed=1), normal(2, 4, 8, seed=2))),
    Case(
        "right_attention_masked",
        Attention,
        lambda: (normal(3, 4), normal(5, 4), normal(5, 2), torch.arange(15).reshape(3, 5) % 4 != 1),
    ),
    Case(
        "right_causal_attention_lse",
        CausalAttentionWithLse,
        lambda: (normal(2, 4, 6), normal(2, 4, 6, seed=1), normal(2, 4, 6, seed=2)),
    ),
    Case("right_rotary", Rotary, lambda: (normal(2, 3, 8), normal(3, 4, grad=False))),
    Case("right_low_rank", LowRank(), lambda: (normal(3, 4),)),
    Case("right_bilinear", Bilinear, lambda: (normal(3, 4), normal(2, 4, 5), normal(3, 5))),
]
