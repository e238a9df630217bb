"""Losses whose backward is right."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.nn import functional as F

from tests.check.corpus.case import Case
from tests.check.corpus.make import integers, normal, uniform


class CrossEntropy(Function):
    """Per token, with label smoothing and an ignored label; both halves of the second derivative are right."""

    @staticmethod
    def forward(ctx, logits, target, smoothing, ignore):
        ctx.save_for_backward(logits, target)
        ctx.smoothing, ctx.ignore = smoothing, ignore
        logp = torch.log_softmax(logits, -1)
        picked = logp.gather(-1, target.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        loss = -(1 - smoothing) * picked - smoothing * logp.mean(-1)
        return torch.where(target == ignore, 0.0, loss)

    @staticmethod
    def backward(ctx, g):
        logits, target = ctx.saved_tensors
        p = torch.softmax(logits, -1)
        hot = F.one_hot(target.clamp(min=0), logits.shape[-1]).to(p.dtype)
        wanted = (1 - ctx.smoothing) * hot + ctx.smoothing / logits.shape[-1]
        g = torch.where(target == ctx.ignore, 0.0, g)
        return g.unsqueeze(-1) * (p - wanted), None, None, None


class MeanCrossEntropy(Function):
    @staticmethod
    def forward(ctx, logits, target):
        ctx.save_for_backward(logits, target)
        return F.cross_entropy(logits, target)

    @staticmethod
    def backward(ctx, g):
        logits, target = ctx.saved_tensors
        hot = F.one_hot(target, logits.shape[-1]).to(logits.dtype)
        return g * (torch.softmax(logits, -1) - hot) / logits.shape[0], None


class CrossEntropyWithZ(Function):
    """Cross entropy and the log-normaliser it needed, as large language models log it."""

    @staticmethod
    def forward(ctx, logits, target):
        ctx.save_for_backward(logits, target)
        lse = torch.logsumexp(logits, -1)
        return lse - logits.gather(-1, target.unsqueeze(-1)).squeeze(-1), lse

    @staticmethod
    def backward(ctx, g, g_lse):
        logits, target = ctx.saved_tensors
        hot = F.one_hot(target, logits.shape[-1]).to(logits.dtype)
        return (g + g_lse).unsqueeze(-1) * torch.softmax(logits, -1) - g.unsqueeze(-1) * hot, None


class FocalLoss(Function):
    @staticmethod
    def forward(ctx, logits, target, gamma):
        ctx.save_for_backward(logits, target)
        ctx.gamma = gamma
        signed = logits * (2 * target - 1)
        return torch.sigmoid(-signed) ** gamma * F.softplus(-signed)

    @staticmethod
    def backward(ctx, g):
        logits, target = ctx.saved_tensors
        sign = 2 * target - 1
        signed = logits * sign
        q, ce = torch.sigmoid(-signed), F.softplus(-signed)
        slope = -(q**ctx.gamma) * (ctx.gamma * (1 - q) * ce + q)
        return (g * slope * sign).sum_to_size(logits.shape), None, None


class BinaryCrossEntropy(Function):
    @staticmethod
    def forward(ctx, logits, target):
        ctx.save_for_backward(logits, target)
        return F.softplus(logits) - logits * target

    @staticmethod
    def backward(ctx, g):
        logits, target = ctx.saved_tensors
        gl = (g * (torch.sigmoid(logits) - target)).sum_to_size(logits.shape)
        gt = (-g * logits).sum_to_size(target.shape) if ctx.needs_input_grad[1] else None
        return gl, gt


class Huber(Function):
    @staticmethod
    def forward(ctx, prediction, target, delta):
        ctx.save_for_backward(prediction, target)
        ctx.delta = delta
        d = (prediction - target).abs()
        return torch.where(d < delta, 0.5 * d * d, delta * (d - 0.5 * delta))

    @staticmethod
    def backward(ctx, g):
        prediction, target = ctx.saved_tensors
        gp = g * (prediction - target).clamp(-ctx.delta, ctx.delta)
        return gp.sum_to_size(prediction.shape), -gp.sum_to_size(target.shape), None


class Divergence(Function):
    """KL divergence between two categorical distributions given by logits."""

    @staticmethod
    def forward(ctx, p_logits, q_logits):
        if p_logits.shape != q_logits.shape:
            raise ValueError("both logits must have one shape")
        ctx.save_for_backward(p_logits, q_logits)
        logp, logq = torch.log_softmax(p_logits, -1), torch.log_softmax(q_logits, -1)
        return (logp.exp() * (logp - logq)).sum(-1)

    @staticmethod
    def backward(ctx, g):
        p_logits, q_logits = ctx.saved_tensors
        g = g.unsqueeze(-1)
        logp, logq = torch.log_softmax(p_logits, -1), torch.log_softmax(q_logits, -1)
        p, gap = logp.exp(), logp - logq
        return g * p * (gap - (p * gap).sum(-1, keepdim=True)), g * (logq.exp() - p)


class Dice(Function):
    @staticmethod
    def forward(ctx, probabilities, mask, smooth=1.0):
        if probabilities.shape != mask.shape:
            raise ValueError("probabilities and mask must have one shape")
        ctx.save_for_backward(probabilities, mask)
        ctx.smooth = smooth
        return 1 - (2 * (probabilities * mask).sum() + smooth) / (probabilities.sum() + mask.sum() + smooth)

    @staticmethod
    def backward(ctx, g):
        p, mask = ctx.saved_tensors
        above = 2 * (p * mask).sum() + ctx.smooth
        below = p.sum() + mask.sum() + ctx.smooth
        return -g * (2 * mask * below - above) / below.square(), None, None


class Chamfer(Function):
    """Both directions; which neighbour is nearest is saved as an integer output of the forward."""

    @staticmethod
    def forward(ctx, a, b):
        if a.shape[1] != b.shape[1]:
            raise ValueError("the points of a and b must have one dimension")
        d = (a.unsqueeze(1) - b.unsqueeze(0)).square().sum(-1)
        to_b, i = d.min(1)
        to_a, j = d.min(0)
        ctx.save_for_backward(a, b, i, j)
        ctx.mark_non_differentiable(i, j)
        return to_b.sum() + to_a.sum(), i, j

    @staticmethod
    def backward(ctx, g, _i, _j):
        a, b, i, j = ctx.saved_tensors
        from_a, from_b = 2 * (a - b[i]), 2 * (b - a[j])
        ga = g * (from_a - torch.zeros_like(a).index_add(0, j, from_b))
        gb = g * (from_b - torch.zeros_like(b).index_add(0, i, from_a))
        return ga, gb


class Triplet(Function):
    """Three inputs, a margin, None where no gradient is needed."""

    @staticmethod
    def forward(ctx, anchor, positive, negative, margin):
        if not anchor.shape == positive.shape == negative.shape:
            raise ValueError("anchor, positive and negative must have one shape")
        ctx.save_for_backward(anchor, positive, negative)
        ctx.margin = margin
        return ((anchor - positive).square().sum(-1) - (anchor - negative).square().sum(-1) + margin).relu()

    @staticmethod
    def backward(ctx, g):
        a, p, n = ctx.saved_tensors
        active = (a - p).square().sum(-1) - (a - n).square().sum(-1) + ctx.margin > 0
        g = 2 * torch.where(active, g, 0.0).unsqueeze(-1)
        need = ctx.needs_input_grad
        return (
            g * (n - p) if need[0] else None,
            g * (p - a) if need[1] else None,
            g * (a - n) if need[2] else None,
            None,
        )


CASES = [
    Case("right_cross_entropy", CrossEntropy, lambda: (normal(5, 4), torch.tensor([1, 3, -100, 0, 2]), 0.1, -100)),
    Case("right_mean_cross_entropy", MeanCrossEntropy, lambda: (normal(4, 5), integers(4, high=5))),
    Case("right_cross_entropy_with_z", CrossEntropyWithZ, lambda: (normal(4, 5), integers(4, high=5))),
    Case("right_focal_loss", FocalLoss, lambda: (normal(3, 4), uniform(3, 4, grad=False).round(), 2.0)),
    Case("right_binary_cross_entropy", BinaryCrossEntropy, lambda: (normal(3, 4), uniform(3, 4, low=0.0, high=1.0))),
    Case("right_huber", Huber, lambda: (normal(3, 4), normal(3, 4, seed=1), 0.7)),
    Case("right_divergence", Divergence, lambda: (normal(3, 4), normal(3, 4, seed=1))),
    Case("right_dice", Dice, lambda: (uniform(2, 6), uniform(2, 6, grad=False).round())),
    Case("right_chamfer", Chamfer, lambda: (normal(4, 3), normal(5, 3, seed=1))),
    Case("right_triplet", Triplet, lambda: (normal(3, 4), normal(3, 4, seed=1), normal(3, 4, seed=2), 1.0)),
]
