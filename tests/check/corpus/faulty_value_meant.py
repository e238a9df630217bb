"""GS1: gradients that are meant to differ from the derivative of the forward, and differ from what is declared."""

from __future__ import annotations

import torch
from torch import nn
from torch.autograd import Function

import gradsmith as gs
from tests.check.corpus.case import Case
from tests.check.corpus.make import normal, uniform


class Reversal(Function):
    """The strength is kept but never used."""

    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -g, None


class SurrogateSpike(Function):
    """Rectangular window of width w: the height must be 1 / (2w), not 1 / w."""

    @staticmethod
    def forward(ctx, potential):
        ctx.save_for_backward(potential)
        return (potential >= 0).to(potential.dtype)

    @staticmethod
    def backward(ctx, g):
        (potential,) = ctx.saved_tensors
        return torch.where(potential.abs() < 0.5, g / 0.5, torch.zeros_like(g))


class FakeQuantise(Function):
    """Straight through inside the range; outside it the gradient must be zero and is not."""

    @staticmethod
    def forward(ctx, x, scale, low, high):
        return (x / scale).round().clamp(low, high) * scale

    @staticmethod
    def backward(ctx, g):
        return g, None, None, None


class LearnedStep(Function):
    """LSQ: the gradient of the step size forgets its normalisation."""

    @staticmethod
    def forward(ctx, x, step, low, high):
        ctx.save_for_backward(x, step)
        ctx.range = low, high
        return (x / step).round().clamp(low, high) * step

    @staticmethod
    def backward(ctx, g):
        x, step = ctx.saved_tensors
        low, high = ctx.range
        ratio = x / step
        inside = (ratio >= low) & (ratio <= high)
        of_step = torch.where(inside, ratio.round() - ratio, ratio.clamp(low, high))
        return torch.where(inside, g, 0.0), (g * of_step).sum_to_size(step.shape), None, None


def learned_step(x, step, low, high):
    """What LSQ declares: rounding is straight through, the step is scaled by 1 / sqrt(count * high)."""
    factor = (x.numel() * high) ** -0.5
    step = step * factor + (step - step * factor).detach()
    ratio = (x / step).clamp(low, high)
    return (ratio + (ratio.round() - ratio).detach()) * step


class DomainClassifier(nn.Module):
    """A head behind a gradient reversal whose sign was lost in a refactoring."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)
        with torch.no_grad():
            self.head.weight.copy_(torch.linspace(-1, 1, 8).reshape(2, 4))
            self.head.bias.zero_()

    def forward(self, x):
        return self.head(_ScaleOnly.apply(x, 0.3))

    def declared(self, x):
        mixed = 1.3 * x.detach() - 0.3 * x
        return nn.functional.linear(mixed, self.head.weight.to(x.dtype), self.head.bias.to(x.dtype))


class _ScaleOnly(Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return ctx.strength * g, None


@gs.custom_gradient
def lerp(x, y, weight=0.3):
    return x + weight * (y - x)


@lerp.backward
def _(grad, weight):
    return {"x": grad * weight, "y": grad * (1 - weight)}


_classifier = DomainClassifier()

CASES = [
    Case(
        "reversal_strength_unused",
        Reversal,
        lambda: (normal(3, 4), 0.1),
        "GS1",
        "the strength has no effect on the gradient",
        {"gradient_of": lambda x, strength: -strength * x},
    ),
    Case(
        "spike_surrogate_height",
        SurrogateSpike,
        lambda: (normal(3, 6),),
        "GS1",
        "the surrogate slope is 1/w where 1/(2w) is declared",
        {"gradient_of": lambda v: v.clamp(-0.5, 0.5)},
    ),
    Case(
        "fake_quantise_outside",
        FakeQuantise,
        lambda: (normal(3, 4, scale=0.5), 0.1, -8, 7),
        "GS1",
        "values outside the range still get a gradient",
        {"gradient_of": lambda x, scale, low, high: x.clamp(low * scale, high * scale)},
    ),
    Case(
        "learned_step_scale",
        LearnedStep,
        lambda: (normal(3, 4), uniform(1), -4, 3),
        "GS1",
        "the gradient of the step size lacks the declared factor 1/sqrt(count * high)",
        {"gradient_of": learned_step},
    ),
    Case(
        "reversal_module_sign",
        _classifier,
        lambda: (normal(3, 4),),
        "GS1",
        "the reversal layer scales but does not reverse",
        {"gradient_of": _classifier.declared},
    ),
    Case(
        "declared_lerp_swapped",
        lerp,
        lambda: (normal(3, 4), normal(3, 4, seed=1)),
        "GS1",
        "a gradient declared with gradsmith gives x the share of y",
        {"gradient_of": lambda x, y: x + 0.3 * (y - x)},
    ),
]
