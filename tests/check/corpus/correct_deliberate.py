"""Gradients that are meant to differ from the derivative of the forward, and are what is declared."""

from __future__ import annotations

import torch
from torch import nn
from torch.autograd import Function

from tests.check.corpus.case import Case
from tests.check.corpus.make import normal, uniform


class Reversal(Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.strength * g, None


class ScaleGradient(Function):
    """Same memory, another gradient."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.detach()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.scale, None


class DomainClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)
        with torch.no_grad():
            self.head.weight.copy_(torch.linspace(-1, 1, 8).reshape(2, 4))
            self.head.bias.zero_()

    def forward(self, x):
        return self.head(Reversal.apply(x, 0.3))

    def declared(self, x):
        mixed = 1.3 * x.detach() - 0.3 * x
        return nn.functional.linear(mixed, self.head.weight.to(x.dtype), self.head.bias.to(x.dtype))


class RoundThrough(Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, g):
        return g


class SignClipped(Function):
    """sign forward, hardtanh backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, torch.ones_like(x), -torch.ones_like(x))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return torch.where(x.abs() <= 1, g, 0.0)


class FakeQuantise(Function):
    @staticmethod
    def forward(ctx, x, scale, low, high):
        ctx.save_for_backward(x)
        ctx.limits = low * scale, high * scale
        return (x / scale).round().clamp(low, high) * scale

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        low, high = ctx.limits
        return torch.where((x >= low) & (x <= high), g, 0.0), None, None, None


class LearnedStep(Function):
    """LSQ: straight through for x, the step has the gradient of the paper."""

    @staticmethod
    def forward(ctx, x, step, low, high):
        if step.numel() != 1:
            raise ValueError("one step size per tensor")
        ctx.save_for_backward(x, step)
        ctx.range = low, high
        return (x / step).clamp(low, high).round() * step

    @staticmethod
    def backward(ctx, g):
        x, step = ctx.saved_tensors
        low, high = ctx.range
        ratio = x / step
        inside = (ratio >= low) & (ratio <= high)
        held = ratio.clamp(low, high)
        error = (held.round() - held).detach()  # rounding is straight through, so this is a constant
        of_step = torch.where(inside, error, held)
        factor = max(x.numel() * high, 1) ** -0.5
        return torch.where(inside, g, 0.0), (g * of_step).sum_to_size(step.shape) * factor, None, None


def learned_step(x, step, low, high):
    """What LSQ declares, in plain operations."""
    factor = max(x.numel() * high, 1) ** -0.5
    step = step * factor + (step - step * factor).detach()
    ratio = (x / step).clamp(low, high)
    return (ratio + (ratio.round() - ratio).detach()) * step


class FastSigmoidSpike(Function):
    """Heaviside forward, x / (1 + k|x|) backward."""

    @staticmethod
    def forward(ctx, potential, threshold, slope):
        ctx.save_for_backward(potential)
        ctx.threshold, ctx.slope = threshold, slope
        return (potential >= threshold).to(potential.dtype)

    @staticmethod
    def backward(ctx, g):
        (potential,) = ctx.saved_tensors
        return g / (1 + ctx.slope * (potential - ctx.threshold).abs()).square(), None, None


class AtanSpike(Function):
    @staticmethod
    def forward(ctx, potential):
        ctx.save_for_backward(potential)
        return (potential > 0).to(potential.dtype)

    @staticmethod
    def backward(ctx, g):
        (potential,) = ctx.saved_tensors
        return g / (1 + (3.141592653589793 * potential).square())


class ClipGradient(Function):
    """Clipping, declared as not linear."""

    @staticmethod
    def forward(ctx, x, limit):
        ctx.limit = limit
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g.clamp(-ctx.limit, ctx.limit), None


class GuidedReLU(Function):
    """Guided backpropagation: only positive gradients pass, and only where the unit was active."""

    @staticmethod
    def forward(ctx, x):
        y = x.clamp(min=0)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return torch.where(y > 0, g.clamp(min=0), 0.0)


class StopGradientOfSecond(Function):
    """A commitment term: the codebook sees no gradient from here, and that is declared."""

    @staticmethod
    def forward(ctx, x, code):
        if x.shape != code.shape:
            raise ValueError("x and code must have one shape")
        ctx.save_for_backward(x, code)
        return (x - code).square().mean(-1)

    @staticmethod
    def backward(ctx, g):
        x, code = ctx.saved_tensors
        held = code.detach()
        return 2 * g.unsqueeze(-1) * (x - held) / x.shape[-1], torch.zeros_like(code)


_classifier = DomainClassifier()

CASES = [
    Case(
        "right_reversal",
        Reversal,
        lambda: (normal(3, 4), 0.1),
        options={"gradient_of": lambda x, strength: -strength * x},
    ),
    Case(
        "right_scale_gradient",
        ScaleGradient,
        lambda: (normal(3, 4), 0.5),
        options={"gradient_of": lambda x, scale: scale * x},
    ),
    Case(
        "right_domain_classifier",
        _classifier,
        lambda: (normal(3, 4),),
        options={"gradient_of": _classifier.declared},
    ),
    Case("right_round_through", RoundThrough, lambda: (normal(3, 4, scale=3.0),), options={"gradient_of": lambda x: x}),
    Case("right_sign_clipped", SignClipped, lambda: (normal(3, 4),), options={"gradient_of": lambda x: x.clamp(-1, 1)}),
    Case(
        "right_fake_quantise",
        FakeQuantise,
        lambda: (normal(3, 4, scale=0.5), 0.1, -8, 7),
        options={"gradient_of": lambda x, scale, low, high: x.clamp(low * scale, high * scale)},
    ),
    Case(
        "right_learned_step",
        LearnedStep,
        lambda: (normal(3, 4), uniform(1), -4, 3),
        options={"gradient_of": learned_step},
    ),
    Case(
        "right_fast_sigmoid_spike",
        FastSigmoidSpike,
        lambda: (normal(3, 6), 0.5, 10.0),
        options={"gradient_of": lambda v, threshold, k: (v - threshold) / (1 + k * (v - threshold).abs())},
    ),
    Case(
        "right_atan_spike",
        AtanSpike,
        lambda: (normal(3, 6),),
        options={"gradient_of": lambda v: torch.atan(3.141592653589793 * v) / 3.141592653589793},
    ),
    Case(
        "right_clip_gradient",
        ClipGradient,
        lambda: (normal(3, 4), 0.1),
        options={"waive": ("linearity", "derivative")},
    ),
    Case("right_guided_relu", GuidedReLU, lambda: (normal(3, 4),), options={"waive": ("linearity", "derivative")}),
    Case(
        "right_commitment",
        StopGradientOfSecond,
        lambda: (normal(3, 4), normal(3, 4, seed=1)),
        options={"gradient_of": lambda x, code: (x - code.detach()).square().mean(-1)},
    ),
]
