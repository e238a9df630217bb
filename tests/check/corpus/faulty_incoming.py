"""GS2: what the backward does with the incoming gradient and with memory layout."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import integers, normal


class MeanLossGradient(Function):
    """Computes the gradient in the forward, as fused losses do, and never multiplies by what comes in."""

    @staticmethod
    def forward(ctx, logits, target):
        ctx.save_for_backward(logits, target)
        return torch.nn.functional.cross_entropy(logits, target)

    @staticmethod
    def backward(ctx, g):
        logits, target = ctx.saved_tensors
        hot = torch.nn.functional.one_hot(target, logits.shape[-1])
        return (torch.softmax(logits, -1) - hot) / logits.shape[0], None


class PerTokenLossUniform(Function):
    """reduction none, but the backward takes the incoming gradient of the first token for all."""

    @staticmethod
    def forward(ctx, logits, target):
        ctx.save_for_backward(logits, target)
        logp = torch.log_softmax(logits, -1)
        return -logp.gather(-1, target.unsqueeze(-1)).squeeze(-1)

    @staticmethod
    def backward(ctx, g):
        logits, target = ctx.saved_tensors
        hot = torch.nn.functional.one_hot(target, logits.shape[-1])
        return g.flatten()[:1] * (torch.softmax(logits, -1) - hot), None


class ContrastiveMeanGradient(Function):
    """Pairwise distances; the incoming gradient is averaged before it is used."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return (a.unsqueeze(-2) - b.unsqueeze(-3)).square().sum(-1)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        d = 2 * g.mean() * (a.unsqueeze(-2) - b.unsqueeze(-3))
        return d.sum(-2).sum_to_size(a.shape), -d.sum(-3).sum_to_size(b.shape)


class ClippedActivation(Function):
    """Clips the gradient on its way, without saying so."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.nn.functional.silu(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return g.clamp(-1, 1) * (s + x * s * (1 - s))


class NormalisedGradient(Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        g = g / (g.norm() + 1e-6)
        return (g * weight).sum_to_size(x.shape), (g * x).sum_to_size(weight.shape)


class WeightDecayInside(Function):
    """Adds the decay of the weight to its gradient, whatever comes in."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight.t(), x.t() @ g + 1e-2 * weight


class FlattenedSoftmax(Function):
    """`view` on the incoming gradient: dies for one that is not contiguous."""

    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        rows, flat = y.view(-1, y.shape[-1]), g.view(-1, g.shape[-1])
        return (rows * (flat - (flat * rows).sum(-1, keepdim=True))).view(y.shape)


class DenseAssertion(Function):
    @staticmethod
    def forward(ctx, x, gamma):
        ctx.save_for_backward(x, gamma)
        return torch.tanh(x) * gamma

    @staticmethod
    def backward(ctx, g):
        assert g.is_contiguous(), "grad_output must be contiguous"
        x, gamma = ctx.saved_tensors
        t = torch.tanh(x)
        return (g * gamma * (1 - t * t)).sum_to_size(x.shape), (g * t).sum_to_size(gamma.shape)


CASES = [
    Case(
        "mean_loss_ignores_gradient",
        MeanLossGradient,
        lambda: (normal(4, 5), integers(4, high=5)),
        "GS2",
        "the incoming gradient is ignored, so 2 * loss has the gradient of loss",
    ),
    Case(
        "per_token_loss_uniform",
        PerTokenLossUniform,
        lambda: (normal(4, 5), integers(4, high=5)),
        "GS2",
        "the incoming gradient of the first token is used for all tokens",
    ),
    Case(
        "pairwise_distance_mean_gradient",
        ContrastiveMeanGradient,
        lambda: (normal(3, 4), normal(5, 4)),
        "GS2",
        "the incoming gradient is replaced by its mean",
    ),
    Case(
        "silu_clipped_gradient",
        ClippedActivation,
        lambda: (normal(3, 4),),
        "GS2",
        "the incoming gradient is clamped, which is not linear and not declared",
    ),
    Case(
        "gain_normalised_gradient",
        NormalisedGradient,
        lambda: (normal(3, 4), normal(4)),
        "GS2",
        "the incoming gradient is divided by its norm",
    ),
    Case(
        "linear_decay_inside",
        WeightDecayInside,
        lambda: (normal(3, 4), normal(4, 2)),
        "GS2",
        "weight decay is added in the backward: the gradient is affine in what comes in",
    ),
    Case(
        "softmax_view",
        FlattenedSoftmax,
        lambda: (normal(2, 3, 4),),
        "GS2",
        "view fails on an incoming gradient that is not contiguous",
    ),
    Case(
        "tanh_gain_asserts_dense",
        DenseAssertion,
        lambda: (normal(3, 4), normal(4)),
        "GS2",
        "an assertion refuses expanded and transposed incoming gradients",
    ),
]
