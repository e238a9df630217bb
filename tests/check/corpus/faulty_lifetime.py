"""GS4: how tensors are kept between forward and backward."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import integers, normal


class InputOnContext(Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.x, ctx.weight = x, weight
        return torch.nn.functional.elu(x) * weight

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.x, ctx.weight
        slope = torch.where(x > 0, torch.ones_like(x), torch.exp(x.clamp(max=0)))
        return (g * weight * slope).sum_to_size(x.shape), (g * torch.nn.functional.elu(x)).sum_to_size(weight.shape)


class OutputOnContext(Function):
    """The output on ctx closes a cycle: the memory of the graph comes back only when the collector runs."""

    @staticmethod
    def forward(ctx, x):
        ctx.probabilities = torch.softmax(x, -1)
        return ctx.probabilities

    @staticmethod
    def backward(ctx, g):
        y = ctx.probabilities
        return y * (g - (g * y).sum(-1, keepdim=True))


class IntermediateOnContext(Function):
    """The mask is no input and no output, and is kept on ctx where hooks and checkpoint do not see it."""

    @staticmethod
    def forward(ctx, x, slope):
        ctx.mask = x > 0
        ctx.slope = slope
        return torch.where(ctx.mask, x, slope * x)

    @staticmethod
    def backward(ctx, g):
        return torch.where(ctx.mask, g, ctx.slope * g), None


class DictionaryOnContext(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, q, k):
        ctx.cache = {"q": q, "k": k}
        return q @ k.transpose(-1, -2)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        q, k = ctx.cache["q"], ctx.cache["k"]
        return g @ k, g.transpose(-1, -2) @ q


class ClosureOnContext(Function):
    """A function on ctx that holds the index."""

    @staticmethod
    def forward(ctx, x, index):
        shape = x.shape
        ctx.pull = lambda g: g.new_zeros(shape).index_add(0, index, g)
        return x[index]

    @staticmethod
    def backward(ctx, g):
        return ctx.pull(g), None


class PartialOnContext(Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.pull = partial(_scale_gradients, x, weight)
        return torch.sin(x) * weight

    @staticmethod
    def backward(ctx, g):
        return ctx.pull(g)


def _scale_gradients(x, weight, g):
    return (g * weight * torch.cos(x)).sum_to_size(x.shape), (g * torch.sin(x)).sum_to_size(weight.shape)


@dataclass
class Residuals:
    x: torch.Tensor
    eps: float


class DataclassOnContext(Function):
    @staticmethod
    def forward(ctx, x, eps):
        ctx.residuals = Residuals(x, eps)
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)

    @staticmethod
    def backward(ctx, g):
        x, eps = ctx.residuals.x, ctx.residuals.eps
        r = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
        return r * (g - x * r * r * (g * x).mean(-1, keepdim=True)), None


class SelfReference(Function):
    """ctx refers to the output through a list of stages."""

    @staticmethod
    def forward(ctx, x, steps):
        states = [x]
        for _ in range(steps):
            states.append(torch.tanh(states[-1]))
        ctx.states = states
        return states[-1]

    @staticmethod
    def backward(ctx, g):
        for state in reversed(ctx.states[1:]):
            g = g * (1 - state * state)
        return g, None


CASES = [
    Case(
        "elu_inputs_on_ctx",
        InputOnContext,
        lambda: (normal(3, 4), normal(4)),
        "GS4|GS9",
        "the inputs are kept on ctx, where a later in-place change is not noticed",
    ),
    Case(
        "softmax_output_on_ctx", OutputOnContext, lambda: (normal(3, 4),), "GS4|GS9", "the output on ctx makes a cycle"
    ),
    Case(
        "leaky_relu_mask_on_ctx",
        IntermediateOnContext,
        lambda: (normal(3, 4), 0.1),
        "GS4|GS9",
        "an intermediate tensor is kept on ctx",
    ),
    Case(
        "scores_dict_on_ctx",
        DictionaryOnContext,
        lambda: (normal(2, 3, 4), normal(2, 5, 4)),
        "GS4|GS9",
        "the tensors are kept in a dictionary on ctx",
    ),
    Case(
        "gather_closure_on_ctx",
        ClosureOnContext,
        lambda: (normal(5, 3), integers(4, high=5)),
        "GS4|GS9",
        "a closure on ctx holds a tensor",
    ),
    Case(
        "sine_partial_on_ctx",
        PartialOnContext,
        lambda: (normal(3, 4), normal(4)),
        "GS4|GS9",
        "a partial on ctx holds the inputs",
    ),
    Case(
        "rms_norm_dataclass_on_ctx",
        DataclassOnContext,
        lambda: (normal(3, 4), 1e-6),
        "GS4|GS9",
        "a dataclass on ctx holds the input",
    ),
    Case(
        "unrolled_states_on_ctx",
        SelfReference,
        lambda: (normal(3, 4), 3),
        "GS4|GS9",
        "a list on ctx holds input, intermediates and output",
    ),
]
