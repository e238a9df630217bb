"""The class of a gradient, and what is a fault under any intent, by value: one Function of each kind."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import Function

import gradsmith as gs
from gradsmith.reach._faults import sorted_by_intent
from gradsmith.reach._intent import intent_of


class Rev(Function):
    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g.neg() * ctx.alpha, None


class Round(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


class Spike(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g / (1 + 10 * x.abs()) ** 2


class Scaler(Function):
    @staticmethod
    def forward(ctx, x, aux):
        ctx.save_for_backward(aux)
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        (aux,) = ctx.saved_tensors
        return g, torch.ones_like(aux) * 3


class Guided(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x > 0) * (g > 0)


class ClampSTE(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clamp(-1000, 3)

    @staticmethod
    def backward(ctx, g):
        return g


class LSQ(Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.save_for_backward(x, s)
        return (x / s).round() * s

    @staticmethod
    def backward(ctx, g):
        x, s = ctx.saved_tensors
        q = (x / s).round()
        return g, (g * (q - x / s)).sum().reshape(s.shape)


class Mean(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, g * x * 2


class Noisy(Function):
    @staticmethod
    def forward(ctx, x):
        return torch.floor(x + torch.rand_like(x))

    @staticmethod
    def backward(ctx, g):
        return g


class Half(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x


class Overwrites(Function):
    @staticmethod
    def forward(ctx, p, t):
        ctx.save_for_backward(p, t)
        return ((1 - p * t).clamp(min=0) ** 2).mean()

    @staticmethod
    def backward(ctx, g):
        p, t = ctx.saved_tensors
        g.copy_(torch.ones_like(g))
        return -2 * t * (1 - p * t).clamp(min=0) / p.numel(), None


def grad(*shape):
    return torch.randn(*shape, requires_grad=True)


CASES = [
    (Rev, lambda: (grad(3, 4), 0.5), "multiple of the derivative", "gradient_of=lambda x, alpha: -alpha * x", set()),
    (Round, lambda: (grad(3, 4),), "straight-through", "gradient_of=lambda x, *_: x", set()),
    (Spike, lambda: (grad(3, 4),), "surrogate", 'waive=("derivative",)', set()),
    (Scaler, lambda: (grad(3), grad(2)), "loss scaler", 'waive=("linearity", "derivative")', set()),
    (Guided, lambda: (grad(3, 4),), "projection or convention", 'waive=("linearity", "derivative")', set()),
    (ClampSTE, lambda: (grad(3, 4),), "surrogate", 'waive=("derivative",)', set()),
    (LSQ, lambda: (grad(3, 4), torch.tensor(0.3, requires_grad=True)), "surrogate", 'waive=("derivative",)', set()),
    (Noisy, lambda: (grad(3, 4),), "straight-through", "gradient_of=lambda x, *_: x", set()),
    (Half, lambda: (grad(3, 4),), "multiple of the derivative", 'waive=("derivative",)', set()),
    (Mean, lambda: (grad(3, 4), grad(3, 4)), "projection or convention", 'waive=("derivative",)', {"GS101"}),
    (Overwrites, lambda: (grad(6), grad(6)), "loss scaler", 'waive=("linearity", "derivative")', {"GS201", "GS207"}),
]


@pytest.mark.parametrize(("subject", "inputs", "kind", "options", "faults"), CASES, ids=[c[0].__name__ for c in CASES])
def test_class_and_faults(subject, inputs, kind, options, faults):
    torch.manual_seed(0)
    report = gs.check(subject, inputs(), fast=True)
    intent = intent_of(report.observations, declared=False, numbers={"alpha": 0.5})
    findings, notes = sorted_by_intent((*report.findings, *report.notes), intent, report.observations)
    assert (intent.kind, intent.options) == (kind, options)
    assert {f.rule for f in findings} == faults
    assert {f.rule for f in notes} >= {f.rule for f in report.findings} - faults
    assert intent.why


@pytest.mark.parametrize("case", [c for c in CASES if not c[4]], ids=lambda c: c[0].__name__)
def test_what_the_class_offers_to_declare_is_accepted(case):
    """Pasted into a check, the declaration leaves nothing of the value to be found."""
    torch.manual_seed(0)
    subject, inputs, _, options, _ = case
    declared = eval(f"dict({options})")
    found = {f.rule for f in gs.check(subject, inputs(), fast=True, **declared).findings}
    assert not {f for f in found if f.startswith(("GS1", "GS203"))}


def test_a_declared_gradient_is_judged_as_declared():
    torch.manual_seed(0)
    report = gs.check(Round, (grad(3),), gradient_of=lambda x: 2 * x, fast=True)
    intent = intent_of(report.observations, declared=True)
    findings, _ = sorted_by_intent(report.findings, intent, report.observations)
    assert intent.kind == "declared"
    assert [f.rule for f in findings] == ["GS101"]


class Transposed(Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x.mm(weight.t())

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad.mm(weight), x.t().mm(grad)


class SignLost(Function):
    @staticmethod
    def forward(ctx, a, b):
        return a - b

    @staticmethod
    def backward(ctx, grad):
        return grad, grad


class Rerouted(Function):
    @staticmethod
    def forward(ctx, x, instead):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return None, grad


class ThresholdWithX(Function):
    @staticmethod
    def forward(ctx, x, threshold):
        ctx.save_for_backward(x, threshold)
        return (x > threshold).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        x, threshold = ctx.saved_tensors
        slope = grad / (1 + (x - threshold).abs()) ** 2
        return (slope, -slope.sum().reshape(threshold.shape)) if ctx.needs_input_grad[0] else (None, None)


class Solve(Function):
    """Of a symmetric matrix: its gradient is the symmetric part of the derivative."""

    @staticmethod
    def forward(ctx, matrix, right):
        solution = torch.cholesky_solve(right, torch.linalg.cholesky(matrix))
        ctx.save_for_backward(matrix, solution)
        return solution

    @staticmethod
    def backward(ctx, grad):
        matrix, solution = ctx.saved_tensors
        left = torch.linalg.solve(matrix, grad)
        product = -left @ solution.mT
        return (product + product.mT) / 2, left


def spd(n):
    root = torch.randn(n, n)
    return (root @ root.T + n * torch.eye(n)).requires_grad_()


FURTHER = [
    (Transposed, lambda: (grad(4, 4), grad(4, 4)), {"GS101"}),
    (SignLost, lambda: (grad(3, 4), grad(3, 4)), {"GS103"}),
    (Rerouted, lambda: (grad(3, 4), grad(3, 4)), set()),
    (ThresholdWithX, lambda: (grad(3, 4), torch.tensor(0.3, requires_grad=True)), {"GS304"}),
    (Solve, lambda: (spd(4), grad(4, 2)), set()),
]


@pytest.mark.parametrize(("subject", "inputs", "faults"), FURTHER, ids=[c[0].__name__ for c in FURTHER])
def test_faults_beside_what_may_be_meant(subject, inputs, faults):
    torch.manual_seed(0)
    report = gs.check(subject, inputs(), fast=True)
    intent = intent_of(report.observations, declared=False)
    findings, _ = sorted_by_intent((*report.findings, *report.notes), intent, report.observations)
    assert {f.rule for f in findings} == faults
