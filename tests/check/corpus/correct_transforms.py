"""Functions in the setup_context style that hold under vmap, torch.func and forward mode."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.nn import functional as F

from tests.check.corpus.case import Case
from tests.check.corpus.make import integers, normal, uniform


class Gelu(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return F.gelu(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def _slope(x):
        return 0.5 * (1 + torch.erf(x * 0.5**0.5)) + x * torch.exp(-0.5 * x * x) * 0.3989422804014327

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * Gelu._slope(x)

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return tangent * Gelu._slope(x)


class RMSNorm(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, weight, eps):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, eps = inputs
        ctx.save_for_backward(x, weight)
        ctx.eps = eps

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        r = torch.rsqrt(x.square().mean(-1, keepdim=True) + ctx.eps)
        gw = (g * weight).sum_to_size(x.shape)
        return r * (gw - x * r * r * (gw * x).mean(-1, keepdim=True)), (g * x * r).sum_to_size(weight.shape), None


class MatrixProduct(Function):
    """Casts by hand, since custom_fwd does not go with setup_context."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a, b):
        if a.dim() != 2 or b.dim() != 2:
            raise ValueError("a and b must be matrices")
        return a @ b

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return (g.to(b.dtype) @ b.t()).to(a.dtype), (a.t() @ g.to(a.dtype)).to(b.dtype)


class Centre(Function):
    """Takes the mean off; its own vmap rule moves the batch to the front."""

    @staticmethod
    def forward(x, dims):
        return x - x.mean(dims, keepdim=True)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.dims = inputs

    @staticmethod
    def backward(ctx, g):
        return g - g.mean(ctx.dims, keepdim=True), None

    @staticmethod
    def vmap(info, in_dims, x, dims):
        x = x.movedim(in_dims[0], 0)
        inner = tuple(d % (x.dim() - 1) + 1 for d in dims)
        return Centre.apply(x, inner), 0


class Affine(Function):
    """An own vmap rule for every combination of batched arguments."""

    @staticmethod
    def forward(x, scale, shift):
        return x * scale + shift

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, scale, shift = inputs
        ctx.save_for_backward(x, scale)
        ctx.shift_shape = shift.shape

    @staticmethod
    def backward(ctx, g):
        x, scale = ctx.saved_tensors
        gs = (g * x).sum_to_size(scale.shape)
        return (g * scale).sum_to_size(x.shape), gs, g.sum_to_size(ctx.shift_shape)

    @staticmethod
    def vmap(info, in_dims, *args):
        ranks = [t.dim() - (d is not None) for t, d in zip(args, in_dims, strict=True)]
        moved = []
        for t, d, rank in zip(args, in_dims, ranks, strict=True):
            t = t.expand(info.batch_size, *t.shape) if d is None else t.movedim(d, 0)
            moved.append(t.reshape(info.batch_size, *[1] * (max(ranks) - rank), *t.shape[1:]))
        return Affine.apply(*moved), 0


class CrossEntropy(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(logits, target):
        return -torch.log_softmax(logits, -1).gather(-1, target.unsqueeze(-1)).squeeze(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        logits, target = ctx.saved_tensors
        classes = torch.arange(logits.shape[-1], device=logits.device)
        hot = (target.unsqueeze(-1) == classes).to(logits.dtype)
        return g.unsqueeze(-1) * (torch.softmax(logits, -1) - hot), None


class SoftmaxWithLse(Function):
    """Both outputs are saved outputs; both tangents are right."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        lse = torch.logsumexp(x, -1)
        return torch.softmax(x, -1), lse

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output[0])
        ctx.save_for_forward(output[0])

    @staticmethod
    def backward(ctx, g, g_lse):
        (p,) = ctx.saved_tensors
        return p * (g - (g * p).sum(-1, keepdim=True) + g_lse.unsqueeze(-1))

    @staticmethod
    def jvp(ctx, tangent):
        (p,) = ctx.saved_tensors
        mean = (p * tangent).sum(-1)
        return p * (tangent - mean.unsqueeze(-1)), mean


class ExpGain(Function):
    """Several tangents, any of which may be undefined."""

    @staticmethod
    def forward(x, gain):
        return torch.sin(x) * gain

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, gain = ctx.saved_tensors
        return (g * gain * torch.cos(x)).sum_to_size(x.shape), (g * torch.sin(x)).sum_to_size(gain.shape)

    @staticmethod
    def jvp(ctx, x_tangent, gain_tangent):
        x, gain = ctx.saved_tensors
        parts = [torch.zeros_like(x * gain)]
        if x_tangent is not None:
            parts.append(x_tangent * gain * torch.cos(x))
        if gain_tangent is not None:
            parts.append(gain_tangent * torch.sin(x))
        return sum(parts)


CASES = [
    Case("right_gelu_all_modes", Gelu, lambda: (normal(3, 4),)),
    Case("right_rms_norm_vmap", RMSNorm, lambda: (normal(3, 4), normal(4), 1e-6)),
    Case("right_matrix_product_vmap", MatrixProduct, lambda: (normal(3, 4), normal(4, 2))),
    Case("right_centre_own_vmap", Centre, lambda: (normal(3, 4), (-1,))),
    Case("right_affine_own_vmap", Affine, lambda: (normal(3, 4), normal(4), normal(4, seed=1))),
    Case("right_cross_entropy_vmap", CrossEntropy, lambda: (normal(4, 5), integers(4, high=5))),
    Case("right_softmax_lse_all_modes", SoftmaxWithLse, lambda: (normal(3, 4),)),
    Case("right_sine_gain_jvp", ExpGain, lambda: (normal(3, 4), uniform(4))),
]
