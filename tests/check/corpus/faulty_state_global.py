"""GS8: global settings are changed, a thread has no state, the backward never ends."""

from __future__ import annotations

import random
import threading

import numpy as np
import torch
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import normal, uniform


class SeededGlobally(Function):
    """Replays its mask by seeding the global generator."""

    @staticmethod
    def forward(ctx, x, p):
        ctx.p = p
        torch.manual_seed(1234)
        return x * (torch.rand_like(x) >= p) / (1 - p)

    @staticmethod
    def backward(ctx, g):
        torch.manual_seed(1234)
        return g * (torch.rand_like(g) >= ctx.p) / (1 - ctx.p), None


class DoubleByDefault(Function):
    """Switches the default dtype for a precise sum and leaves it."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        torch.set_default_dtype(torch.float64)
        return torch.logsumexp(x, -1)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g.unsqueeze(-1) * torch.softmax(x, -1)


class GradientsLeftOff(Function):
    """Turns gradients off in the backward and does not turn them on again."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.relu(x) * weight

    @staticmethod
    def backward(ctx, g):
        torch.set_grad_enabled(False)
        x, weight = ctx.saved_tensors
        gx = torch.where(x > 0, g * weight, 0.0)
        return gx.sum_to_size(x.shape), (g * torch.relu(x)).sum_to_size(weight.shape)


class SeedsNumpy(Function):
    """Seeds the global generators of numpy and of Python for a repeatable subsample."""

    @staticmethod
    def forward(ctx, x, keep):
        np.random.seed(0)  # noqa: NPY002
        random.seed(0)
        chosen = torch.from_numpy(np.random.permutation(x.shape[0])[:keep])  # noqa: NPY002
        ctx.save_for_backward(chosen)
        ctx.rows = x.shape[0]
        return x[chosen]

    @staticmethod
    def backward(ctx, g):
        (chosen,) = ctx.saved_tensors
        return g.new_zeros(ctx.rows, *g.shape[1:]).index_add(0, chosen, g), None


_local = threading.local()


class ThreadLocalScratch(Function):
    """Finds its scratch space in thread-local storage: a backward in another thread has none."""

    @staticmethod
    def forward(ctx, x):
        _local.buffer = torch.empty_like(x)
        ctx.save_for_backward(x)
        return torch.cos(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if _local.buffer.shape != x.shape:
            _local.buffer = torch.empty_like(x)
        return -g * torch.sin(x)


class IterativeSolve(Function):
    """Richardson iteration until the residual is small relative to the incoming gradient: for zero it never ends."""

    @staticmethod
    def forward(ctx, diagonal, b):
        if diagonal.shape != b.shape:
            raise ValueError("diagonal and b must have one shape")
        x = b / diagonal
        ctx.save_for_backward(diagonal, x)
        return x

    @staticmethod
    def backward(ctx, g):
        diagonal, x = ctx.saved_tensors
        gb = torch.zeros_like(g)
        step = 0.9 / diagonal.abs().max()
        residual = g
        while not residual.norm() / g.norm() < 10 * torch.finfo(g.dtype).eps:
            gb = gb + step * residual
            residual = g - diagonal * gb
        return -gb * x, gb


class Quits(Function):
    """Ends the process when it meets what it does not expect."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.expm1(-x.abs()) * weight

    @staticmethod
    def backward(ctx, g):
        if not g.is_contiguous():
            raise SystemExit("non-contiguous gradient")
        x, weight = ctx.saved_tensors
        gx = -g * weight * torch.exp(-x.abs()) * x.sign()
        return gx.sum_to_size(x.shape), (g * torch.expm1(-x.abs())).sum_to_size(weight.shape)


CASES = [
    Case(
        "dropout_seeds_globally",
        SeededGlobally,
        lambda: (normal(3, 4), 0.5),
        "GS8",
        "the global random state is overwritten at every call",
    ),
    Case(
        "logsumexp_default_dtype",
        DoubleByDefault,
        lambda: (normal(3, 4),),
        "GS8",
        "the default dtype is changed and left changed",
    ),
    Case(
        "relu_gain_grad_mode",
        GradientsLeftOff,
        lambda: (normal(3, 4), normal(4)),
        "GS8|GS5",
        "grad mode is switched off in the backward",
    ),
    Case(
        "subsample_seeds_numpy",
        SeedsNumpy,
        lambda: (normal(6, 3), 4),
        "GS8",
        "the global generators of numpy and Python are seeded",
    ),
    Case(
        "cosine_thread_local",
        ThreadLocalScratch,
        lambda: (normal(3, 4),),
        "GS8",
        "the backward fails in a thread that has not run the forward",
    ),
    Case(
        "solver_hangs_on_zero",
        IterativeSolve,
        lambda: (uniform(4), normal(4)),
        "GS8",
        "the backward never ends for a zero incoming gradient",
    ),
    Case(
        "expm1_quits",
        Quits,
        lambda: (normal(3, 4), normal(4)),
        "GS8|GS2",
        "the backward ends the process when the incoming gradient is not contiguous",
    ),
]
