"""GS7: autocast and low precision."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import normal


class LinearNoAutocast(Function):
    """No custom_fwd: under autocast the incoming gradient is bfloat16 and the weight float32."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, g.t() @ x


class AttentionForwardOnly(Function):
    """custom_fwd without custom_bwd."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, q, k):
        ctx.save_for_backward(q, k)
        return torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5

    @staticmethod
    def backward(ctx, g):
        q, k = ctx.saved_tensors
        g = g * q.shape[-1] ** -0.5
        return torch.matmul(g, k), torch.matmul(g.transpose(-1, -2), q)


class EinsumMoE(Function):
    @staticmethod
    def forward(ctx, x, experts, gate):
        ctx.save_for_backward(x, experts, gate)
        return torch.einsum("bi,eij,be->bj", x, experts, gate)

    @staticmethod
    def backward(ctx, g):
        x, experts, gate = ctx.saved_tensors
        return (
            torch.einsum("bj,eij,be->bi", g, experts, gate),
            torch.einsum("bj,bi,be->eij", g, x, gate),
            torch.einsum("bj,bi,eij->be", g, x, experts),
        )


class SetupContextWithCustomForward(Function):
    """custom_fwd does not go together with setup_context: the backward dies."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(x, weight):
        return x @ weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight.t(), x.t() @ g


class CompressedActivation(Function):
    """Keeps the activation in float16 to save memory."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x.half(), scale)
        ctx.dtype = x.dtype
        return x.square() * scale

    @staticmethod
    def backward(ctx, g):
        short, scale = ctx.saved_tensors
        x = short.to(ctx.dtype)
        return (2 * g * x * scale).sum_to_size(x.shape), (g * x.square()).sum_to_size(scale.shape)


class LoopAccumulates(Function):
    """Adds the rows one by one in the dtype of the gradient: in bfloat16 the small ones vanish."""

    @staticmethod
    def forward(ctx, x, bias):
        if bias.shape != x.shape[1:]:
            raise ValueError("one bias per column")
        return x + bias

    @staticmethod
    def backward(ctx, g):
        total = torch.zeros_like(g[0]) if len(g) else g.sum(0)
        for row in g:
            total = total + row
        return g, total


class IndexAddFloat(Function):
    """The accumulator is float32 whatever the dtype: any other dtype crashes."""

    @staticmethod
    def forward(ctx, table, index):
        ctx.save_for_backward(index)
        ctx.rows = table.shape[0]
        return table[index]

    @staticmethod
    def backward(ctx, g):
        (index,) = ctx.saved_tensors
        total = torch.zeros(ctx.rows, g.shape[-1])
        return total.index_add_(0, index, g), None


CASES = [
    Case(
        "linear_no_autocast",
        LinearNoAutocast,
        lambda: (normal(3, 4), normal(2, 4)),
        "GS7",
        "the backward crashes under autocast",
    ),
    Case(
        "scores_forward_only_autocast",
        AttentionForwardOnly,
        lambda: (normal(2, 3, 4), normal(2, 5, 4)),
        "GS7",
        "custom_fwd without custom_bwd: the backward crashes under autocast",
    ),
    Case(
        "experts_no_autocast",
        EinsumMoE,
        lambda: (normal(3, 4), normal(2, 4, 5), normal(3, 2)),
        "GS7",
        "the backward crashes under autocast",
    ),
    Case(
        "matmul_setup_context_autocast",
        SetupContextWithCustomForward,
        lambda: (normal(3, 4), normal(4, 2)),
        "GS7|GS3",
        "custom_fwd in the setup_context style: the backward dies",
    ),
    Case(
        "square_compressed",
        CompressedActivation,
        lambda: (normal(3, 4), normal(4)),
        "GS7|GS1",
        "the saved activation is rounded to float16",
    ),
    Case(
        "bias_loop_bfloat16",
        LoopAccumulates,
        lambda: (normal(512, 2), normal(2)),
        "GS7",
        "the sum over the batch is accumulated in low precision",
    ),
    Case(
        "gather_float_accumulator",
        IndexAddFloat,
        lambda: (normal(5, 3), torch.tensor([0, 3, 3, 1])),
        "GS7|GS3",
        "the backward crashes for any dtype but float32",
    ),
]
