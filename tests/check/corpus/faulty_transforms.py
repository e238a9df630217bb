"""GS6: vmap, torch.func and compile give another value than eager mode."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import normal, uniform


class CentreOverBatch(Function):
    """Under vmap the mean runs over the batch too."""

    @staticmethod
    def forward(x):
        return x - x.mean()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g - g.mean()

    @staticmethod
    def vmap(info, in_dims, x):
        return CentreOverBatch.apply(x), in_dims[0]


class TanhIgnoresInDims(Function):
    """Assumes that the batch is the first dim of both arguments."""

    @staticmethod
    def forward(x, gain):
        return torch.tanh(x) * gain

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, gain = ctx.saved_tensors
        t = torch.tanh(x)
        return (g * gain * (1 - t * t)).sum_to_size(x.shape), (g * t).sum_to_size(gain.shape)

    @staticmethod
    def vmap(info, in_dims, x, gain):
        return TanhIgnoresInDims.apply(x, gain), 0


class LinearSharedWeight(Function):
    """The vmap rule takes the first weight for all when the weight is batched."""

    @staticmethod
    def forward(x, weight):
        return torch.sigmoid(x) * weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        s = torch.sigmoid(x)
        return (g * weight * s * (1 - s)).sum_to_size(x.shape), (g * s).sum_to_size(weight.shape)

    @staticmethod
    def vmap(info, in_dims, x, weight):
        x_dim, weight_dim = in_dims
        x = x.expand(info.batch_size, *x.shape) if x_dim is None else x.movedim(x_dim, 0)
        if weight_dim is not None:
            weight = weight.select(weight_dim, 0)
        return LinearSharedWeight.apply(x, weight), 0


class SoftmaxWrongOutDim(Function):
    """Moves the batch to the front and reports where it came from."""

    @staticmethod
    def forward(x):
        return torch.softmax(x, -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(-1, keepdim=True))

    @staticmethod
    def vmap(info, in_dims, x):
        return SoftmaxWrongOutDim.apply(x.movedim(in_dims[0], 0)), in_dims[0]


class VectorOrMatrix(Function):
    """Normalises a vector by its length, a matrix by its Frobenius norm; vmap hands it a stack of vectors."""

    @staticmethod
    def forward(x):
        return x / (x.square().sum() + 1e-6).sqrt()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        n = (x.square().sum() + 1e-6).sqrt()
        return g / n - x * (g * x).sum() / n**3

    @staticmethod
    def vmap(info, in_dims, x):
        return VectorOrMatrix.apply(x.movedim(in_dims[0], 0).contiguous()), 0


class GeluCompiledShortcut(Function):
    """In a compiled graph a cheaper approximation is taken backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.nn.functional.silu(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        if torch.compiler.is_compiling():
            return g * s
        return g * (s + x * s * (1 - s))


def smooth_abs(x):
    """Takes another branch, with another function, when it is traced."""
    if torch.compiler.is_compiling():
        return x.abs()
    return _SmoothAbs.apply(x)


class _SmoothAbs(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x * x + 0.1).sqrt()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x / (x * x + 0.1).sqrt()


@torch.library.custom_op("gradsmith_corpus::power_batched", mutates_args=())
def power_op(x: torch.Tensor, exponent: float) -> torch.Tensor:
    return x.abs() ** exponent


@power_op.register_fake
def _(x, exponent):
    return torch.empty_like(x)


@power_op.register_vmap
def _(info, in_dims, x, exponent):
    return power_op(x.movedim(in_dims[0], 0), exponent), in_dims[0]


def _power_setup(ctx, inputs, output):
    x, ctx.exponent = inputs
    ctx.save_for_backward(x)


def _power_backward(ctx, g):
    (x,) = ctx.saved_tensors
    return g * ctx.exponent * x.abs() ** (ctx.exponent - 1) * x.sign(), None


power_op.register_autograd(_power_backward, setup_context=_power_setup)


class CumulativeUnderVmap(Function):
    """Accumulates along dim 0, which under vmap is the batch."""

    @staticmethod
    def forward(x):
        return torch.cumsum(x, 0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return torch.flip(torch.cumsum(torch.flip(g, [0]), 0), [0])

    @staticmethod
    def vmap(info, in_dims, x):
        return CumulativeUnderVmap.apply(x.movedim(in_dims[0], 0)), 0


class RoundThrough(Function):
    """Straight through in both modes."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return torch.round(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g

    @staticmethod
    def jvp(ctx, tangent):
        return tangent.clone()


CASES = [
    Case("centre_vmap_over_batch", CentreOverBatch, lambda: (normal(3, 4),), "GS6", "vmap averages over the batch too"),
    Case(
        "tanh_gain_vmap_in_dims",
        TanhIgnoresInDims,
        lambda: (normal(3, 4), normal(3, 4, seed=1)),
        "GS6",
        "the vmap rule ignores in_dims",
    ),
    Case(
        "sigmoid_gain_vmap_weight",
        LinearSharedWeight,
        lambda: (normal(3, 4), normal(4)),
        "GS6",
        "the vmap rule uses the first of the batched weights for all",
    ),
    Case(
        "softmax_vmap_out_dim",
        SoftmaxWrongOutDim,
        lambda: (normal(4, 4),),
        "GS6",
        "the vmap rule reports the wrong dim of its output",
    ),
    Case(
        "unit_length_vmap_joint",
        VectorOrMatrix,
        lambda: (normal(5),),
        "GS6",
        "vmap normalises the whole stack by one norm",
    ),
    Case(
        "silu_compiled_shortcut",
        GeluCompiledShortcut,
        lambda: (normal(3, 4),),
        "GS6",
        "the backward is another one in a compiled graph",
    ),
    Case("smooth_abs_compiled_branch", smooth_abs, lambda: (normal(3, 4),), "GS6", "compiled, it is another function"),
    Case(
        "power_op_vmap_out_dim",
        power_op,
        lambda: (uniform(3, 3), 1.5),
        "GS6",
        "the registered vmap rule reports the wrong dim of its output",
    ),
    Case("cumsum_vmap_dim", CumulativeUnderVmap, lambda: (normal(3, 4),), "GS6", "vmap accumulates over the batch"),
    Case(
        "round_setup_dropped_when_compiled",
        RoundThrough,
        lambda: (normal(3, 4, scale=3.0),),
        "GS6",
        "right by torch.func.grad, silently zero when that is compiled",
        options={"gradient_of": lambda x: x},
    ),
]
