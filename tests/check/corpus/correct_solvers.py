"""Solvers, scans and kernels outside torch whose backward is right or honestly refused."""

from __future__ import annotations

import numpy as np
import torch
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import normal, uniform


class Solve(Function):
    """A x = b for matrices b."""

    @staticmethod
    def forward(ctx, a, b):
        if b.dim() != a.dim() or a.shape[:-2] != b.shape[:-2]:
            raise ValueError("a and b must be (batches of) matrices")
        x = torch.linalg.solve(a, b)
        ctx.save_for_backward(a, x)
        return x

    @staticmethod
    def backward(ctx, g):
        a, x = ctx.saved_tensors
        gb = torch.linalg.solve(a.mH, g)
        return -gb @ x.mH if ctx.needs_input_grad[0] else None, gb


class LogDeterminant(Function):
    @staticmethod
    def forward(ctx, a):
        value = torch.linalg.slogdet(a).logabsdet
        if not torch.isfinite(value).all():
            raise ValueError("the matrix is singular")
        ctx.save_for_backward(a)
        return value

    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        return g[..., None, None] * torch.linalg.inv(a).mT


class FixedPoint(Function):
    """z = tanh(w z + x) by iteration; backward by the implicit function theorem.

    The solution is an output; all that the backward uses are inputs and outputs, so it can be differentiated again.
    """

    @staticmethod
    def forward(ctx, w, x):
        if w.dim() != 2 or x.dim() != 1:
            raise ValueError("w must be a matrix and x a vector")
        z = torch.zeros_like(x)
        for _ in range(80):
            z = torch.tanh(w @ z + x)
        ctx.save_for_backward(w, z)
        ctx.dtype = w.dtype
        return z

    @staticmethod
    def backward(ctx, g):
        w, z = ctx.saved_tensors
        precise = torch.promote_types(z.dtype, torch.float32)  # there is no low-precision solver
        w, z, g = w.to(precise), z.to(precise), g.to(precise)
        slope = 1 - z * z
        system = torch.eye(z.shape[0], dtype=precise) - slope.unsqueeze(-1) * w
        gx = slope * torch.linalg.solve(system.mT, g.unsqueeze(-1)).squeeze(-1)
        return (gx.unsqueeze(-1) * z).to(ctx.dtype), gx.to(ctx.dtype)


class CubeRoot(Function):
    """Newton iterations for y ** 3 = x, x > 0."""

    @staticmethod
    def forward(ctx, x):
        if (x <= 0).any():
            raise ValueError("x must be positive")
        y = x.clamp(min=1.0)
        for _ in range(60):
            y = y - (y**3 - x) / (3 * y * y)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g / (3 * y * y)


class GatedScan(Function):
    """h_t = a_t h_{t-1} + x_t with an initial state; returns all states and the last."""

    @staticmethod
    def forward(ctx, a, x, start):
        if a.shape != x.shape or start.shape != x.shape[1:]:
            raise ValueError("a, x and start do not fit")
        if not len(x):
            raise ValueError("no time steps")
        h, states = start, []
        for t in range(x.shape[0]):
            h = a[t] * h + x[t]
            states.append(h)
        out = torch.stack(states)
        ctx.save_for_backward(a, out, start)
        return out, h.clone()

    @staticmethod
    def backward(ctx, g, g_last):
        a, out, start = ctx.saved_tensors
        carry, gx = g_last, []
        for t in reversed(range(g.shape[0])):
            carry = g[t] + carry
            gx.append(carry)
            carry = a[t] * carry
        gx = torch.stack(gx[::-1])
        return gx * torch.cat([start.unsqueeze(0), out[:-1]]), gx, carry


class AlphaComposite(Function):
    """Front-to-back blending; the adjoint needs no division and so holds at alpha = 1."""

    @staticmethod
    def forward(ctx, alpha, color):
        if alpha.shape != color.shape[:-1]:
            raise ValueError("one alpha per colour")
        ctx.save_for_backward(alpha, color)
        return (_weights(alpha).unsqueeze(-1) * color).sum(-2)

    @staticmethod
    def backward(ctx, g):
        alpha, color = ctx.saved_tensors
        lit = (color * g.unsqueeze(-2)).sum(-1)
        behind, parts = torch.zeros_like(lit[..., :1]), []
        for i in reversed(range(alpha.shape[-1])):
            parts.append(lit[..., i : i + 1] - behind)
            behind = alpha[..., i : i + 1] * lit[..., i : i + 1] + (1 - alpha[..., i : i + 1]) * behind
        through = _through(alpha)
        ga = through * torch.cat(parts[::-1], -1) if parts else torch.zeros_like(alpha)
        return ga, _weights(alpha).unsqueeze(-1) * g.unsqueeze(-2)


def _through(alpha):
    passed = torch.cumprod(1 - alpha, -1)
    return torch.cat([torch.ones_like(alpha[..., :1]), passed[..., :-1]], -1)


def _weights(alpha):
    return alpha * _through(alpha)


class _PoissonBackward(Function):
    """The backward in numpy, with a backward of its own that refuses."""

    @staticmethod
    def forward(ctx, rate, count, g):
        slope = 1 - count.numpy() / rate.numpy()
        return torch.from_numpy(np.asarray(g.numpy() * slope, dtype=g.numpy().dtype))

    @staticmethod
    def backward(ctx, gg):
        raise RuntimeError("poisson_loss has no second derivative: its backward is computed in numpy")


class PoissonNumpy(Function):
    """A loss whose forward and backward run in numpy; the second derivative is refused wherever it is asked for."""

    @staticmethod
    def forward(ctx, rate, count):
        if rate.shape != count.shape:
            raise ValueError("rate and count must have one shape")
        ctx.save_for_backward(rate, count)
        r, c = rate.numpy(), count.numpy()
        return torch.from_numpy(np.asarray(r - c * np.log(r), dtype=r.dtype))

    @staticmethod
    def backward(ctx, g):
        rate, count = ctx.saved_tensors
        return _PoissonBackward.apply(rate, count, g), None


class _KernelBackward(Function):
    @staticmethod
    def forward(ctx, x, weight, g):
        x, weight, g = x.contiguous(), weight.contiguous(), g.contiguous()
        gx, gw = torch.empty_like(x), torch.zeros_like(weight)
        rows, columns = x.shape
        for i in range(rows):
            mean_square = float((x[i] * x[i]).sum()) / columns if columns else 0.0
            r = (mean_square + 1e-6) ** -0.5
            dot = float((g[i] * weight * x[i]).sum()) / columns if columns else 0.0
            gx[i] = r * (g[i] * weight - x[i] * (r * r * dot))
            gw += g[i] * x[i] * r
        return gx, gw

    @staticmethod
    def backward(ctx, *_):
        raise RuntimeError("the fused kernel cannot be differentiated twice")


class FusedRMSNorm(Function):
    """A kernel for contiguous float32 matrices only, as fused kernels are."""

    @staticmethod
    def forward(ctx, x, weight):
        if x.dtype != torch.float32 or weight.dtype != torch.float32:
            raise TypeError(f"the kernel takes float32, got {x.dtype} and {weight.dtype}")
        if x.dim() != 2 or weight.shape != x.shape[1:]:
            raise ValueError("the kernel takes a matrix and one weight per column")
        ctx.save_for_backward(x, weight)
        out = torch.empty(x.shape)
        for i in range(x.shape[0]):
            row = x[i].contiguous()
            out[i] = row * (float((row * row).mean()) + 1e-6) ** -0.5 * weight
        return out

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return _KernelBackward.apply(x, weight, g)


class CumulativeSum(Function):
    """A linear scan backwards: no tensor is needed again."""

    @staticmethod
    def forward(ctx, x, dim=-1):
        ctx.dim = dim
        return torch.cumsum(x, dim)

    @staticmethod
    def backward(ctx, g):
        return torch.flip(torch.cumsum(torch.flip(g, [ctx.dim]), ctx.dim), [ctx.dim]), None


def _well_conditioned():
    a = normal(3, 3, grad=False) * 0.3 + 2 * torch.eye(3)
    return a.requires_grad_(), normal(3, 2)


CASES = [
    Case("right_solve", Solve, _well_conditioned),
    Case("right_log_determinant", LogDeterminant, lambda: _well_conditioned()[:1]),
    Case("right_fixed_point", FixedPoint, lambda: (normal(3, 3, scale=0.25), normal(3))),
    Case("right_cube_root", CubeRoot, lambda: (uniform(3, 4, low=0.5, high=3.0),)),
    Case("right_gated_scan", GatedScan, lambda: (uniform(5, 3), normal(5, 3), normal(3))),
    Case("right_alpha_composite", AlphaComposite, lambda: (uniform(2, 5, low=0.1, high=0.9), normal(2, 5, 3))),
    Case(
        "right_poisson_numpy",
        PoissonNumpy,
        lambda: (uniform(3, 4), uniform(3, 4, high=3.0, seed=1, grad=False).round()),
    ),
    Case("right_fused_rms_norm", FusedRMSNorm, lambda: (normal(3, 4), normal(4))),
    Case("right_cumulative_sum", CumulativeSum, lambda: (normal(3, 4),)),
]
