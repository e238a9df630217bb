"""GS4: tensors saved and not needed, read more than once, or never freed."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import integers, normal


class SavedNeverRead(Function):
    """Saves the activations although the gradient of a shift needs none of them."""

    @staticmethod
    def forward(ctx, x, bias):
        ctx.save_for_backward(x, bias)
        return x + bias

    @staticmethod
    def backward(ctx, g):
        x, bias = ctx.saved_tensors
        return g.sum_to_size(x.shape), g.sum_to_size(bias.shape)


class SavedOutputNeverRead(Function):
    """Saves input and output of a layer and reads the input only."""

    @staticmethod
    def forward(ctx, x):
        y = torch.nn.functional.mish(x)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, _ = ctx.saved_tensors
        t, s = torch.tanh(torch.nn.functional.softplus(x)), torch.sigmoid(x)
        return g * (t + x * s * (1 - t * t))


class SavedNeverUnpacked(Function):
    """A linear interpolation with fixed weight: what is saved is not even unpacked."""

    @staticmethod
    def forward(ctx, start, end, weight):
        if start.shape != end.shape:
            raise ValueError("start and end must have one shape")
        ctx.save_for_backward(start, end)
        ctx.weight = weight
        return torch.lerp(start, end, weight)

    @staticmethod
    def backward(ctx, g):
        return g * (1 - ctx.weight), g * ctx.weight, None


class ReadTwice(Function):
    """Unpacks saved_tensors twice, which non-reentrant checkpoint forbids."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.tanh(x) * weight

    @staticmethod
    def backward(ctx, g):
        x = ctx.saved_tensors[0]
        weight = ctx.saved_tensors[1]
        t = torch.tanh(x)
        return (g * weight * (1 - t * t)).sum_to_size(x.shape), (g * t).sum_to_size(weight.shape)


class KeepsEveryCall(Function):
    """Keeps the contexts of all calls for statistics: nothing is ever freed."""

    contexts: list = []  # noqa: RUF012

    @staticmethod
    def forward(ctx, logits, target):
        KeepsEveryCall.contexts.append(ctx)
        ctx.save_for_backward(logits, target)
        return torch.nn.functional.cross_entropy(logits, target, reduction="none")

    @staticmethod
    def backward(ctx, g):
        logits, target = ctx.saved_tensors
        hot = torch.nn.functional.one_hot(target, logits.shape[-1])
        return g.unsqueeze(-1) * (torch.softmax(logits, -1) - hot), None


CASES = [
    Case(
        "shift_saves_all",
        SavedNeverRead,
        lambda: (normal(3, 4), normal(4)),
        "GS4",
        "the inputs are saved and their values never used",
    ),
    Case(
        "mish_saves_output",
        SavedOutputNeverRead,
        lambda: (normal(3, 4),),
        "GS4",
        "the output is saved and its values never used",
    ),
    Case(
        "lerp_never_unpacks",
        SavedNeverUnpacked,
        lambda: (normal(3, 4), normal(3, 4, seed=1), 0.3),
        "GS4",
        "two tensors are saved and never unpacked",
    ),
    Case(
        "tanh_gain_reads_twice",
        ReadTwice,
        lambda: (normal(3, 4), normal(4)),
        "GS4|GS9",
        "saved_tensors is read twice",
    ),
    Case(
        "loss_keeps_contexts",
        KeepsEveryCall,
        lambda: (normal(4, 5), integers(4, high=5)),
        "GS4|GS8",
        "every context is kept in a class attribute",
    ),
]
