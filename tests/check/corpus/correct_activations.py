"""Activations and gates whose backward is right."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.nn import functional as F

from tests.check.corpus.case import Case
from tests.check.corpus.make import normal, uniform


class SwiGLU(Function):
    @staticmethod
    def forward(ctx, gate, up):
        ctx.save_for_backward(gate, up)
        return F.silu(gate) * up

    @staticmethod
    def backward(ctx, g):
        gate, up = ctx.saved_tensors
        s = torch.sigmoid(gate)
        d_gate = g * up * s * (1 + gate * (1 - s))
        return d_gate.sum_to_size(gate.shape), (g * gate * s).sum_to_size(up.shape)


class GeGLU(Function):
    """Exact gelu on one half of the channels, times the other half."""

    @staticmethod
    def forward(ctx, x):
        if x.shape[-1] % 2:
            raise ValueError(f"the number of channels must be even, got {x.shape[-1]}")
        ctx.save_for_backward(x)
        a, b = x.chunk(2, -1)
        return F.gelu(a) * b

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        a, b = x.chunk(2, -1)
        cdf = 0.5 * (1 + torch.erf(a * 0.5**0.5))
        density = torch.exp(-0.5 * a * a) * 0.3989422804014327
        return torch.cat([g * b * (cdf + a * density), g * F.gelu(a)], -1)


class Mish(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.tanh(F.softplus(x))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        t = torch.tanh(F.softplus(x))
        return g * (t + x * torch.sigmoid(x) * (1 - t * t))


class ParametricReLU(Function):
    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x, slope)
        return torch.where(x > 0, x, slope * x)

    @staticmethod
    def backward(ctx, g):
        x, slope = ctx.saved_tensors
        gx = torch.where(x > 0, g, slope * g)
        gs = torch.where(x > 0, torch.zeros_like(g), g * x)
        return gx.sum_to_size(x.shape), gs.sum_to_size(slope.shape)


class ReLU(Function):
    """Saves the output only."""

    @staticmethod
    def forward(ctx, x):
        y = x.clamp(min=0)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return torch.where(y > 0, g, 0.0)


class Softplus(Function):
    @staticmethod
    def forward(ctx, x, beta):
        ctx.save_for_backward(x)
        ctx.beta = beta
        return F.softplus(x, beta)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.sigmoid(ctx.beta * x), None


class Softmax(Function):
    """Along any dim; saves the output."""

    @staticmethod
    def forward(ctx, x, dim=-1):
        y = torch.softmax(x, dim)
        ctx.save_for_backward(y)
        ctx.dim = dim
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(ctx.dim, keepdim=True)), None


class LogSoftmax(Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.log_softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g - y.exp() * g.sum(-1, keepdim=True)


class HardSwish(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * (x + 3).clamp(0, 6) / 6

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        middle = (x > -3) & (x < 3)
        return torch.where(middle, g * (2 * x + 3) / 6, torch.where(x >= 3, g, 0.0))


class SinCos(Function):
    """Two outputs that serve each other; either may be unused."""

    @staticmethod
    def forward(ctx, x):
        sin, cos = torch.sin(x), torch.cos(x)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(sin, cos)
        return sin, cos

    @staticmethod
    def backward(ctx, g_sin, g_cos):
        sin, cos = ctx.saved_tensors
        parts = ([] if g_sin is None else [g_sin * cos]) + ([] if g_cos is None else [-g_cos * sin])
        return sum(parts) if parts else None


class ComplexGate(Function):
    """z * sigmoid(|z|^2) for a complex z."""

    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z * torch.sigmoid(z.real.square() + z.imag.square())

    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        s = torch.sigmoid(z.real.square() + z.imag.square())
        along = (g.conj() * z).real * s * (1 - s)
        return g * s + 2 * along * z


class ComplexMultiply(Function):
    @staticmethod
    def forward(ctx, z, w):
        ctx.save_for_backward(z, w)
        return z * w

    @staticmethod
    def backward(ctx, g):
        z, w = ctx.saved_tensors
        return (g * w.conj()).sum_to_size(z.shape), (g * z.conj()).sum_to_size(w.shape)


CASES = [
    Case("right_swiglu", SwiGLU, lambda: (normal(3, 4), normal(3, 4, seed=1))),
    Case("right_geglu", GeGLU, lambda: (normal(3, 8),)),
    Case("right_mish", Mish, lambda: (normal(2, 3, 4),)),
    Case("right_parametric_relu", ParametricReLU, lambda: (normal(3, 4), uniform(4))),
    Case("right_relu", ReLU, lambda: (normal(3, 4),)),
    Case("right_relu_at_kink", ReLU, lambda: (torch.tensor([-1.0, 0.0, 0.0, 2.0], requires_grad=True),)),
    Case("right_softplus", Softplus, lambda: (normal(3, 4), 2.0)),
    Case("right_softmax", Softmax, lambda: (normal(3, 3), 0)),
    Case("right_log_softmax", LogSoftmax, lambda: (normal(2, 3, 4),)),
    Case("right_hard_swish", HardSwish, lambda: (normal(3, 4, scale=3.0),)),
    Case("right_sin_cos", SinCos, lambda: (normal(3, 4),)),
    Case("right_complex_gate", ComplexGate, lambda: (normal(2, 3, dtype=torch.complex64),)),
    Case(
        "right_complex_multiply",
        ComplexMultiply,
        lambda: (normal(2, 3, dtype=torch.complex64), normal(3, dtype=torch.complex64)),
    ),
]
