"""GS3: tensors that are not tracked, outputs that carry no gradient."""

from __future__ import annotations

import torch
from torch import nn
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import normal, uniform


class NoBackward(Function):
    """Only the forward was ever written."""

    @staticmethod
    def forward(ctx, x):
        return x.sign() * x.abs().mean(-1, keepdim=True)


class RoutedExperts(Function):
    """Returns a dictionary: what is inside is not tracked."""

    @staticmethod
    def forward(ctx, x, gate):
        ctx.save_for_backward(x, gate)
        return {"mixed": x * torch.sigmoid(gate), "gate": torch.sigmoid(gate)}

    @staticmethod
    def backward(ctx, g, g_gate):
        x, gate = ctx.saved_tensors
        s = torch.sigmoid(gate)
        return g * s, (g * x + g_gate) * s * (1 - s)


class ConcatenateList(Function):
    """Takes its tensors in a list: none of them gets a gradient."""

    @staticmethod
    def forward(ctx, scale, tensors):
        ctx.save_for_backward(scale, *tensors)
        return scale * torch.cat(tensors, -1)

    @staticmethod
    def backward(ctx, g):
        scale, *tensors = ctx.saved_tensors
        return (g * torch.cat(tensors, -1)).sum_to_size(scale.shape), None


class CapturedScale(nn.Module):
    """The learned gain is reached through a closure, not passed to apply: it never gets a gradient."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.linspace(0.5, 1.5, 4))
        module = self

        class Scale(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return torch.tanh(x) * module.gain

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return g * module.gain * (1 - torch.tanh(x).square())

        self.function = Scale

    def forward(self, x):
        return self.function.apply(x)


_TEMPERATURE = torch.tensor(2.0, requires_grad=True)


class GlobalTemperature(Function):
    """Divides by a learned temperature that is a global."""

    @staticmethod
    def forward(ctx, logits):
        y = torch.softmax(logits / _TEMPERATURE, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(-1, keepdim=True)) / _TEMPERATURE


class _RowScale(Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return x * scale

    @staticmethod
    def backward(ctx, g):
        x, scale = ctx.saved_tensors
        return (g * scale).sum_to_size(x.shape), (g * x).sum_to_size(scale.shape)


def scale_rows(x, scale):
    """Converts its argument, and so cuts the weight off the graph."""
    return _RowScale.apply(x, torch.tensor(scale.tolist(), dtype=x.dtype))


@torch.no_grad()
def fused_gelu(x):
    """Decorated with no_grad for speed: no backward is ever attached."""
    return _Gelu.apply(x)


class _Gelu(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.nn.functional.gelu(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        cdf = 0.5 * (1 + torch.erf(x * 0.5**0.5))
        return g * (cdf + x * torch.exp(-0.5 * x * x) * 0.3989422804014327)


@torch.library.custom_op("gradsmith_corpus::no_autograd", mutates_args=())
def op_without_autograd(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * weight


@op_without_autograd.register_fake
def _(x, weight):
    return torch.empty_like(x)


class WholeOutputMarked(Function):
    """Marks the value, not the index, as not differentiable."""

    @staticmethod
    def forward(ctx, scores, temperature):
        soft = torch.softmax(scores / temperature, -1)
        order = soft.argmax(-1).to(soft.dtype)
        ctx.mark_non_differentiable(soft, order)
        ctx.save_for_backward(soft)
        ctx.temperature = temperature
        return soft, order

    @staticmethod
    def backward(ctx, g, _):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(-1, keepdim=True)) / ctx.temperature, None


CASES = [
    Case("xnor_no_backward", NoBackward, lambda: (normal(3, 4),), "GS3", "there is no backward"),
    Case(
        "router_dict_output",
        RoutedExperts,
        lambda: (normal(3, 4), normal(3, 4, seed=1)),
        "GS3",
        "the tensors in the returned dictionary are not tracked",
    ),
    Case(
        "concatenate_list_argument",
        ConcatenateList,
        lambda: (uniform(1), [normal(3, 2), normal(3, 4)]),
        "GS3",
        "the tensors inside the list argument are not tracked",
    ),
    Case(
        "module_captured_parameter",
        CapturedScale(),
        lambda: (normal(3, 4),),
        "GS3",
        "the parameter is captured by a closure and never gets a gradient",
    ),
    Case(
        "global_temperature",
        GlobalTemperature,
        lambda: (normal(3, 4),),
        "GS3",
        "a global tensor that requires grad is used and never gets a gradient",
    ),
    Case(
        "scale_rows_cut",
        scale_rows,
        lambda: (normal(3, 4), normal(4)),
        "GS3",
        "the scale is rebuilt from numbers, so its backward is never attached",
    ),
    Case("gelu_under_no_grad", fused_gelu, lambda: (normal(3, 4),), "GS3", "no backward is attached to the output"),
    Case(
        "custom_op_without_autograd",
        op_without_autograd,
        lambda: (normal(3, 4), normal(4)),
        "GS3",
        "no backward is registered for the operator",
    ),
    Case(
        "soft_argmax_marked",
        WholeOutputMarked,
        lambda: (normal(3, 4), 0.5),
        "GS3",
        "the differentiable output is marked as not differentiable",
    ),
]
