"""GS9: what can be read in the source."""

from __future__ import annotations

import torch
from torch import nn
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import integers, normal, uniform


class ReversalModule(nn.Module):
    """A gradient reversal written as a module: its `backward` is never called."""

    def __init__(self, strength):
        super().__init__()
        self.strength = strength

    def forward(self, x):
        return x.view_as(x)

    def backward(self, g):
        return -self.strength * g


class CenterLoss(nn.Module):
    """The author's backward is never called; autograd differentiates the forward."""

    def __init__(self):
        super().__init__()
        self.centers = nn.Parameter(torch.linspace(-1, 1, 12).reshape(3, 4))

    def forward(self, x, label):
        return (x - self.centers[label]).square().sum(-1)

    def backward(self, g):
        return 2 * g, None


class KeywordOnly(Function):
    """Keyword-only parameters cannot be passed through apply."""

    @staticmethod
    def forward(ctx, x, weight, *, eps=1e-6):
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        r = torch.rsqrt(x.square().mean(-1, keepdim=True) + ctx.eps)
        gw = (g * weight).sum_to_size(x.shape)
        return r * (gw - x * r * r * (gw * x).mean(-1, keepdim=True)), (g * x * r).sum_to_size(weight.shape)


class DataInBackward(Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.nn.functional.softplus(x) * weight

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        gx = g * weight.data * torch.sigmoid(x.data)
        return gx.sum_to_size(x.shape), (g * torch.nn.functional.softplus(x.data)).sum_to_size(weight.shape)


class ItemInBackward(Function):
    """Takes the temperature out of its tensor: a device synchronisation, and its second derivative is lost."""

    @staticmethod
    def forward(ctx, logits, temperature):
        ctx.save_for_backward(logits, temperature)
        return torch.tanh(logits / temperature)

    @staticmethod
    def backward(ctx, g):
        logits, temperature = ctx.saved_tensors
        tau = temperature.item()
        inner = g * (1 - torch.tanh(logits / tau).square())
        gt = -(inner * logits).sum() / tau**2
        return inner / tau, gt.reshape(temperature.shape)


class ClampsInPlace(Function):
    """Removes the gradient outside the range in place, by name."""

    @staticmethod
    def forward(ctx, x, low, high):
        ctx.save_for_backward(x)
        ctx.low, ctx.high = low, high
        return x.clamp(low, high)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        grad_output[x < ctx.low] = 0
        grad_output[x > ctx.high] = 0
        return grad_output, None, None


class HalvesInPlace(Function):
    @staticmethod
    def forward(ctx, a, b):
        if a.shape != b.shape:
            raise ValueError("a and b must have one shape")
        return (a + b) / 2

    @staticmethod
    def backward(ctx, grad):
        grad /= 2
        return grad, grad


class StashesBoth(Function):
    """Keeps prediction and target on ctx."""

    @staticmethod
    def forward(ctx, prediction, target):
        if prediction.shape != target.shape:
            raise ValueError("prediction and target must have one shape")
        ctx.difference = prediction - target
        return torch.log(torch.cosh(ctx.difference))

    @staticmethod
    def backward(ctx, g):
        return g * torch.tanh(ctx.difference), None


class NumpyGelu(Function):
    """Leaves torch in the backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(1.702 * x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        values = x.detach().cpu().numpy().astype("float64")
        s = 1 / (1 + _exp(-1.702 * values))
        slope = torch.from_numpy(s + 1.702 * values * s * (1 - s))
        return g * slope.to(g)


def _exp(values):
    import numpy as np

    return np.exp(np.clip(values, -700, 700))


def hard_sign(x):
    """Calls forward directly: the straight-through gradient is never used."""
    return _HardSign.forward(None, x)


class _HardSign(Function):
    @staticmethod
    def forward(ctx, x):
        return torch.sign(x)

    @staticmethod
    def backward(ctx, g):
        return g


class ReadsSavedInLoop(Function):
    """Reads saved_tensors again and again."""

    @staticmethod
    def forward(ctx, x, *weights):
        ctx.save_for_backward(x, *weights)
        return sum(torch.sin(x) * w for w in weights)

    @staticmethod
    def backward(ctx, g):
        x = ctx.saved_tensors[0]
        gx = sum(g * torch.cos(x) * w for w in ctx.saved_tensors[1:])
        return gx.sum_to_size(x.shape), *[(g * torch.sin(x)).sum_to_size(w.shape) for w in ctx.saved_tensors[1:]]


CASES = [
    Case(
        "reversal_as_module",
        ReversalModule(0.5),
        lambda: (normal(3, 4),),
        "GS9|GS1|GS3",
        "the backward of a module is never called, so nothing is reversed",
        {"gradient_of": lambda x: -0.5 * x},
    ),
    Case(
        "center_loss_module_backward",
        CenterLoss(),
        lambda: (normal(4, 4), integers(4, high=3)),
        "GS9|GS3",
        "the backward of a module is never called",
    ),
    Case(
        "rms_norm_keyword_only",
        KeywordOnly,
        lambda: (normal(3, 4), normal(4)),
        "GS9|GS3",
        "apply cannot pass the keyword-only parameter",
    ),
    Case(
        "softplus_data_in_backward",
        DataInBackward,
        lambda: (normal(3, 4), normal(4)),
        "GS9|GS5",
        ".data in the backward cuts the second derivative",
    ),
    Case(
        "temperature_item_in_backward",
        ItemInBackward,
        lambda: (normal(3, 4), uniform(1)),
        "GS9|GS5",
        ".item() in the backward loses the dependence on the temperature",
    ),
    Case(
        "clamp_edits_by_index",
        ClampsInPlace,
        lambda: (normal(3, 4), -0.5, 0.5),
        "GS9|GS2",
        "the incoming gradient is written to by index",
    ),
    Case(
        "average_edits_gradient",
        HalvesInPlace,
        lambda: (normal(3, 4), normal(3, 4, seed=1)),
        "GS9|GS2",
        "the incoming gradient is divided in place",
    ),
    Case(
        "log_cosh_difference_on_ctx",
        StashesBoth,
        lambda: (normal(3, 4), normal(3, 4, seed=1, grad=False)),
        "GS9|GS4|GS5",
        "a tensor is kept on ctx",
    ),
    Case(
        "quick_gelu_numpy",
        NumpyGelu,
        lambda: (normal(3, 4),),
        "GS9|GS5",
        "numpy in the backward cuts the second derivative",
    ),
    Case(
        "sign_forward_called_directly",
        hard_sign,
        lambda: (normal(3, 4),),
        "GS9|GS1|GS3",
        "forward is called directly, so the custom backward is never used",
        {"gradient_of": lambda x: x},
    ),
    Case(
        "sine_mixture_reads_often",
        ReadsSavedInLoop,
        lambda: (normal(3, 4), normal(4), normal(4, seed=1)),
        "GS9|GS4",
        "saved_tensors is read several times",
    ),
]
