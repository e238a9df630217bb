"""GS1: wrong maths in attention, solvers, scans and indexing."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import normal, uniform


class LinearTransposed(Function):
    """Right only for symmetric weights; square ones do not crash."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return x @ weight.t() + bias

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight.t(), g.t() @ x, g.sum(0)


class RotaryBackwardForward(Function):
    """Rotates the gradient forward again instead of back."""

    @staticmethod
    def forward(ctx, x, angle):
        ctx.save_for_backward(angle)
        return _rotate(x, angle.cos(), angle.sin())

    @staticmethod
    def backward(ctx, g):
        (angle,) = ctx.saved_tensors
        return _rotate(g, angle.cos(), angle.sin()), None


def _rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class AttentionSwapped(Function):
    """Returns the gradient of v for k and of k for v; with one size for both nothing crashes."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, q, k, v):
        ctx.save_for_backward(q, k, v)
        ctx.scale = q.shape[-1] ** -0.5
        return torch.softmax(q @ k.transpose(-1, -2) * ctx.scale, -1) @ v

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        q, k, v = ctx.saved_tensors
        p = torch.softmax(q @ k.transpose(-1, -2) * ctx.scale, -1)
        gv = p.transpose(-1, -2) @ g
        gp = g @ v.transpose(-1, -2)
        gs = p * (gp - (gp * p).sum(-1, keepdim=True)) * ctx.scale
        return gs @ k, gv, gs.transpose(-1, -2) @ q


class AttentionWithoutScale(Function):
    """The 1/sqrt(d) is missing in the gradient of k alone."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, q, k, v):
        ctx.save_for_backward(q, k, v)
        return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        q, k, v = ctx.saved_tensors
        scale = q.shape[-1] ** -0.5
        p = torch.softmax(q @ k.transpose(-1, -2) * scale, -1)
        gp = g @ v.transpose(-1, -2)
        gs = p * (gp - (gp * p).sum(-1, keepdim=True))
        return gs @ k * scale, gs.transpose(-1, -2) @ q, p.transpose(-1, -2) @ g


class SolveSign(Function):
    @staticmethod
    def forward(ctx, a, b):
        x = torch.linalg.solve(a, b)
        ctx.save_for_backward(a, x)
        return x

    @staticmethod
    def backward(ctx, g):
        a, x = ctx.saved_tensors
        gb = torch.linalg.solve(a.mT, g)
        return gb @ x.mT, gb


class GatedScanTimeReversed(Function):
    """h_t = a_t h_{t-1} + x_t; the adjoint runs through time forwards."""

    @staticmethod
    def forward(ctx, a, x):
        if a.shape != x.shape:
            raise ValueError("a and x must have one shape")
        h, states = torch.zeros_like(x[0]), []
        for t in range(x.shape[0]):
            h = a[t] * h + x[t]
            states.append(h)
        out = torch.stack(states)
        ctx.save_for_backward(a, out)
        return out

    @staticmethod
    def backward(ctx, g):
        a, out = ctx.saved_tensors
        carry, gx = torch.zeros_like(g[0]), []
        for t in range(g.shape[0]):
            carry = g[t] + (a[t] * carry)
            gx.append(carry)
        gx = torch.stack(gx)
        before = torch.cat([torch.zeros_like(out[:1]), out[:-1]])
        return gx * before, gx


class ComplexMultiply(Function):
    """y = z * w: the conjugates are missing."""

    @staticmethod
    def forward(ctx, z, w):
        if z.shape != w.shape:
            raise ValueError("z and w must have one shape")
        ctx.save_for_backward(z, w)
        return z * w

    @staticmethod
    def backward(ctx, g):
        z, w = ctx.saved_tensors
        return g * w, g * z


class ScatterMeanWithoutCount(Function):
    @staticmethod
    def forward(ctx, x, index, size):
        ctx.save_for_backward(index)
        total = x.new_zeros(size, x.shape[1]).index_add(0, index, x)
        count = torch.bincount(index, minlength=size).clamp(min=1)
        return total / count.unsqueeze(-1)

    @staticmethod
    def backward(ctx, g):
        (index,) = ctx.saved_tensors
        return g[index], None, None


class ChamferOneSided(Function):
    """The nearest neighbour of each b pulls on a too; that part is missing."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        d = (a.unsqueeze(1) - b.unsqueeze(0)).square().sum(-1)
        return d.min(1).values.sum() + d.min(0).values.sum()

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        d = (a.unsqueeze(1) - b.unsqueeze(0)).square().sum(-1)
        i, j = d.argmin(1), d.argmin(0)
        ga = 2 * (a - b[i])
        gb = (2 * (b - a[j])).index_add(0, i, -2 * (a - b[i]))
        return g * ga, g * gb


def _complex_pair():
    return normal(2, 3, dtype=torch.complex64), normal(2, 3, seed=1, dtype=torch.complex64)


def _well_conditioned():
    a = normal(3, 3, grad=False) * 0.3 + 2 * torch.eye(3)
    return a.requires_grad_(), normal(3, 2)


CASES = [
    Case(
        "linear_transposed",
        LinearTransposed,
        lambda: (normal(4, 4), normal(4, 4, seed=1), normal(4)),
        "GS1",
        "the gradient of x is multiplied by the transposed weight, unseen in shapes because it is square",
    ),
    Case(
        "rotary_same_direction",
        RotaryBackwardForward,
        lambda: (normal(2, 3, 8), normal(3, 4, grad=False)),
        "GS1",
        "the gradient is rotated forward where it must be rotated back",
    ),
    Case(
        "attention_swapped",
        AttentionSwapped,
        lambda: (normal(2, 4, 8), normal(2, 4, 8, seed=1), normal(2, 4, 8, seed=2)),
        "GS1",
        "the gradients of k and v are swapped",
    ),
    Case(
        "attention_key_scale",
        AttentionWithoutScale,
        lambda: (normal(2, 4, 8), normal(2, 5, 8, seed=1), normal(2, 5, 6, seed=2)),
        "GS1",
        "the gradient of k lacks the factor 1/sqrt(d)",
    ),
    Case("solve_sign", SolveSign, _well_conditioned, "GS1", "the gradient of the matrix has the wrong sign"),
    Case(
        "gated_scan_time",
        GatedScanTimeReversed,
        lambda: (uniform(5, 3), normal(5, 3)),
        "GS1",
        "the adjoint recurrence runs forwards in time",
    ),
    Case("complex_multiply", ComplexMultiply, _complex_pair, "GS1", "the gradients are not conjugated"),
    Case(
        "scatter_mean_count",
        ScatterMeanWithoutCount,
        lambda: (normal(6, 3), torch.tensor([0, 0, 1, 2, 2, 2]), 3),
        "GS1",
        "the gradient is not divided by the number of elements in the segment",
    ),
    Case(
        "chamfer_one_sided",
        ChamferOneSided,
        lambda: (normal(4, 3), normal(5, 3, seed=1)),
        "GS1",
        "each direction of the distance sends its gradient to both sets, but only part of it is accumulated",
    ),
]
