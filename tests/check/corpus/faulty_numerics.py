"""GS7: overflow and cancellation."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import integers, normal, uniform


class SigmoidSpike(Function):
    """exp(-x) / (1 + exp(-x))^2 is inf / inf for x far below zero."""

    @staticmethod
    def forward(ctx, potential, slope):
        ctx.save_for_backward(potential)
        ctx.slope = slope
        return (potential >= 0).to(potential.dtype)

    @staticmethod
    def backward(ctx, g):
        (potential,) = ctx.saved_tensors
        e = torch.exp(-ctx.slope * potential)
        return g * ctx.slope * e / (1 + e).square(), None


class SoftplusNaive(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.nn.functional.softplus(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.exp(x) / (1 + torch.exp(x))


class CrossEntropyNoShift(Function):
    """The softmax of the backward is taken without subtracting the maximum."""

    @staticmethod
    def forward(ctx, logits, target):
        ctx.save_for_backward(logits, target)
        return torch.nn.functional.cross_entropy(logits, target, reduction="none")

    @staticmethod
    def backward(ctx, g):
        logits, target = ctx.saved_tensors
        e = torch.exp(logits)
        hot = torch.nn.functional.one_hot(target, logits.shape[-1])
        return g.unsqueeze(-1) * (e / e.sum(-1, keepdim=True) - hot), None


class LogitLossDivides(Function):
    """(p - t) / (p (1 - p)) times p (1 - p): right on paper, nan where p is rounded to 0 or 1."""

    @staticmethod
    def forward(ctx, logits, target):
        ctx.save_for_backward(logits, target)
        return torch.nn.functional.softplus(logits) - logits * target

    @staticmethod
    def backward(ctx, g):
        logits, target = ctx.saved_tensors
        p = torch.sigmoid(logits)
        outer = (p - target) / (p * (1 - p))
        return (g * outer * p * (1 - p)).sum_to_size(logits.shape), None


class TransmittanceDivides(Function):
    """The gradient of a cumulative product by division: nan where a factor is zero."""

    @staticmethod
    def forward(ctx, x):
        y = torch.cumprod(x, -1)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return torch.flip(torch.cumsum(torch.flip(g * y, [-1]), -1), [-1]) / x


class LengthWithoutEps(Function):
    """eps is under the root in the forward; the backward divides by the bare length."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x.square().sum(-1) + 1e-12).sqrt()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g.unsqueeze(-1) * x / x.square().sum(-1, keepdim=True).sqrt()


class TanhGelu(Function):
    """Writes tanh as a quotient of exponentials, forward and backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        e = torch.exp(2 * 0.7978845608028654 * (x + 0.044715 * x**3))
        t = (e - 1) / (e + 1)
        inner = 0.7978845608028654 * (1 + 3 * 0.044715 * x * x)
        return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner)


class VarianceByMoments(Function):
    """E[x^2] - E[x]^2 cancels when the mean is large."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square().mean(-1) - x.mean(-1).square()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g.unsqueeze(-1) * (x - x.mean(-1, keepdim=True)) / x.shape[-1]


CASES = [
    Case(
        "sigmoid_spike_overflow",
        SigmoidSpike,
        lambda: (normal(3, 6, scale=0.3), 25.0),
        "GS7",
        "the exponential overflows for moderate inputs and the gradient becomes nan",
        {"gradient_of": lambda v, slope: torch.sigmoid(slope * v)},
    ),
    Case("softplus_overflow", SoftplusNaive, lambda: (normal(3, 4),), "GS7", "inf / inf for large inputs"),
    Case(
        "cross_entropy_no_shift",
        CrossEntropyNoShift,
        lambda: (normal(4, 5), integers(4, high=5)),
        "GS7",
        "the softmax of the backward overflows for large logits",
    ),
    Case(
        "logit_loss_divides",
        LogitLossDivides,
        lambda: (normal(3, 4), uniform(3, 4, grad=False).round()),
        "GS7",
        "0 / 0 where the probability is rounded to 0 or 1",
    ),
    Case(
        "cumprod_divides",
        TransmittanceDivides,
        lambda: (uniform(2, 5),),
        "GS7|GS1",
        "the gradient is nan where a factor is zero",
    ),
    Case("length_without_eps", LengthWithoutEps, lambda: (normal(3, 4),), "GS7|GS1", "nan for a zero vector"),
    Case("gelu_exponentials", TanhGelu, lambda: (normal(3, 4),), "GS7", "inf / inf for large inputs"),
    Case(
        "variance_by_moments",
        VarianceByMoments,
        lambda: ((normal(3, 8, grad=False) + 3000).requires_grad_(),),
        "GS7",
        "the forward cancels for a large mean",
        {"reference": lambda x: x.var(-1, unbiased=False)},
    ),
]
