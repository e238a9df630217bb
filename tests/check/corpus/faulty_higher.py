"""GS5: second derivatives that are silently wrong or zero."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.check.corpus.case import Case
from tests.check.corpus.make import normal, uniform


class RMSNormSavesRstd(Function):
    """Saves the reciprocal of the norm, an intermediate: its dependence on x is lost in the second derivative."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        r = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(x, weight, r)
        return x * r * weight

    @staticmethod
    def backward(ctx, g):
        x, weight, r = ctx.saved_tensors
        gw = g * weight
        gx = r * (gw - x * r * r * (gw * x).mean(-1, keepdim=True))
        return gx.sum_to_size(x.shape), (g * x * r).sum_to_size(weight.shape), None


class LayerNormOnce(Function):
    """once_differentiable refuses only if the incoming gradient requires grad; else the penalty is silently zero."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.nn.functional.layer_norm(x, x.shape[-1:]) * weight

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        centred = x - x.mean(-1, keepdim=True)
        rstd = torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5)
        normed = centred * rstd
        gn = g * weight
        gx = rstd * (gn - gn.mean(-1, keepdim=True) - normed * (gn * normed).mean(-1, keepdim=True))
        return gx.sum_to_size(x.shape), (g * normed).sum_to_size(weight.shape)


class SigmoidNoGrad(Function):
    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x)
        ctx.slope = slope
        return torch.sigmoid(slope * x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        with torch.no_grad():
            s = torch.sigmoid(ctx.slope * x)
            return g * ctx.slope * s * (1 - s), None


class SwishDetached(Function):
    @staticmethod
    def forward(ctx, x, beta):
        ctx.save_for_backward(x, beta)
        return x * torch.sigmoid(beta * x)

    @staticmethod
    def backward(ctx, g):
        x, beta = ctx.saved_tensors
        s = torch.sigmoid(beta * x).detach()
        gx = g * (s + x * beta * s * (1 - s))
        return gx.sum_to_size(x.shape), (g * x * x * s * (1 - s)).sum_to_size(beta.shape)


class PoissonNumpy(Function):
    """Computes the backward in numpy and does not say that it cannot be differentiated."""

    @staticmethod
    def forward(ctx, rate, count):
        ctx.save_for_backward(rate, count)
        return rate - count * torch.log(rate)

    @staticmethod
    def backward(ctx, g):
        rate, count = (t.detach().numpy() for t in ctx.saved_tensors)
        return torch.from_numpy(g.detach().numpy() * (1 - count / rate)), None


class CheckpointedBlock(Function):
    """Recomputes under enable_grad and differentiates inside, without create_graph."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.tanh(x) * weight.exp()

    @staticmethod
    def backward(ctx, g):
        x, weight = (t.detach().requires_grad_() for t in ctx.saved_tensors)
        with torch.enable_grad():
            y = torch.tanh(x) * weight.exp()
        return torch.autograd.grad(y, (x, weight), g)


class _SoftplusBackward(Function):
    """The hand-written second derivative lacks the factor beta."""

    @staticmethod
    def forward(ctx, x, g, beta):
        ctx.save_for_backward(x, g)
        ctx.beta = beta
        return g * torch.sigmoid(beta * x)

    @staticmethod
    def backward(ctx, gg):
        x, g = ctx.saved_tensors
        s = torch.sigmoid(ctx.beta * x)
        return gg * g * s * (1 - s), gg * s, None


class SoftplusTwice(Function):
    @staticmethod
    def forward(ctx, x, beta):
        ctx.save_for_backward(x)
        ctx.beta = beta
        return torch.nn.functional.softplus(x, beta)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return _SoftplusBackward.apply(x, g, ctx.beta), None


class DistanceSavesDifference(Function):
    """Saves the distance, returned as no output."""

    @staticmethod
    def forward(ctx, a, b):
        difference = a - b
        distance = (difference.square().sum(-1, keepdim=True) + 1e-6).sqrt()
        ctx.save_for_backward(difference, distance)
        ctx.shapes = a.shape, b.shape
        return distance.squeeze(-1)

    @staticmethod
    def backward(ctx, g):
        difference, distance = ctx.saved_tensors
        d = g.unsqueeze(-1) * difference / distance
        return d.sum_to_size(ctx.shapes[0]), -d.sum_to_size(ctx.shapes[1])


class MaxNormAsNumber(Function):
    """Keeps the norm as a plain number: right once, wrong twice."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.norm = float((x.square().sum() + 1e-6).sqrt())
        return x / ctx.norm

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g / ctx.norm - x * (g * x).sum() / ctx.norm**3


CASES = [
    Case(
        "rms_norm_saved_rstd",
        RMSNormSavesRstd,
        lambda: (normal(2, 3, 4), normal(4), 1e-6),
        "GS5",
        "the second derivative treats the saved reciprocal norm as a constant",
    ),
    Case(
        "layer_norm_once_differentiable",
        LayerNormOnce,
        lambda: (normal(3, 4), normal(4)),
        "GS5",
        "once_differentiable gives a silently zero second derivative when the incoming gradient needs no grad",
    ),
    Case(
        "sigmoid_backward_no_grad",
        SigmoidNoGrad,
        lambda: (normal(3, 4), 2.0),
        "GS5|GS9",
        "the backward runs under no_grad, so the second derivative is silently zero",
    ),
    Case(
        "swish_detached",
        SwishDetached,
        lambda: (normal(3, 4), uniform(1)),
        "GS5|GS9",
        "a factor is detached in the backward, so the second derivative is silently wrong",
    ),
    Case(
        "poisson_numpy_backward",
        PoissonNumpy,
        lambda: (uniform(3, 4), uniform(3, 4, seed=1, grad=False).round()),
        "GS5|GS9",
        "the backward leaves autograd through numpy, so the second derivative is silently zero",
    ),
    Case(
        "block_recomputed_without_graph",
        CheckpointedBlock,
        lambda: (normal(3, 4), normal(3, 4, seed=1)),
        "GS5",
        "the inner gradient has no graph, so the second derivative is silently zero",
    ),
    Case(
        "softplus_second_factor",
        SoftplusTwice,
        lambda: (normal(3, 4), 2.0),
        "GS5|GS1",
        "the hand-written double backward lacks the factor beta",
    ),
    Case(
        "distance_saved_intermediates",
        DistanceSavesDifference,
        lambda: (normal(3, 4), normal(3, 4, seed=1)),
        "GS5",
        "difference and distance are saved intermediates: the second derivative is silently zero",
    ),
    Case(
        "unit_norm_plain_number",
        MaxNormAsNumber,
        lambda: (normal(3, 4),),
        "GS5",
        "the norm is kept as a plain number: the second derivative is silently wrong",
    ),
]
