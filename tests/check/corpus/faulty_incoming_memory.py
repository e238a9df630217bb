"""GS2: memory that is read in the wrong order, or written to."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import integers, normal, uniform


def _dense(t):
    """Reads a tensor the way a kernel does that only gets a pointer and the sizes."""
    strides, step = [], 1
    for size in reversed(t.shape):
        strides.insert(0, step)
        step *= size
    reach = t.untyped_storage().nbytes() // t.element_size() - t.storage_offset()
    if reach >= step:
        return t.as_strided(t.shape, strides, t.storage_offset())
    return t.as_strided((1,), (1,), t.storage_offset()).expand(t.shape)


class KernelReadsGradient(Function):
    """A kernel that ignores the strides of the incoming gradient."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.sin(x) * weight

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        g = _dense(g)
        return (g * torch.cos(x) * weight).sum_to_size(x.shape), (g * torch.sin(x)).sum_to_size(weight.shape)


class KernelReadsInput(Function):
    """Forward by torch, backward by a kernel that ignores the strides of the saved input."""

    @staticmethod
    def forward(ctx, image):
        ctx.save_for_backward(image)
        return image.square() / (1 + image.square())

    @staticmethod
    def backward(ctx, g):
        (image,) = ctx.saved_tensors
        x = _dense(image)
        return g * 2 * x / (1 + x.square()).square()


class IgnoresOffset(Function):
    """Reads the input from the start of its storage: wrong for a slice of a fused projection."""

    @staticmethod
    def forward(ctx, q, k):
        ctx.save_for_backward(q, k)
        return (q * k).sum(-1)

    @staticmethod
    def backward(ctx, g):
        q, k = ctx.saved_tensors
        first = k.as_strided(k.shape, k.stride(), 0)
        return (g.unsqueeze(-1) * first).sum_to_size(q.shape), (g.unsqueeze(-1) * q).sum_to_size(k.shape)


class DropPathInPlace(Function):
    """Edits the incoming gradient in place."""

    @staticmethod
    def forward(ctx, x, mask):
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, g):
        (mask,) = ctx.saved_tensors
        return g.mul_(mask), None


class HidesInPlace(Function):
    """The same through `detach`, which autograd does not see."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.relu(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        out = g.detach()
        out[x <= 0] = 0
        return out


class SwiGLUReusesBuffers(Function):
    """Writes the gradients over the saved inputs to save memory."""

    @staticmethod
    def forward(ctx, gate, up):
        if gate.shape != up.shape:
            raise ValueError("gate and up must have one shape")
        ctx.save_for_backward(gate, up)
        return torch.nn.functional.silu(gate) * up

    @staticmethod
    def backward(ctx, g):
        gate, up = (t.detach() for t in ctx.saved_tensors)
        s = torch.sigmoid(gate)
        d_gate = g * up * s * (1 + gate * (1 - s))
        up.copy_(g * gate * s)
        gate.copy_(d_gate)
        return gate, up


class CrossEntropyOverwritesLogits(Function):
    """Stores the gradient in the logits during the forward; what else reads the logits gets garbage."""

    @staticmethod
    def forward(ctx, logits, target):
        loss = torch.nn.functional.cross_entropy(logits, target, reduction="sum")
        hot = torch.nn.functional.one_hot(target, logits.shape[-1])
        logits.data.copy_(torch.softmax(logits, -1) - hot)
        ctx.save_for_backward(logits)
        return loss

    @staticmethod
    def backward(ctx, g):
        (gradient,) = ctx.saved_tensors
        return g * gradient, None


class EditsTarget(Function):
    """Replaces the ignored label in the caller's targets."""

    @staticmethod
    def forward(ctx, logits, target):
        keep = target != -1
        target[~keep] = 0
        ctx.save_for_backward(logits, target, keep)
        picked = torch.log_softmax(logits, -1).gather(-1, target.unsqueeze(-1)).squeeze(-1)
        return -(picked * keep)

    @staticmethod
    def backward(ctx, g):
        logits, target, keep = ctx.saved_tensors
        hot = torch.nn.functional.one_hot(target, logits.shape[-1])
        return (g * keep).unsqueeze(-1) * (torch.softmax(logits, -1) - hot), None


class AddsInPlaceUnmarked(Function):
    """Adds to the residual stream in place and does not mark it dirty."""

    @staticmethod
    def forward(ctx, residual, update):
        if residual.shape != update.shape:
            raise ValueError("residual and update must have one shape")
        return residual.detach().add_(update)

    @staticmethod
    def backward(ctx, g):
        return g, g


class SoftmaxOverwritesOutput(Function):
    """Reuses the saved output as workspace: the second backward, and the caller's probabilities, are wrong."""

    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        work = y.data
        inner = (work * g).sum(-1, keepdim=True)
        return work.mul_(g - inner)


CASES = [
    Case(
        "kernel_reads_gradient_dense",
        KernelReadsGradient,
        lambda: (normal(3, 4), normal(4)),
        "GS2",
        "the memory of the incoming gradient is read as if it were contiguous",
    ),
    Case(
        "kernel_reads_input_dense",
        KernelReadsInput,
        lambda: (normal(2, 3, 4),),
        "GS2",
        "the memory of the saved input is read as if it were contiguous",
    ),
    Case(
        "similarity_ignores_offset",
        IgnoresOffset,
        lambda: (normal(3, 4), normal(3, 4, seed=1)),
        "GS2",
        "the saved input is read from the start of its storage",
    ),
    Case(
        "drop_path_edits_gradient",
        DropPathInPlace,
        lambda: (normal(3, 4), uniform(3, 1, grad=False).round()),
        "GS2|GS9",
        "the incoming gradient is multiplied in place",
    ),
    Case(
        "relu_edits_gradient_hidden",
        HidesInPlace,
        lambda: (normal(3, 4),),
        "GS2",
        "the incoming gradient is modified in place through a detached alias",
    ),
    Case(
        "swiglu_reuses_saved",
        SwiGLUReusesBuffers,
        lambda: (normal(3, 4), normal(3, 4, seed=1)),
        "GS2",
        "the gradients are written over the saved inputs",
    ),
    Case(
        "cross_entropy_overwrites_logits",
        CrossEntropyOverwritesLogits,
        lambda: (normal(4, 5), integers(4, high=5)),
        "GS2",
        "the forward writes the gradient into the caller's logits",
    ),
    Case(
        "loss_edits_target",
        EditsTarget,
        lambda: (normal(4, 5), torch.tensor([1, -1, 3, 0])),
        "GS2",
        "the forward changes the caller's integer targets",
    ),
    Case(
        "residual_add_unmarked",
        AddsInPlaceUnmarked,
        lambda: (normal(3, 4), normal(3, 4, seed=1)),
        "GS2",
        "the forward modifies an input in place without marking it",
    ),
    Case(
        "softmax_overwrites_output",
        SoftmaxOverwritesOutput,
        lambda: (normal(3, 4),),
        "GS2",
        "the saved output is overwritten by the backward",
    ),
]
