"""Gradients declared with gradsmith, and its operations."""

from __future__ import annotations

import torch

import gradsmith as gs
from tests.check.corpus.case import Case
from tests.check.corpus.make import normal, uniform

round_through = gs.straight_through(torch.round)


@gs.gradient_of(lambda x: torch.clamp(x, -1, 1))
def sign_clipped(x):
    return torch.sign(x)


@gs.custom_gradient(keep=["norm"])
def normalise(x):
    norm = (x.square().sum() + 1e-6).sqrt()
    return gs.keep(x / norm, norm=norm)


@normalise.backward
def _(grad, x, output, norm):
    return (grad - output * (grad * output).sum()) / norm


@gs.custom_gradient
def gated(x, gate, *, power=1.0):
    if x.shape != gate.shape:
        raise ValueError("x and gate must have one shape")
    return x * torch.sigmoid(power * gate)


@gated.backward
def _(grad, x, gate, power):
    s = torch.sigmoid(power * gate)
    return {"x": grad * s, "gate": grad * x * power * s * (1 - s)}


@gs.custom_gradient
def polar(x, y):
    if x.shape != y.shape:
        raise ValueError("x and y must have one shape")
    return {"radius": (x * x + y * y + 1e-3).sqrt(), "angle": torch.atan2(y, x)}


@polar.backward
def _(grads, x, y):
    squared = x * x + y * y
    around = torch.where(squared == 0, 1.0, squared)
    of_radius = 0.0 if grads["radius"] is None else grads["radius"] / (squared + 1e-3).sqrt()
    of_angle = 0.0 if grads["angle"] is None else grads["angle"] / around
    return {"x": of_radius * x - of_angle * y, "y": of_radius * y + of_angle * x}


CASES = [
    Case("declared_round_through", round_through, lambda: (normal(3, 4, scale=3.0),)),
    Case("declared_sign_clipped", sign_clipped, lambda: (normal(3, 4),)),
    Case("declared_normalise", normalise, lambda: (normal(3, 4),)),
    Case("declared_gated", gated, lambda: (normal(3, 4), normal(3, 4, seed=1)), options={"kwargs": {"power": 2.0}}),
    Case("declared_polar", polar, lambda: (uniform(3, 4), uniform(3, 4, seed=1))),
    Case(
        "declared_scale_gradient",
        gs.scale_gradient,
        lambda: (normal(3, 4), 0.5),
        options={"gradient_of": lambda x, scale: scale * x},
    ),
    Case("declared_split_and_scale", gs.split_and_scale, lambda: (normal(3, 4),)),
]
